/* What the leader's replica thread does with its commits. */
#include "common/base/check.h"
#include "tests/sim/checker.h"
#include "tests/sim/clients.h"
#include "tests/sim/member.h"
#include <stdio.h>

/* ---- reads that a probe or commit confirms ---- */

static void refuse_list(struct world *w, struct request **list, enum err_code code)
{
    while (*list) {
        struct request *r = *list;
        *list = r->next;
        request_refuse(w, r, code, false);
    }
}

/* Once what was committed is in the state that they read. */
static void answer_confirmed(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    while (r->unconfirmed && r->unconfirmed->ticket <= r->confirm.done) {
        struct request *read = r->unconfirmed;
        r->unconfirmed = read->next;
        request_answer_read(w, read, r->applied, r->leadership.epoch);
    }
}

/* ---- outcomes ---- */

static void refuse_batch(struct world *w, struct member *m, enum err_code code, bool maybe)
{
    struct replica *r = &m->replica;
    size_t count = r->batch_count;
    r->batch_count = 0;
    for (size_t i = 0; i < count; i++)
        request_refuse(w, r->batch[i], code, maybe);
}

static void answer_batch(struct world *w, struct member *m, int64_t revision)
{
    struct replica *r = &m->replica;
    size_t count = r->batch_count;
    r->batch_count = 0;
    if (revision == 0) {
        for (size_t i = 0; i < count; i++)
            request_refuse(w, r->batch[i], ERR_OUTCOME_UNKNOWN, true);
        return;
    }
    plan_committed(&r->plan, revision, member_ms(w, m));
    for (size_t i = 0; i < count; i++)
        request_answer(w, r->batch[i], r->answers[i], r->leadership.epoch);
}

static void tell_deposed(struct world *w, struct member *m, const struct err *err)
{
    struct election_event event = {
        .kind = ELECTION_DEPOSED, .epoch = m->replica.leadership.epoch, .err = *err};
    election_shell_post(w, m, &event);
}

static void on_applied(struct world *w, struct member *m, const struct commit_outcome *o)
{
    struct replica *r = &m->replica;
    if (!o->probe && r->drained && o->revision > r->applied) {
        r->applied = o->revision;
        r->epoch = r->leadership.epoch;
        r->seq = r->batch_seq;
    }
    if (r->batch_count)
        answer_batch(w, m, o->revision);
}

/* Whatever became of it, a commit of ours that is known applied renews the right to read. */
static void renew(struct world *w, struct member *m, const struct commit_outcome *o)
{
    struct replica *r = &m->replica;
    if (o->renew_ms) {
        r->renewed_ms = o->renew_ms > r->renewed_ms ? o->renew_ms : r->renewed_ms;
        if (r->drained)
            read_gate_extend(&m->gate, r->leadership.epoch,
                             r->renewed_ms + r->leadership.ttl_ms - r->leadership.margin_ms);
    }
}

static void note_proof(struct world *w, struct member *m, const struct commit_effects *effects)
{
    struct replica *r = &m->replica;
    election_shell_post(w, m,
                        &(struct election_event){.kind = ELECTION_RENEWED,
                                                 .epoch = r->leadership.epoch,
                                                 .sent_ms = effects->proof_ms});
    confirm_on_proof(&r->confirm, effects->proof_attempt, r->asked);
}

static void on_outcome(struct world *w, struct member *m, const struct commit_outcome *o)
{
    struct replica *r = &m->replica;
    r->in_flight = false;
    world_trace(w, m->index, "%s %s: outcome %d at revision %lld", o->probe ? "probe" : "batch",
                o->probe ? "" : r->batch_id, o->kind, (long long)o->revision);
    if (!o->probe)
        checker_on_outcome(w, m->index, r->batch_id, o);
    if (o->kind != COMMIT_APPLIED && o->kind != COMMIT_NEVER) /* before any caller is told */
        read_gate_close(&m->gate, r->leadership.epoch);
    switch (o->kind) {
    case COMMIT_APPLIED:
        on_applied(w, m, o);
        renew(w, m, o);
        return;
    case COMMIT_NEVER:
        refuse_batch(w, m, o->err.code, false);
        renew(w, m, o);
        return;
    case COMMIT_APPLIED_DEPOSED:
        if (r->batch_count)
            answer_batch(w, m, o->revision);
        break;
    case COMMIT_NOT_APPLIED:
        refuse_batch(w, m, ERR_FENCED, false);
        break;
    case COMMIT_UNKNOWN:
        refuse_batch(w, m, ERR_OUTCOME_UNKNOWN, true);
        break;
    }
    batch_refuse_waiting(w, m, ERR_NOT_LEADER);
    tell_deposed(w, m, &o->err);
}

/* ---- sending ---- */

static void on_answer(struct world *w, struct net_call *call, struct net_answer *answer)
{
    struct member *m = call->owner;
    struct commit_effects effects = {0};
    if (m->replica.commit == NULL || call->epoch != m->replica.leadership.epoch)
        return;
    commit_on_answer(m->replica.commit, call->tag, &answer->err,
                     err_is(&answer->err) ? NULL : &answer->result, member_ms(w, m), &effects);
    batch_carry_out(w, m, &effects);
    batch_work(w, m);
}

static const char *name_attempt(const struct etcd_txn *txn)
{
    if (txn->success_count == 1 && txn->success[0].kind == ETCD_OP_DELETE)
        return "probe";
    return txn->success_count == 1 ? "heartbeat" : "commit";
}

