/* The workers of a leading replica: whose end is due, and what becomes of it. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/metrics.h"
#include "meta/replica_parts.h"
#include "meta/workforce.h"
#include <stdlib.h>

enum { ENDS_AT_ONCE = 256 };

/* One end on its way. */
struct ending {
    struct write write;
    struct workforce *workforce;
    uint64_t id;
};

static void ended(struct write *write, const struct err *err, const struct plan_answer *answer,
                  uint64_t epoch)
{
    struct ending *e = (struct ending *)write;
    if (err_is(err)) {
        log_info("worker %llu was silent for too long, but its end was not committed: %s",
                 (unsigned long long)e->id, err->message);
    } else {
        log_info("worker %llu was silent for too long and has expired", (unsigned long long)e->id);
        meta_count_expired();
    }
    workforce_settle(e->workforce, e->id, !err_is(err));
    request_close(&write->request);
    free(e);
}

static void begin_end(struct replica *r, const struct worker_seat *seat)
{
    struct ending *e = mem_alloc(sizeof *e);
    struct request_worker *w = arena_alloc(&e->write.request.memory, sizeof *w);
    *w = (struct request_worker){.id = seat->id, .incarnation = seat->incarnation};
    e->write.request.method = REQUEST_EXPIRE_WORKER;
    e->write.request.worker = w;
    e->write.bytes = sizeof *e;
    e->write.deadline_ms = INT64_MAX;
    e->write.submitted_us = clock_mono_us();
    e->write.done = ended;
    e->workforce = r->workforce;
    e->id = seat->id;
    struct err refused = replica_submit(r, &e->write);
    if (err_is(&refused))
        ended(&e->write, &refused, NULL, 0);
}

void replica_end_workers(struct replica *r)
{
    struct worker_seat due[ENDS_AT_ONCE];
    if (!r->workforce || r->mode != REPLICA_LEADING)
        return;
    bool served = board_read_epoch(r->cfg.board) == r->lead.epoch;
    size_t count = workforce_tick(r->workforce, served, due, ENDS_AT_ONCE);
    for (size_t i = 0; i < count; i++)
        begin_end(r, &due[i]);
}

int64_t replica_workers_next_ms(const struct replica *r)
{
    return r->workforce && r->mode == REPLICA_LEADING ? workforce_next_ms(r->workforce) : INT64_MAX;
}
