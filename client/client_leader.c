/* Who leads: the search for it, and what is learnt from answers. */
#include "client/client_parts.h"
#include "client/core/retry.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include <stdlib.h>
#include <string.h>

#define ASK_MS 1000       /* one that does not answer must not use up the time for all */
#define ASK_ALONE_MS 5000 /* nor for ever, when it is the only one */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void client_forget(struct client *c, const char *addr)
{
    pthread_mutex_lock(&c->lock);
    leader_view_failed(&c->view, addr);
    pthread_mutex_unlock(&c->lock);
}

/* The guard's word counts for claims as well: what it does not admit is not learnt. */
static struct err learn_claim(struct client *c, const struct leader_claim *claim)
{
    struct err verdict = OK_ERR;
    if (claim->cluster && *claim->cluster && claim->epoch)
        verdict = guard_admit(c->guard, claim->cluster, claim->epoch);
    if (!err_is(&verdict)) {
        pthread_mutex_lock(&c->lock);
        leader_view_learn(&c->view, claim);
        pthread_mutex_unlock(&c->lock);
    }
    return verdict;
}

struct err client_learn(struct client *c, const char *addr, bool as_leader, const struct err *e,
                        const struct rpc_answer *a)
{
    bool elsewhere = retry_may_pass(e->code) || e->code == ERR_TIMEOUT;
    struct leader_claim claim = {.cluster = a->cluster,
                                 .addr = as_leader && !elsewhere ? addr : a->leader,
                                 .epoch = a->epoch};
    if (elsewhere)
        client_forget(c, addr);
    return a->epoch ? learn_claim(c, &claim) : OK_ERR;
}

/* --- a round --- */

static struct err nobody_at(const char *seed)
{
    return err_make(ERR_NO_LEADER, "%s knows no leader now", seed);
}

/* Any error but OTHER_CLUSTER means: not known there. */
static struct err ask_seed(struct client *c, const char *seed, int64_t deadline_ms)
{
    struct member_leader said;
    struct err e = client_ask(c, seed, deadline_ms, &said);
    if (e.code == ERR_TIMEOUT || e.code == ERR_LOST)
        return err_make(ERR_UNREACHABLE, "%s", e.message);
    if (err_is(&e))
        return e;
    /* who answers for itself leads, or is a proxy before the leader: either way the address to call
     */
    const char *addr = said.known && !strcmp(said.id, said.member_id) ? seed : said.addr;
    struct leader_claim claim = {.cluster = said.cluster,
                                 .epoch = said.epoch,
                                 .addr = said.known ? addr : NULL,
                                 .revision = said.revision};
    e = learn_claim(c, &claim);
    if (e.code == ERR_STALE_EPOCH || (!err_is(&e) && !said.known))
        return nobody_at(seed);
    return err_is(&e) ? err_wrap(e, "%s", seed) : OK_ERR;
}

/* Of two reasons, the one that has more hope in it. */
static struct err more_hopeful(const struct err *a, const struct err *b)
{
    bool keep = a->code == ERR_NO_LEADER || (retry_may_pass(a->code) && !retry_may_pass(b->code));
    return err_is(a) && keep ? *a : *b;
}

static struct err lost_again(void)
{
    return err_make(ERR_NO_LEADER, "the leader that was found is lost again");
}

/* Asks each address once until one knows; under the lock, which is given up while it asks. */
static void run_round(struct client *c, int64_t deadline_ms)
{
    size_t left = leader_view_seeds(&c->view);
    int64_t patience_ms = left > 1 ? ASK_MS : ASK_ALONE_MS;
    struct err why = OK_ERR;
    char seed[LEADER_ADDR_MAX];
    c->answering[0] = 0;
    for (; left > 0 && !c->view.leader[0]; left--) {
        int64_t now = clock_boot_ms();
        if (err_is(&why) && now >= deadline_ms)
            break;
        memcpy(seed, leader_view_seed(&c->view), sizeof seed);
        pthread_mutex_unlock(&c->lock);
        struct err e = ask_seed(c, seed, sooner(deadline_ms, now + patience_ms));
        pthread_mutex_lock(&c->lock);
        if (!err_is(&e))
            break;
        if (e.code == ERR_NO_LEADER)
            memcpy(c->answering, seed, sizeof seed);
        leader_view_failed(&c->view, seed);
        why = more_hopeful(&why, &e);
    }
    bool found = c->view.leader[0];
    c->round_error = found || !err_is(&why) ? lost_again() : why;
    if (found)
        c->members_due_ms = 0;
    discovery_over(&c->discovery, found, clock_boot_ms(), &c->rng);
    pthread_cond_broadcast(&c->changed);
}

