/* The workers of a leader, as its threads share them: the replica thread moves the table with each
 * commit, RPC threads answer heartbeats from it. One short lock. Empty unless this member leads. */
#pragma once
#include "meta/core/plan.h"
#include "meta/core/workers.h"

struct store;
struct workforce;

struct workforce *workforce_new(struct store *store);
void workforce_free(struct workforce *f);

/* ---- the replica thread ---- */

/* The leadership of `epoch` begins with what the store holds; everybody has a full ttl. */
void workforce_begin(struct workforce *f, uint64_t epoch);
/* It has ended: whoever waits is told to ask again. */
void workforce_end(struct workforce *f);
/* For the view of a planner; this thread reads it without the lock, as nobody else changes who is
 * in it. */
const struct workers *workforce_table(const struct workforce *f);
void workforce_committed(struct workforce *f, const struct plan_batch *batch);
/* Looks for whom nobody hears of any more: at most max of them, whose end is now being committed.
 * served: heartbeats could be answered just now. */
size_t workforce_tick(struct workforce *f, bool served, struct worker_seat *due, size_t max);
/* What came of that commit; committed: workforce_committed was called. */
void workforce_settle(struct workforce *f, uint64_t id, bool committed);
/* When workforce_tick is due; INT64_MAX: there are no workers. */
int64_t workforce_next_ms(const struct workforce *f);

/* ---- any thread ---- */

/* Whoever waits until an end is settled; called once, on the replica thread, without a lock. */
struct workforce_waiter {
    void (*again)(struct workforce_waiter *w);
    struct workforce_waiter *next;
};

enum workforce_beat {
    BEAT_OK,
    BEAT_UNKNOWN,
    BEAT_STALE,
    BEAT_WAITS,   /* its end is being committed; a waiter's `again` will be called, and owns it */
    BEAT_NOT_LED, /* the leadership of this epoch is over here, or has not begun */
};
/* *seat: of BEAT_OK. waiter NULL: whoever has to wait comes again with one. */
enum workforce_beat workforce_beat(struct workforce *f, uint64_t epoch, uint64_t id,
                                   uint64_t incarnation, struct workforce_waiter *waiter,
                                   struct worker_seat *seat);

/* What a list shows beside the record; false: this incarnation is not there. */
bool workforce_look(struct workforce *f, uint64_t id, uint64_t incarnation, bool *expiring,
                    int64_t *silent_ms);
/* By type, sorted by name; *counters and *count: of all. At most max are told, all are counted in
 * the answer. */
struct workforce_type {
    char name[WORKER_TYPE_MAX + 1];
    struct workers_type sum; /* its name is NULL */
};
size_t workforce_types(struct workforce *f, struct workforce_type *out, size_t max,
                       struct worker_counters *counters, size_t *count);
