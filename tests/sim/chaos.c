#include "tests/sim/chaos.h"
#include "common/base/mem.h"
#include "tests/sim/clients.h"
#include "tests/sim/operator.h"
#include <stdio.h>
#include <stdlib.h>

enum { TICK_US = 50 * 1000 };

/* Times in a million ticks. */
struct chaos {
    uint64_t crash, no_guardian, late_guardian, restart, drain;
    uint64_t pause, stick, cut_member, down, lag, stall, full;
    uint64_t revoke, delete_key, break_watch, silence, compact, fail_activation, cut_proxy;
    uint64_t transfer, remove, version;
    uint64_t strike_role, strike_commit; /* times in a million calls */
    int64_t longest_us;                  /* of pauses, cuts and the like */
    bool over;
};

static bool half(struct rng *r)
{
    return rng_below(r, 2) == 0;
}

struct world_options chaos_options(uint64_t seed, bool traced)
{
    static const int64_t ttls_ms[] = {1000, 2000, 3000, 5000};
    struct rng r;
    struct world_options o = {.seed = seed, .traced = traced};
    rng_seed(&r, seed ^ 0x5eedULL);
    int64_t common = ttls_ms[rng_below(&r, 4)];
    bool different = half(&r);
    for (int i = 0; i < MEMBERS; i++) {
        o.ttl_ms[i] = different ? ttls_ms[rng_below(&r, 4)] : common;
        /* The bound is margin / (2 TTL - margin), 5.2 % for a margin of 10 %. */
        double drift = half(&r) ? 0.05 : 0.05 * (double)rng_below(&r, 1000) / 1000.0;
        o.rate[i] = 1.0 + (half(&r) ? drift : -drift);
    }
    return o;
}

/* Nothing in half of the worlds. */
static uint64_t draw(struct world *w, uint64_t most)
{
    return half(&w->rng) ? 0 : 1 + rng_below(&w->rng, most);
}

static void draw_rates(struct world *w, struct chaos *c)
{
    c->crash = draw(w, 20000);
    c->no_guardian = draw(w, 700000);
    c->late_guardian = draw(w, 500000);
    c->restart = 5000 + rng_below(&w->rng, 60000);
    c->drain = draw(w, 8000);
    c->pause = draw(w, 15000);
    c->stick = draw(w, 20000);
    c->cut_member = draw(w, 20000);
    c->down = draw(w, 10000);
    c->lag = draw(w, 10000);
    c->stall = draw(w, 4000);
    c->full = draw(w, 5000);
    c->revoke = draw(w, 6000);
    c->delete_key = draw(w, 6000);
    c->break_watch = draw(w, 10000);
    c->silence = draw(w, 5000);
    c->compact = draw(w, 5000);
    c->fail_activation = draw(w, 5000);
    c->cut_proxy = draw(w, 10000);
    c->transfer = draw(w, 20000);
    c->remove = draw(w, 6000);
    c->version = draw(w, 900000);
    c->strike_role = draw(w, 200000);
    c->strike_commit = draw(w, 10000);
    c->longest_us = 100000 + (int64_t)rng_below(&w->rng, 9900000);
}

static void draw_network(struct world *w)
{
    struct net_faults *f = &w->net->faults;
    f->lose_request = draw(w, 100000);
    f->lose_reply = draw(w, 150000);
    f->slow = draw(w, 200000);
    f->slow_max_us = 1000 + (int64_t)rng_below(&w->rng, half(&w->rng) ? 100000 : 6000000);
    f->duplicate = draw(w, 100000);
    f->refuse = draw(w, 50000);
    f->no_space = draw(w, 30000);
    f->applied_no_space = draw(w, 20000);
    f->empty = draw(w, 30000);
    f->foreign = draw(w, 20000);
    f->watch_gap = draw(w, 5000);
    w->slow_readers = draw(w, 300000);
    w->clients->lose = draw(w, 100000);
    w->clients->duplicate = draw(w, 200000);
    w->clients->random_member = draw(w, 400000);
}

static int64_t span_us(struct world *w, const struct chaos *c)
{
    return 1000 + (int64_t)rng_below(&w->rng, (uint64_t)c->longest_us);
}

static int anybody(struct world *w)
{
    return (int)rng_below(&w->rng, MEMBERS);
}

/* The leader is the better victim. */
static int victim(struct world *w)
{
    int somebody = anybody(w);
    if (half(&w->rng))
        return somebody;
    for (int i = 0; i < MEMBERS; i++) {
        if (w->members[i].alive && w->members[i].epoch)
            return i;
    }
    return somebody;
}

