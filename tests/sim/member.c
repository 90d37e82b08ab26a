#include "tests/sim/member.h"
#include "common/base/mem.h"
#include <math.h>
#include <stdlib.h>

void member_init(struct world *w, int index, int64_t ttl_ms, double rate)
{
    struct member *m = &w->members[index];
    m->index = index;
    m->ttl_ms = ttl_ms;
    m->rate = rate;
    m->clock_offset_ms = 10000 + (int64_t)rng_below(&w->rng, 1000000);
    rng_hex(&w->rng, m->instance, NONCE_DIGITS);
    m->version = 1;
}

static void process_close(struct member *m)
{
    election_free(m->election);
    m->election = NULL;
    replica_shell_close(m);
    m->alive = false;
    m->gate = (struct read_gate){0};
    m->role = ROLE_FOLLOWER;
    m->epoch = 0;
}

void member_close(struct world *w, int index)
{
    if (w->members[index].alive)
        process_close(&w->members[index]);
}

int64_t member_ms(const struct world *w, const struct member *m)
{
    return m->clock_offset_ms + (int64_t)floor((double)w->now_us * m->rate / 1000.0);
}

int64_t member_delay_us(const struct world *w, const struct member *m, int64_t until_ms)
{
    if (until_ms <= member_ms(w, m))
        return 0;
    double at_us = (double)(until_ms - m->clock_offset_ms) * 1000.0 / m->rate;
    return (int64_t)ceil(at_us) + 1 - w->now_us;
}

int64_t member_paused_until(const struct member *m, int thread)
{
    int64_t stuck = m->stuck_until_us[thread];
    return stuck > m->stopped_until_us ? stuck : m->stopped_until_us;
}

void member_clear_pauses(struct member *m)
{
    m->stopped_until_us = 0;
    memset(m->stuck_until_us, 0, sizeof m->stuck_until_us);
}

void member_stop_for(struct world *w, int index, int64_t us)
{
    world_trace(w, index, "stopped for %lld ms", (long long)us / 1000);
    w->members[index].stopped_until_us = w->now_us + us;
}

void member_stick_for(struct world *w, int index, int thread, int64_t us)
{
    world_trace(w, index, "thread %d stuck for %lld ms", thread, (long long)us / 1000);
    w->members[index].stuck_until_us[thread] = w->now_us + us;
}

bool member_reads(const struct world *w, const struct member *m)
{
    return m->alive && read_gate_epoch(&m->gate, member_ms(w, m)) != 0;
}

void member_start(struct world *w, int index)
{
    struct member *m = &w->members[index];
    if (m->alive || m->banned)
        return;
    m->alive = true;
    m->life++;
    member_clear_pauses(m);
    memset(m->backlog_until_us, 0, sizeof m->backlog_until_us);
    m->told_lease = 0;
    m->kept_lease = 0;
    m->reload = m->disk_applied == 0;
    world_trace(w, index, "starts at revision %lld", (long long)m->disk_applied);
    replica_shell_start(m);
    election_shell_start(w, m);
    follow_shell_start(w, m);
}

/* ---- death ---- */

struct last_will {
    int64_t lease;
    struct released released;
};

static void will_done(struct world *w, struct net_call *call, struct net_answer *answer)
{
    (void)w;
    (void)call;
    (void)answer;
}

/* The guardian tries two endpoints, then gives up: the lease ends by itself. */
static void will_run(struct world *w, void *arg)
{
    struct last_will *will = arg;
    struct fence_txn txn = {0};
    fence_make_release(&txn, SIM_PREFIX, will->lease, 0,
                       will->released.epoch ? &will->released : NULL);
    for (int i = 0; i < 2; i++) {
        struct net_call call = {.member = NOBODY,
                                .endpoint = i,
                                .what = "guardian",
                                .kind = NET_TXN,
                                .txn = txn.txn,
                                .timeout_ms = 2000,
                                .done = will_done};
        net_send(w, &call);
        call.kind = NET_REVOKE;
        call.what = "revoke";
        call.lease = will->lease;
        net_send(w, &call);
    }
    fence_txn_close(&txn);
    free(will);
}

void member_kill(struct world *w, int index, int64_t guardian_delay_us)
{
    struct member *m = &w->members[index];
    if (!m->alive)
        return;
    world_trace(w, index, "dies");
    m->disk_applied = m->replica.applied;
    if (m->told_lease && guardian_delay_us >= 0) {
        struct last_will *will = mem_alloc(sizeof *will);
        *will = (struct last_will){.lease = m->told_lease, .released = m->told};
        world_post(w, guardian_delay_us, NOBODY, 0, will_run, free, will);
    }
    net_watch_close(w, index);
    process_close(m);
}

void member_drain(struct world *w, int index)
{
    struct member *m = &w->members[index];
    if (!m->alive)
        return;
    world_trace(w, index, "told to drain");
    election_shell_post(w, m, &(struct election_event){.kind = ELECTION_DRAIN});
}
