/* The replica thread: follows as a follower, commits as the leader. */
#include "common/base/mem.h"
#include "tests/sim/checker.h"
#include "tests/sim/clients.h"
#include "tests/sim/member.h"
#include <stdlib.h>

enum { GIVE_UP_MS = 10000 };

void replica_shell_start(struct member *m)
{
    struct replica *r = &m->replica;
    *r = (struct replica){.applied = m->disk_applied};
    r->queue_end = &r->queue;
    dedup_window_init(&r->window, &DEDUP_LIMITS_DEFAULT);
}

static void drop_list(struct request *list)
{
    while (list) {
        struct request *next = list->next;
        request_drop(list);
        list = next;
    }
}

void replica_shell_close(struct member *m)
{
    struct replica *r = &m->replica;
    drop_list(r->queue);
    drop_list(r->unconfirmed);
    for (size_t i = 0; i < r->batch_count; i++)
        request_drop(r->batch[i]);
    commit_free(r->commit);
    plan_close(&r->plan);
    dedup_window_close(&r->window);
    *r = (struct replica){0};
}

static void tell_caught_up(struct world *w, struct member *m, bool caught_up)
{
    if (m->replica.caught_up == caught_up)
        return;
    m->replica.caught_up = caught_up;
    election_shell_post(w, m,
                        &(struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = caught_up});
}

/* ---- following ---- */

static bool record_at(struct world *w, int64_t revision, struct record *out)
{
    char key[KEY_MAX];
    const struct fake_version *v = fake_etcd_get(&w->etcd, keys_commit(key, SIM_PREFIX), revision);
    if (v == NULL)
        return false;
    struct err err = record_decode(v->value, out);
    return !err_is(&err);
}

/* The next place of the same leadership, or a takeover that replaced the one last seen. */
static bool follows(struct world *w, const struct replica *r, const struct record *record,
                    int64_t revision)
{
    if (record->epoch == r->epoch)
        return record->seq == r->seq + 1;
    char key[KEY_MAX];
    struct history history;
    const struct fake_version *v =
        fake_etcd_get(&w->etcd, keys_history(key, SIM_PREFIX, record->epoch), revision);
    if (v == NULL || record->seq != 0)
        return false;
    struct err err = history_decode(v->value, &history);
    return !err_is(&err) &&
           (r->epoch == 0 || (record->epoch > r->epoch && history.prev_seq == r->seq));
}

static void activate(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    if (m->activations_to_fail > 0) {
        m->activations_to_fail--;
        r->failed = true;
        world_fault(w, FAULT_ACTIVATION_FAILED);
        struct election_event failed = {.kind = ELECTION_ACTIVATION_FAILED,
                                        .epoch = r->leadership.epoch,
                                        .err = err_make(ERR_IO, "simulated")};
        election_shell_post(w, m, &failed);
        return;
    }
    r->drained = true;
    view_fill_window(w, m);
    read_gate_open(&m->gate, r->leadership.epoch);
    read_gate_extend(&m->gate, r->leadership.epoch,
                     r->renewed_ms + r->leadership.ttl_ms - r->leadership.margin_ms);
    election_shell_post(
        w, m, &(struct election_event){.kind = ELECTION_ACTIVATED, .epoch = r->leadership.epoch});
    batch_work(w, m);
}

static void note_applied(struct world *w, struct member *m, int64_t revision)
{
    struct replica *r = &m->replica;
    struct record record;
    if (record_at(w, revision, &record)) {
        r->epoch = record.epoch;
        r->seq = record.seq;
    }
    r->applied = revision;
    if (r->opened && r->applied >= r->opened)
        tell_caught_up(w, m, true);
    if (r->leading && !r->stopping && !r->drained && !r->failed &&
        r->applied >= r->leadership.takeover_revision)
        activate(w, m);
}

void replica_shell_watch(struct world *w, struct member *m, int64_t revision)
{
    struct replica *r = &m->replica;
    struct record record;
    if (revision <= r->applied)
        return;
    if (!record_at(w, revision, &record) || !follows(w, r, &record, revision)) {
        world_trace(w, m->index, "revision %lld does not follow what was applied",
                    (long long)revision);
        follow_shell_reopen(w, m, true);
        return;
    }
    note_applied(w, m, revision);
}

void replica_shell_loaded(struct world *w, struct member *m, int64_t revision)
{
    if (revision > m->replica.applied || m->replica.applied == 0)
        note_applied(w, m, revision);
}

void replica_shell_opened(struct world *w, struct member *m, int64_t revision)
{
    m->replica.opened = revision;
    tell_caught_up(w, m, m->replica.applied >= revision);
}

