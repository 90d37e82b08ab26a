/* The replica as leader: drain, then batch after batch. */
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/follow.h"
#include "meta/metrics.h"
#include "meta/replica_parts.h"
#include "meta/upkeep.h"
#include "meta/waiting.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ACTIVATION_MIN_MS = 10000, /* an activation may take so long, or two TTLs */
    HELD_MS = 500,             /* what waits for a look at etcd's size */
};

/* ---- outcomes ---- */

static void depose(struct replica *r, const struct err *why)
{
    candidate_post(
        r->candidate,
        &(struct election_event){.kind = ELECTION_DEPOSED, .epoch = r->lead.epoch, .err = *why});
}

static void renew(struct replica *r, const struct commit_outcome *o)
{
    if (o->renew_ms > r->renew_ms)
        r->renew_ms = o->renew_ms;
    if (r->mode == REPLICA_LEADING)
        board_extend_gate(r->cfg.board, r->lead.epoch,
                          r->renew_ms + r->lead.ttl_ms - r->lead.margin_ms);
}

/* The leadership was in force when etcd worked this attempt off. Unlike a commit, that keeps nobody
 * from taking over the moment after, so it opens no gate. */
static void note_proof(struct replica *r, const struct commit_effects *effects)
{
    candidate_post(r->candidate, &(struct election_event){.kind = ELECTION_RENEWED,
                                                          .epoch = r->lead.epoch,
                                                          .sent_ms = effects->proof_ms});
    confirm_on_proof(&r->confirm, effects->proof_attempt, atomic_load(&r->asked));
    if (r->mode == REPLICA_LEADING)
        board_prove(r->cfg.board, r->lead.epoch,
                    effects->proof_ms + r->lead.ttl_ms - r->lead.margin_ms);
}

/* Only once what was committed is in the state that they read. */
static void tell_confirmed(struct replica *r)
{
    if (r->mode != REPLICA_LEADING || r->broken || r->confirm.done <= r->confirmed_told)
        return;
    r->confirmed_told = r->confirm.done;
    waiting_on_confirmed(r->waiting, r->lead.epoch, r->confirm.done);
}

static void batch_applied(struct replica *r, const struct commit_outcome *o)
{
    meta_observe_commit(r->bare ? 0 : r->batch.request_count, clock_mono_us() - r->began_us);
    if (r->mode == REPLICA_ACTIVATING) {
        r->beat_revision = o->revision;
        r->beat_record = r->flight_record;
        return;
    }
    if (r->mode == REPLICA_LEADING && o->kind == COMMIT_APPLIED)
        batch_apply(r, o->revision);
    struct err e = OK_ERR;
    if (o->revision && !r->bare) {
        batch_committed(r, o->revision);
    } else if (!o->revision)
        e = err_make(ERR_OUTCOME_UNKNOWN, "it was committed, but its revision is no longer known");
    if (o->kind == COMMIT_APPLIED)
        renew(r, o);
    batch_answer(r, &e);
}

static void finish_step_down(struct replica *r)
{
    commit_free(r->commit);
    r->commit = NULL;
    r->mode = REPLICA_FOLLOWING;
    r->opened = false;
    replica_caught_up(r, false);
    /* pages of a listing that came meanwhile were passed over, so that is begun anew, too */
    r->generation = follow_reopen(r->follow, r->broken);
    candidate_post(r->candidate,
                   &(struct election_event){.kind = ELECTION_SETTLED, .epoch = r->lead.epoch});
}

static void count_outcome(const struct replica *r, const struct commit_outcome *o)
{
    bool heartbeat = r->bare || r->batch.request_count == 0;
    meta_count_outcome(o->probe ? META_PROBE : heartbeat ? META_HEARTBEAT : META_BATCH, o->kind);
}

static void on_outcome(struct replica *r, const struct commit_outcome *o)
{
    struct err e = o->err;
    bool deposed = o->kind != COMMIT_APPLIED && o->kind != COMMIT_NEVER;
    r->in_flight = false;
    count_outcome(r, o);
    if (deposed) /* before its callers are told: the local state may lack what was applied */
        board_close_gate(r->cfg.board, r->lead.epoch);
    switch (o->kind) {
    case COMMIT_APPLIED:
        batch_applied(r, o);
        if (r->mode == REPLICA_ACTIVATING)
            renew(r, o);
        break;
    case COMMIT_APPLIED_DEPOSED:
        batch_applied(r, o);
        break;
    case COMMIT_NEVER:
        log_limited(&r->refused_limit, LOG_WARN, "etcd refused a commit: %s", e.message);
        if (e.code == ERR_NO_SPACE)
            e = err_make(ERR_NO_SPACE, "etcd is out of space and takes no writes: compact and "
                                       "defragment it (or raise its --quota-backend-bytes), then "
                                       "disarm its alarm");
        renew(r, o);
        if (!batch_split_refused(r, &e))
            batch_answer(r, &e);
        break;
    case COMMIT_NOT_APPLIED:
        e = err_make(ERR_FENCED, "member %s was deposed before this could happen: ask again",
                     r->cfg.member_id);
        batch_answer(r, &e);
        break;
    case COMMIT_UNKNOWN:
        e = err_make(ERR_OUTCOME_UNKNOWN,
                     "it is not known whether this happened: ask again with the same request id");
        batch_answer(r, &e);
        break;
    }
    if (r->mode == REPLICA_SETTLING)
        finish_step_down(r);
    else if (deposed)
        depose(r, &o->err);
}

