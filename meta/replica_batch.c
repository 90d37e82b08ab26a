/* The replica's batches: from the mutations that wait to the ops of one commit, and its outcome to
 * those who asked for it. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "meta/core/keys.h"
#include "meta/metrics.h"
#include "meta/replica_parts.h"
#include "meta/workforce.h"

enum { BATCH_BYTES = 1280 * 1024 }; /* under etcd's --max-request-bytes of 1.5 MiB */

/* ---- writes ---- */

struct err replica_submit(struct replica *r, struct write *w)
{
    struct write_list *l = &r->writes;
    struct err e = OK_ERR;
    bool wake = false;
    w->next = NULL;
    pthread_mutex_lock(&l->lock);
    if (!l->open) {
        e = err_make(ERR_NOT_LEADER, "this member does not lead");
    } else if ((int64_t)l->count >= r->cfg.max_pending ||
               (int64_t)(l->bytes + w->bytes) > r->cfg.max_pending_bytes) {
        e = err_make(ERR_OVERLOADED,
                     "%zu mutations wait already (--max-pending %lld, "
                     "--max-pending-bytes %lld): slow down",
                     l->count, (long long)r->cfg.max_pending, (long long)r->cfg.max_pending_bytes);
    } else {
        wake = l->head == NULL;
        *l->tail = w;
        l->tail = &w->next;
        l->count++;
        l->bytes += w->bytes;
    }
    pthread_mutex_unlock(&l->lock);
    if (e.code == ERR_OVERLOADED)
        meta_count_write_refused(e.code);
    if (wake)
        replica_wake(r);
    return e;
}

void replica_pending(struct replica *r, struct replica_pending *out)
{
    *out = (struct replica_pending){.max_count = r->cfg.max_pending,
                                    .max_bytes = r->cfg.max_pending_bytes,
                                    .max_id_bytes = r->cfg.dedup_bytes};
    pthread_mutex_lock(&r->writes.lock);
    out->count = r->writes.count;
    out->bytes = r->writes.bytes;
    pthread_mutex_unlock(&r->writes.lock);
}

static void write_done(struct replica *r, struct write *w, const struct err *err,
                       const struct plan_answer *answer)
{
    pthread_mutex_lock(&r->writes.lock);
    r->writes.count--;
    r->writes.bytes -= w->bytes;
    pthread_mutex_unlock(&r->writes.lock);
    if (err_is(err) && !answer)
        meta_count_write_refused(err->code);
    w->done(w, err, answer, r->lead.epoch);
}

/* An answer that is recorded may itself be a refusal. */
static void answer_one(struct replica *r, struct write *w)
{
    struct err e = answer_refusal(w->answer);
    write_done(r, w, &e, w->answer);
}

static void fail_all(struct replica *r, struct write *list, const struct err *why)
{
    while (list) {
        struct write *w = list;
        list = w->next;
        write_done(r, w, why, NULL);
    }
}

static void inherit_chunk(void *arg, const struct dedup_slot *slot)
{
    struct replica *r = arg;
    struct dedup_slot fresh = *slot;
    fresh.seen_ms = clock_boot_ms();
    dedup_window_add(&r->window, &fresh);
}

void batch_inherit_ids(struct replica *r)
{
    struct store_snapshot *snap = store_snapshot_open(r->cfg.store);
    dedup_window_clear(&r->window, store_floor(snap));
    store_chunks(snap, inherit_chunk, r);
    store_snapshot_close(snap);
}

void batch_open_writes(struct replica *r)
{
    if (r->workforce)
        workforce_begin(r->workforce, r->lead.epoch);
    pthread_mutex_lock(&r->writes.lock);
    r->writes.open = true;
    pthread_mutex_unlock(&r->writes.lock);
}

void batch_gather_writes(struct replica *r)
{
    pthread_mutex_lock(&r->writes.lock);
    struct write *fresh = r->writes.head;
    r->writes.head = NULL;
    r->writes.tail = &r->writes.head;
    pthread_mutex_unlock(&r->writes.lock);
    struct write **tail = &r->waiting_writes;
    while (*tail)
        tail = &(*tail)->next;
    *tail = fresh;
}

void batch_close_writes(struct replica *r)
{
    pthread_mutex_lock(&r->writes.lock);
    r->writes.open = false;
    pthread_mutex_unlock(&r->writes.lock);
    batch_gather_writes(r);
    struct write *all = r->waiting_writes;
    r->waiting_writes = NULL;
    struct err e = err_make(ERR_NOT_LEADER, "member %s leads no more: ask again", r->cfg.member_id);
    fail_all(r, all, &e);
    if (r->workforce)
        workforce_end(r->workforce);
}

/* ---- batches ---- */

static bool expired(const struct write *w, int64_t now_ms)
{
    return w->deadline_ms != INT64_MAX && w->deadline_ms <= now_ms;
}