static void crash(struct world *w, const struct chaos *c, int i)
{
    int64_t delay_us = (int64_t)rng_below(&w->rng, 5000);
    if (!w->members[i].alive)
        return;
    world_fault(w, FAULT_CRASH);
    if (world_chance(w, c->no_guardian)) {
        world_fault(w, FAULT_GUARDIAN_LOST);
        delay_us = -1;
    } else if (world_chance(w, c->late_guardian)) {
        world_fault(w, FAULT_GUARDIAN_LATE);
        delay_us = span_us(w, c);
    }
    member_kill(w, i, delay_us);
    struct member *m = &w->members[i];
    if (rng_below(&w->rng, 4) == 0) /* the machine went too, and the cache with it */
        m->disk_applied = 0;
}

static void restart(struct world *w, const struct chaos *c)
{
    int i = anybody(w);
    if (w->members[i].alive)
        return;
    world_fault(w, FAULT_RESTART);
    if (world_chance(w, c->version))
        operator_upgrade(w, i, 1 + (unsigned)rng_below(&w->rng, VERSIONS));
    member_start(w, i);
}

static void transfer(struct world *w)
{
    char target[8];
    snprintf(target, sizeof target, "m%d", anybody(w));
    for (int i = 0; i < MEMBERS; i++)
        operator_transfer(w, i, half(&w->rng) ? target : "");
}

static void cut(struct world *w, const struct chaos *c, int i)
{
    int64_t until_us = w->now_us + span_us(w, c);
    world_fault(w, FAULT_CUT);
    bool all = half(&w->rng);
    int one = (int)rng_below(&w->rng, ENDPOINTS);
    for (int e = 0; e < ENDPOINTS; e++) {
        if (all || e == one)
            w->net->cut_until_us[i][e] = until_us;
    }
}

static void stall(struct world *w, const struct chaos *c)
{
    world_fault(w, FAULT_ETCD_STALLED);
    w->net->stalled_until_us = w->now_us + span_us(w, c);
    fake_etcd_reset_leases(&w->etcd);
}

static void no_lag(struct world *w, void *arg)
{
    w->net->lag_us[(intptr_t)arg] = 0;
}

static void lag(struct world *w, const struct chaos *c)
{
    int e = (int)rng_below(&w->rng, ENDPOINTS);
    world_fault(w, FAULT_ENDPOINT_LAGS);
    w->net->lag_us[e] = (int64_t)rng_below(&w->rng, 3000000);
    world_at(w, span_us(w, c), no_lag, (void *)(intptr_t)e);
}

static void no_longer_full(struct world *w, void *arg)
{
    (void)arg;
    w->etcd.no_space = false;
}

static void fill(struct world *w, const struct chaos *c)
{
    if (w->etcd.no_space)
        return;
    world_fault(w, FAULT_ETCD_FULL);
    w->etcd.no_space = true;
    world_at(w, span_us(w, c), no_longer_full, NULL);
}

static void revoke(struct world *w, int i)
{
    struct member *m = &w->members[i];
    int64_t lease = m->alive ? election_lease(m->election) : 0;
    if (lease && fake_etcd_revoke(&w->etcd, lease)) {
        world_trace(w, m->index, "an operator revokes its lease");
        world_fault(w, FAULT_LEASE_REVOKED);
    }
}

static void delete_key(struct world *w, int i)
{
    char key[KEY_MAX];
    struct member *m = &w->members[i];
    int64_t lease = m->alive ? election_lease(m->election) : 0;
    if (lease && fake_etcd_delete(&w->etcd, keys_election(key, SIM_PREFIX, lease), BYTES_NONE)) {
        world_trace(w, m->index, "an operator deletes its election key");
        world_fault(w, FAULT_KEY_DELETED);
    }
}

static void silence(struct world *w)
{
    struct net_watch *watch = w->net->watches[anybody(w)];
    if (watch == NULL || watch->silent)
        return;
    world_fault(w, FAULT_WATCH_SILENT);
    watch->silent = true;
}

static void compact(struct world *w)
{
    world_fault(w, FAULT_COMPACTED);
    w->etcd.compacted = w->etcd.revision;
}

/* ---- just when it matters: around a takeover, a resignation, a commit ---- */

static void strike(struct world *w, void *arg)
{
    int i = (int)(intptr_t)arg;
    const struct chaos *c = w->net->sent_arg;
    if (c == NULL || !w->members[i].alive)
        return;
    switch (rng_below(&w->rng, 6)) {
    case 0:
        crash(w, c, i);
        return;
    case 1:
        world_fault(w, FAULT_PAUSE_MEMBER);
        member_stop_for(w, i, span_us(w, c));
        return;
    case 2:
        world_fault(w, FAULT_PAUSE_THREAD);
        member_stick_for(w, i, (int)rng_below(&w->rng, THREADS), span_us(w, c));
        return;
    case 3:
        cut(w, c, i);
        return;
    case 4:
        revoke(w, i);
        return;
    default:
        delete_key(w, i);
        return;
    }
}

