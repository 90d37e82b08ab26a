/* The workers as the leader counts them: who lives, until when it is waited for, which slots are
 * free. The table follows the committed state; deadlines are in memory only. A new leader, and one
 * that could not be spoken to for a while, waits for everybody a full ttl anew.
 *
 * What an OK to a heartbeat rests on: the deadline becomes the time the heartbeat is looked at +
 * ttl, which is not before it was sent + ttl; only workers_due, past the deadline, lets anybody go;
 * and a later leader begins with full ttls, and not before this one's read gate has closed, which
 * was open when the heartbeat came. Pure; time is milliseconds of one clock that never goes back.
 */
#pragma once
#include "common/base/buf.h"
#include "meta/core/worker.h"

enum {
    /* Between two ticks of workers_tick; a later one means that nobody was listened to meanwhile.
     */
    WORKERS_TICK_MS = 200,
    WORKERS_LATE_MS = 1000,
};

struct workers;

struct workers *workers_new(void);
void workers_free(struct workers *w);
/* Nobody, and counters at 0. */
void workers_clear(struct workers *w);

/* ---- the committed state ---- */

void workers_set_counters(struct workers *w, const struct worker_counters *counters);
const struct worker_counters *workers_counters(const struct workers *w);
/* A worker as it is from now on; one that is new, or has a new incarnation, is waited for its ttl.
 */
void workers_put(struct workers *w, const struct worker *worker, int64_t now_ms);
void workers_remove(struct workers *w, uint64_t id);

/* ---- who is there ---- */

struct worker_seat {
    uint64_t id, incarnation;
    uint64_t ttl_ms;
    bool running, cordoned, draining, has_slot;
    bool expiring; /* its end is being committed */
};

size_t workers_count(const struct workers *w);
/* NULL: nobody. Valid until the table changes. */
const struct worker_seat *workers_find(const struct workers *w, uint64_t id);
const struct worker_seat *workers_find_addr(const struct workers *w, struct bytes addr);
/* The lowest slot of the type, from `from` on, that nobody holds. */
uint32_t workers_free_slot(const struct workers *w, struct bytes type, uint32_t from);
/* How long it was silent; 0 for one that is not there. */
int64_t workers_silent_ms(const struct workers *w, uint64_t id, int64_t now_ms);

/* By type, in no order. */
struct workers_type {
    const char *name;
    uint32_t starting, running, expiring, unschedulable, slots;
};
void workers_types(struct workers *w, void (*visit)(void *arg, const struct workers_type *t),
                   void *arg);

/* ---- heartbeats ---- */

enum worker_beat {
    WORKER_BEAT_OK,
    WORKER_BEAT_UNKNOWN,
    WORKER_BEAT_STALE, /* another incarnation took its place */
    WORKER_BEAT_WAITS, /* its end is being committed: ask again once that is settled */
};
enum worker_beat workers_beat(struct workers *w, uint64_t id, uint64_t incarnation, int64_t now_ms);

/* Each WORKERS_TICK_MS or so; served: heartbeats could be answered since the last one. Whoever was
 * not listened to gets a full ttl. */
void workers_tick(struct workers *w, bool served, int64_t now_ms);
/* Marks at most `max` workers whose deadline has passed as expiring, and tells their ids. */
size_t workers_due(struct workers *w, int64_t now_ms, uint64_t *ids, size_t max);
/* The end of this one was not committed: it is waited for a full ttl. */
void workers_spare(struct workers *w, uint64_t id, int64_t now_ms);
