/* Whether etcd's state went back, and how a cluster goes on from there. */
#include "meta/core/restore.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define PREFIX "/baton/t/"
#define ID "0123456789abcdef0123456789abcdef"
#define NONCE_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NONCE_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct restore_mark a_mark(uint64_t epoch, uint64_t seq)
{
    struct restore_mark m;
    restore_mark_init(&m);
    snprintf(m.cluster.id, sizeof m.cluster.id, ID);
    m.etcd = 99;
    m.epoch = epoch;
    m.seq = seq;
    snprintf(m.nonce, sizeof m.nonce, NONCE_A);
    m.revision = 100;
    return m;
}

static struct restore_view a_view(uint64_t epoch, uint64_t seq, const char *nonce)
{
    struct restore_view v = {
        .etcd = 99, .revision = 120, .cluster_revision = 2, .record_revision = 110};
    cluster_begin(&v.cluster, ID);
    v.record = (struct record){.epoch = epoch, .seq = seq, .ttl_ms = 5000};
    snprintf(v.record.leader, sizeof v.record.leader, "m1");
    snprintf(v.record.nonce, sizeof v.record.nonce, "%s", nonce);
    snprintf(v.record.batch, sizeof v.record.batch, "%s", nonce);
    return v;
}

static void assert_judged(const struct restore_mark *m, const struct restore_view *v,
                          enum restore_verdict wanted)
{
    struct err why;
    enum restore_verdict got = restore_judge(m, v, &why);
    if (got != wanted)
        fail_msg("%d instead of %d: %s", got, wanted, why.message);
    assert_int_equal(why.code, wanted == RESTORE_BACK ? ERR_EPOCH_REGRESSION : ERR_OK);
    if (wanted == RESTORE_BACK)
        assert_non_null(strstr(why.message, "recover --accept-restore"));
}

static void what_goes_on_is_fine(void **state)
{
    (void)state;
    struct restore_mark nothing, m = a_mark(5, 9);
    restore_mark_init(&nothing);
    struct restore_view v = a_view(5, 9, NONCE_A);
    assert_judged(&nothing, &v, RESTORE_FINE);
    assert_judged(&m, &v, RESTORE_FINE);
    v.record.seq = 12;
    assert_judged(&m, &v, RESTORE_FINE);
    v = a_view(7, 0, NONCE_B);
    v.has_same = v.has_next = true;
    snprintf(v.same.nonce, sizeof v.same.nonce, NONCE_A);
    snprintf(v.next.prev_nonce, sizeof v.next.prev_nonce, NONCE_A);
    v.next.prev_seq = 9;
    assert_judged(&m, &v, RESTORE_FINE);
}

static void what_lies_behind_the_mark_went_back(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(5, 9);
    struct restore_view v = a_view(5, 8, NONCE_A);
    assert_judged(&m, &v, RESTORE_BACK);
    v = a_view(4, 800, NONCE_B);
    assert_judged(&m, &v, RESTORE_BACK);
    v = a_view(5, 9, NONCE_B); /* the epoch was led again by another */
    assert_judged(&m, &v, RESTORE_BACK);
    v = a_view(5, 9, NONCE_A);
    v.revision = 99; /* only the revision tells */
    assert_judged(&m, &v, RESTORE_BACK);
    v = (struct restore_view){.etcd = 99, .revision = 120, .cluster_revision = 2};
    cluster_begin(&v.cluster, ID);
    assert_judged(&m, &v, RESTORE_BACK); /* the record is gone */
    v = a_view(5, 9, NONCE_A);
    v.record_err = err_make(ERR_CORRUPT, "test");
    assert_judged(&m, &v, RESTORE_BACK);
    v = a_view(5, 9, NONCE_A);
    v.etcd = 98;
    assert_judged(&m, &v, RESTORE_BACK);
    v = a_view(5, 9, NONCE_A);
    m.cluster.incarnation = 2;
    assert_judged(&m, &v, RESTORE_BACK); /* to before a recovery */
}

