#include "meta/candidate.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "common/io/etcd.h"
#include "meta/guardian.h"
#include "meta/keeper.h"
#include "meta/metrics.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { EVENTS_MAX = 4096, TURN_MS = 500 };

struct item {
    struct election_event event;
    struct etcd_txn_result result; /* owned */
};

/* Of these only the newest counts, and they come with each commit: they wait here for the next turn
 * instead of each waking the thread. */
struct inbox {
    pthread_mutex_t lock;
    bool has_record, has_proof;
    struct record_bytes record;
    int64_t revision, received_ms; /* of the first message with these bytes */
    uint64_t proof_epoch;
    int64_t proof_ms;
};

/* Who waits for a handover; one at a time. */
struct transfer_wait {
    pthread_mutex_t lock;
    uint64_t ticket;             /* of the last one */
    candidate_transferred *done; /* NULL: nobody waits */
    void *arg;
};

struct candidate {
    struct candidate_config cfg;
    char *prefix;
    struct election *election;
    struct etcd_client *etcd;
    struct keeper *keeper;
    struct queue *items;
    struct inbox inbox;
    struct transfer_wait transfer;
    pthread_t thread;
    _Atomic bool stopping;
    _Atomic int64_t lease;
    uint64_t told_epoch;          /* that the guardian was told last, or is to be told; 0: none */
    _Atomic int64_t last_turn_ms; /* the keeper renews the lease of a thread that goes on only */
    struct log_limit limit;
};

/* ---- asking etcd ---- */

struct question {
    struct candidate *c;
    uint64_t call;
    enum election_call_kind kind;
};

static void decode_answer(const struct question *q, struct bytes body, struct item *item)
{
    struct etcd_lease_result lease;
    switch (q->kind) {
    case CALL_TXN:
        item->event.err = etcd_decode_txn(body, &item->result);
        item->event.result = err_is(&item->event.err) ? NULL : &item->result;
        break;
    case CALL_GRANT:
        item->event.err = etcd_decode_lease(body, &lease);
        if (!err_is(&item->event.err)) {
            item->event.ttl_ms = lease.ttl_s * 1000;
            meta_note_lease(item->event.ttl_ms);
        }
        break;
    case CALL_REVOKE:
        break;
    }
}

static void on_reply(void *arg, struct etcd_reply *reply)
{
    struct question *q = arg;
    struct item *item = mem_alloc(sizeof *item);
    item->event.kind = ELECTION_ANSWERED;
    item->event.call = q->call;
    item->event.err = reply->err;
    if (!err_is(&reply->err))
        decode_answer(q, reply->body, item);
    queue_push_always(q->c->items, item);
    free(q);
}

/* A takeover that the guardian knows nothing of would last for a TTL if this process died of it. */
static bool is_unguarded(struct candidate *c)
{
    return c->cfg.guardian && !guardian_heard(c->cfg.guardian) && c->told_epoch;
}

static void refuse(struct candidate *c, const struct election_call *call)
{
    struct item *item = mem_alloc(sizeof *item);
    item->event.kind = ELECTION_ANSWERED;
    item->event.call = call->id;
    item->event.err =
        err_make(ERR_UNREACHABLE, "the guardian does not listen: this member takes nothing over");
    queue_push_always(c->items, item);
}

static void ask(struct candidate *c, const struct election_call *call)
{
    static const char *const paths[] = {[CALL_TXN] = ETCD_PATH_TXN,
                                        [CALL_GRANT] = ETCD_PATH_LEASE_GRANT,
                                        [CALL_REVOKE] = ETCD_PATH_LEASE_REVOKE};
    struct question q = {.c = c, .call = call->id, .kind = call->kind};
    struct buf body = {0};
    switch (call->kind) {
    case CALL_TXN:
        etcd_encode_txn(&body, call->txn);
        break;
    case CALL_GRANT:
        etcd_encode_lease_grant(&body, call->lease, call->ttl_s);
        break;
    case CALL_REVOKE:
        etcd_encode_lease(&body, call->lease);
        break;
    }
    etcd_call(c->etcd, paths[call->kind], buf_view(&body), (int)call->endpoint, call->timeout_ms,
              on_reply, mem_dup(&q, sizeof q));
    buf_close(&body);
}

