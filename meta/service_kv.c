#include "meta/service_kv_parts.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "meta/convert.h"
#include "meta/refusal.h"
#include "meta/replica.h"
#include "meta/store.h"
#include <stdlib.h>

/* ---- answers ---- */

struct answer_metadata {
    char cluster[40], epoch[24];
    struct rpc_metadata rows[3];
    size_t count;
};

static void metadata_of(struct service_kv *s, uint64_t epoch, bool replayed,
                        struct answer_metadata *m)
{
    board_cluster_id(s->board, m->cluster);
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

void kv_reply(struct service_kv *s, struct rpc_call *call, uint64_t epoch, bool replayed,
              struct bytes message)
{
    struct answer_metadata m;
    metadata_of(s, epoch, replayed, &m);
    rpc_reply(call, message, m.rows, m.count);
}

/* Every error of this service goes out with the leader that this member knows. */
void kv_fail(struct service_kv *s, struct rpc_call *call, const struct err *e)
{
    struct board_refusal known;
    struct rpc_hints hints = refusal_hints(s->board, &known);
    hints.not_executed = e->code == ERR_TIMEOUT;
    rpc_fail(call, e, &hints);
}

void kv_refuse(struct service_kv *s, struct rpc_call *call, const struct err *otherwise)
{
    struct err e = refusal_why(s->board, otherwise);
    kv_fail(s, call, &e);
}

/* ---- mutations ---- */

/* A write with whom it is answered to. */
struct kv_write {
    struct write write;
    struct service_kv *service;
    struct rpc_call *call;
};

static void kv_write_free(struct kv_write *w)
{
    request_close(&w->write.request);
    free(w);
}

static void write_done(struct write *write, const struct err *err, const struct plan_answer *answer,
                       uint64_t epoch)
{
    struct kv_write *w = (struct kv_write *)write;
    if (err_is(err)) {
        kv_fail(w->service, w->call, err);
    } else {
        struct buf message = {0};
        convert_answer(answer, &message);
        kv_reply(w->service, w->call, epoch, answer->replayed, buf_view(&message));
        buf_close(&message);
    }
    kv_write_free(w);
}

static struct err take_id(struct rpc_call *call, struct plan_request *req)
{
    struct bytes id = rpc_call_metadata(call, "baton-request-id");
    if (!id.data)
        return OK_ERR;
    req->body_hash = request_hash(rpc_call_body(call));
    return request_set_id(req, id);
}

static struct err decode(struct rpc_call *call, struct plan_request *req,
                         struct err (*convert)(struct bytes, struct plan_request *))
{
    struct bytes body = rpc_call_body(call);
    if (body.len > REQUEST_BYTES_MAX)
        return err_make(ERR_TOO_LARGE, "a request of %zu bytes: requests are at most %d bytes",
                        body.len, REQUEST_BYTES_MAX);
    struct err e = convert(body, req);
    if (!err_is(&e))
        e = request_check(req);
    return err_is(&e) ? e : take_id(call, req);
}

static void mutate(struct service_kv *s, struct rpc_call *call,
                   struct err (*convert)(struct bytes, struct plan_request *))
{
    struct kv_write *w = mem_alloc(sizeof *w);
    w->service = s;
    w->call = call;
    struct err e = decode(call, &w->write.request, convert);
    if (!err_is(&e)) {
        w->write.bytes = sizeof *w + 2 * rpc_call_body(call).len;
        w->write.deadline_ms = rpc_call_deadline_ms(call);
        w->write.submitted_us = clock_mono_us();
        w->write.done = write_done;
        e = replica_submit(s->replica, &w->write);
        if (!err_is(&e))
            return;
    }
    if (e.code == ERR_NOT_LEADER)
        kv_refuse(s, call, &e);
    else
        kv_fail(s, call, &e);
    kv_write_free(w);
}

static void run_put(struct service_kv *s, struct rpc_call *call, uint64_t confirmed)
{
    if (kv_check_epoch(s, call, confirmed, run_put))
        mutate(s, call, convert_put);
}

static void run_delete(struct service_kv *s, struct rpc_call *call, uint64_t confirmed)
{
    if (kv_check_epoch(s, call, confirmed, run_delete))
        mutate(s, call, convert_delete);
}

static void run_txn(struct service_kv *s, struct rpc_call *call, uint64_t confirmed)
{
    if (kv_check_epoch(s, call, confirmed, run_txn))
        mutate(s, call, convert_txn);
}

static void handle_put(struct rpc_call *call, void *ctx)
{
    run_put(ctx, call, 0);
}

static void handle_delete(struct rpc_call *call, void *ctx)
{
    run_delete(ctx, call, 0);
}

static void handle_txn(struct rpc_call *call, void *ctx)
{
    run_txn(ctx, call, 0);
}

void service_kv_methods(struct service_kv *s, struct rpc_method methods[SERVICE_KV_METHODS])
{
    static const struct {
        const char *path;
        void (*handle)(struct rpc_call *call, void *ctx);
    } rows[SERVICE_KV_METHODS] = {
        {"/baton.v1.KvService/Get", kv_handle_get}, {"/baton.v1.KvService/Range", kv_handle_range},
        {"/baton.v1.KvService/Put", handle_put},    {"/baton.v1.KvService/Delete", handle_delete},
        {"/baton.v1.KvService/Txn", handle_txn},
    };
    for (size_t i = 0; i < SERVICE_KV_METHODS; i++)
        methods[i] = (struct rpc_method){
            .path = rows[i].path, .kind = RPC_UNARY, .handle = rows[i].handle, .ctx = s};
}