/* Others have led since on what was restored, so the epoch alone looks right. */
static void a_history_that_went_another_way_went_back(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(5, 9);
    struct restore_view v = a_view(7, 3, NONCE_B);
    assert_judged(&m, &v, RESTORE_BACK); /* there is no epoch 5 */
    v.has_same = true;
    snprintf(v.same.nonce, sizeof v.same.nonce, NONCE_B);
    assert_judged(&m, &v, RESTORE_BACK);
    snprintf(v.same.nonce, sizeof v.same.nonce, NONCE_A);
    assert_judged(&m, &v, RESTORE_FINE);
    v.has_next = true; /* epoch 5 ended before what was seen of it */
    snprintf(v.next.prev_nonce, sizeof v.next.prev_nonce, NONCE_A);
    v.next.prev_seq = 8;
    assert_judged(&m, &v, RESTORE_BACK);
}

static void a_history_that_is_too_short_proves_nothing(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(5, 9);
    struct restore_view v = a_view(5 + HISTORY_KEPT, 0, NONCE_B);
    assert_judged(&m, &v, RESTORE_APART);
    v.record.epoch--; /* it would still be there */
    assert_judged(&m, &v, RESTORE_BACK);
    v = a_view(5 + HISTORY_KEPT, 0, NONCE_B);
    restore_mark_begin(&m, &v);
    assert_int_equal(m.epoch, 5 + HISTORY_KEPT);
    assert_judged(&m, &v, RESTORE_FINE);
}

static void a_recovery_is_accepted_only_above_what_was_seen(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(9, 4);
    struct restore_view v = a_view(10, 0, NONCE_B);
    v.etcd = 77; /* even in another etcd */
    v.revision = 3;
    v.cluster.incarnation = 2;
    v.cluster.epoch_floor = 9;
    assert_judged(&m, &v, RESTORE_RECOVERED);
    m.epoch = 10;
    assert_judged(&m, &v, RESTORE_BACK);
    m.epoch = 9;
    restore_mark_begin(&m, &v);
    assert_int_equal(m.cluster.incarnation, 2);
    assert_int_equal(m.epoch, 10);
    assert_int_equal(m.revision, 3);
    assert_judged(&m, &v, RESTORE_FINE);
}

/* An import raises the floor of a cluster that goes on, be it below what was seen. */
static void another_incarnation_of_what_goes_on_is_fine(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(9, 4);
    struct restore_view v = a_view(9, 5, NONCE_A);
    v.cluster.incarnation = 2;
    v.cluster.epoch_floor = 3;
    assert_judged(&m, &v, RESTORE_FINE);
    v.cluster.epoch_floor = 30;
    assert_judged(&m, &v, RESTORE_FINE);
}

static void the_mark_only_moves_forward(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(5, 9);
    struct restore_view other = a_view(5, 99, NONCE_B), same = a_view(5, 11, NONCE_A),
                        older = a_view(4, 99, NONCE_B), newer = a_view(6, 0, NONCE_B);
    assert_false(restore_mark_see(&m, &other.record, 90));
    assert_false(restore_mark_see(&m, &older.record, 91));
    assert_int_equal(m.seq, 9);
    assert_int_equal(m.revision, 100);
    assert_false(restore_mark_see(&m, &same.record, 130));
    assert_int_equal(m.seq, 11);
    assert_int_equal(m.revision, 130);
    assert_true(restore_mark_see(&m, &newer.record, 131));
    assert_int_equal(m.epoch, 6);
    assert_int_equal(m.seq, 0);
    assert_string_equal(m.nonce, NONCE_B);
}