/* ---- carrying out what the election decides ---- */

static void answer_transfer(struct candidate *c, uint64_t ticket, const struct err *err,
                            uint64_t epoch, int64_t first)
{
    struct transfer_wait *t = &c->transfer;
    pthread_mutex_lock(&t->lock);
    candidate_transferred *done = ticket == t->ticket ? t->done : NULL;
    void *arg = t->arg;
    if (done)
        t->done = NULL;
    pthread_mutex_unlock(&t->lock);
    if (done)
        done(arg, err, epoch, first);
}

static void carry_out(struct candidate *c, const struct election_action *a)
{
    const struct candidate_hooks *hooks = &c->cfg.hooks;
    void *ctx = c->cfg.ctx;
    switch (a->kind) {
    case ELECTION_CALL:
        if (is_unguarded(c))
            refuse(c, &a->call);
        else
            ask(c, &a->call);
        break;
    case ELECTION_KEEP:
        keeper_keep(c->keeper, a->lease, a->every_ms);
        break;
    case ELECTION_TELL:
        if (c->cfg.guardian)
            guardian_tell(c->cfg.guardian, a->lease, &a->release);
        c->told_epoch = a->release.epoch;
        break;
    case ELECTION_CLOSE_GATE:
        hooks->close_gate(ctx, a->epoch);
        break;
    case ELECTION_PUBLISH:
        hooks->publish(ctx, a->role, a->epoch);
        break;
    case ELECTION_LEAD:
        hooks->lead(ctx, a->leadership);
        break;
    case ELECTION_STEP_DOWN:
        meta_count_step_down(a->why);
        hooks->step_down(ctx, a->epoch, a->why);
        break;
    case ELECTION_WARN:
        log_limited(&c->limit, LOG_WARN, "election: %s", a->err.message);
        break;
    case ELECTION_DRAINED:
        hooks->drained(ctx);
        break;
    case ELECTION_SUSPECT:
        log_limited(&c->limit, LOG_WARN, "election: %s", a->err.message);
        hooks->suspect(ctx, &a->err);
        break;
    case ELECTION_FATAL:
        hooks->fatal(ctx, &a->err);
        break;
    case ELECTION_TRANSFERRED:
        answer_transfer(c, a->ticket, &a->err, a->epoch, a->lease);
        break;
    case ELECTION_REMOVED:
        hooks->removed(ctx);
        break;
    }
}

static void step(struct candidate *c, struct election_event *event)
{
    struct election_effects effects;
    event->now_ms = clock_boot_ms();
    atomic_store(&c->last_turn_ms, event->now_ms);
    election_step(c->election, event, &effects);
    atomic_store(&c->lease, election_lease(c->election)); /* before etcd can show its key */
    for (size_t i = 0; i < effects.count; i++)
        carry_out(c, &effects.actions[i]);
}

static void empty_inbox(struct candidate *c)
{
    struct inbox *in = &c->inbox;
    struct election_event record = {.kind = ELECTION_RECORD_SEEN};
    struct election_event proof = {.kind = ELECTION_RENEWED};
    pthread_mutex_lock(&in->lock);
    bool has_record = in->has_record, has_proof = in->has_proof;
    record.bytes = in->record;
    record.revision = in->revision;
    record.received_ms = in->received_ms;
    proof.epoch = in->proof_epoch;
    proof.sent_ms = in->proof_ms;
    in->has_record = in->has_proof = false;
    pthread_mutex_unlock(&in->lock);
    if (has_proof)
        step(c, &proof);
    if (has_record)
        step(c, &record);
}

