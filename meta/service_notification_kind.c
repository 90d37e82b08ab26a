/* What a subscriber's stream is told: of a commit, of the state, of the members and the leader. The
 * epoch is always the stream's own: that of the leadership under which it was opened, and nothing
 * that is of another one is told with it. */
#include "common/base/mem.h"
#include "meta/convert_notification.h"
#include "meta/convert_worker.h"
#include "meta/core/worker.h"
#include "meta/metrics.h"
#include "meta/prefix_walk.h"
#include "meta/service_notification_parts.h"
#include "meta/store.h"
#include <stdlib.h>

enum { EVENT_BYTES = 40 }; /* what an event costs besides its key and value */

static const struct bytes keys_folder = {.data = (const uint8_t *)"kv/", .len = 3};
static const struct bytes workers_folder = {.data = (const uint8_t *)"workers/", .len = 8};

struct wishes {
    struct service_notification *service;
    struct arena memory;
    struct subscription what;
};

static void *wishes_new(void *ctx, struct bytes filter)
{
    struct wishes *w = mem_alloc(sizeof *w);
    w->service = ctx;
    subscription_decode(filter, &w->memory, &w->what);
    return w;
}

static void wishes_free(void *filter)
{
    struct wishes *w = filter;
    arena_close(&w->memory);
    free(w);
}

/* ---- messages ---- */

static void say(void *out, struct bytes message)
{
    fanout_say(out, message);
}

static struct notification begin(const struct fanout_view *v, int64_t version,
                                 struct fanout_out *out)
{
    return (struct notification){
        .head = {.cluster_id = v->cluster_id, .epoch = v->epoch, .version = version},
        .sink = say,
        .arg = out};
}

static void end(struct notification *n, const struct fanout_view *v)
{
    struct buf token = {0};
    fanout_token(v, n->head.version, &token);
    notification_end(n, buf_view(&token));
    buf_close(&token);
}

/* ---- members and leader ---- */

/* The stream lives as long as this member leads, so the leader is this member. */
static void put_leader(struct notification *n, const struct service_notification *s)
{
    Baton__V1__LeaderState m = BATON__V1__LEADER_STATE__INIT;
    m.cluster_id = (char *)n->head.cluster_id;
    m.known = true;
    m.id = m.member_id = (char *)s->cfg.member_id;
    m.addr = (char *)s->cfg.addr;
    m.epoch = n->head.epoch;
    m.revision = n->head.version;
    notification_leader(n, &m);
}

/* The version of the list that was told; 0: none, because it is not of this leadership any more, or
 * `known` is the one. */
static uint64_t put_members(struct notification *n, struct service_notification *s, uint64_t known)
{
    uint64_t version = 0;
    pthread_mutex_lock(&s->lock);
    if (atomic_exchange(&s->table_old, false))
        member_table_look(&s->table, s->cfg.members);
    if (s->table.epoch == n->head.epoch && s->table.version != known) {
        version = s->table.version;
        notification_members(n, buf_view(&s->table.message));
    }
    pthread_mutex_unlock(&s->lock);
    return version;
}

/* `told` is empty at first, then the version of the list that was told last. */
static void put_beside(struct notification *n, const struct wishes *w, struct buf *told)
{
    uint64_t known = 0, version = 0;
    if (told->len)
        memcpy(&known, told->data, sizeof known);
    else if (w->what.topics & TOPIC_LEADER)
        put_leader(n, w->service);
    if (w->what.topics & TOPIC_MEMBERS)
        version = put_members(n, w->service, known);
    version = version ? version : known;
    buf_clear(told);
    buf_append(told, &version, sizeof version);
}

static void tell_beside(const void *filter, const struct fanout_view *v, int64_t revision,
                        struct buf *told, struct fanout_out *out)
{
    struct notification n = begin(v, revision, out);
    put_beside(&n, filter, told);
    if (n.has_news)
        end(&n, v);
}

/* ---- commits ---- */

static bool rest_of(struct bytes key, struct bytes folder, struct bytes *rest)
{
    if (!bytes_starts_with(key, folder))
        return false;
    *rest = bytes_of(key.data + folder.len, key.len - folder.len);
    return true;
}

/* A worker's line, unless its reader does not want it; true: it was told. */
static bool put_worker(struct notification *n, const struct wishes *w, struct bytes line,
                       const struct etcd_kv *kv)
{
    struct arena memory = {0};
    struct worker worker;
    struct err e = worker_decode(line, &memory, &worker);
    bool wanted = !err_is(&e) && subscription_wants_worker(&w->what, worker.type);
    if (wanted)
        notification_worker(n, convert_worker(&worker, kv, &memory), worker.end != WORKER_LIVES,
                            worker.end == WORKER_EXPIRED);
    arena_close(&memory);
    return wanted;
}

/* Whoever was taken out stands in a line of `gone`, with the reason, which the deletion does not
 * tell. */
static void put_worker_event(struct notification *n, const struct wishes *w, struct bytes key,
                             const struct etcd_event *e)
{
    uint64_t id;
    struct bytes rest = e->kv.value, line;
    if (e->deleted || !(w->what.topics & TOPIC_WORKERS))
        return;
    if (worker_key_id(key, &id))
        put_worker(n, w, e->kv.value, &e->kv);
    else if (bytes_equal(key, bytes_str(WORKER_GONE_KEY)))
        while (worker_gone_next(&rest, &line))
            put_worker(n, w, line, &(struct etcd_kv){.mod_revision = e->kv.mod_revision});
}

