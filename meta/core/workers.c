#include "meta/core/workers.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <stdlib.h>
#define uthash_fatal(message) UNREACHABLE_CASE()
#define uthash_malloc(size) mem_alloc(size)
#define uthash_free(piece, size) free(piece)
#include <uthash.h>

struct type {
    char name[WORKER_TYPE_MAX + 1];
    uint64_t *slots; /* a bit for each: held */
    size_t words;
    size_t members; /* the type goes with its last one */
    struct workers_type sum;
    UT_hash_handle hh;
};

struct entry {
    struct worker_seat seat;
    struct type *type;
    uint32_t slot;
    size_t at; /* in the list */
    UT_hash_handle by_id, by_addr;
    size_t addr_len;
    char addr[];
};

struct workers {
    struct worker_counters counters;
    struct entry *by_id, *by_addr;
    struct type *types;
    /* side by side, so that looking for deadlines touches nothing else */
    struct entry **list;
    int64_t *deadlines;
    size_t count, cap;
    int64_t ticked_ms; /* 0: never */
};

struct workers *workers_new(void)
{
    return mem_alloc(sizeof(struct workers));
}

static void type_free(struct workers *w, struct type *t)
{
    HASH_DEL(w->types, t);
    free(t->slots);
    free(t);
}

static void set_slot(struct type *t, uint32_t slot, bool held)
{
    size_t word = slot / 64;
    if (word >= t->words) {
        size_t words = (word + 8) * 2;
        t->slots = mem_resize(t->slots, words * sizeof *t->slots);
        memset(t->slots + t->words, 0, (words - t->words) * sizeof *t->slots);
        t->words = words;
    }
    uint64_t bit = 1ull << (slot % 64);
    t->slots[word] = held ? t->slots[word] | bit : t->slots[word] & ~bit;
}

/* Out of all indexes; the memory stays. */
static void unlink_entry(struct workers *w, struct entry *e)
{
    /* The analyser does not know that what is deleted is in the table. */
    HASH_DELETE(by_id, w->by_id, e);     /* NOLINT(clang-analyzer-core.NullDereference) */
    HASH_DELETE(by_addr, w->by_addr, e); /* NOLINT(clang-analyzer-core.NullDereference) */
    w->count--;
    w->list[e->at] = w->list[w->count];
    w->list[e->at]->at = e->at;
    w->deadlines[e->at] = w->deadlines[w->count];
    if (e->seat.has_slot)
        set_slot(e->type, e->slot, false);
    if (--e->type->members == 0)
        type_free(w, e->type);
}

void workers_clear(struct workers *w)
{
    while (w->count) {
        struct entry *e = w->list[w->count - 1];
        unlink_entry(w, e);
        free(e);
    }
    w->counters = (struct worker_counters){0};
    w->ticked_ms = 0;
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    workers_clear(w);
    free(w->list);
    free(w->deadlines);
    free(w);
}

void workers_set_counters(struct workers *w, const struct worker_counters *counters)
{
    w->counters = *counters;
}

const struct worker_counters *workers_counters(const struct workers *w)
{
    return &w->counters;
}

/* ---- the committed state ---- */

static struct type *type_of(struct workers *w, struct bytes name)
{
    struct type *t;
    HASH_FIND(hh, w->types, name.data, (unsigned)name.len, t);
    if (t)
        return t;
    t = mem_alloc(sizeof *t);
    memcpy(t->name, name.data, name.len);
    HASH_ADD_KEYPTR(hh, w->types, t->name, (unsigned)name.len, t);
    return t;
}

static struct entry *find(const struct workers *w, uint64_t id)
{
    struct entry *e;
    HASH_FIND(by_id, w->by_id, &id, sizeof id, e);
    return e;
}

static struct entry *add(struct workers *w, const struct worker *worker)
{
    struct entry *e = mem_alloc(sizeof *e + worker->addr.len);
    e->seat.id = worker->id;
    e->addr_len = worker->addr.len;
    memcpy(e->addr, worker->addr.data, worker->addr.len);
    e->type = type_of(w, worker->type);
    e->type->members++;
    if (w->count == w->cap) {
        w->cap = w->cap ? w->cap * 2 : 64;
        w->list = mem_resize(w->list, w->cap * sizeof(struct entry *));
        w->deadlines = mem_resize(w->deadlines, w->cap * sizeof *w->deadlines);
    }
    e->at = w->count++;
    w->list[e->at] = e;
    HASH_ADD(by_id, w->by_id, seat.id, sizeof e->seat.id, e);
    HASH_ADD_KEYPTR(by_addr, w->by_addr, e->addr, (unsigned)e->addr_len, e);
    return e;
}

