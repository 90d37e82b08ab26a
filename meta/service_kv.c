#include "meta/service_kv.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/convert.h"
#include "meta/replica.h"
#include "meta/store.h"
#include <stdalign.h>
#include <stdlib.h>

enum {
    PAGE_BYTES = 1024 * 1024, /* a page of Range ends past it */
    PAGE_KEY_BYTES = 48,      /* what a key costs besides its bytes */
    SMALL_BYTES = 2048,       /* of a request or answer that needs no memory of its own */
};

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

static void reply(struct service_kv *s, struct rpc_call *call, uint64_t epoch, bool replayed,
                  struct bytes message)
{
    struct answer_metadata m;
    metadata_of(s, epoch, replayed, &m);
    rpc_reply(call, message, m.rows, m.count);
}

/* Every error of this service goes out with the leader that this member knows. */
static void fail(struct service_kv *s, struct rpc_call *call, const struct err *e)
{
    struct board_refusal known;
    board_refusal(s->board, &known);
    struct rpc_hints hints = {.leader = known.leader_addr[0] ? known.leader_addr : NULL,
                              .epoch = known.epoch,
                              .cluster = known.cluster_id[0] ? known.cluster_id : NULL};
    rpc_fail(call, e, &hints);
}

/* This member takes no leader's work: the reason that the board gives, or `otherwise` if it gives
 * none any more. */
static void refuse(struct service_kv *s, struct rpc_call *call, const struct err *otherwise)
{
    struct board_refusal known;
    board_refusal(s->board, &known);
    fail(s, call, err_is(&known.err) ? &known.err : otherwise);
}

/* ---- reads ---- */

struct read {
    void (*run)(struct service_kv *s, struct rpc_call *call);
    struct service_kv *service;
    struct rpc_call *call;
};

static void read_woken(void *arg)
{
    struct read *r = arg;
    r->run(r->service, r->call);
    free(r);
}

/* The gate is shut: a leader that lost touch for a moment lets the call wait, everybody else
 * refuses. */
static void wait_or_refuse(struct service_kv *s, struct rpc_call *call,
                           void (*run)(struct service_kv *s, struct rpc_call *call))
{
    struct read *r = mem_alloc(sizeof *r);
    *r = (struct read){.run = run, .service = s, .call = call};
    if (board_wait_readable(s->board, read_woken, r))
        return;
    free(r);
    struct err e =
        err_make(ERR_OVERLOADED, "too many reads wait for the leader's lease: slow down");
    refuse(s, call, &e);
}

/* A snapshot of the epoch under which it may be answered: what a later leader wrote cannot be
 * missing, because the gate is looked at before, and cannot be in it, because it is looked at again
 * behind. NULL: not now. */
static struct store_snapshot *current_snapshot(struct service_kv *s, uint64_t *epoch)
{
    while ((*epoch = board_read_epoch(s->board))) {
        struct store_snapshot *snap = store_snapshot_open(s->store);
        if (board_still_reads(s->board, *epoch))
            return snap;
        store_snapshot_close(snap);
    }
    return NULL;
}

static void run_get(struct service_kv *s, struct rpc_call *call)
{
    alignas(max_align_t) uint8_t room[SMALL_BYTES];
    struct arena memory = {0};
    struct bytes key;
    arena_use(&memory, room, sizeof room);
    struct err e = convert_get(rpc_call_body(call), &memory, &key);
    uint64_t epoch;
    struct store_snapshot *snap = err_is(&e) ? NULL : current_snapshot(s, &epoch);
    if (err_is(&e)) {
        fail(s, call, &e);
    } else if (!snap) {
        wait_or_refuse(s, call, run_get);
    } else {
        struct etcd_kv kv;
        struct buf message = {0};
        bool found = store_get(snap, key, &kv);
        convert_get_answer(store_revision(snap), found ? &kv : NULL, &message);
        store_snapshot_close(snap);
        reply(s, call, epoch, false, buf_view(&message));
        buf_close(&message);
    }
    arena_close(&memory);
}

struct paging {
    const struct read_range *range;
    struct read_page *page;
    struct etcd_kv *kvs;
    size_t cap, bytes;
};

static bool add_to_page(void *arg, const struct etcd_kv *kv)
{
    struct paging *p = arg;
    struct read_page *page = p->page;
    if (page->count == p->range->limit || p->bytes > PAGE_BYTES) {
        page->more = true;
        page->next_key = kv->key;
        return false;
    }
    if (page->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 64;
        p->kvs = mem_resize(p->kvs, p->cap * sizeof *p->kvs);
    }
    struct etcd_kv *added = &p->kvs[page->count++];
    *added = *kv;
    if (p->range->keys_only)
        added->value = BYTES_NONE;
    p->bytes += added->key.len + added->value.len + PAGE_KEY_BYTES;
    return true;
}

static void read_page(struct store_snapshot *snap, const struct read_range *range,
                      struct arena *memory, struct buf *message)
{
    struct read_page page = {.revision = store_revision(snap)};
    struct paging paging = {.range = range, .page = &page};
    if (range->count_only)
        page.total = store_count(snap, range->start, range->end);
    else
        store_range(snap, range->start, range->end, add_to_page, &paging);
    page.kvs = paging.kvs;
    convert_range_answer(&page, memory, message);
    free(paging.kvs);
}

static void run_range(struct service_kv *s, struct rpc_call *call)
{
    struct arena memory = {0};
    struct read_range range;
    struct err e = convert_range(rpc_call_body(call), &memory, &range);
    uint64_t epoch;
    struct store_snapshot *snap = err_is(&e) ? NULL : current_snapshot(s, &epoch);
    if (err_is(&e)) {
        fail(s, call, &e);
    } else if (!snap) {
        wait_or_refuse(s, call, run_range);
    } else {
        struct buf message = {0};
        read_page(snap, &range, &memory, &message);
        store_snapshot_close(snap);
        reply(s, call, epoch, false, buf_view(&message));
        buf_close(&message);
    }
    arena_close(&memory);
}

static void handle_get(struct rpc_call *call, void *ctx)
{
    run_get(ctx, call);
}

static void handle_range(struct rpc_call *call, void *ctx)
{
    run_range(ctx, call);
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
        fail(w->service, w->call, err);
    } else {
        struct buf message = {0};
        convert_answer(answer, &message);
        reply(w->service, w->call, epoch, answer->replayed, buf_view(&message));
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
        refuse(s, call, &e);
    else
        fail(s, call, &e);
    kv_write_free(w);
}

static void handle_put(struct rpc_call *call, void *ctx)
{
    mutate(ctx, call, convert_put);
}

static void handle_delete(struct rpc_call *call, void *ctx)
{
    mutate(ctx, call, convert_delete);
}

static void handle_txn(struct rpc_call *call, void *ctx)
{
    mutate(ctx, call, convert_txn);
}

void service_kv_methods(struct service_kv *s, struct rpc_method methods[SERVICE_KV_METHODS])
{
    static const struct {
        const char *path;
        void (*handle)(struct rpc_call *call, void *ctx);
    } rows[SERVICE_KV_METHODS] = {
        {"/baton.v1.KvService/Get", handle_get}, {"/baton.v1.KvService/Range", handle_range},
        {"/baton.v1.KvService/Put", handle_put}, {"/baton.v1.KvService/Delete", handle_delete},
        {"/baton.v1.KvService/Txn", handle_txn},
    };
    for (size_t i = 0; i < SERVICE_KV_METHODS; i++)
        methods[i] = (struct rpc_method){
            .path = rows[i].path, .kind = RPC_UNARY, .handle = rows[i].handle, .ctx = s};
}
