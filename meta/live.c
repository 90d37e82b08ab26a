#include "meta/live.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum { CANDIDATES_MAX = 100000, MEMBERS_MAX = 10000 }; /* whatever an operator writes there */

struct live_candidate {
    int64_t lease, create_revision;
    UT_hash_handle hh;
};

struct live_member {
    struct member_info info;
    int64_t lease, create_revision; /* of the record */
    struct live_report report;
    bool reported;
    UT_hash_handle hh;
};

struct live {
    char prefix[PREFIX_MAX];
    struct board *board;
    struct candidate *candidate;
    void (*listener)(void *arg);
    void *listener_arg;
    pthread_mutex_t lock; /* for the members: the rest belongs to the follow thread */
    struct live_member *members;
    struct live_candidate *candidates;
    struct released released;
    char member_id[ID_MAX + 1];           /* of this process */
    char removed_start[NONCE_DIGITS + 1]; /* in the mark of an operator who took this id out */
    int64_t revision;
};

struct live *live_new(const char *prefix, struct board *board)
{
    struct live *l = mem_alloc(sizeof *l);
    snprintf(l->prefix, sizeof l->prefix, "%s", prefix);
    l->board = board;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void live_connect(struct live *l, const char *member_id, struct candidate *candidate)
{
    snprintf(l->member_id, sizeof l->member_id, "%s", member_id);
    l->candidate = candidate;
}

void live_listen(struct live *l, void (*changed)(void *arg), void *arg)
{
    l->listener = changed;
    l->listener_arg = arg;
}

static void clear(struct live *l)
{
    struct live_candidate *c, *next_c;
    HASH_ITER(hh, l->candidates, c, next_c)
    {
        HASH_DEL(l->candidates, c);
        free(c);
    }
    struct live_member *m, *next_m;
    HASH_ITER(hh, l->members, m, next_m)
    {
        HASH_DEL(l->members, m);
        free(m);
    }
    l->released = (struct released){0};
    l->removed_start[0] = 0;
}

void live_free(struct live *l)
{
    if (!l)
        return;
    clear(l);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- what the keys say ---- */

static void set_candidate(struct live *l, int64_t lease, const struct etcd_event *e)
{
    struct live_candidate *c;
    HASH_FIND(hh, l->candidates, &lease, sizeof lease, c);
    if (e->deleted) {
        if (c) {
            HASH_DEL(l->candidates, c);
            free(c);
        }
        return;
    }
    if (!c) {
        if (HASH_COUNT(l->candidates) >= CANDIDATES_MAX)
            return;
        c = mem_alloc(sizeof *c);
        c->lease = lease;
        HASH_ADD(hh, l->candidates, lease, sizeof c->lease, c);
    }
    c->create_revision = e->kv.create_revision;
}

static void drop_member(struct live *l, struct bytes id)
{
    struct live_member *m;
    HASH_FIND(hh, l->members, id.data, id.len, m);
    if (m) {
        HASH_DEL(l->members, m);
        free(m);
    }
}

static void set_member(struct live *l, struct bytes id, const struct etcd_event *e)
{
    struct member_info info;
    if (e->deleted) {
        drop_member(l, id);
        return;
    }
    struct err err = member_info_decode(e->kv.value, &info);
    if (err_is(&err) || !bytes_equal(id, bytes_str(info.id))) {
        log_warn("the member record %.*s in etcd is not readable: %s", (int)id.len,
                 (const char *)id.data, err_is(&err) ? err.message : "another id");
        drop_member(l, id);
        return;
    }
    struct live_member *m;
    HASH_FIND(hh, l->members, id.data, id.len, m);
    if (!m) {
        if (HASH_COUNT(l->members) >= MEMBERS_MAX)
            return;
        m = mem_alloc(sizeof *m);
        m->info = info;
        HASH_ADD(hh, l->members, info.id, strlen(m->info.id), m);
    } else if (strcmp(m->info.start, info.start) != 0) {
        m->reported = false; /* it was another process that reported */
    }
    m->info = info;
    m->lease = e->kv.lease;
    m->create_revision = e->kv.create_revision;
}

static void set_removed(struct live *l, const struct etcd_event *e)
{
    removal_decode_mark(e->deleted ? BYTES_NONE : e->kv.value, l->removed_start);
}

static void set_released(struct live *l, const struct etcd_event *e)
{
    struct released released = {0};
    if (!e->deleted) {
        struct err err = released_decode(e->kv.value, &released);
        if (err_is(&err)) {
            log_warn("live/released in etcd is not readable: %s", err.message);
            return;
        }
    }
    l->released = released;
}

static void take(struct live *l, const struct etcd_event *e)
{
    char room[KEY_MAX];
    struct bytes rest;
    int64_t lease;
    if (keys_rest_lease(e->kv.key, keys_elections(room, l->prefix), &lease))
        set_candidate(l, lease, e);
    else if (keys_rest(e->kv.key, keys_members(room, l->prefix), &rest))
        set_member(l, rest, e);
    else if (bytes_equal(e->kv.key, keys_released(room, l->prefix)))
        set_released(l, e);
    else if (bytes_equal(e->kv.key, keys_removed(room, l->prefix, l->member_id)))
        set_removed(l, e);
    if (e->kv.mod_revision > l->revision)
        l->revision = e->kv.mod_revision;
}

void live_reset(struct live *l, const struct etcd_kv *kvs, size_t count, int64_t revision)
{
    pthread_mutex_lock(&l->lock);
    /* what members reported outlives a reconnect to etcd */
    struct live_member *before = l->members;
    l->members = NULL;
    clear(l);
    for (size_t i = 0; i < count; i++)
        take(l, &(struct etcd_event){.kv = kvs[i]});
    struct live_member *m, *next;
    HASH_ITER(hh, before, m, next)
    {
        struct live_member *now;
        HASH_FIND(hh, l->members, m->info.id, strlen(m->info.id), now);
        if (now && strcmp(now->info.start, m->info.start) == 0) {
            now->report = m->report;
            now->reported = m->reported;
        }
        HASH_DEL(before, m);
        free(m);
    }
    l->revision = revision;
    pthread_mutex_unlock(&l->lock);
}

void live_event(struct live *l, const struct etcd_event *e)
{
    pthread_mutex_lock(&l->lock);
    take(l, e);
    pthread_mutex_unlock(&l->lock);
}

/* ---- whom it concerns ---- */

void live_tell(struct live *l)
{
    struct election_event event = {.kind = ELECTION_LIVE_CHANGED};
    struct election_live *own = &event.live;
    own->lease = candidate_lease(l->candidate);
    own->revision = l->revision;
    own->released = l->released;
    memcpy(own->removed_start, l->removed_start, sizeof own->removed_start);
    struct live_candidate *c, *next;
    int64_t lowest = INT64_MAX;
    HASH_ITER(hh, l->candidates, c, next)
    {
        lowest = c->create_revision < lowest ? c->create_revision : lowest;
        if (own->lease && c->lease == own->lease)
            own->create_revision = c->create_revision;
    }
    own->first = own->create_revision && own->create_revision == lowest;
    struct live_member *m, *next_m;
    HASH_ITER(hh, l->members, m, next_m)
    level_narrow(&own->spoken, &m->info);
    candidate_post(l->candidate, &event);
    if (l->released.epoch)
        board_see_released(l->board, l->released.epoch, l->released.nonce);
    if (l->listener)
        l->listener(l->listener_arg);
}

/* ---- any thread ---- */

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct member_info *)a)->id, ((const struct member_info *)b)->id);
}