static int64_t wait_ms(const struct candidate *c)
{
    int64_t next_ms = election_next_ms(c->election);
    int64_t now_ms = clock_boot_ms();
    if (next_ms <= now_ms)
        return 0;
    return next_ms - now_ms < TURN_MS ? next_ms - now_ms : TURN_MS;
}

static void *run(void *arg)
{
    struct candidate *c = arg;
    struct election_event tick = {.kind = ELECTION_TICK};
    step(c, &tick);
    while (!atomic_load(&c->stopping)) {
        struct item *item = queue_pop(c->items, wait_ms(c));
        empty_inbox(c);
        step(c, item ? &item->event : &tick);
        if (item)
            etcd_txn_result_close(&item->result);
        free(item);
    }
    return NULL;
}

/* ---- what others say ---- */

void candidate_see_record(struct candidate *c, struct bytes value, int64_t revision,
                          int64_t received_ms)
{
    struct inbox *in = &c->inbox;
    if (value.len > RECORD_BYTES_MAX)
        return; /* not a record; whoever stands reads it and says so */
    pthread_mutex_lock(&in->lock);
    if (!in->received_ms || !bytes_equal(record_view(&in->record), value)) {
        record_bytes_set(&in->record, value);
        in->revision = revision;
        in->received_ms = received_ms;
        in->has_record = true;
    }
    pthread_mutex_unlock(&in->lock);
}

static void see_proof(struct candidate *c, uint64_t epoch, int64_t sent_ms)
{
    struct inbox *in = &c->inbox;
    pthread_mutex_lock(&in->lock);
    if (epoch != in->proof_epoch || sent_ms > in->proof_ms) {
        in->proof_epoch = epoch;
        in->proof_ms = sent_ms;
        in->has_proof = true;
    }
    pthread_mutex_unlock(&in->lock);
}

void candidate_post(struct candidate *c, const struct election_event *event)
{
    PRE(event->kind != ELECTION_ANSWERED && event->kind != ELECTION_TICK);
    if (event->kind == ELECTION_RECORD_SEEN) {
        candidate_see_record(c, record_view(&event->bytes), event->revision, event->received_ms);
    } else if (event->kind == ELECTION_RENEWED) {
        see_proof(c, event->epoch, event->sent_ms);
    } else {
        struct item *item = mem_alloc(sizeof *item);
        item->event = *event;
        queue_push_always(c->items, item);
    }
}

struct err candidate_transfer(struct candidate *c, uint64_t epoch, const struct handover *to,
                              candidate_transferred *done, void *arg)
{
    struct transfer_wait *t = &c->transfer;
    struct election_event event = {.kind = ELECTION_TRANSFER, .epoch = epoch, .handover = *to};
    pthread_mutex_lock(&t->lock);
    bool taken = t->done != NULL;
    if (!taken) {
        t->done = done;
        t->arg = arg;
        event.ticket = ++t->ticket;
    }
    pthread_mutex_unlock(&t->lock);
    if (taken)
        return err_make(ERR_IN_TRANSFER,
                        "the leadership is being handed over already: look who leads");
    candidate_post(c, &event);
    return OK_ERR;
}

bool candidate_is_transferring(struct candidate *c)
{
    pthread_mutex_lock(&c->transfer.lock);
    bool waits = c->transfer.done != NULL;
    pthread_mutex_unlock(&c->transfer.lock);
    return waits;
}

struct etcd_client *candidate_etcd(struct candidate *c)
{
    return c->etcd;
}

int64_t candidate_lease(const struct candidate *c)
{
    return atomic_load(&((struct candidate *)c)->lease);
}

/* On the keeper's thread. */
static void on_kept(void *arg, int64_t lease, int64_t ttl_ms)
{
    meta_note_lease(ttl_ms);
    candidate_post(arg, &(struct election_event){
                            .kind = ELECTION_LEASE_KEPT, .lease = lease, .ttl_ms = ttl_ms});
}

