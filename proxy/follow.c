#include "proxy/follow.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "proxy/question.h"
#include "proxy/worker.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#define LEADERS_MAX 16 /* room for leaders when members name others without measure */
#define LIST_EVERY_MS 10000
/* A member repeats its state each second; one that never did is not called silent. */
#define SILENCE_MS 3500
#define WATCH_AGAIN_MS 1000
#define FOREIGN_PATIENCE 3

static struct target *find(const struct follow *f, const char *name)
{
    for (struct target *t = f->targets; t; t = t->next)
        if (!t->removed && !strcmp(t->name, name))
            return t;
    return NULL;
}

static struct target *find_or_add(struct follow *f, const char *name, size_t most)
{
    struct target *t = find(f, name);
    if (t || f->target_count >= most)
        return t;
    t = target_new(f, name);
    if (!t)
        return NULL;
    t->next = f->targets;
    f->targets = t;
    f->target_count++;
    return t;
}

static void log_change(const struct follow *f, enum leader_change change)
{
    if (f->worker->index != 0)
        return;
    if (change == LEADER_RESTARTED)
        log_warn("most members belong to cluster %s now: starting anew", f->view.cluster_id);
    if (f->view.known)
        log_info("leader is %s at %s, epoch %llu", f->view.leader_id, f->view.addr,
                 (unsigned long long)f->view.epoch);
    else
        log_info("no leader after epoch %llu", (unsigned long long)f->view.epoch);
}

static void on_grace_over(uv_timer_t *timer)
{
    struct follow *f = timer->data;
    for (struct target *t = f->targets; t; t = t->next)
        for (size_t i = 0; i < t->link_count; i++)
            if (t->links[i]->superseded_ms)
                relay_supersede(t->links[i]);
}

/* Calls at the leader before get a little time to end there. */
static void supersede_others(struct follow *f)
{
    int64_t now_ms = worker_now_ms(f->worker);
    for (struct target *t = f->targets; t; t = t->next)
        for (size_t i = 0; i < t->link_count; i++)
            if (t == f->leader)
                t->links[i]->superseded_ms = 0;
            else if (!t->links[i]->superseded_ms)
                t->links[i]->superseded_ms = now_ms ? now_ms : 1;
    uv_timer_start(&f->grace, on_grace_over, (uint64_t)f->worker->shared->options.leader_grace_ms,
                   0);
}

static void apply(struct follow *f, enum leader_change change)
{
    if (change == LEADER_SAME || change == LEADER_FOREIGN)
        return;
    log_change(f, change);
    worker_tell_leader(f->worker);
    f->leader =
        f->view.known ? find_or_add(f, f->view.addr, FOLLOW_TARGETS_MAX + LEADERS_MAX) : NULL;
    if (!f->leader)
        return;
    f->listed_ms = 0;
    supersede_others(f);
    target_hurry(f->leader);
    ramp_start(&f->worker->ramp);
    f->worker->pump = true;
}

void follow_hint(struct follow *f, struct bytes addr, struct bytes epoch, struct bytes cluster)
{
    char name[LEADER_NAME_MAX], id[LEADER_NAME_MAX];
    uint64_t n;
    if (addr.len == 0 || addr.len >= sizeof name || cluster.len >= sizeof id ||
        !grpc_number_parse(epoch, &n))
        return;
    snprintf(name, sizeof name, "%.*s", (int)addr.len, (const char *)addr.data);
    snprintf(id, sizeof id, "%.*s", (int)cluster.len, (const char *)cluster.data);
    const struct target *t = find(f, name);
    apply(f, leader_view_hint(&f->view, name, n, id, t && (t->is_seed || t->listed)));
}

static void watch(struct target *t)
{
    for (size_t i = 0; i < t->link_count; i++)
        if (uplink_has_room(t->links[i])) {
            question_ask(&t->watch, t->links[i]);
            return;
        }
}

/* The members, from the leader, else from anybody. */
static void ask_for_members(struct follow *f, int64_t now_ms)
{
    if (f->listed_ms && now_ms - f->listed_ms < LIST_EVERY_MS)
        return;
    struct target *whom = f->leader && target_is_ready(f->leader) ? f->leader : NULL;
    for (struct target *t = f->targets; t && !whom; t = t->next)
        if (!t->removed && target_is_ready(t))
            whom = t;
    for (size_t i = 0; whom && i < whom->link_count; i++)
        if (uplink_has_room(whom->links[i]) && !question_is_open(&whom->list)) {
            question_ask(&whom->list, whom->links[i]);
            f->listed_ms = now_ms;
            return;
        }
}

void follow_on_ready(struct follow *f, struct uplink *l)
{
    struct target *t = l->target;
    if (t->parent && t->seed < 0)
        t->seed = leader_view_add_seed(&f->view);
    if (!question_is_open(&t->watch))
        question_ask(&t->watch, l);
    if (t == f->leader)
        ramp_start(&f->worker->ramp);
    f->worker->pump = true;
    ask_for_members(f, worker_now_ms(f->worker));
}

static bool is_address(const char *addr)
{
    char host[LEADER_NAME_MAX];
    int port;
    struct err e = options_split_address(addr, host, sizeof host, &port);
    return !err_is(&e);
}

