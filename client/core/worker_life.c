#include "client/core/worker_life.h"
#include "common/base/check.h"

#define MARGIN_MIN_MS 100
#define CALL_MIN_MS 300

static const char *const stage_names[WORKER_STAGES] = {
    "REGISTERING", "ACTIVATING", "PROVING", "RUNNING", "LEAVING", "OVER",
};

static const uint32_t stage_moves[WORKER_STAGES] = {
    [WORKER_REGISTERING] = SM_TO(WORKER_ACTIVATING) | SM_TO(WORKER_OVER),
    [WORKER_ACTIVATING] = SM_TO(WORKER_PROVING) | SM_TO(WORKER_REGISTERING) |
                          SM_TO(WORKER_LEAVING) | SM_TO(WORKER_OVER),
    [WORKER_PROVING] = SM_TO(WORKER_RUNNING) | SM_TO(WORKER_REGISTERING) | SM_TO(WORKER_LEAVING) |
                       SM_TO(WORKER_OVER),
    [WORKER_RUNNING] = SM_TO(WORKER_PROVING) | SM_TO(WORKER_REGISTERING) | SM_TO(WORKER_LEAVING) |
                       SM_TO(WORKER_OVER),
    [WORKER_LEAVING] = SM_TO(WORKER_OVER),
};

static const struct sm_decl stages = {
    .name = "worker", .count = WORKER_STAGES, .states = stage_names, .allowed = stage_moves};

void worker_life_init(struct worker_life *w, int64_t margin_ms, uint64_t seed, int64_t now_ms)
{
    *w = (struct worker_life){
        .margin_ms = margin_ms, .due_ms = now_ms, .backoff = {.min_ms = 20, .max_ms = 1000}};
    rng_seed(&w->rng, seed);
    sm_init(&w->sm, &stages, WORKER_REGISTERING, now_ms);
}

int64_t worker_life_until(const struct worker_life *w)
{
    return w->running && !w->must_stop ? w->until_ms : 0;
}

void worker_life_leave(struct worker_life *w, int64_t until_ms)
{
    w->leave_until_ms = until_ms;
}