static void put_event(struct notification *n, const struct wishes *w, const struct etcd_event *e)
{
    struct etcd_kv kv = e->kv;
    if (rest_of(e->kv.key, workers_folder, &kv.key))
        put_worker_event(n, w, kv.key, e);
    else if (rest_of(e->kv.key, keys_folder, &kv.key) && subscription_wants_key(&w->what, kv.key))
        notification_key(n, &kv, e->deleted);
}

/* Of workers, those of any type: what a commit weighs is only about. */
static size_t weigh_event(const struct wishes *w, const struct etcd_event *e)
{
    struct bytes key;
    bool wanted = rest_of(e->kv.key, keys_folder, &key) && subscription_wants_key(&w->what, key);
    wanted |= !e->deleted && (w->what.topics & TOPIC_WORKERS) &&
              rest_of(e->kv.key, workers_folder, &key) &&
              !bytes_equal(key, bytes_str(WORKER_COUNTERS_KEY));
    return wanted ? e->kv.key.len + e->kv.value.len + EVENT_BYTES : 0;
}

static size_t weigh(const void *filter, const struct ring_commit *c)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += weigh_event(filter, &c->events[i]);
    return bytes;
}

/* Nothing, if the workers in it are of other types. */
static void tell_commit(const void *filter, const struct fanout_view *v,
                        const struct ring_commit *c, struct fanout_out *out)
{
    struct notification n = begin(v, c->revision, out);
    for (size_t i = 0; i < c->count; i++)
        put_event(&n, filter, &c->events[i]);
    if (n.has_news)
        end(&n, v);
}

static void tell_progress(const void *filter, const struct fanout_view *v, int64_t revision,
                          struct fanout_out *out)
{
    struct notification n = begin(v, revision, out);
    end(&n, v);
}

/* ---- the state ---- */

struct page {
    struct notification *n;
    const struct wishes *w;
    struct buf *from; /* what the page begins with, then what the next one does */
    size_t bytes;
    bool full;
};

static bool add_key(void *arg, const struct etcd_kv *kv)
{
    struct page *p = arg;
    p->full = p->bytes >= FANOUT_PAGE_BYTES;
    if (p->full)
        return false;
    p->bytes += kv->key.len + kv->value.len + EVENT_BYTES;
    notification_key(p->n, kv, false);
    return true;
}

static bool add_worker(void *arg, const struct etcd_kv *kv)
{
    struct page *p = arg;
    uint64_t id;
    if (!worker_key_id(kv->key, &id))
        return true;
    p->full = p->bytes >= FANOUT_PAGE_BYTES;
    if (p->full) {
        buf_clear(p->from);
        buf_bytes(p->from, kv->key);
        return false;
    }
    if (put_worker(p->n, p->w, kv->value, kv))
        p->bytes += kv->value.len + EVENT_BYTES;
    return true;
}

/* Keys, then workers: the first byte of the cursor says which of them, what follows where. */
enum section { SECTION_KEYS = 1, SECTION_WORKERS };

static bool add_state(struct page *p, struct store_snapshot *snap, struct buf *cursor)
{
    const struct subscription *what = &p->w->what;
    enum section section = cursor->len ? (enum section)cursor->data[0] : SECTION_KEYS;
    if (section == SECTION_KEYS && (what->topics & TOPIC_KEYS))
        prefix_walk(snap, what->prefixes, what->prefix_count, p->from, add_key, p);
    if (section == SECTION_KEYS && !p->full) {
        section = SECTION_WORKERS;
        buf_clear(p->from);
    }
    if (section == SECTION_WORKERS && (what->topics & TOPIC_WORKERS))
        store_workers(snap, buf_view(p->from), add_worker, p);
    buf_clear(cursor);
    buf_byte(cursor, (uint8_t)section);
    buf_bytes(cursor, buf_view(p->from));
    return !p->full;
}

/* The first page shows what is told beside, too. */
static bool tell_page(const void *filter, const struct fanout_view *v, struct store_snapshot *snap,
                      struct buf *cursor, struct buf *told, struct fanout_out *out)
{
    struct buf from = {0};
    struct notification n = begin(v, store_revision(snap), out);
    struct page p = {.n = &n, .w = filter, .from = &from};
    n.head.snapshot = true;
    n.head.restart = cursor->len == 0;
    if (n.head.restart) {
        buf_clear(told);
        put_beside(&n, filter, told);
    } else {
        buf_append(&from, cursor->data + 1, cursor->len - 1);
    }
    bool last = add_state(&p, snap, cursor);
    if (last)
        end(&n, v);
    else
        notification_end(&n, BYTES_NONE);
    buf_close(&from);
    return last;
}

/* ---- the kind ---- */

static void on_closed(void *user)
{
    meta_count_subscriber_gone(user);
}

void notification_kind_fill(struct service_notification *s)
{
    s->kind = (struct fanout_kind){.name = "notification",
                                   .ctx = s,
                                   .filter_new = wishes_new,
                                   .filter_free = wishes_free,
                                   .weigh = weigh,
                                   .commit = tell_commit,
                                   .page = tell_page,
                                   .progress = tell_progress,
                                   .beside = tell_beside,
                                   .closed = on_closed};
}
