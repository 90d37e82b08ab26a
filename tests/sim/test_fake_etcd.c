/* The simulation is worth what its etcd is worth: each row here is a behaviour that was measured on
 * the real one. */
#include "tests/sim/fake_etcd.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define S(text) bytes_str(text)
#define PUT(k, v) ((struct etcd_op){.kind = ETCD_OP_PUT, .key = S(k), .value = S(v)})
#define DEL(k) ((struct etcd_op){.kind = ETCD_OP_DELETE, .key = S(k)})
#define GET(k) ((struct etcd_op){.kind = ETCD_OP_RANGE, .key = S(k)})

static int setup(void **state)
{
    static struct fake_etcd e;
    fake_etcd_init(&e, 7);
    *state = &e;
    return 0;
}

static int teardown(void **state)
{
    fake_etcd_close(*state);
    return 0;
}

static bool holds(struct fake_etcd *e, struct etcd_compare c)
{
    struct etcd_txn_result r;
    struct etcd_txn txn = {.compares = &c, .compare_count = 1};
    struct err err = fake_etcd_txn(e, &txn, &r);
    assert_int_equal(err.code, ERR_OK);
    bool ok = r.succeeded;
    fake_result_close(&r);
    return ok;
}

static void versions_count_like_etcd(void **state)
{
    struct fake_etcd *e = *state;
    fake_etcd_put(e, S("a"), S("1"), 0);
    fake_etcd_put(e, S("a"), S("2"), 0);
    const struct fake_version *v = fake_etcd_get(e, S("a"), 0);
    assert_int_equal(v->create_revision, 2);
    assert_int_equal(v->revision, 3);
    assert_int_equal(v->version, 2);
    assert_int_equal(fake_etcd_delete(e, S("a"), BYTES_NONE), 1);
    assert_null(fake_etcd_get(e, S("a"), 0));
    assert_true(bytes_equal(fake_etcd_get(e, S("a"), 2)->value, S("1")));
    fake_etcd_put(e, S("a"), S("3"), 0);
    v = fake_etcd_get(e, S("a"), 0);
    assert_int_equal(v->create_revision, 5);
    assert_int_equal(v->version, 1);
}

static void nothing_changed_makes_no_revision(void **state)
{
    struct fake_etcd *e = *state;
    assert_int_equal(fake_etcd_delete(e, S("absent"), BYTES_NONE), 0);
    assert_int_equal(e->revision, 1);
    struct etcd_op ops[] = {DEL("absent"), GET("absent")};
    struct etcd_txn txn = {.success = ops, .success_count = 2};
    struct etcd_txn_result r;
    fake_etcd_txn(e, &txn, &r);
    assert_true(r.succeeded);
    assert_int_equal(r.header.revision, 1);
    assert_int_equal(r.result_count, 2);
    fake_result_close(&r);
}

static void a_txn_is_one_revision(void **state)
{
    struct fake_etcd *e = *state;
    struct etcd_op ops[] = {PUT("a", "1"), PUT("b", "2"), GET("b")};
    struct etcd_txn txn = {.success = ops, .success_count = 3};
    struct etcd_txn_result r;
    fake_etcd_txn(e, &txn, &r);
    assert_int_equal(r.header.revision, 2);
    assert_int_equal(r.header.cluster_id, 7);
    assert_int_equal(r.results[2].count, 1);
    fake_result_close(&r);
    const struct fake_revision *log = fake_etcd_log(e, 2);
    assert_int_equal(log->count, 2);
    struct etcd_event event = fake_etcd_event(e, log, 1);
    assert_true(bytes_equal(event.kv.key, S("b")));
    assert_int_equal(event.kv.mod_revision, 2);
}

static void compares_look_at_absent_keys_as_etcd_does(void **state)
{
    struct fake_etcd *e = *state;
    fake_etcd_put(e, S("p/1"), S("x"), 0);
    fake_etcd_put(e, S("p/2"), S("y"), 0);
    struct etcd_compare c = {.target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = S("absent")};
    assert_true(holds(e, c));
    c.target = ETCD_VALUE;
    assert_false(holds(e, c)); /* an empty value is not the value of an absent key */
    c.relation = ETCD_NOT_EQUAL;
    assert_false(holds(e, c));
    c = (struct etcd_compare){.target = ETCD_CREATE, .key = S("p/"), .range_end = S("p0")};
    assert_false(holds(e, c));
    c.relation = ETCD_GREATER;
    assert_true(holds(e, c)); /* for every key of the range */
    c.number = 2;
    assert_false(holds(e, c));
    c = (struct etcd_compare){.target = ETCD_CREATE, .key = S("q/"), .range_end = S("q0")};
    assert_true(holds(e, c));
    c = (struct etcd_compare){.target = ETCD_VALUE, .key = S("p/1"), .value = S("x")};
    assert_true(holds(e, c));
    c.value = S("xx");
    assert_false(holds(e, c));
}

