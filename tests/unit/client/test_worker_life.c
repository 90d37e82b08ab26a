/* The life of a worker: step by step, and at random against what must never happen. */
#include "client/core/worker_life.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#define TTL 6000
#define MARGIN 600 /* a tenth */

static struct worker_life w;
static int64_t now;

static struct worker_step next(void)
{
    return worker_life_next(&w, now);
}

static void expect(enum worker_do what)
{
    assert_int_equal(next().what, what);
}

/* The call of this kind is due, and answered after took_ms. */
static void hear(enum worker_do what, enum worker_heard heard, int64_t took_ms)
{
    struct worker_answer a = {.heard = heard, .sent_ms = now, .ttl_ms = TTL};
    expect(what);
    now += took_ms;
    worker_life_answer(&w, &a, now);
}

/* What comes next comes after a wait. */
static void pass_wait(void)
{
    struct worker_step s = next();
    assert_int_equal(s.what, WORKER_DO_WAIT);
    assert_true(s.at_ms > now);
    now = s.at_ms;
}

static void begin(void)
{
    now = 100000;
    worker_life_init(&w, 0, 7, now);
}

static void begin_running(void)
{
    begin();
    hear(WORKER_DO_ADD, WORKER_HEARD_OK, 10);
    hear(WORKER_DO_ACTIVATE, WORKER_HEARD_OK, 10);
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_OK, 10);
    expect(WORKER_DO_RUN);
}

static void test_it_runs_once_it_is_heard_of(void **state)
{
    begin();
    assert_int_equal(worker_life_until(&w), 0);
    hear(WORKER_DO_ADD, WORKER_HEARD_OK, 10);
    hear(WORKER_DO_ACTIVATE, WORKER_HEARD_OK, 10);
    int64_t sent = now;
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_OK, 200);
    assert_int_equal(worker_life_until(&w), 0);
    expect(WORKER_DO_RUN);
    assert_int_equal(worker_life_until(&w), sent + TTL - MARGIN);
    struct worker_step s = next();
    assert_int_equal(s.what, WORKER_DO_WAIT);
    assert_in_range(s.at_ms, sent + TTL / 4, sent + TTL / 3);
}

static void test_without_answers_it_stops_in_time(void **state)
{
    begin_running();
    int64_t until = worker_life_until(&w);
    int calls = 0;
    struct worker_step s;
    while ((s = next()).what != WORKER_DO_STOP) {
        assert_true(now < until);
        assert_true(s.at_ms <= until);
        calls += s.what == WORKER_DO_HEARTBEAT;
        now = s.at_ms;
        if (s.what == WORKER_DO_HEARTBEAT)
            worker_life_answer(&w, &(struct worker_answer){.heard = WORKER_HEARD_NOTHING}, now);
    }
    assert_int_equal(now, until);
    assert_int_equal(s.reason, WORKER_LOST_TOUCH);
    assert_int_equal(worker_life_until(&w), 0);
    assert_true(calls >= 3);
    pass_wait();
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_OK, 10);
    expect(WORKER_DO_RUN);
}

static void test_after_a_pause_stop_comes_first(void **state)
{
    begin_running();
    pass_wait();
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_OK, 10 * TTL); /* paused with the answer at the door */
    assert_int_equal(worker_life_until(&w), 0);
    struct worker_step s = next();
    assert_int_equal(s.what, WORKER_DO_STOP);
    assert_int_equal(s.reason, WORKER_LOST_TOUCH);
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_UNKNOWN, 10);
    hear(WORKER_DO_ADD, WORKER_HEARD_OK, 10);
}

static void test_a_late_answer_does_not_undo_a_stop(void **state)
{
    begin_running();
    int64_t until = worker_life_until(&w);
    now = until - 100;
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_OK, 200);
    assert_int_equal(worker_life_until(&w), 0);
    expect(WORKER_DO_STOP);
    expect(WORKER_DO_RUN);
    assert_true(worker_life_until(&w) > now);
}

static void test_the_forgotten_registers_anew(void **state)
{
    begin_running();
    pass_wait();
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_UNKNOWN, 10);
    struct worker_step s = next();
    assert_int_equal(s.what, WORKER_DO_STOP);
    assert_int_equal(s.reason, WORKER_FORGOTTEN);
    hear(WORKER_DO_ADD, WORKER_HEARD_OK, 10);
    hear(WORKER_DO_ACTIVATE, WORKER_HEARD_UNKNOWN, 10);
    hear(WORKER_DO_ADD, WORKER_HEARD_OK, 10);
}

static void test_the_replaced_is_over(void **state)
{
    begin_running();
    pass_wait();
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_STALE, 10);
    struct worker_step s = next();
    assert_int_equal(s.what, WORKER_DO_STOP);
    assert_int_equal(s.reason, WORKER_REPLACED);
    expect(WORKER_DO_FAIL);
    expect(WORKER_DO_END);
    worker_life_leave(&w, now + 1000);
    expect(WORKER_DO_END);
}

static void test_what_is_refused_is_over(void **state)
{
    begin();
    hear(WORKER_DO_ADD, WORKER_HEARD_NOTHING, 10);
    pass_wait();
    hear(WORKER_DO_ADD, WORKER_HEARD_REFUSED, 10);
    expect(WORKER_DO_FAIL);
    expect(WORKER_DO_END);
}

