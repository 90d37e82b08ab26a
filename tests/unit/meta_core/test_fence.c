/* What the guard looks like, and what each answer means: a doubt is never an outcome. */
#include "tests/unit/meta_core/fence_kit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define S(text) bytes_str(text)

static bool is(struct bytes a, const char *text)
{
    return bytes_equal(a, S(text));
}

/* ---- making ---- */

static void commit_is_guarded_by_key_and_bytes(void **state)
{
    (void)state;
    struct leadership l = kit_leadership();
    struct record next = kit_record(5, 1, 'b');
    struct record_bytes next_bytes = kit_bytes(5, 1, 'b');
    char value[] = "value";
    struct etcd_op op = {.kind = ETCD_OP_PUT, .key = S(KIT_PREFIX "state/kv/k"), .value = S(value)};
    struct fence_txn t = {0};
    fence_make_commit(&t, &l, record_view(&l.takeover), &next, &op, 1);
    value[0] = 'X'; /* everything was copied */
    assert_int_equal(t.txn.compare_count, 2);
    const struct etcd_compare *c = t.txn.compares;
    assert_true(is(c[0].key, KIT_PREFIX "live/election/abc"));
    assert_int_equal(c[0].target, ETCD_CREATE);
    assert_int_equal(c[0].relation, ETCD_EQUAL);
    assert_int_equal(c[0].number, 17);
    assert_true(is(c[1].key, KIT_PREFIX "state/commit"));
    assert_int_equal(c[1].target, ETCD_VALUE);
    assert_int_equal(c[1].relation, ETCD_EQUAL);
    assert_true(bytes_equal(c[1].value, record_view(&l.takeover)));
    assert_int_equal(t.txn.success_count, 2);
    assert_true(is(t.txn.success[0].value, "value"));
    assert_true(is(t.txn.success[1].key, KIT_PREFIX "state/commit"));
    assert_true(bytes_equal(t.txn.success[1].value, record_view(&next_bytes)));
    assert_int_equal(t.txn.success[1].lease, 0);
    assert_int_equal(t.txn.failure_count, 3);
    assert_true(is(t.txn.failure[0].key, KIT_PREFIX "live/election/abc"));
    assert_true(is(t.txn.failure[1].key, KIT_PREFIX "state/commit"));
    assert_true(is(t.txn.failure[2].key, KIT_PREFIX "state/history/00000000000000000006"));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(t.txn.failure[i].kind, ETCD_OP_RANGE);
    fence_txn_close(&t);
    assert_null(t.block);
}

static void probe_goes_through_raft_and_changes_nothing(void **state)
{
    (void)state;
    struct leadership l = kit_leadership();
    struct fence_txn t = {0};
    fence_make_probe(&t, &l, record_view(&l.takeover));
    assert_int_equal(t.txn.compare_count, 2);
    assert_int_equal(t.txn.success_count, 1);
    assert_int_equal(t.txn.success[0].kind, ETCD_OP_DELETE);
    assert_int_equal(t.txn.success[0].range_end.len, 0);
    assert_false(bytes_starts_with(t.txn.success[0].key, S(KIT_PREFIX "state/")));
    assert_false(bytes_starts_with(t.txn.success[0].key, S(KIT_PREFIX "live/")));
    assert_int_equal(t.txn.failure_count, 3);
    fence_txn_close(&t);
}

static struct fence_takeover a_takeover(bool first)
{
    struct leadership l = kit_leadership();
    struct fence_takeover t = {.seat = l.seat, .next = kit_record(first ? 1 : 6, 0, 'c')};
    if (!first)
        t.old = kit_bytes(5, 9, 'b');
    snprintf(t.history.leader, sizeof t.history.leader, "m1");
    snprintf(t.history.nonce, sizeof t.history.nonce, KIT_NONCE);
    return t;
}