void workers_put(struct workers *w, const struct worker *worker, int64_t now_ms)
{
    PRE(worker->type.len <= WORKER_TYPE_MAX);
    struct entry *e = find(w, worker->id);
    bool begins = !e || e->seat.incarnation != worker->incarnation;
    if (!e)
        e = add(w, worker);
    if (e->seat.has_slot)
        set_slot(e->type, e->slot, false);
    bool expiring = !begins && e->seat.expiring;
    e->seat = (struct worker_seat){.id = worker->id,
                                   .incarnation = worker->incarnation,
                                   .ttl_ms = worker->ttl_ms,
                                   .running = worker->running,
                                   .cordoned = worker->cordoned,
                                   .draining = worker->draining,
                                   .has_slot = worker->has_slot,
                                   .expiring = expiring};
    e->slot = worker->slot;
    if (worker->has_slot)
        set_slot(e->type, e->slot, true);
    if (begins)
        w->deadlines[e->at] = now_ms + (int64_t)worker->ttl_ms;
}

void workers_remove(struct workers *w, uint64_t id)
{
    struct entry *e = find(w, id);
    if (!e)
        return;
    unlink_entry(w, e);
    free(e);
}

/* ---- who is there ---- */

size_t workers_count(const struct workers *w)
{
    return w->count;
}

const struct worker_seat *workers_find(const struct workers *w, uint64_t id)
{
    const struct entry *e = find(w, id);
    return e ? &e->seat : NULL;
}

const struct worker_seat *workers_find_addr(const struct workers *w, struct bytes addr)
{
    struct entry *e;
    HASH_FIND(by_addr, w->by_addr, addr.data, (unsigned)addr.len, e);
    return e ? &e->seat : NULL;
}

uint32_t workers_free_slot(const struct workers *w, struct bytes type, uint32_t from)
{
    const struct type *t;
    HASH_FIND(hh, w->types, type.data, (unsigned)type.len, t);
    uint32_t slot = from;
    while (t && slot / 64 < t->words && (t->slots[slot / 64] >> (slot % 64)) & 1)
        slot++;
    return slot;
}

int64_t workers_silent_ms(const struct workers *w, uint64_t id, int64_t now_ms)
{
    const struct entry *e = find(w, id);
    if (!e)
        return 0;
    int64_t silent_ms = now_ms - (w->deadlines[e->at] - (int64_t)e->seat.ttl_ms);
    return silent_ms > 0 ? silent_ms : 0;
}

static void count_one(struct workers_type *t, const struct worker_seat *s)
{
    t->slots += s->has_slot;
    if (s->expiring)
        t->expiring++;
    else if (!s->running)
        t->starting++;
    else
        t->running++;
    t->unschedulable += s->running && !s->expiring && (s->cordoned || s->draining);
}

void workers_types(struct workers *w, void (*visit)(void *arg, const struct workers_type *t),
                   void *arg)
{
    for (struct type *t = w->types; t; t = t->hh.next)
        t->sum = (struct workers_type){.name = t->name};
    for (size_t i = 0; i < w->count; i++)
        count_one(&w->list[i]->type->sum, &w->list[i]->seat);
    for (struct type *t = w->types; t; t = t->hh.next)
        visit(arg, &t->sum);
}

/* ---- heartbeats ---- */

enum worker_beat workers_beat(struct workers *w, uint64_t id, uint64_t incarnation, int64_t now_ms)
{
    struct entry *e = find(w, id);
    if (!e || incarnation > e->seat.incarnation)
        return WORKER_BEAT_UNKNOWN;
    if (incarnation < e->seat.incarnation)
        return WORKER_BEAT_STALE;
    if (e->seat.expiring)
        return WORKER_BEAT_WAITS;
    w->deadlines[e->at] = now_ms + (int64_t)e->seat.ttl_ms;
    return WORKER_BEAT_OK;
}

void workers_tick(struct workers *w, bool served, int64_t now_ms)
{
    bool listened = served && w->ticked_ms && now_ms - w->ticked_ms <= WORKERS_LATE_MS;
    w->ticked_ms = now_ms;
    if (listened)
        return;
    for (size_t i = 0; i < w->count; i++) {
        int64_t full_ms = now_ms + (int64_t)w->list[i]->seat.ttl_ms;
        if (w->deadlines[i] < full_ms)
            w->deadlines[i] = full_ms;
    }
}

size_t workers_due(struct workers *w, int64_t now_ms, uint64_t *ids, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < w->count && count < max; i++) {
        struct worker_seat *s = &w->list[i]->seat;
        if (w->deadlines[i] > now_ms || s->expiring)
            continue;
        s->expiring = true;
        ids[count++] = s->id;
    }
    return count;
}

void workers_spare(struct workers *w, uint64_t id, int64_t now_ms)
{
    struct entry *e = find(w, id);
    if (!e)
        return;
    e->seat.expiring = false;
    w->deadlines[e->at] = now_ms + (int64_t)e->seat.ttl_ms;
}