static void the_mark_is_one_line_of_text(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(5, 9), back, nothing;
    struct buf line = {0};
    m.cluster.epoch_floor = 4;
    snprintf(m.cluster.rest, sizeof m.cluster.rest, "later=1%%20x");
    restore_mark_encode(&m, &line);
    assert_null(strchr((char *)line.data, '\n'));
    struct err e = restore_mark_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(back.cluster.rest, m.cluster.rest);
    assert_int_equal(back.cluster.epoch_floor, 4);
    assert_string_equal(back.nonce, NONCE_A);
    assert_int_equal(back.revision, 100);
    buf_clear(&line);
    restore_mark_init(&nothing);
    restore_mark_encode(&nothing, &line);
    e = restore_mark_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(back.epoch, 0);
    assert_int_equal(back.cluster.incarnation, 1);
    static const char *const bad[] = {"", "etcd=1", "etcd=1 epoch=5 seq=1 nonce=abc revision=1",
                                      "cluster=x etcd=1 epoch=0 seq=0 revision=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = restore_mark_decode(bytes_str(bad[i]), &back);
        if (e.code != ERR_CORRUPT)
            fail_msg("row %zu", i);
    }
    buf_close(&line);
}

/* ---- looking ---- */

static void a_look_is_ordered_by_raft(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(5, 9);
    struct fence_txn t = {0};
    restore_make_look(&t, PREFIX, &m);
    assert_int_equal(t.txn.compare_count, 0);
    assert_int_equal(t.txn.success_count, RESTORE_LOOK_OPS + 1);
    assert_int_equal(t.txn.success[RESTORE_LOOK_OPS].kind, ETCD_OP_DELETE); /* so it is no read */
    assert_true(
        bytes_equal(t.txn.success[2].key, bytes_str(PREFIX "state/history/00000000000000000005")));
    assert_true(
        bytes_equal(t.txn.success[3].key, bytes_str(PREFIX "state/history/00000000000000000006")));
    assert_int_equal(t.txn.success[3].limit, 1);
    fence_txn_close(&t);
}

static void a_view_lacks_nothing(void **state)
{
    (void)state;
    struct etcd_op_result reads[RESTORE_LOOK_OPS + 1] = {0};
    struct etcd_kv commit = {.value = bytes_str("by hand"), .mod_revision = 7};
    struct etcd_kv cluster = {.value = bytes_str("id=" ID " format=1"), .mod_revision = 3};
    struct etcd_txn_result r = {.header = {.cluster_id = 9, .revision = 30},
                                .results = reads,
                                .result_count = RESTORE_LOOK_OPS + 1};
    struct restore_view v;
    for (size_t i = 0; i <= RESTORE_LOOK_OPS; i++)
        reads[i].kind = ETCD_OP_RANGE;
    struct err e = restore_view_take(&v, &r, 1);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(v.record_revision, 0);
    assert_int_equal(v.cluster_revision, 0);
    reads[1] = (struct etcd_op_result){.kind = ETCD_OP_RANGE, .kvs = &commit, .count = 1};
    reads[2] = (struct etcd_op_result){.kind = ETCD_OP_RANGE, .kvs = &cluster, .count = 1};
    e = restore_view_take(&v, &r, 1);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(v.record_err.code, ERR_CORRUPT);
    assert_int_equal(v.record_revision, 7);
    assert_int_equal(v.cluster.incarnation, 1);
    r.result_count--;
    e = restore_view_take(&v, &r, 1);
    assert_int_equal(e.code, ERR_PROTOCOL);
}

/* ---- going on ---- */

static struct restore_plan a_plan(uint64_t epoch_above)
{
    struct restore_plan p = {
        .epoch_above = epoch_above, .member = "m2", .ttl_ms = 3000, .now_unix_ms = 5};
    snprintf(p.nonce, sizeof p.nonce, NONCE_B);
    snprintf(p.batch, sizeof p.batch, NONCE_B);
    return p;
}