/* Puts what fits into the batch; what does not stays waiting, in its order. */
static void fill_batch(struct replica *r, int64_t now_ms)
{
    struct write **at = &r->waiting_writes, **flight_tail = &r->flight;
    bool full = false;
    while (*at && !full) {
        struct write *w = *at;
        struct err refusal = OK_ERR;
        enum plan_verdict verdict = PLAN_REFUSED;
        if (expired(w, now_ms))
            refusal = err_make(ERR_TIMEOUT, "the deadline passed before the commit began");
        else
            verdict = plan_add(&r->batch, &w->request, &w->answer, &refusal);
        switch (verdict) {
        case PLAN_TAKEN:
            *at = w->next;
            w->next = NULL;
            *flight_tail = w;
            flight_tail = &w->next;
            break;
        case PLAN_WAIT_NEXT:
            at = &w->next;
            break;
        case PLAN_FULL:
            full = true;
            break;
        case PLAN_ANSWERED:
            *at = w->next;
            meta_count_replayed();
            answer_one(r, w);
            break;
        case PLAN_REFUSED:
            *at = w->next;
            write_done(r, w, &refusal, NULL);
            break;
        }
    }
}

bool batch_plan(struct replica *r, int64_t now_ms)
{
    char room[KEY_MAX];
    struct plan_limits limits = {.max_ops = (size_t)r->max_txn_ops - BATCH_FENCE_OPS,
                                 .max_bytes = BATCH_BYTES,
                                 .no_puts = err_is(&r->no_puts) ? &r->no_puts : NULL,
                                 .max_workers = r->cfg.max_workers,
                                 .worker_ttl_ms = (uint64_t)r->cfg.worker_ttl_ms};
    struct store_snapshot *snap = store_snapshot_open(r->cfg.store);
    struct plan_view view = store_view(snap);
    view.workers = r->workforce ? workforce_table(r->workforce) : NULL;
    plan_begin(&r->batch, keys_state(room, r->cfg.prefix), &view, &r->window, &limits, now_ms);
    if (!r->held)
        fill_batch(r, now_ms);
    bool wanted = r->flight || now_ms >= r->next_heartbeat_ms;
    if (wanted)
        plan_end(&r->batch);
    store_snapshot_close(snap);
    return wanted;
}

void batch_begin(struct replica *r, int64_t now_ms)
{
    struct commit_effects effects = {0};
    if (!batch_plan(r, now_ms))
        return;
    r->in_flight = true;
    r->bare = false;
    r->began_us = clock_mono_us();
    r->next_heartbeat_ms = now_ms + r->lead.ttl_ms / 4;
    commit_begin(r->commit, r->batch.ops, r->batch.op_count, r->batch.events, now_ms, &effects);
    r->flight_record = *commit_record(r->commit);
    lead_carry_out(r, &effects);
}

void batch_begin_heartbeat(struct replica *r, int64_t now_ms)
{
    struct commit_effects effects = {0};
    r->in_flight = r->bare = true;
    r->began_us = clock_mono_us();
    r->next_heartbeat_ms = now_ms + r->lead.ttl_ms / 4;
    commit_begin(r->commit, NULL, 0, 0, now_ms, &effects);
    r->flight_record = *commit_record(r->commit);
    lead_carry_out(r, &effects);
}

void batch_begin_probe(struct replica *r, int64_t now_ms)
{
    struct commit_effects effects = {0};
    r->in_flight = r->bare = true;
    r->began_us = clock_mono_us();
    commit_begin_probe(r->commit, now_ms, &effects);
    lead_carry_out(r, &effects);
}

/* ---- what became of it ---- */

void batch_apply(struct replica *r, int64_t revision)
{
    struct bytes record = record_view(&r->flight_record);
    if (r->broken || (r->bare && revision <= replica_applied(r)))
        return; /* the state is listed anew, or was, and the listing held the heartbeat already */
    struct err e =
        r->bare ? store_apply_ops(r->cfg.store, revision, NULL, 0, record)
                : store_apply_ops(r->cfg.store, revision, r->batch.ops, r->batch.op_count, record);
    if (err_is(&e)) {
        replica_drop_state(r, &e);
        return;
    }
    replica_moved(r, revision, r->lead.epoch);
    replica_own_record(r, &r->flight_record);
}

void batch_committed(struct replica *r, int64_t revision)
{
    plan_committed(&r->batch, revision, clock_boot_ms());
    if (r->workforce)
        workforce_committed(r->workforce, &r->batch);
    meta_note_ids(&r->window, clock_boot_ms());
}

void batch_answer(struct replica *r, const struct err *err)
{
    struct write *list = r->flight;
    r->flight = NULL;
    while (list) {
        struct write *w = list;
        list = w->next;
        if (err_is(err))
            write_done(r, w, err, NULL);
        else
            answer_one(r, w);
    }
}

bool batch_split_refused(struct replica *r, const struct err *e)
{
    if (e->code != ERR_TOO_LARGE || r->max_txn_ops <= BATCH_OPS_DEFAULT ||
        r->mode != REPLICA_LEADING)
        return false;
    log_warn("etcd refused a txn of %zu operations: %d at most from now on", r->batch.op_count,
             BATCH_OPS_DEFAULT);
    r->max_txn_ops = BATCH_OPS_DEFAULT;
    struct write **tail = &r->flight;
    while (*tail)
        tail = &(*tail)->next;
    *tail = r->waiting_writes;
    r->waiting_writes = r->flight;
    r->flight = NULL;
    return true;
}