static bool goes_on(void *arg)
{
    struct candidate *c = arg;
    return clock_boot_ms() - atomic_load(&c->last_turn_ms) < c->cfg.ttl_ms;
}

/* ---- life ---- */

static void on_role_moved(void *arg, const struct sm *sm, int from, const char *why,
                          int64_t spent_ms)
{
    log_info("role %s, was %s for %lld ms: %s", sm_str(sm), sm->decl->states[from],
             (long long)spent_ms, why);
}

static void on_seat_moved(void *arg, const struct sm *sm, int from, const char *why,
                          int64_t spent_ms)
{
    meta_note_seat((enum seat)sm->state, why);
    log_debug("election: %s, was %s for %lld ms: %s", sm_str(sm), sm->decl->states[from],
              (long long)spent_ms, why);
}

static void make_election(struct candidate *c)
{
    struct rng rng;
    struct election_config cfg = {
        .etcd_cluster_id = c->cfg.etcd_cluster_id,
        .self = c->cfg.self,
        .ttl_ms = c->cfg.ttl_ms,
        .endpoints = (size_t)etcd_endpoint_count(c->etcd),
        .unix_minus_boot_ms = clock_unix_ms() - clock_boot_ms(),
        .dead = c->cfg.dead,
    };
    PRE(strlen(c->prefix) < sizeof cfg.prefix);
    memcpy(cfg.prefix, c->prefix, strlen(c->prefix) + 1);
    snprintf(cfg.former_starts, sizeof cfg.former_starts, "%s", c->cfg.former_starts);
    rng_seed_os(&rng);
    cfg.seed = rng_next(&rng);
    c->election = election_new(&cfg, clock_boot_ms());
    election_role_sm(c->election)->moved = on_role_moved;
    election_seat_sm(c->election)->moved = on_seat_moved;
}

struct err candidate_start(struct candidate **out, const struct candidate_config *cfg)
{
    struct candidate *c = mem_alloc(sizeof *c);
    struct etcd_config etcd = {.access = *cfg->etcd, .name = "elect"};
    c->cfg = *cfg;
    pthread_mutex_init(&c->inbox.lock, NULL);
    pthread_mutex_init(&c->transfer.lock, NULL);
    c->items = queue_new(EVENTS_MAX);
    c->prefix = mem_strdup(cfg->prefix);
    struct err e = etcd_client_new(&c->etcd, &etcd);
    if (err_is(&e))
        goto failed;
    etcd.name = "keepalive";
    e = keeper_start(
        &c->keeper,
        &(struct keeper_config){.etcd = etcd, .kept = on_kept, .may_renew = goes_on, .arg = c});
    if (err_is(&e))
        goto failed;
    make_election(c);
    c->thread = thread_start("election", run, c);
    *out = c;
    return OK_ERR;
failed:
    candidate_stop(c);
    return e;
}

static void wake_to_stop(struct candidate *c)
{
    struct item *item = mem_alloc(sizeof *item);
    item->event.kind = ELECTION_TICK;
    atomic_store(&c->stopping, true);
    queue_push_always(c->items, item);
    pthread_join(c->thread, NULL);
}

void candidate_stop(struct candidate *c)
{
    if (!c)
        return;
    if (c->election)
        wake_to_stop(c);
    struct err cut_short = err_make(ERR_OUTCOME_UNKNOWN, "the member ends: look who leads");
    answer_transfer(c, c->transfer.ticket, &cut_short, 0, 0);
    keeper_stop(c->keeper);
    etcd_client_free(c->etcd);
    for (struct item *item; (item = queue_pop(c->items, 0));) {
        etcd_txn_result_close(&item->result);
        free(item);
    }
    queue_free(c->items);
    election_free(c->election);
    pthread_mutex_destroy(&c->inbox.lock);
    pthread_mutex_destroy(&c->transfer.lock);
    free(c->prefix);
    free(c);
}
