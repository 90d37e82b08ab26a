#include "meta/service_lead.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/replica.h"
#include <stdlib.h>

/* ---- answers ---- */

struct answer_metadata {
    char cluster[40], epoch[24];
    struct rpc_metadata rows[3];
    size_t count;
};

static void metadata_of(struct service_lead *l, uint64_t epoch, bool replayed,
                        struct answer_metadata *m)
{
    board_cluster_id(l->board, m->cluster);
    char *digit = m->epoch + sizeof m->epoch;
    do {
        *--digit = (char)('0' + epoch % 10);
        epoch /= 10;
    } while (epoch);
    size_t digits = (size_t)(m->epoch + sizeof m->epoch - digit);
    m->rows[0] = (struct rpc_metadata){"baton-epoch", bytes_of(digit, digits)};
    m->rows[1] = (struct rpc_metadata){"baton-cluster", bytes_str(m->cluster)};
    m->rows[2] = (struct rpc_metadata){"baton-replayed", bytes_str("1")};
    m->count = replayed ? 3 : 2;
}

void lead_reply(struct service_lead *l, struct rpc_call *call, uint64_t epoch, bool replayed,
                struct bytes message)
{
    struct answer_metadata m;
    metadata_of(l, epoch, replayed, &m);
    rpc_reply(call, message, m.rows, m.count);
}

void lead_stream_begin(struct service_lead *l, struct rpc_call *call, uint64_t epoch,
                       rpc_stream_fn *on_event, void *user)
{
    struct answer_metadata m;
    metadata_of(l, epoch, false, &m);
    rpc_stream_begin(call, on_event, user, m.rows, m.count);
}

void lead_fail_compacted(struct service_lead *l, struct rpc_call *call, const struct err *e,
                         int64_t oldest_revision)
{
    struct board_refusal known;
    board_refusal(l->board, &known);
    struct rpc_hints hints = {.leader = known.leader_addr,
                              .epoch = known.epoch,
                              .cluster = known.cluster_id,
                              .oldest_revision = oldest_revision,
                              .not_executed = e->code == ERR_TIMEOUT};
    rpc_stream_end(call, e, &hints);
}

void lead_fail(struct service_lead *l, struct rpc_call *call, const struct err *e)
{
    lead_fail_compacted(l, call, e, 0);
}

void lead_refuse(struct service_lead *l, struct rpc_call *call, const struct err *otherwise)
{
    struct board_refusal known;
    board_refusal(l->board, &known);
    lead_fail(l, call, err_is(&known.err) ? &known.err : otherwise);
}

bool lead_refuses(struct service_lead *l, struct rpc_call *call)
{
    struct board_refusal known;
    if (board_read_epoch(l->board))
        return false;
    board_refusal(l->board, &known);
    if (err_is(&known.err))
        lead_fail(l, call, &known.err);
    return err_is(&known.err);
}

/* ---- mutations ---- */

/* A write with whom it is answered to. */
struct lead_write {
    struct write write;
    const struct lead_mutation *kind;
    struct rpc_call *call;
};

static void write_free(struct lead_write *w)
{
    request_close(&w->write.request);
    free(w);
}

static void write_done(struct write *write, const struct err *err, const struct plan_answer *answer,
                       uint64_t epoch)
{
    struct lead_write *w = (struct lead_write *)write;
    if (err_is(err)) {
        lead_fail(w->kind->lead, w->call, err);
    } else {
        struct buf message = {0};
        w->kind->encode(answer, &message);
        lead_reply(w->kind->lead, w->call, epoch, answer->replayed, buf_view(&message));
        buf_close(&message);
    }
    write_free(w);
}

static struct err take_id(struct rpc_call *call, struct plan_request *req)
{
    struct bytes id = rpc_call_metadata(call, "baton-request-id");
    if (!id.data)
        return OK_ERR;
    req->body_hash = request_hash(rpc_call_body(call));
    return request_set_id(req, id);
}

static struct err decode(struct rpc_call *call, const struct lead_mutation *kind,
                         struct plan_request *req)
{
    struct bytes body = rpc_call_body(call);
    if (body.len > REQUEST_BYTES_MAX)
        return err_make(ERR_TOO_LARGE, "a request of %zu bytes: requests are at most %d bytes",
                        body.len, REQUEST_BYTES_MAX);
    struct err e = kind->decode(body, req);
    if (!err_is(&e))
        e = request_check(req);
    return err_is(&e) ? e : take_id(call, req);
}

static void mutate(struct rpc_call *call, const struct lead_mutation *kind)
{
    struct lead_write *w = mem_alloc(sizeof *w);
    w->kind = kind;
    w->call = call;
    struct err e = decode(call, kind, &w->write.request);
    if (!err_is(&e)) {
        w->write.bytes = sizeof *w + 2 * rpc_call_body(call).len;
        w->write.deadline_ms = rpc_call_deadline_ms(call);
        w->write.submitted_us = clock_mono_us();
        w->write.done = write_done;
        e = replica_submit(kind->lead->replica, &w->write);
        if (!err_is(&e))
            return;
    }
    if (e.code == ERR_NOT_LEADER)
        lead_refuse(kind->lead, call, &e);
    else
        lead_fail(kind->lead, call, &e);
    write_free(w);
}

static void run_mutation(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct lead_mutation *kind = ctx;
    if (lead_check_epoch(kind->lead, call, confirmed, run_mutation, kind))
        mutate(call, kind);
}

void lead_handle_mutation(struct rpc_call *call, void *ctx)
{
    run_mutation(call, ctx, 0);
}
