#include "meta/fanout.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/fanout_parts.h"
#include "meta/metrics.h"
#include "meta/replica.h"
#include "meta/service_lead.h"
#include "meta/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls of the RPC server ---- */

static void wire_begin(struct fanout *f, struct rpc_call *call, uint64_t epoch,
                       rpc_stream_fn *on_event, void *user)
{
    struct service_lead lead = {.board = f->cfg.board};
    lead_stream_begin(&lead, call, epoch, on_event, user);
}

static void wire_end(struct fanout *f, struct rpc_call *call, const struct err *e,
                     int64_t oldest_revision)
{
    struct service_lead lead = {.board = f->cfg.board};
    lead_fail_compacted(&lead, call, e, oldest_revision);
}

static const struct fanout_wire rpc_wire = {.begin = wire_begin,
                                            .send = rpc_stream_send_shared,
                                            .queued_bytes = rpc_stream_queued_bytes,
                                            .end = wire_end};

void fanout_token(const struct fanout_view *v, int64_t revision, struct buf *out)
{
    struct resume r = {.incarnation = v->incarnation, .revision = revision};
    snprintf(r.cluster_id, sizeof r.cluster_id, "%s", v->cluster_id);
    resume_encode(&r, out);
}

/* ---- the ring, as the threads see it ---- */

void fanout_now(struct fanout *f, struct fanout_now *out)
{
    pthread_mutex_lock(&f->lock);
    *out = (struct fanout_now){.generation = f->generation,
                               .end = f->ring.end,
                               .epoch = f->epoch,
                               .incarnation = f->incarnation,
                               .listed = f->listed,
                               .last = f->ring.last};
    pthread_mutex_unlock(&f->lock);
}

struct ring_commit *fanout_commit_at(struct fanout *f, uint64_t place)
{
    struct ring_commit *c = NULL;
    pthread_mutex_lock(&f->lock);
    if (place >= f->ring.first)
        c = ring_commit_hold(ring_at(&f->ring, place));
    pthread_mutex_unlock(&f->lock);
    return c;
}

bool fanout_place_after(struct fanout *f, uint64_t generation, int64_t revision, uint64_t *place)
{
    pthread_mutex_lock(&f->lock);
    bool kept = f->listed && f->generation == generation && revision >= f->ring.floor;
    if (kept)
        *place = ring_place_after(&f->ring, revision);
    pthread_mutex_unlock(&f->lock);
    return kept;
}

static void wake_all(struct fanout *f)
{
    for (int i = 0; i < f->cfg.threads; i++)
        shard_wake(&f->shards[i]);
}

/* ---- from the replica ---- */

void fanout_applied(struct fanout *f, int64_t revision, uint64_t epoch, struct ring_commit *c)
{
    if (!f) {
        ring_commit_drop(c);
        return;
    }
    pthread_mutex_lock(&f->lock);
    ring_add(&f->ring, revision, c);
    f->epoch = epoch;
    pthread_mutex_unlock(&f->lock);
    if (c)
        wake_all(f);
}

void fanout_lost(struct fanout *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->generation++;
    f->listed = false;
    ring_restart(&f->ring, 0);
    pthread_mutex_unlock(&f->lock);
}

void fanout_listed(struct fanout *f, int64_t revision, uint64_t epoch, uint64_t incarnation)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    ring_restart(&f->ring, revision);
    f->listed = revision > 0;
    f->epoch = epoch;
    f->incarnation = incarnation;
    pthread_mutex_unlock(&f->lock);
    wake_all(f);
}

/* ---- streams come and go ---- */

/* Where a stream begins. An error refuses it; *oldest then goes with it. */
static struct err place_new(struct fanout *f, const struct fanout_request *request, struct sub *sub,
                            int64_t *oldest)
{
    char cluster_id[CLUSTER_ID_MAX + 1];
    board_cluster_id(f->cfg.board, cluster_id);
    if (!f->listed)
        return err_make(ERR_NOT_READY, "this member lists its state anew: ask another one");
    sub->generation = f->generation;
    sub->state = request->start == FANOUT_SNAPSHOT ? SUB_WAITS : SUB_TELLING;
    sub->told = request->start == FANOUT_NOW     ? f->ring.last
                : request->start == FANOUT_AFTER ? request->revision
                                                 : request->resume.revision;
    if (sub->state == SUB_WAITS)
        return OK_ERR;
    bool resynced =
        request->start == FANOUT_RESUME && (strcmp(request->resume.cluster_id, cluster_id) != 0 ||
                                            request->resume.incarnation != f->incarnation);
    bool gone = sub->told < f->ring.floor;
    if ((resynced || gone) && request->snapshot) {
        sub->state = SUB_WAITS;
        return OK_ERR;
    }
    if (resynced)
        return err_make(ERR_RESYNC, "the resume_token is of another cluster, or of a state that "
                                    "was replaced: begin with a snapshot");
    if (gone) {
        *oldest = f->ring.floor + 1;
        return err_make(ERR_COMPACTED,
                        "changes are kept from revision %lld on: start there, or with a snapshot",
                        (long long)*oldest);
    }
    sub->place = sub->counted = ring_place_after(&f->ring, sub->told);
    return OK_ERR;
}