void follow_on_state(struct follow *f, struct target *t, const struct leader_report *told,
                     int64_t revision)
{
    static struct log_limit limit;
    struct leader_report r = *told;
    if (r.known && !is_address(r.addr)) {
        log_limited(&limit, LOG_WARN, "%s names a leader at %.100s, which is no address", t->name,
                    r.addr);
        return;
    }
    r.seed = t->seed;
    r.from_addr = t->name;
    enum leader_change change = leader_view_report(&f->view, &r);
    t->foreign = change == LEADER_FOREIGN ? t->foreign + 1 : 0;
    if (t->foreign == FOREIGN_PATIENCE) /* not while a cluster is replaced by another */
        log_limited(&limit, LOG_WARN, "%s belongs to another cluster, %s", t->name, r.cluster_id);
    if (change != LEADER_FOREIGN && (revision > f->revision || change == LEADER_RESTARTED))
        f->revision = revision;
    apply(f, change);
}

void follow_on_members(struct follow *f, const char *cluster_id, const char *const *addrs, size_t n)
{
    if (strcmp(cluster_id, f->view.cluster_id) != 0)
        return;
    for (struct target *t = f->targets; t; t = t->next)
        t->listed = false;
    for (size_t i = 0; i < n; i++) {
        struct target *t = find_or_add(f, addrs[i], FOLLOW_TARGETS_MAX);
        if (t)
            t->listed = true;
    }
    for (struct target *t = f->targets; t; t = t->next)
        if (!t->listed && !t->is_seed && !t->parent && t != f->leader && !t->removed)
            target_remove(t);
}

static bool has_address(const struct addrinfo *list, const char *name, const char *port)
{
    char text[300], host[64];
    for (; list; list = list->ai_next)
        if (!getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof host, NULL, 0,
                         NI_NUMERICHOST)) {
            snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
            if (!strcmp(text, name))
                return true;
        }
    return false;
}

static void add_address(struct follow *f, struct target *seed, const struct addrinfo *a)
{
    char text[300], host[64];
    if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST))
        return;
    snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, seed->port);
    struct target *t = find_or_add(f, text, FOLLOW_TARGETS_MAX);
    if (t && t != seed && !t->is_seed && !t->parent)
        t->parent = seed;
}

void follow_on_addresses(struct follow *f, struct target *seed, const struct addrinfo *list)
{
    if (!seed->is_seed)
        return;
    for (struct target *t = f->targets; t; t = t->next)
        if (t->parent == seed && !has_address(list, t->name, seed->port)) {
            t->parent = NULL;
            if (!t->listed && t != f->leader)
                target_remove(t);
        }
    if (list && list->ai_next)
        for (const struct addrinfo *a = list; a; a = a->ai_next)
            add_address(f, seed, a);
}

static void forget(struct follow *f, struct target **at)
{
    struct target *t = *at;
    *at = t->next;
    f->target_count--;
    leader_view_remove_seed(&f->view, t->seed);
    question_close(&t->watch);
    question_close(&t->list);
    free(t);
}

static void tick_target(struct follow *f, struct target *t, int64_t now_ms)
{
    target_tick(t, now_ms);
    if (!question_is_open(&t->watch)) {
        if (target_is_ready(t) && now_ms - t->watch.ended_ms >= WATCH_AGAIN_MS)
            watch(t);
    } else if (t->watch.heard > 1 && now_ms - t->watch.last_ms > SILENCE_MS) {
        session_fail(&t->watch.up.link->session, "silent");
    }
    int64_t drain_ms = f->worker->shared->options.drain_timeout_ms;
    for (size_t i = 0; i < t->link_count; i++)
        if (t->links[i]->superseded_ms && now_ms - t->links[i]->superseded_ms > drain_ms)
            relay_abandon(t->links[i]);
}

void follow_tick(struct follow *f, int64_t now_ms)
{
    for (struct target **at = &f->targets; *at;) {
        struct target *t = *at;
        if (t->removed && t->link_count == 0 && !t->resolving) {
            forget(f, at);
            continue;
        }
        if (!t->removed)
            tick_target(f, t, now_ms);
        at = &t->next;
    }
    ask_for_members(f, now_ms);
}

static void add_seeds(struct follow *f, const char *members)
{
    char name[256];
    while (*members) {
        size_t n = strcspn(members, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, members);
        struct target *t = n ? find_or_add(f, name, FOLLOW_TARGETS_MAX) : NULL;
        if (t && !t->is_seed) {
            t->is_seed = true;
            t->seed = leader_view_add_seed(&f->view);
        }
        members += n + (members[n] == ',');
    }
}

void follow_start(struct follow *f, struct worker *w)
{
    f->worker = w;
    leader_view_init(&f->view, w->shared->options.cluster_id);
    uv_timer_init(&w->loop, &f->grace);
    f->grace.data = f;
    add_seeds(f, w->shared->options.members);
    for (struct target *t = f->targets; t; t = t->next)
        target_dial(t);
}

void follow_stop(struct follow *f)
{
    f->leader = NULL;
    uv_close((uv_handle_t *)&f->grace, NULL);
    for (struct target *t = f->targets; t; t = t->next)
        if (!t->removed)
            target_remove(t);
}

void follow_free(struct follow *f)
{
    while (f->targets)
        forget(f, &f->targets);
}