static int64_t margin_of(const struct worker_life *w, int64_t ttl_ms)
{
    int64_t tenth = ttl_ms / 10;
    if (w->margin_ms)
        return w->margin_ms < ttl_ms / 2 ? w->margin_ms : ttl_ms / 2;
    return tenth > MARGIN_MIN_MS ? tenth : MARGIN_MIN_MS;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- what is to be done ---- */

static void stop_for(struct worker_life *w, enum worker_reason reason)
{
    if (w->running && !w->must_stop) {
        w->must_stop = true;
        w->reason = reason;
    }
}

/* The clock and the user have their say before anything else. */
static void look(struct worker_life *w, int64_t now_ms)
{
    int stage = w->sm.state;
    if (stage == WORKER_RUNNING && now_ms >= w->until_ms) {
        stop_for(w, WORKER_LOST_TOUCH);
        sm_move(&w->sm, WORKER_PROVING, "out of time", now_ms);
    }
    if (!w->leave_until_ms || stage == WORKER_LEAVING || stage == WORKER_OVER)
        return;
    stop_for(w, WORKER_CLOSED);
    w->due_ms = now_ms;
    sm_move(&w->sm, stage == WORKER_REGISTERING ? WORKER_OVER : WORKER_LEAVING, "closed", now_ms);
}

static struct worker_step step(enum worker_do what, int64_t at_ms)
{
    return (struct worker_step){.what = what, .at_ms = at_ms};
}

/* Several fit into a ttl: one that is never answered must not use it up. */
static int64_t patience_of(const struct worker_life *w)
{
    int64_t sixth = w->ttl_ms / 6;
    if (!w->ttl_ms || sixth > WORKER_CALL_MS)
        return WORKER_CALL_MS;
    return sixth > CALL_MIN_MS ? sixth : CALL_MIN_MS;
}

/* A call that is due, to be answered while the work may be done. */
static struct worker_step call(struct worker_life *w, enum worker_do what, int64_t now_ms)
{
    int64_t last = now_ms + patience_of(w);
    if (w->running)
        last = sooner(last, w->until_ms);
    if (now_ms < w->due_ms)
        return step(WORKER_DO_WAIT, w->running ? sooner(w->due_ms, w->until_ms) : w->due_ms);
    return step(what, last);
}

static struct worker_step leave(struct worker_life *w, int64_t now_ms)
{
    if (now_ms < w->leave_until_ms)
        return now_ms < w->due_ms ? step(WORKER_DO_WAIT, sooner(w->due_ms, w->leave_until_ms))
                                  : step(WORKER_DO_DELETE, w->leave_until_ms);
    sm_move(&w->sm, WORKER_OVER, "no time to leave", now_ms);
    return step(WORKER_DO_END, 0);
}

static struct worker_step next_of_stage(struct worker_life *w, int64_t now_ms)
{
    static const enum worker_do calls[] = {
        [WORKER_REGISTERING] = WORKER_DO_ADD,
        [WORKER_ACTIVATING] = WORKER_DO_ACTIVATE,
        [WORKER_PROVING] = WORKER_DO_HEARTBEAT,
        [WORKER_RUNNING] = WORKER_DO_HEARTBEAT,
    };
    switch (w->sm.state) {
    case WORKER_LEAVING:
        return leave(w, now_ms);
    case WORKER_OVER:
        if (!w->fails)
            return step(WORKER_DO_END, 0);
        w->fails = false;
        return step(WORKER_DO_FAIL, 0);
    default:
        return call(w, calls[w->sm.state], now_ms);
    }
}

struct worker_step worker_life_next(struct worker_life *w, int64_t now_ms)
{
    look(w, now_ms);
    if (w->must_stop) {
        w->must_stop = w->running = false;
        return (struct worker_step){.what = WORKER_DO_STOP, .reason = w->reason};
    }
    if (w->sm.state == WORKER_RUNNING && !w->running) {
        w->running = true;
        return step(WORKER_DO_RUN, 0);
    }
    if (w->wanted_changed && w->running) {
        w->wanted_changed = false;
        return step(WORKER_DO_WANTED, 0);
    }
    return next_of_stage(w, now_ms);
}

/* ---- answers ---- */

static void end_with(struct worker_life *w, enum worker_reason reason, const char *why,
                     int64_t now_ms)
{
    stop_for(w, reason);
    w->fails = true;
    sm_move(&w->sm, WORKER_OVER, why, now_ms);
}

static void begin_anew(struct worker_life *w, int64_t now_ms)
{
    stop_for(w, WORKER_FORGOTTEN);
    w->due_ms = now_ms;
    sm_move(&w->sm, WORKER_REGISTERING, "forgotten", now_ms);
}

static void take_heartbeat(struct worker_life *w, const struct worker_answer *a, int64_t now_ms)
{
    int64_t until = a->sent_ms + a->ttl_ms - margin_of(w, a->ttl_ms);
    w->ttl_ms = a->ttl_ms;
    w->due_ms = a->sent_ms + w->ttl_ms / 4 + (int64_t)rng_below(&w->rng, (uint64_t)w->ttl_ms / 12);
    w->wanted_changed =
        w->wanted_changed || a->cordoned != w->cordoned || a->draining != w->draining;
    w->cordoned = a->cordoned;
    w->draining = a->draining;
    if (until <= now_ms) /* it took too long to count */
        return;
    w->until_ms = until;
    if (w->sm.state == WORKER_PROVING)
        sm_move(&w->sm, WORKER_RUNNING, "heard of", now_ms);
}

static void take_ok(struct worker_life *w, const struct worker_answer *a, int64_t now_ms)
{
    backoff_reset(&w->backoff);
    w->due_ms = now_ms;
    switch (w->sm.state) {
    case WORKER_REGISTERING:
        sm_move(&w->sm, WORKER_ACTIVATING, "registered", now_ms);
        return;
    case WORKER_ACTIVATING:
        sm_move(&w->sm, WORKER_PROVING, "active", now_ms);
        return;
    case WORKER_PROVING:
    case WORKER_RUNNING:
        take_heartbeat(w, a, now_ms);
        return;
    default:
        sm_move(&w->sm, WORKER_OVER, "left", now_ms);
    }
}

void worker_life_answer(struct worker_life *w, const struct worker_answer *a, int64_t now_ms)
{
    int stage = w->sm.state;
    PRE(stage != WORKER_OVER);
    if (stage == WORKER_RUNNING && now_ms >= w->until_ms) {
        stop_for(w, WORKER_LOST_TOUCH);
        sm_move(&w->sm, WORKER_PROVING, "out of time", now_ms);
    }
    if (a->heard == WORKER_HEARD_OK) {
        take_ok(w, a, now_ms);
    } else if (a->heard == WORKER_HEARD_NOTHING) {
        w->due_ms = now_ms + backoff_next_ms(&w->backoff, &w->rng);
    } else if (stage == WORKER_LEAVING) {
        sm_move(&w->sm, WORKER_OVER, "is not there any more", now_ms);
    } else if (a->heard == WORKER_HEARD_UNKNOWN && stage != WORKER_REGISTERING) {
        begin_anew(w, now_ms);
    } else {
        end_with(w, WORKER_REPLACED, "refused", now_ms);
    }
}