void batch_carry_out(struct world *w, struct member *m, const struct commit_effects *effects)
{
    if (effects->send) {
        const struct commit_send *s = &effects->attempt;
        confirm_on_sent(&m->replica.confirm, s->attempt, m->replica.asked);
        net_send(w, &(struct net_call){.member = m->index,
                                       .thread = THREAD_REPLICA,
                                       .endpoint = (int)s->endpoint,
                                       .what = name_attempt(s->txn),
                                       .kind = NET_TXN,
                                       .txn = *s->txn,
                                       .timeout_ms = s->timeout_ms,
                                       .done = on_answer,
                                       .owner = m,
                                       .tag = s->attempt,
                                       .epoch = m->replica.leadership.epoch});
    }
    if (effects->proof_attempt)
        note_proof(w, m, effects);
    if (effects->done) {
        confirm_on_over(&m->replica.confirm, effects->proof_attempt != 0);
        on_outcome(w, m, &effects->outcome);
    }
    if (m->replica.leading && !m->replica.stopping)
        answer_confirmed(w, m);
}

/* ---- beginning ---- */

static struct request *queue_pop(struct replica *r)
{
    struct request *request = r->queue;
    if (request) {
        r->queue = request->next;
        if (r->queue == NULL)
            r->queue_end = &r->queue;
    }
    return request;
}

static void queue_push_front(struct replica *r, struct request *request)
{
    request->next = r->queue;
    r->queue = request;
    if (request->next == NULL)
        r->queue_end = &request->next;
}

/* Fills a batch with what waits; false when there is no more room, or what comes next must wait. */
static bool plan_one(struct world *w, struct member *m, struct request *request)
{
    struct replica *r = &m->replica;
    struct plan_answer *answer = NULL;
    struct err refusal;
    switch (plan_add(&r->plan, &request->op->plan, &answer, &refusal)) {
    case PLAN_TAKEN:
        r->answers[r->batch_count] = answer;
        r->batch[r->batch_count++] = request;
        return r->batch_count < BATCH_MAX;
    case PLAN_WAIT_NEXT:
    case PLAN_FULL:
        queue_push_front(r, request);
        return false;
    case PLAN_ANSWERED:
        request_answer(w, request, answer, r->leadership.epoch);
        return true;
    case PLAN_REFUSED:
        request_refuse(w, request, refusal.code, false);
        return true;
    }
    UNREACHABLE_CASE();
}

static void begin(struct world *w, struct member *m, const struct etcd_op *ops, size_t count,
                  size_t events)
{
    struct replica *r = &m->replica;
    struct commit_effects effects = {0};
    struct record record;
    r->begun_ms = member_ms(w, m);
    commit_begin(r->commit, ops, count, events, r->begun_ms, &effects);
    struct err err = record_decode(record_view(commit_record(r->commit)), &record);
    INVARIANT(!err_is(&err));
    snprintf(r->batch_id, sizeof r->batch_id, "%s", record.batch);
    r->batch_seq = record.seq;
    r->in_flight = true;
    world_trace(w, m->index, "begins batch %s: epoch %llu seq %llu, %zu ops, %zu requests",
                r->batch_id, (unsigned long long)record.epoch, (unsigned long long)record.seq,
                count, r->batch_count);
    batch_carry_out(w, m, &effects);
}

static void begin_probe(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    struct commit_effects effects = {0};
    r->begun_ms = member_ms(w, m);
    r->in_flight = true;
    commit_begin_probe(r->commit, r->begun_ms, &effects);
    batch_carry_out(w, m, &effects);
}

/* true: a batch was begun. */
static bool begin_batch(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    struct plan_view view = view_of(w, m);
    struct plan_limits limits = {.max_ops = 100, .max_bytes = 1 << 20};
    r->batch_count = 0;
    plan_begin(&r->plan, bytes_str(SIM_PREFIX "state/"), &view, &r->window, &limits,
               member_ms(w, m));
    for (struct request *next = queue_pop(r); next; next = queue_pop(r)) {
        if (!plan_one(w, m, next))
            break;
    }
    plan_end(&r->plan);
    if (r->batch_count == 0)
        return false;
    begin(w, m, r->plan.ops, r->plan.op_count, r->plan.events);
    return true;
}

/* All that waited may be answered without a commit. */
static void begin_batch_or_heartbeat(struct world *w, struct member *m, bool due)
{
    struct replica *r = &m->replica;
    bool begun = r->drained && r->queue && begin_batch(w, m);
    if (begun || r->in_flight)
        return;
    if (due)
        begin(w, m, NULL, 0, 0);
    else if (r->unconfirmed)
        begin_probe(w, m);
}

void batch_work(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    if (r->leading && !r->stopping && commit_may_begin(r->commit)) {
        bool due = member_ms(w, m) - r->begun_ms >= r->leadership.ttl_ms / 4;
        enum confirm_turn turn = confirm_turn(&r->confirm, r->asked, r->drained && r->queue, due);
        if (turn == CONFIRM_PROBE && !r->in_flight)
            begin_probe(w, m);
        else if (turn == CONFIRM_BATCH)
            begin_batch_or_heartbeat(w, m, due);
    }
    replica_shell_after(w, m);
}

void batch_refuse_waiting(struct world *w, struct member *m, enum err_code code)
{
    struct replica *r = &m->replica;
    refuse_list(w, &r->queue, code);
    r->queue_end = &r->queue;
    refuse_list(w, &r->unconfirmed, code);
}
