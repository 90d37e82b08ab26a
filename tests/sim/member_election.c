#include "common/base/check.h"
#include "common/base/mem.h"
#include "tests/sim/checker.h"
#include "tests/sim/clients.h"
#include "tests/sim/member.h"
#include <stdio.h>
#include <stdlib.h>

static void carry_out(struct world *w, struct member *m, const struct election_effects *effects);

static void tick(struct world *w, void *arg);

/* One tick is on its way at a time, unless an earlier one is wanted. */
static void schedule_tick(struct world *w, struct member *m)
{
    int64_t next_ms = election_next_ms(m->election);
    if (next_ms == INT64_MAX || (m->ticked_ms && m->ticked_ms <= next_ms))
        return;
    m->ticked_ms = next_ms;
    world_post(w, member_delay_us(w, m, next_ms), m->index, THREAD_ELECTION, tick, NULL, m);
}

static void step(struct world *w, struct member *m, struct election_event *event)
{
    struct election_effects effects = {0};
    event->now_ms = member_ms(w, m);
    enum role before = election_role(m->election);
    election_step(m->election, event, &effects);
    if (before != election_role(m->election))
        world_trace(w, m->index, "is now %s", role_str(election_role(m->election)));
    unsigned life = m->life;
    carry_out(w, m, &effects);
    if (m->alive && m->life == life)
        schedule_tick(w, m);
}

static void tick(struct world *w, void *arg)
{
    struct member *m = arg;
    m->ticked_ms = 0;
    if (member_ms(w, m) >= election_next_ms(m->election))
        step(w, m, &(struct election_event){.kind = ELECTION_TICK});
    else
        schedule_tick(w, m);
}

struct posted_event {
    struct member *m;
    struct election_event event;
};

static void run_posted(struct world *w, void *arg)
{
    struct posted_event *posted = arg;
    step(w, posted->m, &posted->event);
    free(posted);
}

void election_shell_post(struct world *w, struct member *m, const struct election_event *event)
{
    struct posted_event *posted = mem_alloc(sizeof *posted);
    *posted = (struct posted_event){.m = m, .event = *event};
    world_post(w, 1, m->index, THREAD_ELECTION, run_posted, free, posted);
}

/* ---- lease ---- */

static void keepalive(struct world *w, void *arg);

static void keepalive_done(struct world *w, struct net_call *call, struct net_answer *answer)
{
    struct member *m = call->owner;
    if (call->lease != m->kept_lease)
        return;
    if (err_is(&answer->err)) {
        m->keep_endpoint++;
        return;
    }
    election_shell_post(w, m,
                        &(struct election_event){.kind = ELECTION_LEASE_KEPT,
                                                 .lease = call->lease,
                                                 .ttl_ms = answer->ttl_ms});
}

struct keeping {
    struct member *m;
    uint64_t generation;
};

static void keepalive_again(struct world *w, struct member *m, int64_t delay_us)
{
    struct keeping *k = mem_alloc(sizeof *k);
    *k = (struct keeping){.m = m, .generation = m->keep_generation};
    world_post(w, delay_us, m->index, THREAD_KEEPALIVE, keepalive, free, k);
}

static void keepalive(struct world *w, void *arg)
{
    struct keeping *k = arg;
    struct member *m = k->m;
    if (k->generation == m->keep_generation && m->kept_lease) {
        net_send(w, &(struct net_call){.member = m->index,
                                       .thread = THREAD_KEEPALIVE,
                                       .endpoint = (int)(m->keep_endpoint % ENDPOINTS),
                                       .what = "keepalive",
                                       .kind = NET_KEEPALIVE,
                                       .lease = m->kept_lease,
                                       .timeout_ms = m->keep_every_ms,
                                       .done = keepalive_done,
                                       .owner = m});
        int64_t next_ms = member_ms(w, m) + m->keep_every_ms;
        keepalive_again(w, m, member_delay_us(w, m, next_ms));
    }
    free(k);
}

/* ---- calls ---- */

static bool writes_below(const struct etcd_txn *txn, const char *start)
{
    for (size_t i = 0; i < txn->success_count; i++) {
        if (txn->success[i].kind != ETCD_OP_RANGE &&
            bytes_starts_with(txn->success[i].key, bytes_str(start)))
            return true;
    }
    return false;
}

static const char *name_txn(const struct etcd_txn *txn)
{
    if (writes_below(txn, SIM_PREFIX "state/commit"))
        return "takeover";
    if (writes_below(txn, SIM_PREFIX "cluster"))
        return "raise";
    if (writes_below(txn, SIM_PREFIX "live/released"))
        return "release";
    if (writes_below(txn, SIM_PREFIX "live/members/"))
        return "register";
    if (writes_below(txn, SIM_PREFIX "live/election/"))
        return txn->compare_count ? "campaign" : "leave";
    return "read";
}

static void call_done(struct world *w, struct net_call *call, struct net_answer *answer)
{
    struct member *m = call->owner;
    bool has_result = call->kind == NET_TXN && !err_is(&answer->err);
    struct election_event event = {.kind = ELECTION_ANSWERED,
                                   .call = call->tag,
                                   .err = answer->err,
                                   .result = has_result ? &answer->result : NULL,
                                   .lease = call->lease,
                                   .ttl_ms = answer->ttl_ms};
    step(w, m, &event);
}

static void send_call(struct world *w, struct member *m, const struct election_call *call)
{
    struct net_call out = {.member = m->index,
                           .thread = THREAD_ELECTION,
                           .endpoint = (int)(call->endpoint % ENDPOINTS),
                           .lease = call->lease,
                           .ttl_ms = call->ttl_s * 1000,
                           .timeout_ms = call->timeout_ms,
                           .done = call_done,
                           .owner = m,
                           .tag = call->id};
    switch (call->kind) {
    case CALL_TXN:
        out.kind = NET_TXN;
        out.txn = *call->txn;
        out.what = name_txn(call->txn);
        break;
    case CALL_GRANT:
        out.kind = NET_GRANT;
        out.what = "grant";
        break;
    case CALL_REVOKE:
        out.kind = NET_REVOKE;
        out.what = "revoke";
        break;
    }
    net_send(w, &out);
}