static void a_recovery_goes_on_above_everything(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(9, 4);
    struct restore_view v = a_view(5, 9, NONCE_A);
    struct restore_plan p = a_plan(12);
    struct fence_txn t = {0};
    struct cluster written;
    struct record r;
    struct history h;
    struct err e = restore_make_recovery(&t, PREFIX, &m, &v, &p, &written);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(written.incarnation, 2);
    assert_int_equal(written.epoch_floor, 12);
    assert_int_equal(t.txn.compare_count, 2);
    assert_int_equal(t.txn.compares[0].target, ETCD_MOD);
    assert_int_equal(t.txn.compares[0].number, 110);
    assert_int_equal(t.txn.compares[1].number, 2);
    assert_int_equal(t.txn.success_count, 3);
    e = record_decode(t.txn.success[1].value, &r);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.epoch, 13);
    assert_int_equal(r.ttl_ms, 5000); /* of the record that is replaced */
    e = history_decode(t.txn.success[2].value, &h);
    assert_int_equal(e.code, ERR_OK);
    assert_true(
        bytes_equal(t.txn.success[2].key, bytes_str(PREFIX "state/history/00000000000000000013")));
    assert_int_equal(h.prev_seq, 9);
    assert_string_equal(h.prev_nonce, NONCE_A);
    assert_string_equal(h.addr, ""); /* nobody leads with it */
    fence_txn_close(&t);
}

static void a_recovery_knows_the_highest_of_each(void **state)
{
    (void)state;
    static const struct {
        uint64_t mark, record, floor, above, wanted;
    } rows[] = {{9, 5, 0, 0, 9}, {3, 5, 0, 0, 5}, {3, 5, 7, 0, 7}, {3, 5, 7, 20, 20}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct restore_mark m = a_mark(rows[i].mark, 1);
        struct restore_view v = a_view(rows[i].record, 1, NONCE_A);
        struct restore_plan p = a_plan(rows[i].above);
        struct fence_txn t = {0};
        struct cluster written;
        v.cluster.epoch_floor = rows[i].floor;
        p.incarnation_above = i;
        struct err e = restore_make_recovery(&t, PREFIX, &m, &v, &p, &written);
        assert_int_equal(e.code, ERR_OK);
        assert_int_equal(written.epoch_floor, rows[i].wanted);
        assert_int_equal(written.incarnation, i > 1 ? i + 1 : 2);
        fence_txn_close(&t);
    }
}

/* The record may be gone or unreadable, the cluster's value too: what the member knows stands in.
 */
static void a_recovery_mends_what_was_deleted(void **state)
{
    (void)state;
    struct restore_mark m = a_mark(9, 4);
    struct restore_view v = {.etcd = 99, .revision = 30};
    struct restore_plan p = a_plan(0);
    struct fence_txn t = {0};
    struct cluster written;
    struct history h;
    struct err e = restore_make_recovery(&t, PREFIX, &m, &v, &p, &written);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(written.id, ID);
    assert_int_equal(written.epoch_floor, 9);
    assert_int_equal(t.txn.compares[0].number, 0);
    e = history_decode(t.txn.success[2].value, &h);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(h.prev_nonce, "");
    fence_txn_close(&t);
    p.epoch_above = UINT64_MAX;
    e = restore_make_recovery(&t, PREFIX, &m, &v, &p, &written);
    assert_int_equal(e.code, ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_on_is_fine),
        cmocka_unit_test(what_lies_behind_the_mark_went_back),
        cmocka_unit_test(a_history_that_went_another_way_went_back),
        cmocka_unit_test(a_history_that_is_too_short_proves_nothing),
        cmocka_unit_test(a_recovery_is_accepted_only_above_what_was_seen),
        cmocka_unit_test(another_incarnation_of_what_goes_on_is_fine),
        cmocka_unit_test(the_mark_only_moves_forward),
        cmocka_unit_test(the_mark_is_one_line_of_text),
        cmocka_unit_test(a_look_is_ordered_by_raft),
        cmocka_unit_test(a_view_lacks_nothing),
        cmocka_unit_test(a_recovery_goes_on_above_everything),
        cmocka_unit_test(a_recovery_knows_the_highest_of_each),
        cmocka_unit_test(a_recovery_mends_what_was_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
