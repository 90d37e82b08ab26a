/* What a member without etcd writes about its leaderships. */
#include "meta/core/alone.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct member_info self = {.id = "m1", .addr = "127.0.0.1:5690"};

static struct alone_takeover take_over(struct cluster *cluster, const struct record *old)
{
    struct alone_takeover t;
    struct rng rng;
    rng_seed(&rng, 1);
    alone_take_over(&t, cluster, old, 40, &self, "restarted", &rng);
    return t;
}

static void the_first_has_nothing_before_it(void **state)
{
    struct cluster cluster;
    cluster_begin(&cluster, "c");
    struct alone_takeover t = take_over(&cluster, &(struct record){0});
    assert_int_equal(t.next.epoch, 1);
    assert_int_equal(t.next.seq, 0);
    assert_string_equal(t.history.reason, "first");
    assert_string_equal(t.history.prev_nonce, "");
    assert_string_equal(t.history.nonce, t.next.nonce);
    assert_string_equal(t.history.addr, self.addr);
}

static void the_next_continues_from_the_last_commit(void **state)
{
    struct cluster cluster;
    struct record old = {.epoch = 7, .seq = 3, .leader = "m1", .nonce = "n", .batch = "b"};
    cluster_begin(&cluster, "c");
    struct alone_takeover t = take_over(&cluster, &old);
    assert_int_equal(t.next.epoch, 8);
    assert_string_equal(t.history.reason, "restarted");
    assert_string_equal(t.history.prev_nonce, "n");
    assert_string_equal(t.history.prev_batch, "b");
    assert_int_equal(t.history.prev_seq, 3);
    assert_int_equal(t.history.prev_revision, 40);
    assert_string_not_equal(t.next.nonce, "n");
}

static void a_floor_is_passed(void **state)
{
    struct cluster cluster;
    cluster_begin(&cluster, "c");
    cluster.epoch_floor = 100;
    assert_int_equal(take_over(&cluster, &(struct record){.epoch = 7}).next.epoch, 101);
    assert_int_equal(take_over(&cluster, &(struct record){.epoch = 200}).next.epoch, 201);
}

static void records_can_be_read_as_any_others(void **state)
{
    struct cluster cluster;
    struct record_bytes bytes;
    struct record back;
    struct rng rng;
    rng_seed(&rng, 2);
    cluster_begin(&cluster, "c");
    struct alone_takeover t = take_over(&cluster, &(struct record){0});
    struct record next = alone_next(&t.next, 5, &rng);
    record_bytes_encode(&bytes, &next);
    struct err e = record_decode(record_view(&bytes), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(back.epoch, 1);
    assert_int_equal(back.seq, 1);
    assert_int_equal(back.events, 5);
    assert_string_equal(back.nonce, t.next.nonce);
    assert_string_not_equal(back.batch, t.next.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_has_nothing_before_it),
        cmocka_unit_test(the_next_continues_from_the_last_commit),
        cmocka_unit_test(a_floor_is_passed),
        cmocka_unit_test(records_can_be_read_as_any_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