static struct err admit(struct fanout *f, const struct fanout_request *request, struct sub *sub,
                        int64_t *oldest, uint64_t *epoch)
{
    if (atomic_fetch_add(&f->streams, 1) >= f->cfg.max_streams)
        return err_make(ERR_OVERLOADED,
                        "this member serves %d watches already (--max-watches): ask another member",
                        f->cfg.max_streams);
    pthread_mutex_lock(&f->lock);
    struct err e = place_new(f, request, sub, oldest);
    *epoch = request->epoch ? request->epoch : f->epoch;
    pthread_mutex_unlock(&f->lock);
    return e;
}

void fanout_open(struct fanout *f, const struct fanout_request *request, struct rpc_call *call)
{
    struct sub *sub = mem_alloc(sizeof *sub);
    int64_t oldest = 0;
    uint64_t epoch = 0;
    struct err e = admit(f, request, sub, &oldest, &epoch);
    if (err_is(&e)) {
        atomic_fetch_sub(&f->streams, 1);
        meta_count_stream_ended(request->kind->name, e.code);
        f->wire->end(f, call, &e, oldest);
        if (request->kind->closed)
            request->kind->closed(request->user);
        free(sub);
        return;
    }
    sub->shard = &f->shards[atomic_fetch_add(&f->next_shard, 1) % (unsigned)f->cfg.threads];
    sub->call = call;
    sub->kind = request->kind;
    sub->filter_bytes = bytes_dup(request->filter);
    sub->snapshot = request->snapshot || request->start == FANOUT_SNAPSHOT;
    sub->epoch = request->epoch;
    sub->user = request->user;
    f->wire->begin(f, call, epoch, shard_on_event, sub);
    shard_add(sub->shard, sub);
}

void fanout_end(struct fanout *f, struct sub *sub, const struct err *e)
{
    meta_count_stream_ended(sub->kind->name, e->code);
    f->wire->end(f, sub->call, e, 0);
    if (sub->kind->closed)
        sub->kind->closed(sub->user);
    atomic_fetch_sub(&f->streams, 1);
}

/* ---- the whole ---- */

void fanout_touch(struct fanout *f)
{
    atomic_fetch_add(&f->touched, 1);
    wake_all(f);
}

void fanout_on_role(struct fanout *f)
{
    if (f)
        wake_all(f);
}

void fanout_load(struct fanout *f, struct fanout_load *out)
{
    pthread_mutex_lock(&f->lock);
    *out = (struct fanout_load){.streams = atomic_load(&f->streams),
                                .max_streams = f->cfg.max_streams,
                                .history_bytes = (int64_t)f->ring.bytes,
                                .max_history_bytes = (int64_t)f->cfg.history_bytes,
                                .history_commits = (int64_t)(f->ring.end - f->ring.first),
                                .oldest_revision = f->listed ? f->ring.floor + 1 : 0};
    pthread_mutex_unlock(&f->lock);
}

/* What the store holds already is not in the ring. */
static void begin_at_store(struct fanout *f)
{
    struct record record = {0};
    struct store_snapshot *snap = store_snapshot_open(f->cfg.store);
    int64_t revision = store_revision(snap);
    record_decode(store_record(snap), &record);
    fanout_listed(f, revision, record.epoch, replica_incarnation_of(snap));
    store_snapshot_close(snap);
}

struct fanout *fanout_start(const struct fanout_config *cfg)
{
    struct fanout *f = mem_alloc(sizeof *f);
    f->cfg = *cfg;
    f->wire = cfg->wire ? cfg->wire : &rpc_wire;
    f->touched = 1;
    pthread_mutex_init(&f->lock, NULL);
    ring_init(&f->ring, cfg->history_bytes);
    f->shards = mem_array((size_t)cfg->threads, sizeof *f->shards);
    for (int i = 0; i < cfg->threads; i++)
        shard_start(&f->shards[i], f, i);
    begin_at_store(f);
    return f;
}

void fanout_stop(struct fanout *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->cfg.threads; i++)
        shard_stop(&f->shards[i]);
    INVARIANT(atomic_load(&f->streams) == 0);
    ring_close(&f->ring);
    pthread_mutex_destroy(&f->lock);
    free(f->shards);
    free(f);
}
