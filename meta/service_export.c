#include "meta/service_export.h"
#include "baton/v1/maintenance.pb-c.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "meta/service_lead.h"
#include "meta/store.h"
#include <stdatomic.h>
#include <stdlib.h>

enum {
    EXPORTS_MAX = 4,
    PAGE_BYTES = 256 * 1024,
    PAGES_AHEAD = 4, /* queued on a stream */
    IDLE_MAX_MS = 10 * 1000,
    TOTAL_MAX_MS = 10 * 60 * 1000,
    LOOK_MS = 500,
};

struct export
{
    struct rpc_call *call;
    struct exporter *owner;
    struct export_header header;
    struct store_snapshot *snap;
    struct buf next_key; /* of the next page */
    uint64_t keys;
    int64_t began_ms, moved_ms; /* when its reader last took something */
    bool header_sent, pages_sent, end_sent;
    _Atomic bool gone, moved;
    struct export *next;
};

struct exporter {
    pthread_t thread;
    struct queue *inbox; /* exports to begin, or &a_wake */
    struct export *exports;
    _Atomic int count; /* of exports, those in the inbox too */
    _Atomic bool stopping;
};

static int a_wake;

static void on_event(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    struct export *e = user;
    struct queue *inbox = e->owner->inbox; /* e may be gone once its flag is seen */
    atomic_store(event == RPC_STREAM_GONE ? &e->gone : &e->moved, true);
    queue_push_always(inbox, &a_wake);
}

void exporter_open(struct exporter *x, struct service_lead *lead, struct rpc_call *call,
                   const struct export_header *header, struct store_snapshot *snap)
{
    if (atomic_fetch_add(&x->count, 1) >= EXPORTS_MAX) {
        atomic_fetch_sub(&x->count, 1);
        store_snapshot_close(snap);
        struct err err =
            err_make(ERR_OVERLOADED, "%d exports run already: wait for one to end", EXPORTS_MAX);
        rpc_stream_end(call, &err, NULL);
        return;
    }
    struct export *e = mem_alloc(sizeof *e);
    e->call = call;
    e->owner = x;
    e->header = *header;
    e->snap = snap;
    e->began_ms = e->moved_ms = clock_boot_ms();
    lead_stream_begin(lead, call, header->epoch, on_event, e);
    queue_push_always(x->inbox, e);
}

/* ---- messages ---- */

static bool send_message(struct export *e, Baton__V1__ExportMessage *m)
{
    struct buf body = {0};
    buf_reserve(&body, baton__v1__export_message__get_packed_size(m));
    body.len = baton__v1__export_message__pack(m, body.data);
    bool sent = rpc_stream_send(e->call, buf_view(&body));
    buf_close(&body);
    return sent;
}

static bool send_header(struct export *e)
{
    Baton__V1__ExportMessage m = BATON__V1__EXPORT_MESSAGE__INIT;
    Baton__V1__ExportHeader header = BATON__V1__EXPORT_HEADER__INIT;
    header.cluster_id = e->header.cluster_id;
    header.epoch = e->header.epoch;
    header.incarnation = e->header.incarnation;
    header.revision = store_revision(e->snap);
    m.part_case = BATON__V1__EXPORT_MESSAGE__PART_HEADER;
    m.header = &header;
    return send_message(e, &m);
}

static bool send_end(struct export *e)
{
    Baton__V1__ExportMessage m = BATON__V1__EXPORT_MESSAGE__INIT;
    Baton__V1__ExportEnd end = BATON__V1__EXPORT_END__INIT;
    end.keys = e->keys;
    m.part_case = BATON__V1__EXPORT_MESSAGE__PART_END;
    m.end = &end;
    return send_message(e, &m);
}

/* One page; what it shows lives in the snapshot. */
struct page {
    Baton__V1__KeyValue *kvs;
    Baton__V1__KeyValue **list;
    size_t count, cap, bytes;
    struct bytes next; /* first key of the page after */
    bool more;
};

static bool add_to_page(void *arg, const struct etcd_kv *kv)
{
    struct page *p = arg;
    if (p->count && p->bytes + kv->key.len + kv->value.len > PAGE_BYTES) {
        p->more = true;
        p->next = kv->key;
        return false;
    }
    if (p->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 256;
        p->kvs = mem_resize(p->kvs, p->cap * sizeof *p->kvs);
    }
    Baton__V1__KeyValue *m = &p->kvs[p->count++];
    baton__v1__key_value__init(m);
    m->key = (ProtobufCBinaryData){.data = (uint8_t *)kv->key.data, .len = kv->key.len};
    m->value = (ProtobufCBinaryData){.data = (uint8_t *)kv->value.data, .len = kv->value.len};
    m->create_revision = kv->create_revision;
    m->mod_revision = kv->mod_revision;
    m->version = kv->version;
    enum { NUMBERS_BYTES = 40 };
    p->bytes += kv->key.len + kv->value.len + NUMBERS_BYTES;
    return true;
}

