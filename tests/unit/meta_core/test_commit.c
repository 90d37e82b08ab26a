/* One place in the order after the other: what is sent for it, and when its outcome is certain. */
#include "meta/core/commit.h"
#include "tests/unit/meta_core/fence_kit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { ENDPOINTS = 3 };

static const struct etcd_op one_put = {
    .kind = ETCD_OP_PUT,
    .key = {(const uint8_t *)KIT_PREFIX "state/kv/k", sizeof KIT_PREFIX "state/kv/k" - 1},
    .value = {(const uint8_t *)"v", 1}};

static int setup(void **state)
{
    struct leadership l = kit_leadership();
    *state = commit_new(&l, ENDPOINTS, 1);
    return 0;
}

static int teardown(void **state)
{
    commit_free(*state);
    return 0;
}

/* ---- what the tests are made of ---- */

static uint64_t begin(struct commit *c, int64_t now_ms)
{
    struct commit_effects out;
    assert_true(commit_may_begin(c));
    commit_begin(c, &one_put, 1, 1, now_ms, &out);
    assert_true(out.send && !out.done);
    return out.attempt.attempt;
}

static struct commit_effects succeed(struct commit *c, uint64_t attempt, int64_t revision,
                                     int64_t now_ms)
{
    struct kit_answer a;
    struct err ok = OK_ERR;
    struct commit_effects out;
    kit_succeeded(&a, revision);
    commit_on_answer(c, attempt, &ok, &a.result, now_ms, &out);
    return out;
}

static struct commit_effects fail_with(struct commit *c, uint64_t attempt, enum err_code code,
                                       int64_t now_ms)
{
    struct err err = err_make(code, "test");
    struct commit_effects out;
    commit_on_answer(c, attempt, &err, NULL, now_ms, &out);
    return out;
}

/* A failed guard that read this in `commit`, with the own key there or not. */
static struct commit_effects find_in_commit(struct commit *c, uint64_t attempt,
                                            const struct record_bytes *bytes, bool held,
                                            int64_t now_ms)
{
    struct kit_answer a;
    struct record_bytes copy = *bytes; /* the outcome may forget its record */
    struct err ok = OK_ERR;
    struct commit_effects out;
    kit_failed(&a, 3);
    if (held)
        kit_found(&a, 0, (struct etcd_kv){.create_revision = 17});
    kit_found(&a, 1, (struct etcd_kv){.value = record_view(&copy), .mod_revision = 30});
    commit_on_answer(c, attempt, &ok, &a.result, now_ms, &out);
    return out;
}

static struct commit_effects tick(struct commit *c, int64_t now_ms)
{
    struct commit_effects out;
    commit_on_tick(c, now_ms, &out);
    return out;
}

static struct record sent_record(const struct commit_effects *out)
{
    struct record r;
    const struct etcd_txn *txn = out->attempt.txn;
    struct err err = record_decode(txn->success[txn->success_count - 1].value, &r);
    assert_int_equal(err.code, ERR_OK);
    return r;
}

static bool is_probe(const struct commit_effects *out)
{
    return out->send && out->attempt.txn->success[0].kind == ETCD_OP_DELETE;
}

static bool is_settle(const struct commit_effects *out)
{
    return out->send && out->attempt.txn->success_count == 1 && !is_probe(out);
}

static void assert_done(const struct commit_effects *out, enum commit_outcome_kind kind)
{
    assert_true(out->done);
    assert_int_equal(out->outcome.kind, kind);
}

/* ---- one after the other ---- */

static void places_follow_each_other(void **state)
{
    struct commit *c = *state;
    struct commit_effects out;
    struct leadership l = kit_leadership();
    struct record_bytes last = l.takeover;
    for (uint64_t seq = 1; seq <= 3; seq++) {
        commit_begin(c, seq == 2 ? NULL : &one_put, seq == 2 ? 0 : 1, 1, 1000, &out);
        struct record r = sent_record(&out);
        assert_int_equal(r.epoch, 5);
        assert_int_equal(r.seq, seq);
        assert_int_equal(r.ttl_ms, 5000);
        assert_string_equal(r.nonce, KIT_NONCE);
        assert_true(bytes_equal(out.attempt.txn->compares[1].value, record_view(&last)));
        last = *commit_record(c);
        assert_true(last.len > 0);
        assert_false(commit_may_begin(c));
        out = succeed(c, out.attempt.attempt, 100 + (int64_t)seq, 1010);
        assert_done(&out, COMMIT_APPLIED);
        assert_int_equal(out.outcome.revision, 100 + seq);
        assert_int_equal(out.outcome.renew_ms, 1000);
        assert_int_equal(out.proof_ms, 1000);
        assert_false(out.outcome.probe);
        assert_int_equal(commit_record(c)->len, 0);
        assert_true(commit_next_ms(c) == INT64_MAX);
    }
}

