/* What this member commits while etcd answers is no sign that etcd went back. */
#include "meta/admission.h"
#include "common/base/mem.h"
#include "meta/marks.h"
#include "tests/lib/temp_dir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define PREFIX "/baton/t/"
#define ID "0123456789abcdef0123456789abcdef"
#define ETCD 99

struct kit {
    struct marks *marks;
    struct buf commit, cluster;
    struct etcd_kv kvs[2];
    bool takes_over; /* while etcd answers */
    int looks, accepted, refused;
};

static struct record a_record(uint64_t epoch)
{
    struct record r = {.epoch = epoch, .ttl_ms = 5000};
    snprintf(r.leader, sizeof r.leader, "m1");
    memset(r.nonce, '0' + (int)epoch, NONCE_DIGITS);
    memset(r.batch, '0' + (int)epoch, NONCE_DIGITS);
    return r;
}

static struct cluster a_cluster(void)
{
    struct cluster c;
    cluster_begin(&c, ID);
    return c;
}

static struct restore_view a_view(uint64_t epoch)
{
    return (struct restore_view){.etcd = ETCD,
                                 .revision = 100 + (int64_t)epoch,
                                 .cluster_revision = 2,
                                 .record_revision = 100 + (int64_t)epoch,
                                 .cluster = a_cluster(),
                                 .record = a_record(epoch)};
}

/* etcd's answer to a look: epoch 5. */
static struct err ask(void *ctx, const struct etcd_txn *txn, struct etcd_txn_result *out)
{
    struct kit *k = ctx;
    struct record later = a_record(6);
    (void)txn;
    k->looks++;
    if (k->takes_over)
        marks_see(k->marks, &later, 106);
    *out = (struct etcd_txn_result){.header = {.cluster_id = ETCD, .revision = 105},
                                    .succeeded = true,
                                    .result_count = RESTORE_LOOK_OPS};
    out->results = mem_array(RESTORE_LOOK_OPS, sizeof *out->results);
    for (size_t i = 0; i < RESTORE_LOOK_OPS; i++)
        out->results[i] = (struct etcd_op_result){.kind = ETCD_OP_RANGE};
    for (size_t i = 0; i < 2; i++) {
        out->results[i].kvs = &k->kvs[i];
        out->results[i].count = 1;
    }
    return OK_ERR;
}

static struct err confirm(void *ctx, const struct cluster *cluster)
{
    (void)ctx;
    assert_non_null(cluster);
    return OK_ERR;
}

static void decided(void *ctx, const struct err *why, const struct cluster *cluster, uint64_t etcd)
{
    struct kit *k = ctx;
    (void)cluster;
    assert_int_equal(etcd, ETCD);
    *(err_is(why) ? &k->refused : &k->accepted) += 1;
}

static void given_seen(struct kit *k, const char *dir, uint64_t epoch)
{
    struct record stands = a_record(5), seen = a_record(epoch);
    struct cluster cluster = a_cluster();
    struct err e = marks_open(&k->marks, dir, ID, "99");
    assert_false(err_is(&e));
    marks_accept(k->marks, &cluster, ETCD);
    marks_see(k->marks, &seen, 100 + (int64_t)epoch);
    record_encode(&stands, &k->commit);
    cluster_encode(&cluster, &k->cluster);
    k->kvs[0] = (struct etcd_kv){.value = buf_view(&k->commit), .mod_revision = 105};
    k->kvs[1] = (struct etcd_kv){.value = buf_view(&k->cluster), .mod_revision = 2};
}

/* A plain read brought epoch 4. */
static struct err judge(struct kit *k)
{
    bool reload;
    struct restore_view v = a_view(4);
    struct admission *a = admission_new(&(struct admission_config){.prefix = PREFIX,
                                                                   .marks = k->marks,
                                                                   .ask = ask,
                                                                   .confirm = confirm,
                                                                   .decided = decided,
                                                                   .ask_ctx = k,
                                                                   .ctx = k});
    struct err e = admission_judge(a, &v, &reload);
    admission_free(a);
    marks_close(k->marks);
    buf_close(&k->commit);
    buf_close(&k->cluster);
    return e;
}

static void an_old_read_is_asked_again(void **state)
{
    struct kit k = {0};
    given_seen(&k, *state, 5);
    struct err e = judge(&k);
    assert_false(err_is(&e));
    assert_int_equal(k.looks, 1);
    assert_int_equal(k.accepted, 1);
}

static void a_takeover_during_the_look_is_no_restore(void **state)
{
    struct kit k = {.takes_over = true};
    given_seen(&k, *state, 5);
    struct err e = judge(&k);
    assert_false(err_is(&e));
    assert_int_equal(k.refused, 0);
    assert_int_equal(k.accepted, 1);
}

static void what_went_back_is_refused(void **state)
{
    struct kit k = {0};
    given_seen(&k, *state, 6);
    struct err e = judge(&k);
    assert_int_equal(e.code, ERR_EPOCH_REGRESSION);
    assert_int_equal(k.refused, 1);
    assert_int_equal(k.accepted, 0);
}

static int set_up(void **state)
{
    *state = temp_dir_new();
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_free(*state);
    return 0;
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(an_old_read_is_asked_again),
        ROW(a_takeover_during_the_look_is_no_restore),
        ROW(what_went_back_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
