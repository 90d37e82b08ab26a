#include "meta/follow.h"
#include "common/base/backoff.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/rng.h"
#include "common/base/thread.h"
#include "common/io/etcd.h"
#include "meta/admission.h"
#include "meta/board.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/live.h"
#include "meta/marks.h"
#include "meta/metrics.h"
#include "meta/replica.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { WATCH_STATE = 1, WATCH_LIVE = 2, WATCH_CLUSTER = 3 };
enum { PAUSE_MAX_MS = 500, LIST_PAUSE_MAX_MS = 5000 }; /* between one try and the next */
enum { CALL_TIMEOUT_MS = 2000, PAGE_BYTES = 1 << 20, PAGE_KEYS_MAX = 4096, STEADY_MS = 1000 };

struct follow {
    struct follow_config cfg;
    struct etcd_client *etcd;
    struct admission *admission;
    pthread_t thread;
    struct queue *wakes; /* something happened: look again; the items mean nothing */
    struct rng rng;
    struct backoff backoff;
    struct log_limit trouble_limit, listed_limit;
    int endpoint;

    _Atomic uint64_t generation; /* of the watch that counts; grows by follow_reopen */
    _Atomic bool stopping, reload, healthy;

    /* of the open watch: written on the client's thread */
    uint64_t watch_generation;
    int64_t commit_revision;               /* where `commit` stood when the watch was opened */
    int64_t live_revision, state_revision; /* newest seen: what is not newer is dropped */
    _Atomic bool ended, closed, compacted; /* ended: of no use; closed: no callback follows */
    _Atomic int64_t heard_ms;
    struct err end;
};

static int a_wake;

static void wake(struct follow *f)
{
    queue_push_always(f->wakes, &a_wake);
}

/* ---- what the watch brings (on the etcd client's thread) ---- */

/* The election hears of a commit record before the replica has worked off its queue: a waiting
 * candidate counts from the moment of receipt. */
static void tell_record(struct follow *f, const struct etcd_event *e, int64_t now_ms)
{
    char room[KEY_MAX];
    struct record record;
    if (e->deleted || !bytes_equal(e->kv.key, keys_commit(room, f->cfg.prefix)))
        return;
    candidate_see_record(f->cfg.candidate, e->kv.value, e->kv.mod_revision, now_ms);
    struct err err = record_decode(e->kv.value, &record);
    if (!err_is(&err))
        marks_see(f->cfg.marks, &record, e->kv.mod_revision);
}

static void on_state_events(struct follow *f, const struct etcd_watch_line *line)
{
    int64_t now_ms = clock_boot_ms();
    size_t i = 0;
    while (i < line->event_count) {
        int64_t revision = line->events[i].kv.mod_revision;
        size_t end = i;
        while (end < line->event_count && line->events[end].kv.mod_revision == revision)
            tell_record(f, &line->events[end++], now_ms);
        if (revision > f->state_revision) {
            struct replica_events *e =
                replica_events_new(&line->events[i], end - i, revision, now_ms);
            e->generation = f->watch_generation;
            f->state_revision = revision;
            meta_note_seen_revision(revision);
            if (!replica_watch(f->cfg.replica, e))
                replica_events_free(e);
        }
        i = end;
    }
}

static void on_live_events(struct follow *f, const struct etcd_watch_line *line)
{
    int64_t newest = f->live_revision;
    for (size_t i = 0; i < line->event_count; i++) {
        int64_t revision = line->events[i].kv.mod_revision;
        if (revision <= f->live_revision)
            continue;
        live_event(f->cfg.live, &line->events[i]);
        newest = revision > newest ? revision : newest;
    }
    f->live_revision = newest;
    live_tell(f->cfg.live);
}

/* Whether it still is this member's cluster is asked where a listing asks it: by listing anew. */
static void on_cluster_events(struct follow *f, const struct etcd_watch_line *line)
{
    for (size_t i = 0; i < line->event_count; i++) {
        if (line->events[i].kv.mod_revision <= f->live_revision)
            continue;
        f->end = err_make(ERR_CANCELLED, "the cluster's value has changed");
        atomic_store(&f->ended, true);
        wake(f);
    }
}

static void on_line(void *arg, struct etcd_watch_line *line)
{
    struct follow *f = arg;
    atomic_store(&f->heard_ms, clock_boot_ms());
    if (line->canceled) {
        if (line->compact_revision)
            atomic_store(&f->compacted, true);
        f->end = line->err;
        atomic_store(&f->ended, true);
        wake(f);
    } else if (line->created && line->watch_id == WATCH_STATE) {
        atomic_store(&f->healthy, true);
        meta_count_watch_opened();
        replica_opened(f->cfg.replica, f->watch_generation, f->commit_revision);
    }
    if (line->event_count && line->watch_id == WATCH_STATE)
        on_state_events(f, line);
    else if (line->event_count && line->watch_id == WATCH_LIVE)
        on_live_events(f, line);
    else if (line->event_count)
        on_cluster_events(f, line);
}