/* ---- attempts ---- */

struct attempt {
    struct replica *replica;
    uint64_t epoch, number;
};

static void on_reply(void *arg, struct etcd_reply *reply)
{
    struct attempt *a = arg;
    replica_post_answer(a->replica, a->epoch, a->number, reply);
    free(a);
}

static void send_attempt(struct replica *r, const struct commit_send *send)
{
    struct buf body = {0};
    struct attempt *a = mem_alloc(sizeof *a);
    a->replica = r;
    a->epoch = r->lead.epoch;
    a->number = send->attempt;
    etcd_encode_txn(&body, send->txn);
    meta_count_attempt(send->kind, body.len);
    if (send->kind != COMMIT_TXN_PROBE)
        atomic_fetch_add(&r->written, body.len);
    confirm_on_sent(&r->confirm, send->attempt, atomic_load(&r->asked));
    etcd_call(r->etcd, ETCD_PATH_TXN, buf_view(&body), (int)send->endpoint, send->timeout_ms,
              on_reply, a);
    buf_close(&body);
}

void lead_carry_out(struct replica *r, struct commit_effects *effects)
{
    if (effects->send)
        send_attempt(r, &effects->attempt);
    if (effects->proof_attempt)
        note_proof(r, effects);
    if (effects->done) {
        confirm_on_over(&r->confirm, effects->proof_attempt != 0);
        on_outcome(r, &effects->outcome);
    }
    tell_confirmed(r);
}

void lead_on_answer(struct replica *r, uint64_t epoch, uint64_t attempt, const struct err *err,
                    const struct etcd_txn_result *result)
{
    struct commit_effects effects = {0};
    if (!r->commit || epoch != r->lead.epoch)
        return; /* an attempt of a leadership that is settled and gone */
    commit_on_answer(r->commit, attempt, err, err_is(err) ? NULL : result, clock_boot_ms(),
                     &effects);
    lead_carry_out(r, &effects);
}

/* ---- the way in and out ---- */

/* A later process on this directory knows by it that this leadership is dead. Losing it costs a
 * wait. */
static void remember_leadership(struct replica *r)
{
    char word[NONCE_DIGITS + 32];
    snprintf(word, sizeof word, "%llu %s", (unsigned long long)r->lead.epoch, r->lead.nonce);
    struct err e = store_set_word(r->cfg.store, REPLICA_LED_WORD, word);
    if (err_is(&e))
        log_warn("cannot note the leadership: %s", e.message);
}

static void lead_begin(struct replica *r, const struct leadership *l)
{
    INVARIANT(r->mode == REPLICA_FOLLOWING && !r->commit);
    r->lead = *l;
    r->mode = REPLICA_ACTIVATING;
    remember_leadership(r);
    if (r->max_txn_ops <= BATCH_FENCE_OPS)
        r->max_txn_ops = BATCH_OPS_DEFAULT;
    r->commit = commit_new(l, (size_t)etcd_endpoint_count(r->etcd), rng_next(&r->rng));
    r->renew_ms = l->first_attempt_ms;
    r->no_puts = OK_ERR;
    r->ask_at = UINT64_MAX;
    r->held = false;
    r->next_heartbeat_ms = l->first_attempt_ms + l->ttl_ms / 4;
    r->activate_by_ms = l->first_attempt_ms +
                        (2 * l->ttl_ms > ACTIVATION_MIN_MS ? 2 * l->ttl_ms : ACTIVATION_MIN_MS);
    r->beat_revision = 0;
    lead_try_activate(r);
}

static void fail_activation(struct replica *r, const struct err *e)
{
    candidate_post(r->candidate, &(struct election_event){.kind = ELECTION_ACTIVATION_FAILED,
                                                          .epoch = r->lead.epoch,
                                                          .err = *e});
}

void lead_on_broken(struct replica *r, const struct err *why)
{
    if (r->mode == REPLICA_ACTIVATING) {
        fail_activation(r, why);
    } else if (r->mode == REPLICA_LEADING) {
        board_close_gate(r->cfg.board, r->lead.epoch);
        depose(r, why);
    }
}

/* The heartbeats would keep a leadership for ever that nobody can use. */
static void limit_activation(struct replica *r, int64_t now_ms)
{
    if (now_ms < r->activate_by_ms)
        return;
    struct err e = err_make(ERR_TIMEOUT, "the watch did not bring the takeover in time");
    r->activate_by_ms = INT64_MAX;
    fail_activation(r, &e);
}