/* ---- leading ---- */

static void tick(struct world *w, void *arg);

static int64_t heartbeat_at_ms(const struct replica *r)
{
    return r->begun_ms + r->leadership.ttl_ms / 4;
}

static void schedule_tick(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    if (r->commit == NULL)
        return;
    int64_t next_ms = INT64_MAX;
    if (r->in_flight)
        next_ms = commit_next_ms(r->commit);
    else if (!r->stopping && commit_may_begin(r->commit))
        next_ms = heartbeat_at_ms(r);
    if (r->stopping && r->give_up_ms < next_ms)
        next_ms = r->give_up_ms;
    if (next_ms == INT64_MAX || (r->ticked_ms && r->ticked_ms <= next_ms))
        return;
    r->ticked_ms = next_ms;
    world_post(w, member_delay_us(w, m, next_ms), m->index, THREAD_REPLICA, tick, NULL, m);
}

static void settled(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    uint64_t epoch = r->leadership.epoch;
    commit_free(r->commit);
    r->commit = NULL;
    r->leading = r->stopping = r->drained = false;
    world_trace(w, m->index, "settled epoch %llu", (unsigned long long)epoch);
    election_shell_post(w, m, &(struct election_event){.kind = ELECTION_SETTLED, .epoch = epoch});
    r->opened = 0;
    tell_caught_up(w, m, false);
    follow_shell_reopen(w, m, false);
}

void replica_shell_after(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    if (r->leading && r->stopping && !r->in_flight)
        settled(w, m);
    schedule_tick(w, m);
}

static void tick(struct world *w, void *arg)
{
    struct member *m = arg;
    struct replica *r = &m->replica;
    r->ticked_ms = 0;
    if (r->commit == NULL)
        return;
    int64_t now_ms = member_ms(w, m);
    struct commit_effects effects = {0};
    if (r->stopping && now_ms >= r->give_up_ms && r->in_flight) {
        world_trace(w, m->index, "gives up what is in flight");
        commit_give_up(r->commit, &effects);
        batch_carry_out(w, m, &effects);
    } else if (now_ms >= commit_next_ms(r->commit)) {
        commit_on_tick(r->commit, now_ms, &effects);
        batch_carry_out(w, m, &effects);
    }
    if (r->commit)
        batch_work(w, m);
}

void replica_shell_lead(struct world *w, struct member *m, const struct leadership *l)
{
    struct replica *r = &m->replica;
    if (r->commit) {
        world_violate(w, "m%d is told to lead epoch %llu before it settled the one before",
                      m->index, (unsigned long long)l->epoch);
        return;
    }
    r->leadership = *l;
    r->leading = true;
    r->stopping = r->drained = r->failed = false;
    r->commit = commit_new(l, ENDPOINTS, rng_next(&w->rng));
    r->renewed_ms = l->first_attempt_ms;
    r->begun_ms = member_ms(w, m);
    world_trace(w, m->index, "leads epoch %llu, takeover at %lld, applied %lld",
                (unsigned long long)l->epoch, (long long)l->takeover_revision,
                (long long)r->applied);
    if (r->applied >= l->takeover_revision)
        activate(w, m);
    schedule_tick(w, m);
}

void replica_shell_step_down(struct world *w, struct member *m, uint64_t epoch)
{
    struct replica *r = &m->replica;
    if (!r->leading || r->leadership.epoch != epoch || r->stopping) {
        if (!r->leading)
            election_shell_post(w, m,
                                &(struct election_event){.kind = ELECTION_SETTLED, .epoch = epoch});
        return;
    }
    r->stopping = true;
    r->give_up_ms = member_ms(w, m) + GIVE_UP_MS;
    commit_stop(r->commit);
    batch_refuse_waiting(w, m, ERR_NOT_LEADER);
    replica_shell_after(w, m);
}

void replica_shell_request(struct world *w, struct member *m, struct request *request)
{
    struct replica *r = &m->replica;
    if (!r->leading || r->stopping || !r->drained || m->role != ROLE_LEADER) {
        request_refuse(w, request, ERR_NOT_LEADER, false);
        return;
    }
    request->next = NULL;
    if (request->op->kind == OP_QUORUM_READ || request->op->kind == OP_READ) {
        struct request **end = &r->unconfirmed;
        while (*end)
            end = &(*end)->next;
        request->ticket = ++r->asked;
        *end = request;
    } else {
        *r->queue_end = request;
        r->queue_end = &request->next;
    }
    batch_work(w, m);
}