static void later_attempts_are_the_same_bytes_on_other_endpoints(void **state)
{
    struct commit *c = *state;
    struct commit_effects out;
    commit_begin(c, &one_put, 1, 1, 1000, &out);
    struct record first = sent_record(&out);
    size_t endpoint = out.attempt.endpoint;
    int64_t next_ms = commit_next_ms(c);
    assert_int_equal(next_ms, 1000 + COMMIT_ATTEMPT_MIN_MS);
    assert_false(tick(c, next_ms - 1).send);
    out = tick(c, next_ms);
    assert_true(out.send);
    assert_int_not_equal(out.attempt.endpoint, endpoint);
    struct record second = sent_record(&out);
    assert_memory_equal(&first, &second, sizeof first);
    out = tick(c, commit_next_ms(c));
    assert_true(out.send && commit_next_ms(c) > next_ms + COMMIT_ATTEMPT_MIN_MS);
}

static void an_earlier_attempt_is_not_cut_by_a_later_one(void **state)
{
    struct commit *c = *state;
    uint64_t first = begin(c, 1000);
    struct commit_effects out = tick(c, commit_next_ms(c));
    uint64_t second = out.attempt.attempt;
    out = succeed(c, first, 70, 1400);
    assert_done(&out, COMMIT_APPLIED);
    assert_int_equal(out.proof_ms, 1000);
    out = find_in_commit(c, second, &(struct record_bytes){.len = 1}, true, 1500);
    assert_false(out.send || out.done); /* of a place that is settled */
    assert_true(commit_may_begin(c));
}

static void the_deadline_counts_from_the_first_attempt(void **state)
{
    struct commit *c = *state;
    begin(c, 1000);
    struct commit_effects out = tick(c, 1300);
    out = find_in_commit(c, out.attempt.attempt, commit_record(c), true, 1350);
    assert_done(&out, COMMIT_APPLIED);
    assert_int_equal(out.outcome.revision, 30);
    assert_int_equal(out.outcome.renew_ms, 1000);
    assert_int_equal(out.proof_ms, 1300); /* the guard's reads are as young as that */
}

static void attempts_are_bounded(void **state)
{
    struct commit *c = *state;
    uint64_t first = begin(c, 1000);
    int sent = 1;
    int64_t now_ms = 1000;
    for (int i = 0; i < 100 && commit_next_ms(c) != INT64_MAX; i++) {
        now_ms = commit_next_ms(c);
        sent += tick(c, now_ms).send;
    }
    assert_int_equal(sent, COMMIT_OPEN_MAX);
    fail_with(c, first, ERR_LOST, now_ms + 10);
    assert_true(commit_next_ms(c) != INT64_MAX);
    assert_true(tick(c, commit_next_ms(c)).send);
}

/* ---- errors ---- */