void lead_try_activate(struct replica *r)
{
    if (r->mode != REPLICA_ACTIVATING || r->broken ||
        replica_applied(r) < r->lead.takeover_revision)
        return;
    if (r->last.epoch != r->lead.epoch || strcmp(r->last.nonce, r->lead.nonce) != 0) {
        struct err e =
            err_make(ERR_FENCED, "the state holds epoch %llu where %llu took over",
                     (unsigned long long)r->last.epoch, (unsigned long long)r->lead.epoch);
        fail_activation(r, &e);
        return;
    }
    if (r->beat_revision > replica_applied(r)) {
        struct err e =
            store_apply_ops(r->cfg.store, r->beat_revision, NULL, 0, record_view(&r->beat_record));
        if (err_is(&e)) {
            fail_activation(r, &e);
            return;
        }
        replica_moved(r, r->beat_revision, r->lead.epoch);
        replica_own_record(r, &r->beat_record);
    }
    batch_inherit_ids(r);
    r->mode = REPLICA_LEADING;
    board_open_gate(r->cfg.board, r->lead.epoch);
    board_extend_gate(r->cfg.board, r->lead.epoch,
                      r->renew_ms + r->lead.ttl_ms - r->lead.margin_ms);
    batch_open_writes(r);
    meta_note_activated();
    candidate_post(r->candidate,
                   &(struct election_event){.kind = ELECTION_ACTIVATED, .epoch = r->lead.epoch});
}

static void lead_end(struct replica *r, uint64_t epoch, const char *why)
{
    bool mine = r->mode != REPLICA_FOLLOWING && r->lead.epoch == epoch;
    if (!mine) {
        candidate_post(r->candidate,
                       &(struct election_event){.kind = ELECTION_SETTLED, .epoch = epoch});
        return;
    }
    if (r->mode == REPLICA_SETTLING)
        return;
    log_info("stepping down from epoch %llu: %s", (unsigned long long)epoch, why);
    r->mode = REPLICA_SETTLING;
    batch_close_writes(r);
    commit_stop(r->commit);
    if (!r->in_flight)
        finish_step_down(r);
}

static void lead_give_up(struct replica *r)
{
    struct commit_effects effects = {0};
    if (!r->commit)
        return;
    batch_close_writes(r);
    if (r->in_flight)
        commit_give_up(r->commit, &effects);
    if (effects.done)
        on_outcome(r, &effects.outcome);
    commit_free(r->commit);
    r->commit = NULL;
}

/* A batch that is planned against a state that lacks the last one would be wrong. */
static bool may_plan(const struct replica *r)
{
    return r->mode == REPLICA_LEADING && !r->broken;
}

/* Whoever looks may be hanging, so this waits for a moment only. */
static void hold_for_space(struct replica *r, int64_t now_ms)
{
    if (r->held && now_ms >= r->held_by_ms) {
        r->held = false;
        r->ask_at = UINT64_MAX;
    }
    if (r->held || !r->waiting_writes || atomic_load(&r->written) < r->ask_at)
        return;
    r->held = true;
    r->held_by_ms = now_ms + HELD_MS;
    upkeep_look(r->upkeep);
}

static void begin_next(struct replica *r, int64_t now_ms)
{
    bool due = now_ms >= r->next_heartbeat_ms;
    atomic_store(&r->ask_told, false);
    uint64_t asked = atomic_load(&r->asked);
    replica_end_workers(r);
    batch_gather_writes(r);
    hold_for_space(r, now_ms);
    bool writes_wait = r->waiting_writes && !r->held;
    enum confirm_turn turn = confirm_turn(&r->confirm, asked, writes_wait, due);
    if (turn == CONFIRM_BATCH)
        batch_begin(r, now_ms);
    /* all that waited may have been answered without a commit */
    if (turn != CONFIRM_NOTHING && !r->in_flight && asked > r->confirm.done)
        batch_begin_probe(r, now_ms);
}

static void lead_work(struct replica *r)
{
    int64_t now_ms = clock_boot_ms();
    if (!r->commit)
        return;
    if (r->mode == REPLICA_ACTIVATING)
        limit_activation(r, now_ms);
    if (now_ms >= commit_next_ms(r->commit)) {
        struct commit_effects effects = {0};
        commit_on_tick(r->commit, now_ms, &effects);
        lead_carry_out(r, &effects);
    }
    if (!r->commit || !commit_may_begin(r->commit) || r->in_flight)
        return;
    if (may_plan(r)) {
        begin_next(r, now_ms);
    } else if (r->mode == REPLICA_ACTIVATING && now_ms >= r->next_heartbeat_ms) {
        batch_begin_heartbeat(r, now_ms);
    }
}

static int64_t lead_next_ms(const struct replica *r)
{
    if (!r->commit)
        return INT64_MAX;
    int64_t next = commit_next_ms(r->commit);
    if (r->held && r->held_by_ms < next)
        next = r->held_by_ms;
    bool beats = may_plan(r) || r->mode == REPLICA_ACTIVATING;
    if (beats && !r->in_flight && r->next_heartbeat_ms < next)
        next = r->next_heartbeat_ms;
    if (!r->in_flight && replica_workers_next_ms(r) < next)
        next = replica_workers_next_ms(r);
    return next;
}

const struct leading lead_with_etcd = {.begin = lead_begin,
                                       .end = lead_end,
                                       .work = lead_work,
                                       .next_ms = lead_next_ms,
                                       .give_up = lead_give_up};