size_t live_members(struct live *l, struct member_info *out, size_t max)
{
    size_t copied = 0;
    pthread_mutex_lock(&l->lock);
    size_t count = HASH_COUNT(l->members);
    struct live_member *m, *next;
    HASH_ITER(hh, l->members, m, next)
    if (copied < max)
        out[copied++] = m->info;
    pthread_mutex_unlock(&l->lock);
    qsort(out, copied, sizeof *out, by_id);
    return count;
}

void live_report(struct live *l, const char *member_id, const struct live_report *report)
{
    pthread_mutex_lock(&l->lock);
    struct live_member *m;
    HASH_FIND_STR(l->members, member_id, m);
    if (m) {
        m->report = *report;
        m->reported = true;
    }
    pthread_mutex_unlock(&l->lock);
}

bool live_reported(struct live *l, const char *member_id, struct live_report *out)
{
    pthread_mutex_lock(&l->lock);
    struct live_member *m;
    HASH_FIND_STR(l->members, member_id, m);
    bool found = m && m->reported;
    if (found)
        *out = m->report;
    pthread_mutex_unlock(&l->lock);
    return found;
}

/* ---- the line ---- */

static void fill_line_member(struct live *l, const struct live_member *m,
                             struct handover_member *out)
{
    struct live_candidate *c;
    memcpy(out->id, m->info.id, sizeof out->id);
    out->lease = m->lease;
    HASH_FIND(hh, l->candidates, &m->lease, sizeof m->lease, c);
    out->place = c ? c->create_revision : 0;
    out->reported = m->reported;
    out->report_age_ms = clock_boot_ms() - m->report.received_ms;
    out->lag = m->report.lag;
}

static bool is_members(const struct handover_view *view, int64_t lease)
{
    for (size_t i = 0; i < view->count; i++)
        if (view->members[i].lease == lease)
            return true;
    return false;
}

void live_line(struct live *l, const char *self_id, struct handover_view *out)
{
    size_t count = 0;
    pthread_mutex_lock(&l->lock);
    struct handover_member *members = mem_array(HASH_COUNT(l->members), sizeof *members);
    struct live_member *m, *next_m;
    HASH_ITER(hh, l->members, m, next_m)
    fill_line_member(l, m, &members[count++]);
    *out = (struct handover_view){.self_id = self_id, .members = members, .count = count};
    struct live_candidate *c, *next_c;
    HASH_ITER(hh, l->candidates, c, next_c)
    {
        bool earlier = !out->foreign_place || c->create_revision < out->foreign_place;
        if (earlier && !is_members(out, c->lease))
            out->foreign_place = c->create_revision;
    }
    pthread_mutex_unlock(&l->lock);
}

bool live_registration(struct live *l, const char *id, struct removal *out,
                       struct member_info *info)
{
    pthread_mutex_lock(&l->lock);
    struct live_member *m;
    HASH_FIND_STR(l->members, id, m);
    if (m) {
        *info = m->info;
        *out = (struct removal){.record_revision = m->create_revision, .lease = m->lease};
        memcpy(out->id, m->info.id, sizeof out->id);
        memcpy(out->start, m->info.start, sizeof out->start);
    }
    pthread_mutex_unlock(&l->lock);
    return m != NULL;
}

bool live_id_of(struct live *l, int64_t lease, char id[ID_MAX + 1])
{
    bool found = false;
    pthread_mutex_lock(&l->lock);
    struct live_member *m, *next;
    HASH_ITER(hh, l->members, m, next)
    {
        if (m->lease != lease)
            continue;
        memcpy(id, m->info.id, sizeof m->info.id);
        found = true;
    }
    pthread_mutex_unlock(&l->lock);
    return found;
}