static void errors_of_the_only_attempt(void **state)
{
    (void)state;
    enum after { REFUSED, AGAIN_AT_ONCE, MAY_APPLY, ASKS };
    static const struct {
        enum err_code code;
        enum after after;
    } rows[] = {
        {ERR_TOO_LARGE, REFUSED},
        {ERR_BAD_REQUEST, REFUSED},
        {ERR_DENIED, REFUSED},
        {ERR_KEY_NOT_FOUND, REFUSED},
        {ERR_UNREACHABLE, AGAIN_AT_ONCE},
        {ERR_OVERLOADED, AGAIN_AT_ONCE},
        {ERR_LOST, MAY_APPLY},
        {ERR_TIMEOUT, MAY_APPLY},
        {ERR_CANCELLED, MAY_APPLY},
        {ERR_PROTOCOL, MAY_APPLY},
        {ERR_CORRUPT, MAY_APPLY},
        {ERR_INTERNAL, MAY_APPLY},
        {ERR_NO_SPACE, ASKS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct leadership l = kit_leadership();
        struct commit *c = commit_new(&l, ENDPOINTS, 1);
        struct commit_effects out = fail_with(c, begin(c, 1000), rows[i].code, 1010);
        if (rows[i].after == REFUSED) {
            assert_done(&out, COMMIT_NEVER);
            assert_int_equal(out.outcome.err.code, rows[i].code);
            assert_int_equal(out.outcome.renew_ms, 0);
        } else if (rows[i].after == ASKS) {
            assert_true(is_probe(&out) && !out.done);
        } else {
            assert_true(out.send && !out.done && !is_probe(&out) && !is_settle(&out));
            out = fail_with(c, out.attempt.attempt, ERR_TOO_LARGE, 1020);
            if (rows[i].after == MAY_APPLY)
                assert_true(is_settle(&out) && !out.done);
            else
                assert_done(&out, COMMIT_NEVER);
        }
        commit_free(c);
    }
}

static void a_refused_place_is_free_again(void **state)
{
    struct commit *c = *state;
    struct commit_effects out = fail_with(c, begin(c, 1000), ERR_TOO_LARGE, 1010);
    assert_done(&out, COMMIT_NEVER);
    commit_begin(c, &one_put, 1, 1, 1020, &out);
    assert_int_equal(sent_record(&out).seq, 1);
    struct leadership l = kit_leadership();
    assert_true(bytes_equal(out.attempt.txn->compares[1].value, record_view(&l.takeover)));
}

/* The schedule of the hole: attempt 1 is on its way, attempt 2 is refused. */
static struct commit_effects refuse_the_second(struct commit *c, uint64_t *first)
{
    *first = begin(c, 1000);
    struct commit_effects out = tick(c, commit_next_ms(c));
    return fail_with(c, out.attempt.attempt, ERR_TOO_LARGE, 1310);
}

static void a_settling_commit_that_wins_ends_the_batch(void **state)
{
    struct commit *c = *state;
    uint64_t first;
    struct commit_effects out = refuse_the_second(c, &first);
    assert_true(is_settle(&out));
    struct record settle = sent_record(&out);
    struct record batch;
    record_decode(record_view(commit_record(c)), &batch);
    assert_int_equal(settle.seq, 1);
    assert_int_equal(settle.events, 0);
    assert_string_not_equal(settle.batch, batch.batch);
    out = succeed(c, out.attempt.attempt, 80, 1320);
    assert_done(&out, COMMIT_NEVER);
    assert_int_equal(out.outcome.err.code, ERR_TOO_LARGE);
    assert_int_equal(out.outcome.renew_ms, 1310);
    commit_begin(c, NULL, 0, 0, 1400, &out);
    assert_int_equal(sent_record(&out).seq, 2);
    struct record last;
    record_decode(out.attempt.txn->compares[1].value, &last);
    assert_string_equal(last.batch, settle.batch);
}

static void a_settling_commit_renews_from_its_first_attempt(void **state)
{
    struct commit *c = *state;
    uint64_t first;
    refuse_the_second(c, &first);
    struct commit_effects out = tick(c, commit_next_ms(c));
    assert_true(is_settle(&out));
    out = succeed(c, out.attempt.attempt, 80, commit_next_ms(c));
    assert_done(&out, COMMIT_NEVER);
    assert_int_equal(out.outcome.renew_ms, 1310);
}

static void a_settling_commit_that_loses_finds_the_batch(void **state)
{
    struct commit *c = *state;
    uint64_t first;
    struct commit_effects out = refuse_the_second(c, &first);
    out = find_in_commit(c, out.attempt.attempt, commit_record(c), true, 1320);
    assert_done(&out, COMMIT_APPLIED);
    assert_int_equal(out.outcome.revision, 30);
    assert_int_equal(out.outcome.renew_ms, 1000);
}

static void the_late_success_of_attempt_one_ends_the_settling(void **state)
{
    struct commit *c = *state;
    uint64_t first;
    struct commit_effects out = refuse_the_second(c, &first);
    out = succeed(c, first, 75, 1330);
    assert_done(&out, COMMIT_APPLIED);
    assert_int_equal(out.outcome.revision, 75);
}

static void the_late_refusal_of_attempt_one_leaves_the_settling_commit(void **state)
{
    struct commit *c = *state;
    uint64_t first;
    struct commit_effects settle = refuse_the_second(c, &first);
    struct commit_effects out = fail_with(c, first, ERR_TOO_LARGE, 1330);
    assert_false(out.done); /* the settling commit may yet take the place */
    out = succeed(c, settle.attempt.attempt, 80, 1340);
    assert_done(&out, COMMIT_NEVER);
}

static void no_space_asks_by_a_probe(void **state)
{
    struct commit *c = *state;
    struct commit_effects out = fail_with(c, begin(c, 1000), ERR_NO_SPACE, 1010);
    assert_true(is_probe(&out));
    out = succeed(c, out.attempt.attempt, 60, 1020); /* the guard holds on the old record */
    assert_done(&out, COMMIT_NEVER);
    assert_int_equal(out.outcome.err.code, ERR_NO_SPACE);
    assert_int_equal(out.outcome.renew_ms, 0);
    assert_int_equal(out.proof_ms, 1010);
    out = fail_with(c, begin(c, 2000), ERR_NO_SPACE, 2010);
    out = find_in_commit(c, out.attempt.attempt, commit_record(c), true, 2020);
    assert_done(&out, COMMIT_APPLIED); /* the write that filled the quota */
    assert_int_equal(out.outcome.renew_ms, 2000);
}

static void a_probe_beside_a_batch_in_flight_settles_nothing(void **state)
{
    struct commit *c = *state;
    begin(c, 1000);
    struct commit_effects out = tick(c, commit_next_ms(c));
    out = fail_with(c, out.attempt.attempt, ERR_NO_SPACE, 1310);
    assert_true(is_settle(&out));
    out = fail_with(c, out.attempt.attempt, ERR_NO_SPACE, 1320);
    assert_false(out.done);
    out = tick(c, commit_next_ms(c));
    assert_true(is_probe(&out));
    uint64_t probe = out.attempt.attempt;
    out = succeed(c, probe, 60, commit_next_ms(c)); /* holds, for now */
    assert_false(out.done);
    assert_int_equal(out.proof_attempt, probe); /* but the leadership was in force */
    out = tick(c, commit_next_ms(c));
    assert_true(is_settle(&out));
}

static void an_answer_without_reads_leaves_the_attempt_open(void **state)
{
    struct commit *c = *state;
    struct kit_answer a;
    struct err ok = OK_ERR;
    struct commit_effects out;
    uint64_t first = begin(c, 1000);
    kit_failed(&a, 0);
    commit_on_answer(c, first, &ok, &a.result, 1010, &out);
    assert_false(out.done);
    out = tick(c, commit_next_ms(c));
    assert_true(out.send);
    out = fail_with(c, out.attempt.attempt, ERR_TOO_LARGE, 1400);
    assert_true(is_settle(&out) && !out.done);
}

/* ---- the end ---- */

static void deposed_is_the_end(void **state)
{
    struct commit *c = *state;
    struct leadership l = kit_leadership();
    struct commit_effects out = find_in_commit(c, begin(c, 1000), &l.takeover, false, 1010);
    assert_done(&out, COMMIT_NOT_APPLIED);
    assert_int_equal(out.outcome.err.code, ERR_FENCED);
    assert_int_equal(out.outcome.renew_ms, 0);
    assert_int_equal(out.proof_ms, 0);
    assert_false(commit_may_begin(c));
}

static void applied_and_deposed_renews_nothing(void **state)
{
    struct commit *c = *state;
    struct commit_effects out = find_in_commit(c, begin(c, 1000), commit_record(c), false, 1010);
    assert_done(&out, COMMIT_APPLIED_DEPOSED);
    assert_int_equal(out.outcome.revision, 30);
    assert_int_equal(out.outcome.renew_ms, 0);
    assert_int_equal(out.proof_ms, 0);
    assert_false(commit_may_begin(c));
}

static void a_successor_without_history_leaves_it_unknown(void **state)
{
    struct commit *c = *state;
    struct record_bytes other = kit_bytes(7, 0, 'f');
    struct commit_effects out = find_in_commit(c, begin(c, 1000), &other, false, 1010);
    assert_done(&out, COMMIT_UNKNOWN);
    assert_int_equal(out.outcome.err.code, ERR_OUTCOME_UNKNOWN);
    assert_false(commit_may_begin(c));
}

static void stopping_lets_the_batch_be_settled(void **state)
{
    struct commit *c = *state;
    uint64_t first = begin(c, 1000);
    commit_stop(c);
    assert_false(commit_may_begin(c));
    struct commit_effects out = tick(c, commit_next_ms(c));
    assert_true(out.send);
    out = succeed(c, first, 70, 1400);
    assert_done(&out, COMMIT_APPLIED);
    assert_false(commit_may_begin(c));
}

static void giving_up_says_that_it_is_unknown(void **state)
{
    struct commit *c = *state;
    struct commit_effects out;
    uint64_t first = begin(c, 1000);
    commit_give_up(c, &out);
    assert_done(&out, COMMIT_UNKNOWN);
    assert_false(commit_may_begin(c));
    out = succeed(c, first, 70, 9100);
    assert_false(out.done || out.send); /* the outcome is told once */
    commit_give_up(c, &out);
    assert_false(out.done);
}

/* ---- probes ---- */

static void probes_prove_and_renew_nothing(void **state)
{
    struct commit *c = *state;
    struct commit_effects out;
    commit_begin_probe(c, 1000, &out);
    assert_true(is_probe(&out));
    assert_false(commit_may_begin(c));
    out = tick(c, commit_next_ms(c));
    assert_true(is_probe(&out));
    out = succeed(c, out.attempt.attempt, 60, 1400);
    assert_done(&out, COMMIT_APPLIED);
    assert_true(out.outcome.probe);
    assert_int_equal(out.outcome.renew_ms, 0);
    assert_int_equal(out.proof_ms, 1300);
    commit_begin(c, NULL, 0, 0, 1500, &out);
    assert_int_equal(sent_record(&out).seq, 1); /* it took no place */
}

static void probes_notice_the_end(void **state)
{
    struct commit *c = *state;
    struct commit_effects out;
    struct leadership l = kit_leadership();
    commit_begin_probe(c, 1000, &out);
    out = find_in_commit(c, out.attempt.attempt, &l.takeover, false, 1010);
    assert_done(&out, COMMIT_NOT_APPLIED);
    assert_true(out.outcome.probe);
    assert_false(commit_may_begin(c));
}

/* Who waits for it would begin another one at once: at etcd's rate of refusals. */
static void a_refused_probe_is_tried_again_after_a_pause(void **state)
{
    struct commit *c = *state;
    struct commit_effects out;
    int sent = 1;
    commit_begin_probe(c, 1000, &out);
    for (int64_t now_ms = 1001; now_ms < 3000; now_ms++)
        if (out.send) {
            out = fail_with(c, out.attempt.attempt, ERR_DENIED, now_ms);
            assert_false(out.send || out.done);
        } else {
            out = tick(c, now_ms);
            sent += out.send;
        }
    assert_in_range(sent, 5, 20);
    while (!out.send)
        out = tick(c, commit_next_ms(c));
    out = succeed(c, out.attempt.attempt, 60, 4000);
    assert_done(&out, COMMIT_APPLIED);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(places_follow_each_other),
        ROW(later_attempts_are_the_same_bytes_on_other_endpoints),
        ROW(an_earlier_attempt_is_not_cut_by_a_later_one),
        ROW(the_deadline_counts_from_the_first_attempt),
        ROW(attempts_are_bounded),
        cmocka_unit_test(errors_of_the_only_attempt),
        ROW(a_refused_place_is_free_again),
        ROW(a_settling_commit_that_wins_ends_the_batch),
        ROW(a_settling_commit_renews_from_its_first_attempt),
        ROW(a_settling_commit_that_loses_finds_the_batch),
        ROW(the_late_success_of_attempt_one_ends_the_settling),
        ROW(the_late_refusal_of_attempt_one_leaves_the_settling_commit),
        ROW(no_space_asks_by_a_probe),
        ROW(a_probe_beside_a_batch_in_flight_settles_nothing),
        ROW(an_answer_without_reads_leaves_the_attempt_open),
        ROW(deposed_is_the_end),
        ROW(applied_and_deposed_renews_nothing),
        ROW(a_successor_without_history_leaves_it_unknown),
        ROW(stopping_lets_the_batch_be_settled),
        ROW(giving_up_says_that_it_is_unknown),
        ROW(probes_prove_and_renew_nothing),
        ROW(probes_notice_the_end),
        ROW(a_refused_probe_is_tried_again_after_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
