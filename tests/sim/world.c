#include "tests/sim/world.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "tests/sim/checker.h"
#include "tests/sim/clients.h"
#include "tests/sim/member.h"
#include "tests/sim/net.h"
#include "tests/sim/operator.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEASE_TICK_US = 100 * 1000, STEPS_NOW_MAX = 100000 };

static void on_applied(void *arg, const struct fake_revision *revision)
{
    struct world *w = arg;
    checker_on_revision(w, revision);
    operator_check(w, revision);
    net_on_revision(w, revision->revision);
}

static void lease_tick(struct world *w, void *arg)
{
    int64_t before = w->etcd.revision;
    if (w->net->stalled_until_us <= w->now_us)
        fake_etcd_expire(&w->etcd);
    if (w->etcd.revision != before)
        world_fault(w, FAULT_LEASE_EXPIRED);
    world_at(w, LEASE_TICK_US, lease_tick, NULL);
}

struct world *world_new(const struct world_options *options)
{
    struct world *w = mem_alloc(sizeof *w);
    w->seed = options->seed;
    w->traced = options->traced;
    rng_seed(&w->rng, options->seed);
    w->now_us = 1000000;
    fake_etcd_init(&w->etcd, 77);
    w->etcd.now_us = w->now_us;
    w->etcd.applied = on_applied;
    w->etcd.arg = w;
    w->net = net_new();
    w->checker = checker_new();
    w->clients = clients_new(w);
    w->members = mem_array(MEMBERS, sizeof *w->members);
    for (int i = 0; i < MEMBERS; i++)
        member_init(w, i, options->ttl_ms[i], options->rate[i]);
    operator_begin_cluster(w);
    world_at(w, LEASE_TICK_US, lease_tick, NULL);
    return w;
}

void world_free(struct world *w)
{
    if (w == NULL)
        return;
    event_heap_close(&w->heap);
    for (int i = 0; i < MEMBERS; i++)
        member_close(w, i);
    free(w->members);
    clients_free(w->clients);
    net_free(w);
    checker_free(w->checker);
    fake_etcd_close(&w->etcd);
    free(w);
}

static void task_drop(struct task *t)
{
    if (t->drop)
        t->drop(t->arg);
}

/* A thread works off in order what came while it stood still: whatever comes before it has caught
 * up waits behind that. */
static bool task_defer(struct world *w, struct member *m, struct task *t)
{
    int64_t *backlog_us = &m->backlog_until_us[t->thread];
    int64_t until_us = member_paused_until(m, t->thread);
    if (until_us <= w->now_us && (t->deferred || *backlog_us < w->now_us))
        return false;
    t->at_us = until_us > *backlog_us ? until_us : *backlog_us;
    *backlog_us = t->at_us;
    if (t->deferred) {
        event_heap_push_again(&w->heap, *t);
    } else {
        t->deferred = true;
        event_heap_push(&w->heap, *t);
    }
    return true;
}

/* A task for a process that is gone goes too. */
static void task_run(struct world *w, struct task *t)
{
    if (t->member != NOBODY) {
        struct member *m = &w->members[t->member];
        if (m->life != t->life || !m->alive) {
            task_drop(t);
            return;
        }
        if (task_defer(w, m, t))
            return;
    }
    t->run(w, t->arg);
}

bool world_step(struct world *w)
{
    struct task t;
    if (w->violation[0] || !event_heap_pop(&w->heap, &t))
        return false;
    INVARIANT(t.at_us >= w->now_us);
    w->steps_now = t.at_us > w->now_us ? 0 : w->steps_now + 1;
    if (w->steps_now > STEPS_NOW_MAX)
        world_violate(w, "somebody works without end, and time does not go on");
    w->now_us = t.at_us;
    w->etcd.now_us = t.at_us;
    w->steps++;
    task_run(w, &t);
    return w->violation[0] == 0;
}

void world_run_until(struct world *w, int64_t us)
{
    while (w->heap.count && w->heap.tasks[0].at_us <= us) {
        if (!world_step(w))
            return;
    }
    w->now_us = us > w->now_us ? us : w->now_us;
    w->etcd.now_us = w->now_us;
}

bool world_wait(struct world *w, int64_t ms, bool (*condition)(struct world *w, void *arg),
                void *arg)
{
    int64_t until = w->now_us + ms * 1000;
    while (!condition(w, arg)) {
        if (w->heap.count == 0 || w->heap.tasks[0].at_us > until || !world_step(w))
            return false;
    }
    return true;
}

void world_post(struct world *w, int64_t delay_us, int member, int thread,
                void (*run)(struct world *, void *), void (*drop)(void *), void *arg)
{
    struct task t = {.at_us = w->now_us + (delay_us > 0 ? delay_us : 0),
                     .member = member,
                     .thread = thread,
                     .life = member == NOBODY ? 0 : w->members[member].life,
                     .run = run,
                     .drop = drop,
                     .arg = arg};
    event_heap_push(&w->heap, t);
}

void world_at(struct world *w, int64_t delay_us, void (*run)(struct world *, void *), void *arg)
{
    world_post(w, delay_us, NOBODY, 0, run, NULL, arg);
}

static void say(const struct world *w, int member, const char *text)
{
    if (member == NOBODY)
        printf("%10.3f     %s\n", (double)w->now_us / 1000.0, text);
    else
        printf("%10.3f m%d  %s\n", (double)w->now_us / 1000.0, member, text);
}

void world_trace(struct world *w, int member, const char *fmt, ...)
{
    if (!w->traced)
        return;
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    say(w, member, text);
}

void world_violate(struct world *w, const char *fmt, ...)
{
    if (w->violation[0])
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(w->violation, sizeof w->violation, fmt, args);
    va_end(args);
    if (w->traced)
        say(w, NOBODY, w->violation);
}

const char *fault_str(enum fault fault)
{
    static const char *const texts[] = {
#define FAULT_TEXT(name, text) text,
        FAULT_LIST(FAULT_TEXT)
#undef FAULT_TEXT
    };
    return texts[fault];
}
