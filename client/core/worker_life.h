/* The life of a worker: when it registers, when it is heard of, and when its work may be done. The
 * shell does what worker_life_next says, one thing at a time, and tells how it went. Times are on
 * the scale of clock_boot_ms.
 *
 * Work may be done until `until_ms`: a margin before the moment up to which the last heartbeat that
 * was answered keeps others from taking over, counted from when it was sent. What comes later comes
 * after the work was stopped, however long the process was paused. */
#pragma once
#include "common/base/backoff.h"
#include "common/base/sm.h"
#include <stdbool.h>

/* A call of a worker takes no longer, so that closing does not wait. */
#define WORKER_CALL_MS 2000

enum worker_stage {
    WORKER_REGISTERING,
    WORKER_ACTIVATING,
    WORKER_PROVING, /* registered, but no heartbeat says for how long */
    WORKER_RUNNING, /* the work may be done */
    WORKER_LEAVING,
    WORKER_OVER,
    WORKER_STAGES
};

enum worker_do {
    WORKER_DO_WAIT, /* until at_ms, or for an end that was asked for */
    WORKER_DO_ADD,  /* the calls: at_ms is their deadline */
    WORKER_DO_ACTIVATE,
    WORKER_DO_HEARTBEAT,
    WORKER_DO_DELETE,
    WORKER_DO_RUN,  /* what follows tells the user */
    WORKER_DO_STOP, /* for `reason` */
    WORKER_DO_WANTED,
    WORKER_DO_FAIL, /* the error of the last answer */
    WORKER_DO_END,
};

/* In the order of enum baton_stop_reason. */
enum worker_reason {
    WORKER_LOST_TOUCH,
    WORKER_FORGOTTEN,
    WORKER_REPLACED,
    WORKER_CLOSED,
};

struct worker_step {
    enum worker_do what;
    int64_t at_ms;
    enum worker_reason reason;
};

/* How a call went. */
enum worker_heard {
    WORKER_HEARD_OK,
    WORKER_HEARD_NOTHING, /* or an error that may pass */
    WORKER_HEARD_UNKNOWN, /* UNKNOWN_WORKER */
    WORKER_HEARD_STALE,   /* STALE_INCARNATION */
    WORKER_HEARD_REFUSED, /* what is asked for can never be had */
};

struct worker_answer {
    enum worker_heard heard;
    int64_t sent_ms;
    int64_t ttl_ms;          /* of one that was OK */
    bool cordoned, draining; /* of a heartbeat */
};

struct worker_life {
    struct sm sm;
    int64_t margin_ms; /* 0: a tenth of the ttl, at least 100 ms; at most half of it */
    int64_t ttl_ms;
    int64_t until_ms;
    bool running; /* between run and stop */
    bool must_stop;
    enum worker_reason reason;
    int64_t due_ms; /* of the next call */
    bool cordoned, draining, wanted_changed;
    bool fails; /* the user is to be told that it is over */
    int64_t leave_until_ms;
    struct backoff backoff;
    struct rng rng;
};

void worker_life_init(struct worker_life *w, int64_t margin_ms, uint64_t seed, int64_t now_ms);
/* Steps that tell the user, and END, count as done when they are handed out. */
struct worker_step worker_life_next(struct worker_life *w, int64_t now_ms);
/* The call of the last step was answered, or not. */
void worker_life_answer(struct worker_life *w, const struct worker_answer *a, int64_t now_ms);
/* It is to leave, and may take until then to say so. */
void worker_life_leave(struct worker_life *w, int64_t until_ms);
/* Up to when the work may be done; 0: not now. */
int64_t worker_life_until(const struct worker_life *w);