static void on_sent(struct world *w, const struct net_call *call)
{
    const struct chaos *c = w->net->sent_arg;
    bool role = strcmp(call->what, "takeover") == 0 || strcmp(call->what, "release") == 0;
    if (call->member == NOBODY || !world_chance(w, role ? c->strike_role : c->strike_commit))
        return;
    int64_t us = (int64_t)rng_below(&w->rng, 4000);
    world_at(w, us, strike, (void *)(intptr_t)call->member);
}

static void members_tick(struct world *w, struct chaos *c)
{
    if (world_chance(w, c->crash))
        crash(w, c, victim(w));
    if (world_chance(w, c->restart))
        restart(w, c);
    if (world_chance(w, c->drain)) {
        world_fault(w, FAULT_DRAINED);
        member_drain(w, victim(w));
    }
    if (world_chance(w, c->transfer))
        transfer(w);
    if (world_chance(w, c->remove))
        operator_remove(w, anybody(w), anybody(w));
    if (world_chance(w, c->pause)) {
        world_fault(w, FAULT_PAUSE_MEMBER);
        member_stop_for(w, victim(w), span_us(w, c));
    }
    if (world_chance(w, c->stick)) {
        world_fault(w, FAULT_PAUSE_THREAD);
        member_stick_for(w, victim(w), (int)rng_below(&w->rng, THREADS), span_us(w, c));
    }
    if (world_chance(w, c->fail_activation))
        w->members[anybody(w)].activations_to_fail = 1;
}

static void etcd_tick(struct world *w, struct chaos *c)
{
    if (world_chance(w, c->cut_member))
        cut(w, c, victim(w));
    if (world_chance(w, c->down)) {
        world_fault(w, FAULT_ENDPOINT_DOWN);
        w->net->down_until_us[rng_below(&w->rng, ENDPOINTS)] = w->now_us + span_us(w, c);
    }
    if (world_chance(w, c->lag))
        lag(w, c);
    if (world_chance(w, c->stall))
        stall(w, c);
    if (world_chance(w, c->full))
        fill(w, c);
    if (world_chance(w, c->revoke))
        revoke(w, victim(w));
    if (world_chance(w, c->delete_key))
        delete_key(w, victim(w));
    if (world_chance(w, c->break_watch)) {
        world_fault(w, FAULT_WATCH_ENDED);
        net_watch_break(w, anybody(w));
    }
    if (world_chance(w, c->silence))
        silence(w);
    if (world_chance(w, c->compact))
        compact(w);
    if (world_chance(w, c->cut_proxy))
        w->clients->cut_until_us[victim(w)] = w->now_us + span_us(w, c);
}

static void tick(struct world *w, void *arg)
{
    struct chaos *c = arg;
    if (c->over) {
        free(c);
        return;
    }
    members_tick(w, c);
    etcd_tick(w, c);
    world_post(w, TICK_US, NOBODY, 0, tick, free, c);
}

struct chaos *chaos_start(struct world *w)
{
    struct chaos *c = mem_alloc(sizeof *c);
    draw_rates(w, c);
    draw_network(w);
    w->net->sent = on_sent;
    w->net->sent_arg = c;
    world_post(w, TICK_US, NOBODY, 0, tick, free, c);
    return c;
}

/* Now and then only one member is left; the others are gone for good, and their guardians too. */
static int choose_survivor(struct world *w)
{
    int survivor = anybody(w);
    if (rng_below(&w->rng, 4) != 0)
        return NOBODY;
    for (int i = 0; i < MEMBERS; i++) {
        w->members[i].banned = i != survivor;
        if (i != survivor)
            member_kill(w, i, -1);
    }
    return survivor;
}

/* Whoever is left speaks every level, so that somebody can lead. */
static void upgrade(struct world *w, int i)
{
    operator_upgrade(w, i, VERSIONS);
    if (w->members[i].running_version < VERSIONS && !w->members[i].banned)
        member_kill(w, i, 0);
}

void chaos_stop(struct world *w, struct chaos *c)
{
    c->over = true; /* its last tick frees it */
    w->net->sent = NULL;
    w->net->sent_arg = NULL;
    int survivor = choose_survivor(w);
    world_trace(w, NOBODY, "---- peace, %s ----", survivor == NOBODY ? "all live" : "one is left");
    w->net->faults = (struct net_faults){0};
    memset(w->net->cut_until_us, 0, sizeof w->net->cut_until_us);
    memset(w->net->down_until_us, 0, sizeof w->net->down_until_us);
    memset(w->net->lag_us, 0, sizeof w->net->lag_us);
    memset(w->clients->cut_until_us, 0, sizeof w->clients->cut_until_us);
    w->etcd.no_space = false;
    w->slow_readers = 0;
    w->clients->lose = w->clients->duplicate = w->clients->random_member = 0;
    for (int i = 0; i < MEMBERS; i++) {
        struct member *m = &w->members[i];
        m->activations_to_fail = 0;
        member_clear_pauses(m);
        upgrade(w, i);
        member_start(w, i);
    }
}
