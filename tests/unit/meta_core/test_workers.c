/* The table of workers against a plain model: whoever was told OK is safe until its heartbeat was
 * sent + ttl, over pauses, takeovers and ends that were not committed; each end happens once. */
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "meta/core/workers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { TTL_MS = 3000 };

static struct worker some_worker(uint64_t id, uint64_t incarnation, const char *addr)
{
    return (struct worker){.id = id,
                           .incarnation = incarnation,
                           .type = bytes_str("compute"),
                           .addr = bytes_str(addr),
                           .running = true,
                           .ttl_ms = TTL_MS};
}

static struct workers *one_worker(int64_t now_ms)
{
    struct workers *w = workers_new();
    struct worker worker = some_worker(1, 5, "h:1");
    workers_put(w, &worker, now_ms);
    workers_tick(w, true, now_ms);
    return w;
}

static void listen(struct workers *w, int64_t from_ms, int64_t to_ms)
{
    for (int64_t now_ms = from_ms; now_ms <= to_ms; now_ms += WORKERS_TICK_MS)
        workers_tick(w, true, now_ms);
}

static void incarnations_are_told_apart(void **state)
{
    struct workers *w = one_worker(0);
    assert_int_equal(workers_beat(w, 1, 5, 10), WORKER_BEAT_OK);
    assert_int_equal(workers_beat(w, 1, 4, 10), WORKER_BEAT_STALE);
    assert_int_equal(workers_beat(w, 1, 6, 10), WORKER_BEAT_UNKNOWN);
    assert_int_equal(workers_beat(w, 2, 5, 10), WORKER_BEAT_UNKNOWN);
    struct worker again = some_worker(1, 9, "h:1");
    workers_put(w, &again, 20);
    assert_int_equal(workers_beat(w, 1, 5, 30), WORKER_BEAT_STALE);
    assert_int_equal(workers_beat(w, 1, 9, 30), WORKER_BEAT_OK);
    assert_int_equal(workers_find_addr(w, bytes_str("h:1"))->incarnation, 9);
    workers_free(w);
}

static void a_silent_worker_is_due_once(void **state)
{
    struct workers *w = one_worker(1000);
    uint64_t id = 0;
    listen(w, 1000, 1000 + TTL_MS);
    assert_int_equal(workers_due(w, 999 + TTL_MS, &id, 1), 0);
    assert_int_equal(workers_due(w, 1000 + TTL_MS, &id, 1), 1);
    assert_int_equal(id, 1);
    assert_int_equal(workers_due(w, 9000 + TTL_MS, &id, 1), 0);
    assert_int_equal(workers_beat(w, 1, 5, 1000 + TTL_MS), WORKER_BEAT_WAITS);
    assert_int_equal(workers_beat(w, 1, 4, 1000 + TTL_MS), WORKER_BEAT_STALE);
    /* it was not committed */
    workers_spare(w, 1, 10000);
    assert_int_equal(workers_due(w, 9999 + TTL_MS, &id, 1), 0);
    assert_int_equal(workers_beat(w, 1, 5, 10001), WORKER_BEAT_OK);
    /* it was */
    assert_int_equal(workers_due(w, 10001 + TTL_MS, &id, 1), 1);
    workers_remove(w, 1);
    assert_int_equal(workers_beat(w, 1, 5, 10002 + TTL_MS), WORKER_BEAT_UNKNOWN);
    workers_spare(w, 1, 10003 + TTL_MS);
    assert_int_equal(workers_count(w), 0);
    workers_free(w);
}

static void a_change_does_not_give_time(void **state)
{
    struct workers *w = one_worker(0);
    uint64_t id;
    struct worker worker = some_worker(1, 5, "h:1");
    worker.cordoned = true;
    workers_put(w, &worker, 2000);
    assert_true(workers_find(w, 1)->cordoned);
    assert_int_equal(workers_silent_ms(w, 1, 2500), 2500);
    assert_int_equal(workers_due(w, TTL_MS, &id, 1), 1);
    worker.cordoned = false;
    workers_put(w, &worker, TTL_MS);
    assert_true(workers_find(w, 1)->expiring);
    worker.incarnation = 6; /* it registered again while its end was on the way */
    workers_put(w, &worker, TTL_MS);
    assert_false(workers_find(w, 1)->expiring);
    workers_free(w);
}

static void time_without_listening_is_given_back(void **state)
{
    struct workers *w = one_worker(0);
    uint64_t id;
    workers_tick(w, true, 10 * TTL_MS); /* late: this process stood still */
    assert_int_equal(workers_due(w, 11 * TTL_MS - 1, &id, 1), 0);
    listen(w, 10 * TTL_MS, 11 * TTL_MS - 100);
    workers_tick(w, false, 11 * TTL_MS - 50); /* nobody could be answered */
    assert_int_equal(workers_due(w, 11 * TTL_MS, &id, 1), 0);
    assert_int_equal(workers_due(w, 12 * TTL_MS - 50, &id, 1), 1);
    workers_free(w);
}