/* Until a round is over or the moment has come; under the lock. */
static void wait_until(struct client *c, int64_t until_ms)
{
    struct timespec until = clock_mono_after(until_ms - clock_boot_ms());
    pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

/* Under the lock. The error of the first round that was over since, or that there was no time. */
static struct err search(struct client *c, int64_t deadline_ms)
{
    uint64_t rounds = c->discovery.rounds;
    while (!c->view.leader[0]) {
        int64_t now = clock_boot_ms();
        if (c->discovery.rounds != rounds)
            return c->round_error;
        if (now >= deadline_ms)
            return err_make(ERR_NO_LEADER, "no leader was found in time");
        int64_t until = discovery_begin(&c->discovery, now);
        if (until == 0)
            run_round(c, deadline_ms);
        else
            wait_until(c, sooner(until, deadline_ms));
    }
    return OK_ERR;
}

struct err client_find_leader(struct client *c, int64_t deadline_ms, char addr[LEADER_ADDR_MAX])
{
    pthread_mutex_lock(&c->lock);
    struct err e = search(c, deadline_ms);
    memcpy(addr, err_is(&e) ? c->answering : c->view.leader, LEADER_ADDR_MAX);
    pthread_mutex_unlock(&c->lock);
    return e;
}

/* --- what users ask --- */

struct addresses {
    char all[CLIENT_CHANNELS_MAX][LEADER_ADDR_MAX];
    size_t count;
};

static void copy_addresses(struct client *c, struct addresses *out)
{
    pthread_mutex_lock(&c->lock);
    memcpy(out->all, c->view.seeds, sizeof out->all);
    out->count = leader_view_seeds(&c->view);
    pthread_mutex_unlock(&c->lock);
}

/* One turn over all addresses. false: none answered, *e says why the last did not. */
static bool ask_all(struct client *c, int64_t deadline_ms, struct member_leader *out, struct err *e)
{
    struct addresses ask;
    struct member_leader said;
    bool answered = false;
    copy_addresses(c, &ask);
    *out = (struct member_leader){0};
    for (size_t i = 0; i < ask.count && !out->known; i++) {
        int64_t soon = clock_boot_ms() + (ask.count > 1 ? ASK_MS : ASK_ALONE_MS);
        *e = client_ask(c, ask.all[i], sooner(deadline_ms, soon), &said);
        if (err_is(e))
            continue;
        answered = true;
        said.known = said.known && said.epoch >= guard_seen(c->guard).epoch;
        *out = said;
    }
    return answered;
}

struct err client_leader(struct client *c, int64_t deadline_ms, struct member_leader *out)
{
    struct err e = OK_ERR;
    struct rng rng;
    struct backoff backoff = {.min_ms = 20, .max_ms = 1000};
    rng_seed_os(&rng);
    while (!ask_all(c, deadline_ms, out, &e)) {
        int64_t wait_ms = backoff_next_ms(&backoff, &rng);
        bool passes = retry_may_pass(e.code) || e.code == ERR_TIMEOUT;
        if (!passes || !clock_pause(wait_ms, deadline_ms))
            return e;
    }
    return OK_ERR;
}

/* --- members --- */

#define LIST_EVERY_MS 30000
#define LIST_AGAIN_MS 1000 /* after one that failed */
#define LIST_WAIT_MS 2000

struct listing {
    struct client *client;
    struct client_channel *channel;
};

static void take_list(struct client *c, struct bytes message)
{
    struct arena memory = {0};
    struct baton_members list = {0};
    struct err e = member_decode_list(message, &memory, &list);
    if (!err_is(&e)) {
        const char **addrs = arena_array(&memory, list.count, sizeof *addrs);
        for (size_t i = 0; i < list.count; i++)
            addrs[i] = list.members[i].addr;
        pthread_mutex_lock(&c->lock);
        leader_view_members(&c->view, addrs, list.count);
        pthread_mutex_unlock(&c->lock);
    }
    arena_close(&memory);
}

static void on_listed(void *arg, const struct err *e, struct rpc_answer *answer)
{
    struct listing *l = arg;
    struct client *c = l->client;
    if (!err_is(e))
        take_list(c, buf_view(&answer->message));
    client_channel_release(c, l->channel);
    free(l);
    pthread_mutex_lock(&c->lock);
    c->listing = false;
    if (err_is(e))
        c->members_due_ms = clock_boot_ms() + LIST_AGAIN_MS;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void client_list_members(struct client *c, const char *addr)
{
    int64_t now = clock_boot_ms();
    pthread_mutex_lock(&c->lock);
    bool due = !c->listing && now >= c->members_due_ms;
    if (due) {
        c->listing = true;
        c->members_due_ms = now + LIST_EVERY_MS;
    }
    pthread_mutex_unlock(&c->lock);
    if (!due)
        return;
    struct listing *l = mem_alloc(sizeof *l);
    *l = (struct listing){.client = c, .channel = client_channel_hold(c, addr)};
    rpc_channel_start(l->channel->rpc, MEMBER_LIST, BYTES_NONE, NULL, 0, now + LIST_WAIT_MS,
                      on_listed, l);
}