static void a_refused_txn_does_nothing(void **state)
{
    struct fake_etcd *e = *state;
    struct etcd_op twice[] = {PUT("a", "1"), PUT("a", "2")};
    struct etcd_txn txn = {.success = twice, .success_count = 2};
    struct etcd_txn_result r;
    assert_int_equal(fake_etcd_txn(e, &txn, &r).code, ERR_BAD_REQUEST);
    struct etcd_op leased[] = {PUT("a", "1")};
    leased[0].lease = 99;
    txn = (struct etcd_txn){.success = leased, .success_count = 1};
    assert_int_equal(fake_etcd_txn(e, &txn, &r).code, ERR_KEY_NOT_FOUND);
    e->no_space = true;
    leased[0].lease = 0;
    assert_int_equal(fake_etcd_txn(e, &txn, &r).code, ERR_NO_SPACE);
    struct etcd_op only_delete[] = {DEL("nothing")};
    txn = (struct etcd_txn){.success = only_delete, .success_count = 1};
    assert_int_equal(fake_etcd_txn(e, &txn, &r).code, ERR_OK);
    fake_result_close(&r);
    e->max_ops = 1;
    txn = (struct etcd_txn){.failure = twice, .failure_count = 2};
    assert_int_equal(fake_etcd_txn(e, &txn, &r).code, ERR_TOO_LARGE);
    assert_int_equal(e->revision, 1);
}

static void leases_take_their_keys_with_them(void **state)
{
    struct fake_etcd *e = *state;
    int64_t granted = 0;
    assert_int_equal(fake_etcd_grant(e, 5, 300, &granted).code, ERR_OK);
    assert_int_equal(granted, 1000);
    assert_int_equal(fake_etcd_grant(e, 5, 300, &granted).code, ERR_IN_USE);
    fake_etcd_put(e, S("k1"), S(""), 5);
    fake_etcd_put(e, S("k2"), S(""), 5);
    e->now_us = 900 * 1000;
    assert_int_equal(fake_etcd_keepalive(e, 5), 1000);
    e->now_us = 1800 * 1000;
    fake_etcd_expire(e);
    assert_non_null(fake_etcd_get(e, S("k1"), 0));
    e->now_us = 1900 * 1000;
    fake_etcd_expire(e);
    assert_null(fake_etcd_get(e, S("k1"), 0));
    assert_int_equal(e->revision, 4); /* both in one revision */
    assert_int_equal(fake_etcd_keepalive(e, 5), 0);
    assert_false(fake_etcd_revoke(e, 5));
    assert_int_equal(fake_etcd_revision_at(e, 1899 * 1000), 3);
    assert_int_equal(fake_etcd_revision_at(e, 1900 * 1000), 4);
}

static void ranges_come_by_key_or_by_age(void **state)
{
    struct fake_etcd *e = *state;
    fake_etcd_put(e, S("q/z"), S("old"), 0);
    fake_etcd_put(e, S("q/a"), S("young"), 0);
    fake_etcd_put(e, S("r"), S("other"), 0);
    struct etcd_op op = {.kind = ETCD_OP_RANGE, .key = S("q/"), .range_end = S("q0")};
    struct etcd_op_result r;
    fake_etcd_range(e, &op, &r);
    assert_int_equal(r.count, 2);
    assert_true(bytes_equal(r.kvs[0].key, S("q/a")));
    op.by_create = true;
    op.limit = 1;
    struct etcd_op_result first;
    fake_etcd_range(e, &op, &first);
    assert_int_equal(first.count, 1);
    assert_true(first.more);
    assert_true(bytes_equal(first.kvs[0].key, S("q/z")));
    op = (struct etcd_op){
        .kind = ETCD_OP_RANGE, .key = S("q/"), .range_end = S("q0"), .revision = 2};
    struct etcd_op_result old;
    fake_etcd_range(e, &op, &old);
    assert_int_equal(old.count, 1);
    fake_op_result_close(&r);
    fake_op_result_close(&first);
    fake_op_result_close(&old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions_count_like_etcd, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_changed_makes_no_revision, setup, teardown),
        cmocka_unit_test_setup_teardown(a_txn_is_one_revision, setup, teardown),
        cmocka_unit_test_setup_teardown(compares_look_at_absent_keys_as_etcd_does, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_txn_does_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(leases_take_their_keys_with_them, setup, teardown),
        cmocka_unit_test_setup_teardown(ranges_come_by_key_or_by_age, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