static void on_end(void *arg, struct err why)
{
    struct follow *f = arg;
    if (!atomic_load(&f->ended))
        f->end = why;
    atomic_store(&f->ended, true);
    atomic_store(&f->closed, true);
    wake(f);
}

/* ---- before the watch ---- */

static struct err call(struct follow *f, const char *path, struct buf *body,
                       struct etcd_reply *reply)
{
    return etcd_call_wait(f->etcd, path, buf_view(body), f->endpoint, CALL_TIMEOUT_MS, reply);
}

/* For the admission, which asks in the order of raft. */
static struct err ask_txn(void *ctx, const struct etcd_txn *txn, struct etcd_txn_result *out)
{
    struct follow *f = ctx;
    struct buf body = {0};
    struct etcd_reply reply = {0};
    etcd_encode_txn(&body, txn);
    struct err e = call(f, ETCD_PATH_TXN, &body, &reply);
    if (!err_is(&e))
        e = etcd_decode_txn(reply.body, out);
    etcd_reply_close(&reply);
    buf_close(&body);
    return e;
}

enum { LIST_LOOK = 1, LIST_OPS = LIST_LOOK + RESTORE_LOOK_OPS };

/* Takes one answer at one revision in: first of all, whether this member may go on with it. */
static struct err take_listing(struct follow *f, const struct etcd_txn_result *result,
                               int64_t now_ms, bool *reload)
{
    struct restore_view view;
    const struct etcd_op_result *live = result->results, *commit = live + LIST_LOOK;
    struct err e = restore_view_take(&view, result, LIST_LOOK);
    if (!err_is(&e))
        e = admission_judge(f->admission, &view, reload);
    if (err_is(&e))
        return e;
    board_set_cluster(f->cfg.board, &view.cluster);
    *reload |= replica_incarnation(f->cfg.replica) != view.cluster.incarnation;
    f->live_revision = result->header.revision;
    f->commit_revision = view.record_revision;
    if (commit->count)
        candidate_see_record(f->cfg.candidate, commit->kvs[0].value, commit->kvs[0].mod_revision,
                             now_ms);
    live_reset(f->cfg.live, live->kvs, live->count, result->header.revision);
    live_tell(f->cfg.live);
    return OK_ERR;
}

/* Everything live, where `commit` stands, the cluster's value, and what the admission asks for. */
static struct err list_live(struct follow *f, bool *reload)
{
    char live[KEY_MAX];
    struct buf live_end = {0};
    struct etcd_op ranges[LIST_OPS] = {
        {.kind = ETCD_OP_RANGE, .key = keys_live(live, f->cfg.prefix)}};
    struct restore_keys keys;
    struct restore_mark mark;
    struct etcd_txn_result result = {0};
    etcd_prefix_end(ranges[0].key, &live_end);
    ranges[0].range_end = buf_view(&live_end);
    marks_get(f->cfg.marks, &mark);
    restore_look_ops(ranges + LIST_LOOK, &keys, f->cfg.prefix, &mark);
    struct err e =
        ask_txn(f, &(struct etcd_txn){.success = ranges, .success_count = LIST_OPS}, &result);
    if (!err_is(&e) && result.result_count != LIST_OPS)
        e = err_make(ERR_PROTOCOL, "etcd answered %zu of %d listings", result.result_count,
                     LIST_OPS);
    if (!err_is(&e))
        e = take_listing(f, &result, clock_boot_ms(), reload);
    etcd_txn_result_close(&result);
    buf_close(&live_end);
    return e;
}

static struct err post_page(struct follow *f, const struct etcd_range_result *page,
                            int64_t revision, bool first)
{
    struct etcd_event *events = mem_array(page->count, sizeof *events);
    for (size_t i = 0; i < page->count; i++)
        events[i] = (struct etcd_event){.kv = page->kvs[i]};
    struct replica_events *e = replica_events_new(events, page->count, revision, clock_boot_ms());
    free(events);
    e->generation = f->watch_generation;
    if (replica_load(f->cfg.replica, e, first, !page->more))
        return OK_ERR;
    replica_events_free(e);
    return err_make(ERR_CANCELLED, "the replica is stopping");
}

/* How many keys the next page asks for, so that a page stays near PAGE_BYTES. */
static int64_t next_page_keys(const struct etcd_range_result *page, size_t body_bytes)
{
    if (page->count == 0)
        return 128;
    int64_t keys = (int64_t)(PAGE_BYTES / (body_bytes / page->count + 1));
    return keys < 1 ? 1 : keys > PAGE_KEYS_MAX ? PAGE_KEYS_MAX : keys;
}