static void takeover_compares_exactly_what_was_waited_for(void **state)
{
    (void)state;
    struct fence_takeover takeover = a_takeover(false);
    struct fence_txn t = {0};
    fence_make_takeover(&t, &takeover);
    assert_int_equal(t.txn.compare_count, 3);
    assert_int_equal(t.txn.compares[0].number, 17);
    assert_true(is(t.txn.compares[1].key, KIT_PREFIX "cluster"));
    assert_int_equal(t.txn.compares[1].target, ETCD_CREATE); /* none was read */
    assert_true(bytes_equal(t.txn.compares[2].value, record_view(&takeover.old)));
    assert_int_equal(t.txn.success_count, 2);
    assert_true(is(t.txn.success[1].key, KIT_PREFIX "state/history/00000000000000000006"));
    assert_int_equal(t.txn.failure_count, 3);
    fence_txn_close(&t);
    takeover.cluster = kit_bytes(1, 1, 'e'); /* any bytes */
    fence_make_takeover(&t, &takeover);
    assert_int_equal(t.txn.compares[1].target, ETCD_VALUE);
    assert_true(bytes_equal(t.txn.compares[1].value, record_view(&takeover.cluster)));
    fence_txn_close(&t);
    takeover.next.epoch = 1206; /* history is kept for a thousand epochs */
    fence_make_takeover(&t, &takeover);
    assert_int_equal(t.txn.success_count, 3);
    assert_int_equal(t.txn.success[2].kind, ETCD_OP_DELETE);
    assert_true(is(t.txn.success[2].key, KIT_PREFIX "state/history/"));
    assert_true(is(t.txn.success[2].range_end, KIT_PREFIX "state/history/00000000000000000207"));
    fence_txn_close(&t);
}

static void first_takeover_wants_an_empty_state(void **state)
{
    (void)state;
    struct fence_takeover takeover = a_takeover(true);
    struct fence_txn t = {0};
    fence_make_takeover(&t, &takeover);
    assert_int_equal(t.txn.compare_count, 4);
    assert_int_equal(t.txn.compares[2].target, ETCD_CREATE);
    assert_true(is(t.txn.compares[2].key, KIT_PREFIX "state/commit"));
    assert_int_equal(t.txn.compares[2].number, 0);
    assert_true(is(t.txn.compares[3].key, KIT_PREFIX "state/"));
    assert_true(is(t.txn.compares[3].range_end, KIT_PREFIX "state0"));
    fence_txn_close(&t);
}

static void release_touches_only_what_is_its_own(void **state)
{
    (void)state;
    struct released released = {.epoch = 5};
    struct fence_txn t = {0};
    snprintf(released.nonce, sizeof released.nonce, KIT_NONCE);
    fence_make_release(&t, KIT_PREFIX, 0xabc, 0, &released);
    assert_int_equal(t.txn.compare_count, 0);
    assert_int_equal(t.txn.success_count, 2);
    fence_txn_close(&t);
    fence_make_release(&t, KIT_PREFIX, 0xabc, 17, NULL);
    assert_int_equal(t.txn.compare_count, 1);
    assert_int_equal(t.txn.compares[0].number, 17);
    assert_int_equal(t.txn.success_count, 1);
    assert_int_equal(t.txn.success[0].kind, ETCD_OP_DELETE);
    assert_true(is(t.txn.success[0].key, KIT_PREFIX "live/election/abc"));
    assert_int_equal(t.txn.failure_count, 0);
    fence_txn_close(&t);
    fence_make_release(&t, KIT_PREFIX, 0xabc, 17,
                       &released); /* the key is another's: still released */
    assert_int_equal(t.txn.failure_count, 1);
    assert_true(is(t.txn.failure[0].key, KIT_PREFIX "live/released"));
    fence_txn_close(&t);
}

/* ---- judging ---- */

enum at_commit { NOTHING, LAST, BATCH, SETTLE, SUCCESSOR };

struct row {
    int64_t own; /* create revision of the own key; 0: gone */
    enum at_commit commit;
    int prev_seq;           /* of the successor's history; -1: no history */
    char prev_batch;        /* its batch id, repeated */
    const char *prev_nonce; /* NULL: ours */
    bool settle_sent;
    enum fence_verdict verdict;
    int64_t revision;
};

static void fill_history(struct kit_answer *a, struct buf *room, const struct row *row)
{
    struct history h = {.prev_seq = (uint64_t)row->prev_seq, .prev_revision = 33};
    snprintf(h.leader, sizeof h.leader, "m2");
    snprintf(h.nonce, sizeof h.nonce, KIT_OTHER);
    snprintf(h.prev_nonce, sizeof h.prev_nonce, "%s",
             row->prev_nonce ? row->prev_nonce : KIT_NONCE);
    memset(h.prev_batch, row->prev_batch, NONCE_DIGITS);
    buf_clear(room);
    history_encode(&h, room);
    kit_found(a, 2, (struct etcd_kv){.value = buf_view(room), .mod_revision = 40});
}

