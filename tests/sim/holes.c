#include "tests/sim/holes.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "tests/sim/checker.h"
#include <stdio.h>
#include <stdlib.h>

static enum net_verdict scripted(struct world *w, const struct net_call *call, enum net_stage stage)
{
    struct script *script = w->net->hook_arg;
    for (size_t i = 0; i < script->count; i++) {
        struct rule *rule = &script->rules[i];
        if (rule->times == 0 || rule->stage != stage || rule->member != call->member)
            continue;
        if (rule->what && strcmp(rule->what, call->what) != 0)
            continue;
        rule->times--;
        return rule->verdict;
    }
    return NET_PASS;
}

void script_add(struct world *w, struct rule rule)
{
    struct script *script = w->net->hook_arg;
    PRE(script->count < RULES_MAX);
    script->rules[script->count++] = rule;
}

void script_clear(struct world *w)
{
    struct script *script = w->net->hook_arg;
    script->count = 0;
}

void expect(struct world *w, bool holds, const char *text)
{
    if (!holds)
        world_violate(w, "it does not hold that %s", text);
}

int leader(const struct world *w)
{
    for (int i = 0; i < MEMBERS; i++) {
        if (w->members[i].role == ROLE_LEADER && member_reads(w, &w->members[i]))
            return i;
    }
    return NOBODY;
}

static bool leads(struct world *w, void *arg)
{
    return leader(w) == (int)(intptr_t)arg;
}

static bool another_leads(struct world *w, void *arg)
{
    int now = leader(w);
    return now != NOBODY && now != (int)(intptr_t)arg;
}

static bool stands(struct world *w, void *arg)
{
    int i = (int)(intptr_t)arg;
    char key[KEY_MAX];
    const struct member *m = &w->members[i];
    return m->alive && m->role == ROLE_CANDIDATE && m->replica.caught_up &&
           fake_etcd_get(&w->etcd, keys_election(key, SIM_PREFIX, election_lease(m->election)), 0);
}

void given_a_leader_and_two_candidates(struct world *w)
{
    for (int i = 0; i < MEMBERS; i++) {
        member_start(w, i);
        bool ready = world_wait(w, 10000, i == 0 ? leads : stands, (void *)(intptr_t)i);
        expect(w, ready, "the members get ready");
    }
    run_ms(w, 500);
}

void expect_leader(struct world *w, int member, int64_t within_ms)
{
    bool done = world_wait(w, within_ms, leads, (void *)(intptr_t)member);
    expect(w, done, "the expected member leads in time");
}

void expect_another_leader(struct world *w, int than, int64_t within_ms)
{
    bool done = world_wait(w, within_ms, another_leads, (void *)(intptr_t)than);
    expect(w, done, "another member leads in time");
}

static bool is_done(struct world *w, void *arg)
{
    (void)w;
    return ((struct op *)arg)->done;
}

void expect_done(struct world *w, struct op *op, int64_t within_ms)
{
    bool done = world_wait(w, within_ms, is_done, op);
    expect(w, done, "the operation is answered in time");
}

struct waited_for {
    const char *what;
    enum net_stage stage;
};

static bool is_held(struct world *w, void *arg)
{
    struct waited_for *f = arg;
    return net_held_count(w, f->what, f->stage) > 0;
}

void expect_held(struct world *w, const char *what, enum net_stage stage, int64_t within_ms)
{
    struct waited_for f = {.what = what, .stage = stage};
    bool held = world_wait(w, within_ms, is_held, &f);
    expect(w, held, "the message comes that the schedule holds back");
}

void run_ms(struct world *w, int64_t ms)
{
    world_run_until(w, w->now_us + ms * 1000);
}

struct op *begin_put(struct world *w, int client, const char *key)
{
    struct op *op = clients_begin(w, client, OP_PUT, key);
    op_hold(op);
    clients_attempt(w, op);
    return op;
}

struct op *send_op(struct world *w, int client, enum op_kind kind, const char *key, int member)
{
    struct op *op = clients_begin(w, client, kind, key);
    op_hold(op);
    op->attempts++;
    clients_send(w, op, member);
    op->attempts++; /* so that no refusal of that one makes it go on */
    return op;
}

int64_t applied_at(const struct world *w, const struct op *op)
{
    return checker_revision_of(w, op->plan.id);
}

void operator_deletes_key(struct world *w, int member)
{
    char key[KEY_MAX];
    int64_t lease = election_lease(w->members[member].election);
    int64_t deleted = fake_etcd_delete(&w->etcd, keys_election(key, SIM_PREFIX, lease), BYTES_NONE);
    world_trace(w, member, "an operator deletes its key");
    expect(w, deleted == 1, "the member has an election key");
}

bool hole_play(const struct hole *hole, bool traced, char violation[400])
{
    struct world_options options = {.seed = 7, .traced = traced};
    struct script script = {.count = 0};
    for (int i = 0; i < MEMBERS; i++) {
        options.ttl_ms[i] = hole->ttl_ms[i] ? hole->ttl_ms[i] : 2000;
        options.rate[i] = hole->rate[i] > 0 ? hole->rate[i] : 1.0;
    }
    struct world *w = world_new(&options);
    w->clients->stopped = true; /* only what the schedule asks for */
    w->net->hook = scripted;
    w->net->hook_arg = &script;
    hole->run(w);
    memcpy(violation, w->violation, sizeof w->violation);
    world_free(w);
    return violation[0] == 0;
}
