/* Reads that wait: until this leadership is confirmed by etcd, or until the state holds a revision.
 * They hold up no thread of the server; one thread of their own resumes them. Bounded in number;
 * each ends at its deadline at the latest. */
#pragma once
#include "common/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct board;
struct replica;
struct waiting;

enum {
    WAITING_MAX = 20000,       /* more are refused with OVERLOADED */
    WAITING_LONGEST_MS = 60000 /* for a revision, when the caller sets no deadline */
};

/* One that waits. Whoever adds it allocates it; `resume` is called exactly once, on the thread of
 * `waiting`, and owns it from then on. */
struct waiter {
    int64_t revision;    /* until the state holds it; 0: until the leadership is confirmed */
    bool needs_leader;   /* ends with NOT_LEADER once this member leads no more */
    int64_t deadline_ms; /* of the caller (clock_boot_ms); INT64_MAX: none */
    uint64_t id;         /* for waiting_cancel; 0: none */
    /* Whether waiting_cancel was called, or is about to be; NULL: never. */
    bool (*is_gone)(const struct waiter *w);
    /* err OK: go on; epoch is that of the confirmed leadership (0: waited for a revision).
     * NOT_LEADER, TIMEOUT, DRAINING, CANCELLED: why it waits no more. */
    void (*resume)(struct waiter *w, const struct err *err, uint64_t epoch);
    /* inside */
    struct waiter *next;
    uint64_t ticket;
    int64_t until_ms;
};

struct waiting *waiting_start(struct board *board, struct replica *replica);
/* Ends all that wait with DRAINING; from now on none is added. */
void waiting_drain(struct waiting *w);
/* Drains and joins the thread; nothing is said to it any more. NULL is allowed. */
void waiting_stop(struct waiting *w);

/* Any thread. An error (OVERLOADED, DRAINING) leaves `waiter` the caller's. */
struct err waiting_add(struct waiting *w, struct waiter *waiter);

/* A number that none has yet. Any thread. */
uint64_t waiting_new_id(struct waiting *w);
/* Nobody waits for that one any more; nothing when it is not there. Any thread, never blocks. */
void waiting_cancel(struct waiting *w, uint64_t id);

/* ---- what they wait for; any thread, never blocks; NULL is allowed ---- */
/* Every ticket of replica_ask up to this one is confirmed for the leadership of `epoch`. */
void waiting_on_confirmed(struct waiting *w, uint64_t epoch, uint64_t ticket);
void waiting_on_applied(struct waiting *w, int64_t revision);
void waiting_on_role(struct waiting *w);
