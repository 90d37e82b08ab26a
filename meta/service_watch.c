#include "meta/service_watch.h"
#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/convert_watch.h"
#include "meta/core/prefixes.h"
#include "meta/core/wire.h"
#include "meta/prefix_walk.h"
#include "meta/store.h"
#include <stdlib.h>

#define FOLDER "kv/"
enum { FOLDER_LEN = sizeof FOLDER - 1, EVENT_BYTES = 48 /* of a message, besides key and value */ };

/* ---- filters: the prefixes one behind the other ---- */

struct watch_filter {
    struct bytes text; /* owned */
    struct bytes *prefixes;
    size_t count;
};

static void *filter_new(void *ctx, struct bytes text)
{
    struct watch_filter *f = mem_alloc(sizeof *f);
    f->text = bytes_dup(text);
    f->prefixes = mem_array(WATCH_PREFIXES_MAX, sizeof *f->prefixes);
    struct bytes in = f->text;
    while (in.len) {
        bool good = wire_get_bytes(&in, &f->prefixes[f->count++]);
        INVARIANT(good);
    }
    return f;
}

static void filter_free(void *filter)
{
    struct watch_filter *f = filter;
    free((void *)f->text.data);
    free(f->prefixes);
    free(f);
}

/* As its users see it; false: it is none of theirs. */
static bool user_event(const struct watch_filter *f, const struct etcd_event *e,
                       struct etcd_event *out)
{
    if (!bytes_starts_with(e->kv.key, bytes_str(FOLDER)))
        return false;
    *out = *e;
    out->kv.key = bytes_of(e->kv.key.data + FOLDER_LEN, e->kv.key.len - FOLDER_LEN);
    return prefixes_hold(f->prefixes, f->count, out->kv.key);
}

static size_t event_bytes(const struct etcd_kv *kv)
{
    return kv->key.len + kv->value.len + EVENT_BYTES;
}

/* ---- commits ---- */

static size_t weigh(const void *filter, const struct ring_commit *c)
{
    struct etcd_event e;
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        if (user_event(filter, &c->events[i], &e))
            bytes += event_bytes(&e.kv);
    return bytes;
}

static void say(const struct fanout_view *v, const struct watch_message *m, struct fanout_out *out)
{
    struct arena memory = {0};
    struct buf body = {0};
    convert_watch_message(v, m, &memory, &body);
    fanout_say(out, buf_view(&body));
    buf_close(&body);
    arena_close(&memory);
}

static void say_commit(const void *filter, const struct fanout_view *v, const struct ring_commit *c,
                       struct fanout_out *out)
{
    struct etcd_event *events = mem_array(c->count, sizeof *events), e;
    struct watch_message m = {.kind = WATCH_EVENTS, .revision = c->revision, .events = events};
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (!user_event(filter, &c->events[i], &e))
            continue;
        if (m.count && bytes + event_bytes(&e.kv) > FANOUT_MESSAGE_BYTES) {
            m.more = true;
            say(v, &m, out);
            m.count = bytes = 0;
        }
        events[m.count++] = e;
        bytes += event_bytes(&e.kv);
    }
    m.more = false;
    say(v, &m, out);
    free(events);
}

static void say_progress(const void *filter, const struct fanout_view *v, int64_t revision,
                         struct fanout_out *out)
{
    say(v, &(struct watch_message){.kind = WATCH_PROGRESS, .revision = revision}, out);
}

/* ---- snapshots ---- */

struct page {
    struct etcd_event *events;
    size_t count, cap, bytes;
};

static bool add_to_page(void *arg, const struct etcd_kv *kv)
{
    struct page *p = arg;
    if (p->count && p->bytes + event_bytes(kv) > FANOUT_PAGE_BYTES)
        return false;
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->events = mem_resize(p->events, p->cap * sizeof *p->events);
    }
    p->events[p->count++] = (struct etcd_event){.kv = *kv};
    p->bytes += event_bytes(kv);
    return true;
}

static bool say_page(const void *filter, const struct fanout_view *v, struct store_snapshot *snap,
                     struct buf *cursor, struct buf *told, struct fanout_out *out)
{
    const struct watch_filter *f = filter;
    struct page p = {0};
    bool first = cursor->len == 0;
    bool last = prefix_walk(snap, f->prefixes, f->count, cursor, add_to_page, &p);
    say(v,
        &(struct watch_message){.kind = WATCH_SNAPSHOT,
                                .revision = store_revision(snap),
                                .events = p.events,
                                .count = p.count,
                                .restart = first,
                                .more = !last},
        out);
    free(p.events);
    return last;
}

static const struct fanout_kind watch_kind = {.name = "watch",
                                              .filter_new = filter_new,
                                              .filter_free = filter_free,
                                              .weigh = weigh,
                                              .commit = say_commit,
                                              .page = say_page,
                                              .progress = say_progress};

/* ---- opening ---- */

bool watch_allows_follower(const struct rpc_call *call)
{
    return bytes_equal(rpc_call_metadata(call, "baton-allow-follower"), bytes_str("1"));
}

static struct err request_of(struct rpc_call *call, struct arena *memory,
                             struct fanout_request *out)
{
    struct watch_request w;
    struct err e = convert_watch(rpc_call_body(call), memory, &w);
    if (err_is(&e))
        return e;
    out->kind = &watch_kind;
    out->snapshot = w.snapshot;
    out->start = w.resume_token.len ? FANOUT_RESUME
                 : w.start_revision ? FANOUT_AFTER
                 : w.snapshot       ? FANOUT_SNAPSHOT
                                    : FANOUT_NOW;
    out->revision = w.start_revision - 1;
    struct buf filter = {0};
    for (size_t i = 0; i < w.prefix_count; i++)
        wire_put_bytes(&filter, w.prefixes[i]);
    out->filter = arena_copy(memory, buf_view(&filter));
    buf_close(&filter);
    return out->start == FANOUT_RESUME ? resume_decode(w.resume_token, &out->resume) : OK_ERR;
}

/* The leadership under which it begins at the state as it is now; 0: it was answered, or runs anew.
 */
static uint64_t leadership(struct service_watch *s, struct rpc_call *call, uint64_t confirmed,
                           lead_run *run)
{
    if (!lead_check_epoch(s->lead, call, confirmed, run, s))
        return 0;
    uint64_t epoch = confirmed ? confirmed : board_read_epoch(s->lead->board);
    if (!epoch)
        lead_confirm_or_refuse(s->lead, call, run, s);
    return epoch;
}

static bool refused(struct service_watch *s, struct rpc_call *call)
{
    struct err e = board_refused(s->lead->board);
    if (err_is(&e))
        lead_fail(s->lead, call, &e);
    return err_is(&e);
}

static void run_watch(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_watch *s = ctx;
    struct arena memory = {0};
    struct fanout_request request = {0};
    struct err e = request_of(call, &memory, &request);
    if (err_is(&e))
        lead_fail(s->lead, call, &e);
    else if (watch_allows_follower(call)
                 ? !refused(s, call)
                 : (request.epoch = leadership(s, call, confirmed, run_watch)) != 0)
        fanout_open(s->fanout, &request, call);
    arena_close(&memory);
}

void watch_handle(struct rpc_call *call, void *ctx)
{
    run_watch(call, ctx, 0);
}