static bool send_page(struct export *e, struct page *p)
{
    Baton__V1__ExportMessage m = BATON__V1__EXPORT_MESSAGE__INIT;
    Baton__V1__ExportPage page = BATON__V1__EXPORT_PAGE__INIT;
    p->list = mem_array(p->count, sizeof *p->list);
    for (size_t i = 0; i < p->count; i++)
        p->list[i] = &p->kvs[i];
    page.n_kvs = p->count;
    page.kvs = p->list;
    m.part_case = BATON__V1__EXPORT_MESSAGE__PART_PAGE;
    m.page = &page;
    return send_message(e, &m);
}

/* The next page. false: the stream takes nothing now. */
static bool send_next_page(struct export *e)
{
    struct page p = {0};
    store_range(e->snap, buf_view(&e->next_key), BYTES_NONE, add_to_page, &p);
    bool sent = !p.count || send_page(e, &p);
    if (sent) {
        e->keys += p.count;
        buf_clear(&e->next_key);
        buf_bytes(&e->next_key, p.next);
    }
    e->pages_sent = sent && !p.more;
    free(p.list);
    free(p.kvs);
    return sent;
}

/* false: the stream takes nothing now. */
static bool send_next(struct export *e)
{
    if (!e->header_sent)
        return e->header_sent = send_header(e);
    if (!e->pages_sent)
        return send_next_page(e);
    return e->end_sent = send_end(e);
}

/* ---- the thread ---- */

static void end_export(struct export *e, const struct err *why)
{
    rpc_stream_end(e->call, why, NULL);
    atomic_fetch_sub(&e->owner->count, 1);
    store_snapshot_close(e->snap);
    buf_close(&e->next_key);
    free(e);
}

static struct err too_slow(const struct export *e, int64_t now_ms)
{
    if (now_ms - e->moved_ms > IDLE_MAX_MS)
        return err_make(ERR_OVERLOADED, "nothing was read for %d s: an export must be read at once",
                        IDLE_MAX_MS / 1000);
    if (now_ms - e->began_ms > TOTAL_MAX_MS)
        return err_make(ERR_OVERLOADED, "the export took more than %d minutes: read it faster",
                        TOTAL_MAX_MS / 60000);
    return OK_ERR;
}

/* Sends what the stream takes; true: it is over, and *why says how. */
static bool advance(struct export *e, struct err *why)
{
    int64_t now_ms = clock_boot_ms();
    *why = OK_ERR;
    if (atomic_exchange(&e->moved, false))
        e->moved_ms = now_ms;
    if (atomic_load(&e->gone)) {
        *why = err_make(ERR_CANCELLED, "the reader went away");
        return true;
    }
    while (!e->end_sent && rpc_stream_pending(e->call) < PAGES_AHEAD)
        if (!send_next(e))
            break;
    if (!e->end_sent)
        *why = too_slow(e, now_ms);
    return e->end_sent || err_is(why);
}

static void advance_all(struct exporter *x)
{
    for (struct export **at = &x->exports; *at;) {
        struct export *e = *at;
        struct err why;
        if (advance(e, &why)) {
            *at = e->next;
            end_export(e, &why);
        } else {
            at = &e->next;
        }
    }
}

static void *exporter_run(void *arg)
{
    struct exporter *x = arg;
    while (!atomic_load(&x->stopping)) {
        void *item = queue_pop(x->inbox, x->exports ? LOOK_MS : -1);
        for (; item; item = queue_pop(x->inbox, 0)) {
            if (item == &a_wake)
                continue;
            struct export *e = item;
            e->next = x->exports;
            x->exports = e;
        }
        advance_all(x);
    }
    return NULL;
}

struct exporter *exporter_start(void)
{
    struct exporter *x = mem_alloc(sizeof *x);
    x->inbox = queue_new(64);
    x->thread = thread_start("export", exporter_run, x);
    return x;
}

void exporter_stop(struct exporter *x)
{
    if (!x)
        return;
    atomic_store(&x->stopping, true);
    queue_push_always(x->inbox, &a_wake);
    pthread_join(x->thread, NULL);
    queue_free(x->inbox);
    free(x);
}
