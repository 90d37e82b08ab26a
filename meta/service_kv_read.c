/* Reads of the key-value service: from a snapshot of the local state, on the thread that asks. */
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/convert.h"
#include "meta/leased.h"
#include "meta/metrics.h"
#include "meta/service_kv_parts.h"
#include "meta/store.h"
#include <stdalign.h>
#include <stdlib.h>

enum {
    PAGE_BYTES = 1024 * 1024, /* a page of Range ends past it */
    PAGE_KEY_BYTES = 48,      /* what a key costs besides its bytes */
    SMALL_BYTES = 2048,       /* of a request or answer that needs no memory of its own */
};

/* ---- which state ---- */

/* The snapshot that a read may be answered from, and the epoch it is answered under. NULL: the call
 * was answered with an error, or waits and runs anew. */
struct view {
    struct store_snapshot *snap;
    uint64_t epoch;
};

/* Whatever this member has, as long as it is whole; who names a revision waits until it is. */
static bool open_stale(struct service_kv *s, struct rpc_call *call, const struct read_terms *terms,
                       lead_run *run, struct view *v)
{
    struct board_self self;
    struct board_leader leader;
    v->snap = store_snapshot_open(s->store);
    board_self(s->lead->board, &self);
    board_leader(s->lead->board, &leader);
    v->epoch = leader.epoch;
    struct err e = board_refused(s->lead->board);
    if (!err_is(&e) && store_revision(v->snap) && self.applied)
        return true;
    store_snapshot_close(v->snap);
    if (!err_is(&e) && terms->min_revision) {
        lead_wait_revision(s->lead, call, terms->min_revision, false, 0, run, s);
        return false;
    }
    if (!err_is(&e))
        e = err_make(ERR_NOT_READY, "this member lists its state anew: ask another one");
    lead_fail(s->lead, call, &e);
    return false;
}

static bool open_current(struct service_kv *s, struct rpc_call *call, bool quorum,
                         uint64_t confirmed, lead_run *run, struct view *v)
{
    if (!lead_check_epoch(s->lead, call, confirmed, run, s))
        return false;
    v->snap = NULL;
    v->epoch = confirmed;
    if (confirmed || !quorum)
        v->snap = leased_snapshot(s->lead->board, s->store, confirmed, &v->epoch);
    if (!v->snap)
        lead_confirm_or_refuse(s->lead, call, run, s);
    return v->snap != NULL;
}

static bool open_view(struct service_kv *s, struct rpc_call *call, const struct read_terms *terms,
                      uint64_t confirmed, lead_run *run, struct view *v)
{
    bool stale = terms->consistency == READ_STALE;
    bool quorum = terms->consistency == READ_QUORUM || s->default_quorum;
    if (!(stale ? open_stale(s, call, terms, run, v)
                : open_current(s, call, quorum, confirmed, run, v)))
        return false;
    if (store_revision(v->snap) >= terms->min_revision) {
        meta_count_read(stale ? META_READ_STALE : confirmed ? META_READ_QUORUM : META_READ_LEADER);
        return true;
    }
    store_snapshot_close(v->snap);
    lead_wait_revision(s->lead, call, terms->min_revision, !stale, confirmed, run, s);
    return false;
}

/* ---- Get ---- */

static void answer_get(struct service_kv *s, struct rpc_call *call, const struct view *v,
                       struct bytes key)
{
    struct etcd_kv kv;
    struct buf message = {0};
    bool found = store_get(v->snap, key, &kv);
    convert_get_answer(store_revision(v->snap), found ? &kv : NULL, &message);
    store_snapshot_close(v->snap);
    lead_reply(s->lead, call, v->epoch, false, buf_view(&message));
    buf_close(&message);
}

static void run_get(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_kv *s = ctx;
    alignas(max_align_t) uint8_t room[SMALL_BYTES];
    struct arena memory = {0};
    struct read_get get;
    struct view v;
    arena_use(&memory, room, sizeof room);
    struct err e = convert_get(rpc_call_body(call), &memory, &get);
    if (err_is(&e))
        lead_fail(s->lead, call, &e);
    else if (open_view(s, call, &get.terms, confirmed, run_get, &v))
        answer_get(s, call, &v, get.key);
    arena_close(&memory);
}

void kv_handle_get(struct rpc_call *call, void *ctx)
{
    run_get(call, ctx, 0);
}

/* ---- Range ---- */

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

static void run_range(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_kv *s = ctx;
    struct arena memory = {0};
    struct read_range range;
    struct view v;
    struct err e = convert_range(rpc_call_body(call), &memory, &range);
    if (err_is(&e)) {
        lead_fail(s->lead, call, &e);
    } else if (open_view(s, call, &range.terms, confirmed, run_range, &v)) {
        struct buf message = {0};
        read_page(v.snap, &range, &memory, &message);
        store_snapshot_close(v.snap);
        lead_reply(s->lead, call, v.epoch, false, buf_view(&message));
        buf_close(&message);
    }
    arena_close(&memory);
}

void kv_handle_range(struct rpc_call *call, void *ctx)
{
    run_range(call, ctx, 0);
}