static void test_it_leaves(void **state)
{
    begin_running();
    worker_life_leave(&w, now + 1000);
    struct worker_step s = next();
    assert_int_equal(s.what, WORKER_DO_STOP);
    assert_int_equal(s.reason, WORKER_CLOSED);
    hear(WORKER_DO_DELETE, WORKER_HEARD_OK, 10);
    expect(WORKER_DO_END);

    begin_running();
    worker_life_leave(&w, now + 1000);
    expect(WORKER_DO_STOP);
    hear(WORKER_DO_DELETE, WORKER_HEARD_NOTHING, 1000);
    expect(WORKER_DO_END);

    begin();
    worker_life_leave(&w, now + 1000);
    expect(WORKER_DO_END); /* nobody knows of it */
}

static void test_what_operators_want_is_told(void **state)
{
    begin_running();
    pass_wait();
    struct worker_answer a = {
        .heard = WORKER_HEARD_OK, .sent_ms = now, .ttl_ms = TTL, .cordoned = true};
    expect(WORKER_DO_HEARTBEAT);
    worker_life_answer(&w, &a, now);
    expect(WORKER_DO_WANTED);
    assert_true(w.cordoned && !w.draining);
    pass_wait();
    a.sent_ms = now;
    expect(WORKER_DO_HEARTBEAT);
    worker_life_answer(&w, &a, now);
    expect(WORKER_DO_WAIT);
}

static void test_a_margin_leaves_half_of_the_ttl(void **state)
{
    begin_running();
    w.margin_ms = 10 * TTL;
    pass_wait();
    int64_t sent = now;
    hear(WORKER_DO_HEARTBEAT, WORKER_HEARD_OK, 10);
    assert_int_equal(worker_life_until(&w), sent + TTL / 2);
}

/* ---- at random ---- */

struct seen {
    bool running, over, failed;
    int64_t until; /* what the last OK heartbeat allows */
    int runs, stops, ends;
};

static void check_step(struct seen *seen, struct worker_step s, bool overdue)
{
    if (overdue)
        assert_int_equal(s.what, WORKER_DO_STOP);
    switch (s.what) {
    case WORKER_DO_RUN:
        assert_false(seen->running || seen->over);
        seen->running = true;
        seen->runs++;
        assert_true(worker_life_until(&w) > now);
        break;
    case WORKER_DO_STOP:
        assert_true(seen->running);
        seen->running = false;
        seen->stops++;
        break;
    case WORKER_DO_FAIL:
        assert_false(seen->running || seen->failed);
        seen->failed = true;
        break;
    case WORKER_DO_END:
        assert_false(seen->running);
        seen->over = true;
        break;
    default:
        assert_false(seen->over);
    }
    assert_true(worker_life_until(&w) <= seen->until);
    assert_true(seen->running || !worker_life_until(&w));
}

static enum worker_heard some_answer(struct rng *rng, enum worker_do what)
{
    uint64_t n = rng_below(rng, 40);
    if (n < 12)
        return WORKER_HEARD_NOTHING;
    if (n == 12 && what != WORKER_DO_ADD)
        return WORKER_HEARD_UNKNOWN;
    if (n == 13 && rng_below(rng, 10) == 0)
        return what == WORKER_DO_ADD ? WORKER_HEARD_REFUSED : WORKER_HEARD_STALE;
    return WORKER_HEARD_OK;
}

static void play_call(struct seen *seen, struct rng *rng, struct worker_step s)
{
    struct worker_answer a = {.heard = some_answer(rng, s.what),
                              .sent_ms = now,
                              .ttl_ms = 1000 + (int64_t)rng_below(rng, 5000),
                              .cordoned = rng_below(rng, 8) == 0};
    assert_true(s.at_ms > now);
    bool paused = rng_below(rng, 30) == 0;
    now += paused ? (int64_t)rng_below(rng, 20000)
                  : (int64_t)rng_below(rng, (uint64_t)(s.at_ms - now));
    if (a.heard == WORKER_HEARD_OK && s.what == WORKER_DO_HEARTBEAT &&
        a.sent_ms + a.ttl_ms > seen->until)
        seen->until = a.sent_ms + a.ttl_ms - 1;
    worker_life_answer(&w, &a, now);
}

static void play(uint64_t seed, struct seen *seen)
{
    struct rng rng;
    rng_seed(&rng, seed);
    now = 1;
    worker_life_init(&w, 0, seed, now);
    for (int i = 0; i < 400 && !seen->over; i++) {
        if (i == 380)
            worker_life_leave(&w, now + 3000);
        bool overdue = seen->running && now >= w.until_ms;
        struct worker_step s = next();
        check_step(seen, s, overdue);
        if (s.what == WORKER_DO_WAIT)
            now = s.at_ms + (rng_below(&rng, 20) ? 0 : (int64_t)rng_below(&rng, 20000));
        else if (s.what < WORKER_DO_RUN)
            play_call(seen, &rng, s);
    }
    assert_true(seen->over);
    assert_int_equal(seen->runs, seen->stops);
}

static void test_whatever_happens(void **state)
{
    int runs = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct seen seen = {0};
        play(seed, &seen);
        runs += seen.runs;
    }
    assert_true(runs > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_runs_once_it_is_heard_of),
        cmocka_unit_test(test_without_answers_it_stops_in_time),
        cmocka_unit_test(test_after_a_pause_stop_comes_first),
        cmocka_unit_test(test_a_late_answer_does_not_undo_a_stop),
        cmocka_unit_test(test_the_forgotten_registers_anew),
        cmocka_unit_test(test_the_replaced_is_over),
        cmocka_unit_test(test_what_is_refused_is_over),
        cmocka_unit_test(test_it_leaves),
        cmocka_unit_test(test_what_operators_want_is_told),
        cmocka_unit_test(test_a_margin_leaves_half_of_the_ttl),
        cmocka_unit_test(test_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