static void failed_guards_are_judged_by_their_reads(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* own commit prev_seq prev_batch prev_nonce settle */
        {17, BATCH, -1, 0, NULL, false, FENCE_APPLIED, 30},
        {17, BATCH, -1, 0, NULL, true, FENCE_APPLIED, 30},
        {0, BATCH, -1, 0, NULL, false, FENCE_APPLIED_DEPOSED, 30},
        {18, BATCH, -1, 0, NULL, false, FENCE_APPLIED_DEPOSED, 30},
        {17, SETTLE, -1, 0, NULL, true, FENCE_SETTLED, 30},
        {0, SETTLE, -1, 0, NULL, true, FENCE_NOT_APPLIED, 0},
        {0, LAST, -1, 0, NULL, false, FENCE_NOT_APPLIED, 0},
        {18, LAST, -1, 0, NULL, true, FENCE_NOT_APPLIED, 0},
        {17, LAST, -1, 0, NULL, false, FENCE_UNKNOWN, 0}, /* makes no sense */
        {17, SUCCESSOR, 8, 'b', NULL, false, FENCE_APPLIED_DEPOSED, 33},
        {0, SUCCESSOR, 8, 'b', NULL, true, FENCE_APPLIED_DEPOSED, 33},
        {0, SUCCESSOR, 8, 'e', NULL, true, FENCE_NOT_APPLIED, 0},
        {0, SUCCESSOR, 8, 'e', NULL, false, FENCE_DEPOSED, 0},
        {0, SUCCESSOR, 7, 'a', NULL, false, FENCE_NOT_APPLIED, 0},
        {0, SUCCESSOR, 9, 'c', NULL, false, FENCE_APPLIED_DEPOSED, 0},
        {0, SUCCESSOR, 9, 'c', NULL, true, FENCE_DEPOSED, 0},
        {0, SUCCESSOR, 8, 'b', KIT_OTHER, false, FENCE_DEPOSED, 0},
        {0, SUCCESSOR, -1, 0, NULL, false, FENCE_DEPOSED, 0}, /* never "not applied" */
        {17, NOTHING, -1, 0, NULL, false, FENCE_DEPOSED, 0},
        {0, NOTHING, 8, 'b', NULL, false, FENCE_APPLIED_DEPOSED, 33},
    };
    struct leadership l = kit_leadership();
    struct record_bytes commits[] = {[LAST] = kit_bytes(5, 7, 'a'),
                                     [BATCH] = kit_bytes(5, 8, 'b'),
                                     [SETTLE] = kit_bytes(5, 8, 'e'),
                                     [SUCCESSOR] = kit_bytes(6, 2, 'f')};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct fence_place place = {.last = commits[LAST], .batch = commits[BATCH]};
        struct kit_answer a;
        struct buf room = {0};
        int64_t revision = -1;
        if (row->settle_sent)
            place.settle = commits[SETTLE];
        kit_failed(&a, 3);
        if (row->own)
            kit_found(&a, 0, (struct etcd_kv){.create_revision = row->own});
        if (row->commit)
            kit_found(
                &a, 1,
                (struct etcd_kv){.value = record_view(&commits[row->commit]), .mod_revision = 30});
        if (row->prev_seq >= 0)
            fill_history(&a, &room, row);
        enum fence_verdict verdict =
            fence_judge_commit(&l, &place, row->settle_sent, &a.result, &revision);
        if (verdict != row->verdict || revision != row->revision)
            fail_msg("row %zu: verdict %d, revision %lld", i, verdict, (long long)revision);
        verdict = fence_judge_probe(&l, &place, &a.result, &revision);
        assert_int_equal(verdict, row->verdict); /* the same reads say the same to a probe */
        buf_close(&room);
    }
}

static void success_is_what_was_asked(void **state)
{
    (void)state;
    struct leadership l = kit_leadership();
    struct fence_place place = {.last = kit_bytes(5, 7, 'a'), .batch = kit_bytes(5, 8, 'b')};
    struct kit_answer a;
    int64_t revision;
    kit_succeeded(&a, 60);
    assert_int_equal(fence_judge_commit(&l, &place, false, &a.result, &revision), FENCE_APPLIED);
    assert_int_equal(revision, 60);
    assert_int_equal(fence_judge_commit(&l, &place, true, &a.result, &revision), FENCE_SETTLED);
    assert_int_equal(fence_judge_probe(&l, &place, &a.result, &revision), FENCE_HELD);
    a.result.header.revision = 0; /* such an answer is not etcd's */
    assert_int_equal(fence_judge_commit(&l, &place, false, &a.result, &revision), FENCE_UNKNOWN);
}