/* The whole state at one revision, page by page; afterwards the watch goes on from there. */
static struct err load_state(struct follow *f, int64_t *revision)
{
    char start[KEY_MAX];
    struct buf key = {0}, end = {0}, body = {0};
    struct err e = OK_ERR;
    buf_bytes(&key, keys_state(start, f->cfg.prefix));
    etcd_prefix_end(buf_view(&key), &end);
    *revision = 0;
    int64_t keys = 128, total = 0;
    for (bool more = true; more && !err_is(&e);) {
        if (atomic_load(&f->generation) != f->watch_generation)
            e = err_make(ERR_CANCELLED, "listing anew"); /* the replica passes over these pages */
        struct etcd_reply reply = {0};
        struct etcd_range_result page = {0};
        buf_clear(&body);
        etcd_encode_range(&body, &(struct etcd_op){.kind = ETCD_OP_RANGE,
                                                   .key = buf_view(&key),
                                                   .range_end = buf_view(&end),
                                                   .limit = keys,
                                                   .revision = *revision});
        if (!err_is(&e))
            e = call(f, ETCD_PATH_RANGE, &body, &reply);
        if (!err_is(&e))
            e = etcd_decode_range(reply.body, &page);
        if (!err_is(&e)) {
            bool first = *revision == 0;
            if (first)
                *revision = page.header.revision;
            more = page.more && page.count > 0;
            e = post_page(f, &page, *revision, first);
            keys = next_page_keys(&page, reply.body.len);
            total += (int64_t)page.count;
            if (more) {
                buf_clear(&key);
                buf_bytes(&key, page.kvs[page.count - 1].key);
                buf_byte(&key, 0);
            }
        }
        etcd_range_result_close(&page);
        etcd_reply_close(&reply);
    }
    if (!err_is(&e)) {
        meta_count_listing();
        log_limited(&f->listed_limit, LOG_INFO, "listed the state anew: %lld keys at revision %lld",
                    (long long)total, (long long)*revision);
    }
    buf_close(&key);
    buf_close(&end);
    buf_close(&body);
    return e;
}

static struct etcd_stream *open_watch(struct follow *f, int64_t from)
{
    char state[KEY_MAX], live[KEY_MAX], cluster[KEY_MAX];
    struct buf state_end = {0}, live_end = {0}, body = {0};
    struct bytes state_key = keys_state(state, f->cfg.prefix);
    struct bytes live_key = keys_live(live, f->cfg.prefix);
    etcd_prefix_end(state_key, &state_end);
    etcd_prefix_end(live_key, &live_end);
    struct etcd_watch watches[] = {
        {.key = state_key,
         .range_end = buf_view(&state_end),
         .watch_id = WATCH_STATE,
         .start_revision = from + 1,
         .progress_notify = true},
        {.key = live_key,
         .range_end = buf_view(&live_end),
         .watch_id = WATCH_LIVE,
         .start_revision = f->live_revision + 1},
        {.key = keys_cluster(cluster, f->cfg.prefix),
         .watch_id = WATCH_CLUSTER,
         .start_revision = f->live_revision + 1},
    };
    etcd_encode_watches(&body, watches, 3);
    f->state_revision = from;
    atomic_store(&f->ended, false);
    atomic_store(&f->closed, false);
    atomic_store(&f->heard_ms, clock_boot_ms());
    struct etcd_stream *s =
        etcd_watch_open(f->etcd, buf_view(&body), f->endpoint, on_line, on_end, f);
    buf_close(&body);
    buf_close(&state_end);
    buf_close(&live_end);
    return s;
}

/* A watch carries each commit, so while a leader lives it is never silent for this long. */
static int64_t silence_ms(const struct follow *f)
{
    return f->cfg.ttl_ms / 2 + 1000;
}

/* Returns when this watch is of no use any more, and why. */
static struct err stay(struct follow *f)
{
    while (!atomic_load(&f->ended)) {
        if (atomic_load(&f->stopping))
            return err_make(ERR_CANCELLED, "stopping");
        if (atomic_load(&f->generation) != f->watch_generation || atomic_load(&f->reload))
            return err_make(ERR_CANCELLED, "reopening");
        int64_t left = silence_ms(f) - (clock_boot_ms() - atomic_load(&f->heard_ms));
        if (left <= 0)
            return err_make(ERR_LOST, "the watch on etcd at %s is silent",
                            etcd_endpoint_url(f->etcd, f->endpoint));
        queue_pop(f->wakes, left);
    }
    return f->end;
}