/* ---- towards the replica ---- */

struct lead_order {
    struct member *m;
    struct leadership leadership;
    uint64_t epoch;
};

static void run_lead(struct world *w, void *arg)
{
    struct lead_order *order = arg;
    replica_shell_lead(w, order->m, &order->leadership);
    free(order);
}

static void run_step_down(struct world *w, void *arg)
{
    struct lead_order *order = arg;
    replica_shell_step_down(w, order->m, order->epoch);
    free(order);
}

static void post_order(struct world *w, struct member *m, const struct leadership *l,
                       uint64_t epoch)
{
    struct lead_order *order = mem_alloc(sizeof *order);
    order->m = m;
    order->epoch = epoch;
    if (l)
        order->leadership = *l;
    world_post(w, 1, m->index, THREAD_REPLICA, l ? run_lead : run_step_down, free, order);
}

/* ---- actions ---- */

static void keep(struct world *w, struct member *m, const struct election_action *a)
{
    m->keep_generation++;
    m->kept_lease = a->every_ms ? a->lease : 0;
    m->keep_every_ms = a->every_ms;
    if (m->kept_lease)
        keepalive_again(w, m, member_delay_us(w, m, member_ms(w, m) + a->every_ms));
}

/* The member whose process ends comes again by the hand of whoever runs it. */
static void restart(struct world *w, void *arg)
{
    struct member *m = arg;
    world_fault(w, FAULT_RESTART);
    member_start(w, m->index);
}

static void act(struct world *w, struct member *m, const struct election_action *a)
{
    switch (a->kind) {
    case ELECTION_CALL:
        send_call(w, m, &a->call);
        return;
    case ELECTION_KEEP:
        keep(w, m, a);
        return;
    case ELECTION_TELL:
        m->told_lease = a->lease;
        m->told = a->release;
        return;
    case ELECTION_CLOSE_GATE:
        read_gate_close(&m->gate, a->epoch);
        return;
    case ELECTION_PUBLISH:
        m->role = a->role;
        m->epoch = a->epoch;
        return;
    case ELECTION_LEAD:
        m->disk_leadership = (struct released){.epoch = a->leadership->epoch};
        memcpy(m->disk_leadership.nonce, a->leadership->nonce, sizeof m->disk_leadership.nonce);
        post_order(w, m, a->leadership, a->leadership->epoch);
        return;
    case ELECTION_STEP_DOWN:
        world_trace(w, m->index, "steps down from epoch %llu: %s", (unsigned long long)a->epoch,
                    a->why);
        post_order(w, m, NULL, a->epoch);
        return;
    case ELECTION_WARN:
        world_trace(w, m->index, "warns: %s", a->err.message);
        return;
    case ELECTION_DRAINED:
        member_kill(w, m->index, 0);
        world_at(w, 500000, restart, m);
        return;
    case ELECTION_TRANSFERRED:
        if (!(m->transfers_open >> a->ticket % 64 & 1))
            world_violate(w, "m%d answers a handover twice, or one that nobody asked for",
                          m->index);
        m->transfers_open &= ~(1ULL << a->ticket % 64);
        world_trace(w, m->index, "handed over: %s",
                    err_is(&a->err) ? a->err.message : "another is first in line");
        return;
    case ELECTION_REMOVED:
        world_trace(w, m->index, "was taken out by an operator");
        return;
    case ELECTION_SUSPECT:
    case ELECTION_FATAL:
        world_trace(w, m->index, "gives up: %s", a->err.message);
        checker_fatal(w, m->index, &a->err);
        member_kill(w, m->index, 0);
        world_at(w, 1000000, restart, m);
        return;
    }
}

static void carry_out(struct world *w, struct member *m, const struct election_effects *effects)
{
    unsigned life = m->life;
    for (size_t i = 0; i < effects->count && m->alive && m->life == life; i++)
        act(w, m, &effects->actions[i]);
}

void election_shell_start(struct world *w, struct member *m)
{
    struct election_config config = {.prefix = SIM_PREFIX,
                                     .etcd_cluster_id = w->etcd.cluster_id,
                                     .ttl_ms = m->ttl_ms,
                                     .endpoints = ENDPOINTS,
                                     .seed = rng_next(&w->rng)};
    snprintf(config.self.id, sizeof config.self.id, "m%d", m->index);
    snprintf(config.self.addr, sizeof config.self.addr, "127.0.0.1:%d", 7000 + m->index);
    snprintf(config.self.version, sizeof config.self.version, "sim");
    config.self.format_min = 1;
    config.self.format_max = m->running_version = m->version;
    memcpy(config.self.instance, m->instance, sizeof config.self.instance);
    rng_hex(&w->rng, config.self.start, NONCE_DIGITS);
    snprintf(config.former_starts, sizeof config.former_starts, "%s,%.*s", config.self.start,
             (int)(6 * (NONCE_DIGITS + 1)), m->disk_starts);
    memcpy(m->disk_starts, config.former_starts, sizeof m->disk_starts);
    memcpy(m->start, config.self.start, sizeof m->start);
    if (m->disk_leadership.epoch && rng_below(&w->rng, 2))
        config.dead = m->disk_leadership;
    m->election = election_new(&config, member_ms(w, m));
    m->ticked_ms = 0;
    election_shell_post(w, m, &(struct election_event){.kind = ELECTION_TICK});
}