static void answers_that_lack_something_count_for_nothing(void **state)
{
    (void)state;
    struct leadership l = kit_leadership();
    struct record_bytes batch = kit_bytes(5, 8, 'b');
    struct fence_place place = {.last = kit_bytes(5, 7, 'a'), .batch = batch};
    struct kit_answer a;
    int64_t revision;
    for (size_t reads = 0; reads < 3; reads++) {
        kit_failed(&a, reads);
        assert_int_equal(fence_judge_commit(&l, &place, false, &a.result, &revision),
                         FENCE_UNKNOWN);
        assert_int_equal(fence_judge_probe(&l, &place, &a.result, &revision), FENCE_UNKNOWN);
    }
    kit_failed(&a, 3);
    a.reads[1].kind = ETCD_OP_PUT;
    assert_int_equal(fence_judge_commit(&l, &place, false, &a.result, &revision), FENCE_UNKNOWN);
    kit_failed(&a, 3);
    kit_found(&a, 1, (struct etcd_kv){.value = record_view(&batch), .mod_revision = 30});
    a.result.header.cluster_id++;
    assert_int_equal(fence_judge_commit(&l, &place, false, &a.result, &revision), FENCE_UNKNOWN);
    kit_succeeded(&a, 60);
    a.result.header.cluster_id++;
    assert_int_equal(fence_judge_commit(&l, &place, false, &a.result, &revision), FENCE_UNKNOWN);
    assert_int_equal(fence_judge_probe(&l, &place, &a.result, &revision), FENCE_UNKNOWN);
    l.seat.etcd_cluster_id = 0; /* not known yet: any does */
    assert_int_equal(fence_judge_commit(&l, &place, false, &a.result, &revision), FENCE_APPLIED);
}

static void takeovers_are_judged(void **state)
{
    (void)state;
    enum at_takeover { ABSENT, OLD, MINE, ANOTHER };
    static const struct {
        bool first, held;
        enum at_takeover commit;
        enum fence_takeover_verdict verdict;
    } rows[] = {
        {false, true, MINE, TAKEOVER_WON},      {false, false, MINE, TAKEOVER_WON},
        {false, true, ANOTHER, TAKEOVER_LOST},  {false, false, ANOTHER, TAKEOVER_NO_KEY},
        {false, true, OLD, TAKEOVER_UNKNOWN},   {false, false, OLD, TAKEOVER_NO_KEY},
        {false, true, ABSENT, TAKEOVER_LOST},   {true, true, ABSENT, TAKEOVER_REGRESSED},
        {true, true, MINE, TAKEOVER_WON},       {true, true, ANOTHER, TAKEOVER_LOST},
        {true, false, ABSENT, TAKEOVER_NO_KEY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fence_takeover t = a_takeover(rows[i].first);
        struct record_bytes mine, another = kit_bytes(7, 1, 'd'), now;
        struct kit_answer a;
        int64_t revision;
        record_bytes_encode(&mine, &t.next);
        kit_failed(&a, 3);
        if (rows[i].held)
            kit_found(&a, 0, (struct etcd_kv){.create_revision = 17});
        if (rows[i].commit) {
            const struct record_bytes *b = rows[i].commit == OLD    ? &t.old
                                           : rows[i].commit == MINE ? &mine
                                                                    : &another;
            kit_found(&a, 1, (struct etcd_kv){.value = record_view(b), .mod_revision = 44});
        }
        enum fence_takeover_verdict verdict = fence_judge_takeover(&t, &a.result, &revision, &now);
        if (verdict != rows[i].verdict)
            fail_msg("row %zu: verdict %d", i, verdict);
        assert_int_equal(revision, verdict == TAKEOVER_WON ? 44 : 0);
        if (verdict == TAKEOVER_LOST && rows[i].commit == ANOTHER)
            assert_true(bytes_equal(record_view(&now), record_view(&another)));
        a.result.header.cluster_id++;
        assert_int_equal(fence_judge_takeover(&t, &a.result, &revision, &now), TAKEOVER_UNKNOWN);
        a.result.header.cluster_id--;
        kit_found(&a, 2, (struct etcd_kv){.value = S("id=other")});
        if (verdict == TAKEOVER_UNKNOWN || verdict == TAKEOVER_REGRESSED)
            assert_int_equal(fence_judge_takeover(&t, &a.result, &revision, &now), TAKEOVER_LOST);
        a.result.result_count = 2;
        assert_int_equal(fence_judge_takeover(&t, &a.result, &revision, &now), TAKEOVER_UNKNOWN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commit_is_guarded_by_key_and_bytes),
        cmocka_unit_test(probe_goes_through_raft_and_changes_nothing),
        cmocka_unit_test(takeover_compares_exactly_what_was_waited_for),
        cmocka_unit_test(first_takeover_wants_an_empty_state),
        cmocka_unit_test(release_touches_only_what_is_its_own),
        cmocka_unit_test(failed_guards_are_judged_by_their_reads),
        cmocka_unit_test(success_is_what_was_asked),
        cmocka_unit_test(answers_that_lack_something_count_for_nothing),
        cmocka_unit_test(takeovers_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
