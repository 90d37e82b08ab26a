/* How a replica leads alone: a batch is planned as any other, and committed by being applied to the
 * local state, which is on the disk when that returns. While the disk is at it the next batch
 * gathers. */
#include "common/base/check.h"
#include "common/base/clock.h"
#include "meta/core/alone.h"
#include "meta/embedded.h"
#include "meta/metrics.h"
#include "meta/replica_parts.h"
#include "meta/waiting.h"

static void lead(struct replica *r, const struct leadership *l)
{
    INVARIANT(r->mode == REPLICA_FOLLOWING);
    r->lead = *l;
    r->next_heartbeat_ms = INT64_MAX;
    batch_inherit_ids(r);
    r->mode = REPLICA_LEADING;
    board_open_gate(r->cfg.board, l->epoch);
    board_extend_gate(r->cfg.board, l->epoch, l->first_attempt_ms + l->ttl_ms);
    batch_open_writes(r);
    meta_note_activated();
    r->cfg.alone.publish(r->cfg.alone.ctx, ROLE_LEADER, l->epoch);
}

/* Whoever asked for another epoch; false: nobody. */
static bool take_raise(struct replica *r, struct raise *out)
{
    pthread_mutex_lock(&r->writes.lock);
    *out = r->writes.raise;
    r->writes.raise = (struct raise){0};
    pthread_mutex_unlock(&r->writes.lock);
    return out->above != 0;
}

static void stop_leading(struct replica *r)
{
    board_close_gate(r->cfg.board, r->lead.epoch);
    batch_close_writes(r);
    r->mode = REPLICA_FOLLOWING;
}

/* A second wish may wait while the first one fails. */
static void give_up(struct replica *r)
{
    struct raise raise;
    if (r->mode == REPLICA_LEADING)
        stop_leading(r);
    struct err e = err_make(ERR_NOT_LEADER, "member %s leads no more: ask again", r->cfg.member_id);
    if (take_raise(r, &raise))
        raise.done(raise.arg, &e, NULL);
}

static void end(struct replica *r, uint64_t epoch, const char *why)
{
    if (r->lead.epoch == epoch)
        give_up(r);
}

/* What the disk holds is known only when it is read again, by the next start. */
static void on_disk_failed(struct replica *r, const struct err *why)
{
    struct err e = err_make(ERR_OUTCOME_UNKNOWN,
                            "the disk failed, so it is not known whether this happened: ask again "
                            "with the same request id");
    meta_count_store_failure(why->code);
    meta_count_outcome(META_BATCH, COMMIT_UNKNOWN);
    board_close_gate(r->cfg.board, r->lead.epoch);
    batch_answer(r, &e);
    give_up(r);
    r->cfg.alone.failed(r->cfg.alone.ctx, why);
}

/* Certainly nothing of it was written, and the state is as before: only this batch is refused. */
static void on_refused(struct replica *r, const struct err *why)
{
    log_limited(&r->refused_limit, LOG_WARN, "a commit was refused: %s", why->message);
    meta_count_outcome(META_BATCH, COMMIT_NEVER);
    batch_answer(r, why);
}

static void commit(struct replica *r)
{
    int64_t began_us = clock_mono_us(), revision = replica_applied(r) + 1;
    struct record next = alone_next(&r->last, r->batch.events, &r->rng);
    record_bytes_encode(&r->flight_record, &next);
    struct err e = store_apply_ops(r->cfg.store, revision, r->batch.ops, r->batch.op_count,
                                   record_view(&r->flight_record));
    if (e.code == ERR_NO_SPACE) {
        on_refused(r, &e);
        return;
    }
    if (err_is(&e)) {
        on_disk_failed(r, &e);
        return;
    }
    replica_moved(r, revision, r->lead.epoch);
    replica_own_record(r, &r->flight_record);
    batch_committed(r, revision);
    meta_count_outcome(META_BATCH, COMMIT_APPLIED);
    meta_observe_commit(r->batch.request_count, clock_mono_us() - began_us);
    batch_answer(r, &e);
}

/* Nobody else could lead, so there is nobody to ask. */
static void confirm_reads(struct replica *r)
{
    atomic_store(&r->ask_told, false);
    uint64_t asked = atomic_load(&r->asked);
    if (asked == r->confirm.done)
        return;
    r->confirm.done = asked;
    waiting_on_confirmed(r->waiting, r->lead.epoch, asked);
}

/* ---- another epoch ---- */

struct err replica_raise(struct replica *r, uint64_t above, replica_raised *done, void *arg)
{
    struct write_list *l = &r->writes;
    struct err e = OK_ERR;
    pthread_mutex_lock(&l->lock);
    if (!l->open)
        e = err_make(ERR_NOT_LEADER, "this member does not lead");
    else if (l->raise.above)
        e = err_make(ERR_OVERLOADED, "somebody else raises the epoch just now: ask again");
    else
        l->raise = (struct raise){.above = above, .done = done, .arg = arg};
    pthread_mutex_unlock(&l->lock);
    if (!err_is(&e))
        replica_wake(r);
    return e;
}

/* Ends this leadership, and begins one whose epoch is above the floor. */
static struct err lead_anew(struct replica *r, const struct cluster *cluster)
{
    struct leadership next;
    stop_leading(r);
    r->cfg.alone.publish(r->cfg.alone.ctx, ROLE_ACTIVATING, r->lead.epoch);
    struct err e = embedded_take_over(r->cfg.store, r->cfg.prefix, r->cfg.alone.self, cluster,
                                      "leads-again", &next);
    if (err_is(&e))
        return e;
    replica_adopt_store(r);
    replica_moved(r, next.takeover_revision, next.epoch);
    replica_publish_leader(r, true);
    lead(r, &next);
    return OK_ERR;
}

static void raise_epoch(struct replica *r, const struct raise *raise)
{
    struct cluster cluster;
    struct err e = embedded_raise(r->cfg.store, raise->above, &cluster);
    if (!err_is(&e)) {
        board_set_cluster(r->cfg.board, &cluster);
        if (cluster.epoch_floor >= r->lead.epoch)
            e = lead_anew(r, &cluster);
    }
    raise->done(raise->arg, &e, &cluster);
    if (r->mode != REPLICA_LEADING)
        r->cfg.alone.failed(r->cfg.alone.ctx, &e);
}

static void work(struct replica *r)
{
    struct raise raise;
    if (r->mode != REPLICA_LEADING)
        return;
    if (take_raise(r, &raise))
        raise_epoch(r, &raise);
    if (r->mode != REPLICA_LEADING)
        return;
    confirm_reads(r);
    replica_end_workers(r);
    batch_gather_writes(r);
    if (r->waiting_writes && batch_plan(r, clock_boot_ms()))
        commit(r);
}

static int64_t next_ms(const struct replica *r)
{
    return r->waiting_writes ? 0 : replica_workers_next_ms(r);
}

const struct leading lead_alone = {
    .begin = lead, .end = end, .work = work, .next_ms = next_ms, .give_up = give_up};
