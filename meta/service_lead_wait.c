/* Calls of a leader that wait, and those that know of a higher epoch. */
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/metrics.h"
#include "meta/service_lead.h"
#include "meta/waiting.h"
#include <stdlib.h>

struct lead_waiter {
    struct waiter waiter;
    struct service_lead *lead;
    struct rpc_call *call;
    uint64_t confirmed;
    lead_run *run;
    void *ctx;
};

static void resume(struct waiter *waiter, const struct err *err, uint64_t epoch)
{
    struct lead_waiter w = *(struct lead_waiter *)waiter;
    free(waiter);
    if (!err_is(err))
        w.run(w.call, w.ctx, epoch ? epoch : w.confirmed);
    else if (err->code == ERR_NOT_LEADER)
        lead_refuse(w.lead, w.call, err);
    else
        lead_fail(w.lead, w.call, err);
}

static bool is_gone(const struct waiter *waiter)
{
    return rpc_call_is_gone(((const struct lead_waiter *)waiter)->call);
}

static void on_gone(void *waiting, uint64_t id)
{
    waiting_cancel(waiting, id);
}

/* The same one each time it waits. A stream that has not begun is not told that its reader went
 * away. */
static uint64_t id_of(struct service_lead *l, struct rpc_call *call)
{
    if (rpc_call_is_stream(call))
        return 0;
    uint64_t id = (uintptr_t)rpc_call_user(call);
    if (!id) {
        id = waiting_new_id(l->waiting);
        rpc_call_set_user(call, (void *)(uintptr_t)id);
        rpc_call_on_gone(call, on_gone, l->waiting, id);
    }
    return id;
}

static void begin_waiting(struct service_lead *l, const struct lead_waiter *what)
{
    struct lead_waiter *w = mem_dup(what, sizeof *what);
    meta_count_wait(what->waiter.revision ? META_WAIT_REVISION : META_WAIT_CONFIRMED);
    w->lead = l;
    w->waiter.deadline_ms = rpc_call_deadline_ms(w->call);
    w->waiter.id = id_of(l, w->call);
    w->waiter.is_gone = is_gone;
    w->waiter.resume = resume;
    struct err e = waiting_add(l->waiting, &w->waiter);
    if (!err_is(&e))
        return;
    lead_fail(l, w->call, &e);
    free(w);
}

void lead_wait_confirmed(struct service_lead *l, struct rpc_call *call, lead_run *run, void *ctx)
{
    begin_waiting(l, &(struct lead_waiter){
                         .waiter = {.needs_leader = true}, .call = call, .run = run, .ctx = ctx});
}

void lead_confirm_or_refuse(struct service_lead *l, struct rpc_call *call, lead_run *run, void *ctx)
{
    struct board_self self;
    board_self(l->board, &self);
    if (self.role == ROLE_LEADER) {
        lead_wait_confirmed(l, call, run, ctx);
        return;
    }
    struct err e = err_make(ERR_NOT_LEADER, "this member leads no more: ask again");
    lead_refuse(l, call, &e);
}

void lead_wait_revision(struct service_lead *l, struct rpc_call *call, int64_t revision,
                        bool needs_leader, uint64_t confirmed, lead_run *run, void *ctx)
{
    begin_waiting(
        l, &(struct lead_waiter){.waiter = {.revision = revision, .needs_leader = needs_leader},
                                 .call = call,
                                 .confirmed = confirmed,
                                 .run = run,
                                 .ctx = ctx});
}

/* 0: the metadata names none. */
static struct err seen_epoch(struct rpc_call *call, uint64_t *epoch)
{
    struct bytes text = rpc_call_metadata(call, "baton-epoch");
    *epoch = 0;
    if (!text.data)
        return OK_ERR;
    bool good = text.len > 0;
    for (size_t i = 0; i < text.len && good; i++) {
        uint64_t digit = (uint64_t)text.data[i] - '0';
        good = digit <= 9 && *epoch <= (UINT64_MAX - digit) / 10;
        *epoch = good ? *epoch * 10 + digit : 0;
    }
    if (good)
        return OK_ERR;
    return err_make(ERR_BAD_REQUEST,
                    "baton-epoch is the highest epoch that the caller has seen, a decimal number");
}

bool lead_check_epoch(struct service_lead *l, struct rpc_call *call, uint64_t confirmed,
                      lead_run *run, void *ctx)
{
    uint64_t seen;
    struct board_self self;
    struct err e = seen_epoch(call, &seen);
    if (err_is(&e)) {
        lead_fail(l, call, &e);
        return false;
    }
    if (!seen)
        return true;
    board_self(l->board, &self);
    if (self.role != ROLE_LEADER || seen <= self.epoch)
        return true;
    if (confirmed != self.epoch) {
        lead_wait_confirmed(l, call, run, ctx);
        return false;
    }
    e = err_make(ERR_BAD_EPOCH,
                 "the call names epoch %llu, but etcd has just confirmed the leader of epoch %llu: "
                 "that epoch is of another cluster, or of one that was restored",
                 (unsigned long long)seen, (unsigned long long)self.epoch);
    lead_fail(l, call, &e);
    return false;
}
