/* What a worker tells other threads: who leads, and which connections it has. */
#include "proxy/worker.h"
#include <string.h>

void worker_tell_leader(struct worker *w)
{
    const struct leader_view *v = &w->follow.view;
    pthread_mutex_lock(&w->told_lock);
    bool changed = v->known && (v->epoch != w->told.epoch || strcmp(v->addr, w->told.addr) != 0);
    w->told.known = v->known;
    w->told.epoch = v->epoch;
    memcpy(w->told.cluster_id, v->cluster_id, sizeof v->cluster_id);
    memcpy(w->told.leader_id, v->leader_id, sizeof v->leader_id);
    memcpy(w->told.addr, v->addr, sizeof v->addr);
    pthread_mutex_unlock(&w->told_lock);
    if (changed)
        stat_add(&w->stats.leader_changes, 1);
    stat_set(&w->stats.epoch, v->epoch);
    stat_set(&w->stats.leader_known, v->known);
    if (v->known)
        stat_set(&w->stats.ever_known, 1);
}

void worker_leader(struct worker *w, struct leader_told *out)
{
    pthread_mutex_lock(&w->told_lock);
    *out = w->told;
    pthread_mutex_unlock(&w->told_lock);
}

/* Connections that can take calls, and the streams of all. */
static void describe_target(const struct target *t, struct upstream_told *out)
{
    memcpy(out->name, t->name, sizeof out->name);
    out->connections = out->streams = 0;
    for (size_t i = 0; i < t->link_count; i++) {
        out->connections += t->links[i]->ready;
        out->streams += t->links[i]->active;
    }
}

void worker_tell_upstreams(struct worker *w)
{
    size_t n = 0;
    pthread_mutex_lock(&w->told_lock);
    for (const struct target *t = w->follow.targets; t && n < FOLLOW_TARGETS_MAX; t = t->next)
        if (!t->removed)
            describe_target(t, &w->upstreams[n++]);
    w->upstream_count = n;
    pthread_mutex_unlock(&w->told_lock);
}

size_t worker_upstreams(struct worker *w, struct upstream_told *out, size_t max)
{
    pthread_mutex_lock(&w->told_lock);
    size_t n = w->upstream_count < max ? w->upstream_count : max;
    memcpy(out, w->upstreams, n * sizeof *out);
    pthread_mutex_unlock(&w->told_lock);
    return n;
}