static void slots_are_the_lowest_free_of_a_type(void **state)
{
    struct workers *w = workers_new();
    char addr[16];
    for (uint64_t i = 0; i < 130; i++) {
        snprintf(addr, sizeof addr, "h:%d", (int)i + 1);
        struct worker worker = some_worker(i + 1, i + 1, addr);
        worker.has_slot = true;
        worker.slot = (uint32_t)i;
        workers_put(w, &worker, 0);
    }
    assert_int_equal(workers_free_slot(w, bytes_str("compute"), 0), 130);
    assert_int_equal(workers_free_slot(w, bytes_str("other"), 0), 0);
    workers_remove(w, 66);
    workers_remove(w, 6);
    assert_int_equal(workers_free_slot(w, bytes_str("compute"), 0), 5);
    assert_int_equal(workers_free_slot(w, bytes_str("compute"), 6), 65);
    assert_int_equal(workers_free_slot(w, bytes_str("compute"), 66), 130);
    workers_free(w);
}

/* ---- at random ---- */

enum { PEOPLE = 12, ROUNDS = 200, STEPS = 400 };

struct person {
    uint64_t incarnation; /* 0: gone */
    int64_t safe_ms;      /* what it was promised */
    bool ending;
};

struct play {
    struct rng rng;
    struct workers *w;
    struct person people[PEOPLE];
    uint64_t last_incarnation;
    int64_t now_ms;
    size_t ends; /* committed ones */
};

static void joins(struct play *p, size_t i)
{
    char addr[16];
    snprintf(addr, sizeof addr, "h:%d", (int)i + 1);
    struct worker worker = some_worker(i + 1, ++p->last_incarnation, addr);
    workers_put(p->w, &worker, p->now_ms);
    p->people[i] = (struct person){worker.incarnation, p->now_ms + TTL_MS, false};
}

static void beats(struct play *p, size_t i)
{
    struct person *one = &p->people[i];
    int64_t sent_ms = p->now_ms;
    p->now_ms += (int64_t)rng_below(&p->rng, 300); /* on its way */
    enum worker_beat said = workers_beat(p->w, i + 1, one->incarnation, p->now_ms);
    enum worker_beat want = !one->incarnation ? WORKER_BEAT_UNKNOWN
                            : one->ending     ? WORKER_BEAT_WAITS
                                              : WORKER_BEAT_OK;
    assert_int_equal(said, want);
    if (said == WORKER_BEAT_OK && one->safe_ms < sent_ms + TTL_MS)
        one->safe_ms = sent_ms + TTL_MS;
}

static void looks(struct play *p)
{
    uint64_t ids[PEOPLE];
    workers_tick(p->w, rng_below(&p->rng, 100) > 0, p->now_ms);
    size_t count = workers_due(p->w, p->now_ms, ids, 1 + rng_below(&p->rng, PEOPLE));
    for (size_t i = 0; i < count; i++) {
        struct person *one = &p->people[ids[i] - 1];
        assert_true(one->incarnation && !one->ending);
        assert_true(p->now_ms >= one->safe_ms);
        one->ending = true;
    }
}

static void settles(struct play *p, size_t i)
{
    if (!p->people[i].ending)
        return;
    p->people[i].ending = false;
    if (rng_below(&p->rng, 2)) {
        workers_spare(p->w, i + 1, p->now_ms);
        return;
    }
    workers_remove(p->w, i + 1);
    p->people[i].incarnation = 0;
    p->ends++;
}

/* Another leader reads the state anew; ends on their way are settled by its takeover. */
static void takes_over(struct play *p)
{
    char addr[16];
    for (size_t i = 0; i < PEOPLE; i++)
        settles(p, i);
    p->now_ms += (int64_t)rng_below(&p->rng, 2 * TTL_MS);
    workers_clear(p->w);
    for (size_t i = 0; i < PEOPLE; i++) {
        snprintf(addr, sizeof addr, "h:%d", (int)i + 1);
        struct worker worker = some_worker(i + 1, p->people[i].incarnation, addr);
        if (worker.incarnation)
            workers_put(p->w, &worker, p->now_ms);
    }
}

static void step(struct play *p)
{
    size_t who = rng_below(&p->rng, PEOPLE);
    uint64_t what = rng_below(&p->rng, 200);
    p->now_ms += (int64_t)rng_below(&p->rng, 400);
    if (what == 0)
        takes_over(p);
    else if (what == 1)
        p->now_ms += (int64_t)rng_below(&p->rng, 3 * TTL_MS); /* stood still */
    else if (what < 12)
        joins(p, who);
    else if (what < 40)
        settles(p, who);
    else if (what < 80)
        beats(p, who);
    else
        looks(p);
}

static void an_ok_protects(void **state)
{
    size_t ends = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct play p = {.w = workers_new(), .now_ms = 1};
        rng_seed(&p.rng, seed);
        for (int i = 0; i < STEPS; i++)
            step(&p);
        size_t alive = 0;
        for (size_t i = 0; i < PEOPLE; i++)
            alive += p.people[i].incarnation != 0;
        assert_int_equal(workers_count(p.w), alive);
        ends += p.ends;
        workers_free(p.w);
    }
    assert_true(ends > ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incarnations_are_told_apart),
        cmocka_unit_test(a_silent_worker_is_due_once),
        cmocka_unit_test(a_change_does_not_give_time),
        cmocka_unit_test(time_without_listening_is_given_back),
        cmocka_unit_test(slots_are_the_lowest_free_of_a_type),
        cmocka_unit_test(an_ok_protects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