/* The stream's callbacks use *f: wait for the last one before the next watch begins. */
static void close_watch(struct follow *f, struct etcd_stream *s)
{
    etcd_watch_close(s);
    while (!atomic_load(&f->closed))
        queue_pop(f->wakes, 100);
}

/* What is live, and the state too where the watch cannot go on from what the replica has. */
static struct err list(struct follow *f, bool reload, int64_t *from)
{
    bool anew = false;
    struct err e = list_live(f, &anew);
    reload |= anew;
    *from = replica_applied(f->cfg.replica);
    if (!err_is(&e) && (reload || *from == 0)) {
        reload = true;
        e = load_state(f, from);
    }
    if (err_is(&e) && reload)
        atomic_store(&f->reload, true);
    return e;
}

static struct err watch_once(struct follow *f)
{
    int64_t from, began_ms = clock_boot_ms();
    bool reload = atomic_exchange(&f->compacted, false);
    /* before the generation, which follow_reopen moves first: a listing that is asked for is never
     * made under a generation that the replica passes over */
    reload |= atomic_exchange(&f->reload, false);
    f->watch_generation = atomic_load(&f->generation);
    struct err e = list(f, reload, &from);
    if (err_is(&e))
        return e;
    struct etcd_stream *s = open_watch(f, from);
    e = stay(f);
    close_watch(f, s);
    if (atomic_exchange(&f->healthy, false) && clock_boot_ms() - began_ms >= STEADY_MS)
        backoff_reset(&f->backoff);
    replica_watch_lost(f->cfg.replica);
    return e;
}

static void *follow_run(void *arg)
{
    struct follow *f = arg;
    while (!atomic_load(&f->stopping)) {
        struct err e = watch_once(f);
        if (e.code == ERR_CANCELLED && !atomic_load(&f->reload))
            continue; /* it is to be begun anew */
        if (e.code != ERR_CANCELLED) {
            log_limited(&f->trouble_limit, LOG_WARN, "following etcd: %s", e.message);
            f->endpoint = (f->endpoint + 1) % etcd_endpoint_count(f->etcd);
        }
        /* a listing is heavy; all else is not, and a failover may wait for it */
        f->backoff.max_ms = atomic_load(&f->reload) ? LIST_PAUSE_MAX_MS : PAUSE_MAX_MS;
        while (queue_pop(f->wakes, 0))
            ; /* what was said until now does not cut the pause short */
        if (!atomic_load(&f->stopping))
            queue_pop(f->wakes, backoff_next_ms(&f->backoff, &f->rng));
    }
    return NULL;
}

struct err follow_start(struct follow **out, const struct follow_config *cfg)
{
    struct follow *f = mem_alloc(sizeof *f);
    f->cfg = *cfg;
    f->wakes = queue_new(1024);
    f->generation = 1;
    f->backoff = (struct backoff){.min_ms = 20, .max_ms = PAUSE_MAX_MS};
    rng_seed_os(&f->rng);
    struct err e = etcd_client_new(
        &f->etcd, &(struct etcd_config){.access = *cfg->etcd, .name = "etcd-follow"});
    if (err_is(&e)) {
        queue_free(f->wakes);
        free(f);
        return e;
    }
    f->endpoint = (int)rng_below(&f->rng, (uint64_t)etcd_endpoint_count(f->etcd));
    f->admission = admission_new(&(struct admission_config){.prefix = cfg->prefix,
                                                            .marks = cfg->marks,
                                                            .ask = ask_txn,
                                                            .confirm = cfg->confirm,
                                                            .decided = cfg->decided,
                                                            .ask_ctx = f,
                                                            .ctx = cfg->ctx});
    f->thread = thread_start("follow", follow_run, f);
    *out = f;
    return OK_ERR;
}

void follow_stop(struct follow *f)
{
    if (!f)
        return;
    atomic_store(&f->stopping, true);
    wake(f);
    pthread_join(f->thread, NULL);
    etcd_client_free(f->etcd);
    f->etcd = NULL;
}

void follow_free(struct follow *f)
{
    if (!f)
        return;
    admission_free(f->admission);
    queue_free(f->wakes);
    free(f);
}

uint64_t follow_reopen(struct follow *f, bool reload)
{
    uint64_t generation = atomic_fetch_add(&f->generation, 1) + 1;
    if (reload)
        atomic_store(&f->reload, true); /* behind the generation: see watch_once */
    wake(f);
    return generation;
}

int64_t follow_silent_ms(struct follow *f)
{
    return clock_boot_ms() - atomic_load(&f->heard_ms);
}

bool follow_healthy(struct follow *f)
{
    return atomic_load(&f->healthy) && follow_silent_ms(f) < silence_ms(f);
}
