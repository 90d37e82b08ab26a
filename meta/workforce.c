#include "meta/workforce.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/store.h"
#include <pthread.h>
#include <stdlib.h>

struct workforce {
    struct store *store;
    pthread_mutex_t lock;
    struct workers *workers;
    uint64_t epoch;  /* 0: this member does not lead */
    int64_t next_ms; /* the replica's */
    struct workforce_waiter *waiters;
};

struct workforce *workforce_new(struct store *store)
{
    struct workforce *f = mem_alloc(sizeof *f);
    f->store = store;
    f->workers = workers_new();
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

void workforce_free(struct workforce *f)
{
    if (!f)
        return;
    INVARIANT(!f->waiters);
    workers_free(f->workers);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---- the beginning and the end ---- */

struct loading {
    struct workforce *f;
    struct worker_counters counters;
    int64_t now_ms;
    struct arena memory;
};

static void raise_to(uint64_t *counter, uint64_t seen)
{
    if (*counter < seen)
        *counter = seen;
}

static struct err load_line(struct loading *l, const struct etcd_kv *kv)
{
    struct worker w;
    struct worker_counters c;
    uint64_t id;
    struct err e = OK_ERR;
    if (worker_key_id(kv->key, &id)) {
        e = worker_decode(kv->value, &l->memory, &w);
        if (err_is(&e))
            return e;
        if (w.id != id)
            return err_make(ERR_CORRUPT, "it says id %llu", (unsigned long long)w.id);
        c = (struct worker_counters){w.id, w.incarnation, w.grant};
        workers_put(l->f->workers, &w, l->now_ms);
    } else if (bytes_equal(kv->key, bytes_str(WORKER_COUNTERS_KEY))) {
        e = worker_counters_decode(kv->value, &c);
        if (err_is(&e))
            return e;
    } else {
        return OK_ERR;
    }
    raise_to(&l->counters.id, c.id);
    raise_to(&l->counters.incarnation, c.incarnation);
    raise_to(&l->counters.grant, c.grant);
    return e;
}

/* What nobody can read was not written by Baton; it is named and left alone. */
static bool load_one(void *arg, const struct etcd_kv *kv)
{
    struct loading *l = arg;
    struct err e = load_line(l, kv);
    if (err_is(&e))
        log_warn("state/workers/%.*s makes no sense and is passed over: %s", (int)kv->key.len,
                 (const char *)kv->key.data, e.message);
    arena_clear(&l->memory);
    return true;
}

void workforce_begin(struct workforce *f, uint64_t epoch)
{
    struct loading l = {.f = f, .now_ms = clock_boot_ms()};
    struct store_snapshot *snap = store_snapshot_open(f->store);
    pthread_mutex_lock(&f->lock);
    workers_clear(f->workers);
    store_workers(snap, BYTES_NONE, load_one, &l);
    workers_set_counters(f->workers, &l.counters);
    f->epoch = epoch;
    pthread_mutex_unlock(&f->lock);
    store_snapshot_close(snap);
    arena_close(&l.memory);
    f->next_ms = 0;
}

static void wake(struct workforce_waiter *list)
{
    while (list) {
        struct workforce_waiter *w = list;
        list = w->next;
        w->again(w);
    }
}

static struct workforce_waiter *take_waiters(struct workforce *f)
{
    struct workforce_waiter *list = f->waiters;
    f->waiters = NULL;
    return list;
}

void workforce_end(struct workforce *f)
{
    pthread_mutex_lock(&f->lock);
    workers_clear(f->workers);
    f->epoch = 0;
    struct workforce_waiter *list = take_waiters(f);
    pthread_mutex_unlock(&f->lock);
    wake(list);
}

/* ---- commits ---- */

const struct workers *workforce_table(const struct workforce *f)
{
    return f->workers;
}

void workforce_committed(struct workforce *f, const struct plan_batch *batch)
{
    pthread_mutex_lock(&f->lock);
    if (f->epoch)
        plan_workers_committed(batch, f->workers, clock_boot_ms());
    pthread_mutex_unlock(&f->lock);
}

size_t workforce_tick(struct workforce *f, bool served, struct worker_seat *due, size_t max)
{
    enum { DUE_MAX = 256 };
    uint64_t ids[DUE_MAX];
    int64_t now_ms = clock_boot_ms();
    PRE(max <= DUE_MAX);
    if (now_ms < f->next_ms)
        return 0;
    f->next_ms = now_ms + WORKERS_TICK_MS;
    pthread_mutex_lock(&f->lock);
    workers_tick(f->workers, served, now_ms);
    size_t count = workers_due(f->workers, now_ms, ids, max);
    for (size_t i = 0; i < count; i++)
        due[i] = *workers_find(f->workers, ids[i]);
    pthread_mutex_unlock(&f->lock);
    return count;
}

void workforce_settle(struct workforce *f, uint64_t id, bool committed)
{
    pthread_mutex_lock(&f->lock);
    if (!committed)
        workers_spare(f->workers, id, clock_boot_ms());
    struct workforce_waiter *list = take_waiters(f);
    pthread_mutex_unlock(&f->lock);
    wake(list);
}

int64_t workforce_next_ms(const struct workforce *f)
{
    return workers_count(f->workers) ? f->next_ms : INT64_MAX;
}

/* ---- heartbeats ---- */

static enum workforce_beat beat(struct workforce *f, uint64_t id, uint64_t incarnation,
                                struct workforce_waiter *waiter, struct worker_seat *seat)
{
    switch (workers_beat(f->workers, id, incarnation, clock_boot_ms())) {
    case WORKER_BEAT_OK:
        *seat = *workers_find(f->workers, id);
        return BEAT_OK;
    case WORKER_BEAT_UNKNOWN:
        return BEAT_UNKNOWN;
    case WORKER_BEAT_STALE:
        return BEAT_STALE;
    case WORKER_BEAT_WAITS:
        if (waiter) {
            waiter->next = f->waiters;
            f->waiters = waiter;
        }
        return BEAT_WAITS;
    }
    return BEAT_UNKNOWN;
}

enum workforce_beat workforce_beat(struct workforce *f, uint64_t epoch, uint64_t id,
                                   uint64_t incarnation, struct workforce_waiter *waiter,
                                   struct worker_seat *seat)
{
    enum workforce_beat answer = BEAT_NOT_LED;
    pthread_mutex_lock(&f->lock);
    if (f->epoch && f->epoch == epoch)
        answer = beat(f, id, incarnation, waiter, seat);
    pthread_mutex_unlock(&f->lock);
    return answer;
}

/* ---- what is shown ---- */

bool workforce_look(struct workforce *f, uint64_t id, uint64_t incarnation, bool *expiring,
                    int64_t *silent_ms)
{
    pthread_mutex_lock(&f->lock);
    const struct worker_seat *seat = workers_find(f->workers, id);
    bool found = seat && seat->incarnation == incarnation;
    *expiring = found && seat->expiring;
    *silent_ms = found ? workers_silent_ms(f->workers, id, clock_boot_ms()) : 0;
    pthread_mutex_unlock(&f->lock);
    return found;
}

struct listing {
    struct workforce_type *out;
    size_t count, max;
};

static void list_type(void *arg, const struct workers_type *t)
{
    struct listing *l = arg;
    if (l->count < l->max) {
        struct workforce_type *type = &l->out[l->count];
        memcpy(type->name, t->name, strlen(t->name) + 1);
        type->sum = *t;
        type->sum.name = NULL;
    }
    l->count++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct workforce_type *)a)->name,
                  ((const struct workforce_type *)b)->name);
}

size_t workforce_types(struct workforce *f, struct workforce_type *out, size_t max,
                       struct worker_counters *counters, size_t *count)
{
    struct listing l = {.out = out, .max = max};
    pthread_mutex_lock(&f->lock);
    workers_types(f->workers, list_type, &l);
    *counters = *workers_counters(f->workers);
    *count = workers_count(f->workers);
    pthread_mutex_unlock(&f->lock);
    qsort(out, l.count < max ? l.count : max, sizeof *out, by_name);
    return l.count;
}
