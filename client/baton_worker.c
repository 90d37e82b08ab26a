/* Being a worker: a thread that does what client/core/worker_life.h says. */
#include "client/baton_parts.h"
#include "client/convert_item.h"
#include "client/core/request_id.h"
#include "client/core/worker_life.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include <assert.h>
#include <stdlib.h>

#define LEAVE_MS 2000
#define STACK_BYTES (256 * 1024) /* of thousands of workers in one process */

static_assert(WORKER_LOST_TOUCH == (int)BATON_STOP_LOST_TOUCH &&
                  WORKER_FORGOTTEN == (int)BATON_STOP_FORGOTTEN &&
                  WORKER_REPLACED == (int)BATON_STOP_REPLACED &&
                  WORKER_CLOSED == (int)BATON_STOP_CLOSED,
              "one list of reasons, by two names");

struct baton_worker {
    struct baton_client *client;
    struct baton_worker_options told; /* the spec: copies */
    struct arena memory;
    pthread_t thread;
    struct worker_life life; /* this and what follows: of the thread */
    struct rng rng;
    struct baton_workers *self;  /* as it was registered or activated last; NULL: never */
    char add_id[REQUEST_ID_MAX]; /* of the registration under way; empty: none is */
    struct baton_error last;
    int64_t until_ms;     /* atomic */
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t woken;
    int64_t leave_until_ms; /* 0: it is not to leave */
};

/* ---- calls ---- */

static enum worker_heard heard_of(const struct baton_error *err, enum worker_do what)
{
    if (!strcmp(err->reason, "UNKNOWN_WORKER"))
        return WORKER_HEARD_UNKNOWN;
    if (!strcmp(err->reason, "STALE_INCARNATION"))
        return WORKER_HEARD_STALE;
    bool hopeless = what == WORKER_DO_ADD && err->status == BATON_INVALID_ARGUMENT;
    return hopeless ? WORKER_HEARD_REFUSED : WORKER_HEARD_NOTHING;
}

static void keep_self(struct baton_worker *w, struct baton_workers *made)
{
    baton_result_free(w->self);
    w->self = made;
}

/* One registration has one request id until it is known what became of it: one that arrives late
 * would replace the next. */
static int add(struct baton_worker *w, struct baton_call *how)
{
    struct baton_workers *made;
    if (!w->add_id[0])
        request_id_make(&w->rng, 0, w->add_id);
    how->request_id = w->add_id;
    if (baton_worker_add(w->client, how, &w->told.spec, &made, &w->last) != 0)
        return -1;
    w->add_id[0] = 0;
    keep_self(w, made);
    return 0;
}

static int activate(struct baton_worker *w, const struct baton_call *how)
{
    const struct baton_worker_info *self = w->self->workers;
    struct baton_workers *made;
    if (baton_worker_activate(w->client, how, self->id, self->incarnation, &made, &w->last) != 0)
        return -1;
    keep_self(w, made);
    return 0;
}

static int call(struct baton_worker *w, enum worker_do what, struct baton_call *how,
                struct baton_worker_beat *beat)
{
    if (what == WORKER_DO_ADD)
        return add(w, how);
    PRE(w->self);
    const struct baton_worker_info *self = w->self->workers;
    if (what == WORKER_DO_ACTIVATE)
        return activate(w, how);
    if (what == WORKER_DO_HEARTBEAT)
        return baton_worker_heartbeat(w->client, how, self->id, self->incarnation, beat, &w->last);
    return baton_worker_delete(w->client, how, self->id, self->incarnation, NULL, &w->last);
}

static void run_call(struct baton_worker *w, struct worker_step s)
{
    int64_t sent = clock_boot_ms();
    struct baton_worker_beat beat = {0};
    struct baton_call how = {.timeout_ms = s.at_ms > sent ? s.at_ms - sent : 1};
    bool failed = call(w, s.what, &how, &beat) != 0;
    worker_life_answer(
        &w->life,
        &(struct worker_answer){.heard = failed ? heard_of(&w->last, s.what) : WORKER_HEARD_OK,
                                .sent_ms = sent,
                                .ttl_ms = beat.ttl_ms,
                                .cordoned = beat.cordoned,
                                .draining = beat.draining},
        clock_boot_ms());
}

/* ---- steps ---- */

static void wait_until(struct baton_worker *w, int64_t at_ms)
{
    struct timespec until = clock_mono_after(at_ms - clock_boot_ms());
    pthread_mutex_lock(&w->lock);
    if (!w->leave_until_ms || w->life.leave_until_ms)
        pthread_cond_timedwait(&w->woken, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
}

static void tell(struct baton_worker *w, struct worker_step s)
{
    const struct baton_worker_options *o = &w->told;
    if (s.what == WORKER_DO_RUN)
        o->run(o->user, w->self->workers);
    else if (s.what == WORKER_DO_STOP)
        o->stop(o->user, (enum baton_stop_reason)s.reason);
    else if (s.what == WORKER_DO_WANTED && o->wanted)
        o->wanted(o->user, w->life.cordoned, w->life.draining);
    else if (s.what == WORKER_DO_FAIL && o->failed)
        o->failed(o->user, &w->last);
}

static struct worker_step next(struct baton_worker *w)
{
    pthread_mutex_lock(&w->lock);
    int64_t leave_until_ms = w->leave_until_ms;
    pthread_mutex_unlock(&w->lock);
    if (leave_until_ms && !w->life.leave_until_ms)
        worker_life_leave(&w->life, leave_until_ms);
    struct worker_step s = worker_life_next(&w->life, clock_boot_ms());
    __atomic_store_n(&w->until_ms, worker_life_until(&w->life), __ATOMIC_SEQ_CST);
    return s;
}

static void *live(void *arg)
{
    struct baton_worker *w = arg;
    for (;;) {
        struct worker_step s = next(w);
        if (s.what == WORKER_DO_END)
            return NULL;
        if (s.what == WORKER_DO_WAIT)
            wait_until(w, s.at_ms);
        else if (s.what < WORKER_DO_RUN)
            run_call(w, s);
        else
            tell(w, s);
    }
}

/* ---- opening and closing ---- */

static struct err check(const struct baton_worker_options *o)
{
    if (!o || !o->run || !o->stop)
        return err_make(ERR_USAGE, "a worker needs functions that run and stop its work");
    if (!o->spec.type || !o->spec.addr)
        return err_make(ERR_USAGE, "a worker needs a type and an addr");
    if (o->margin_ms < 0 || o->spec.ttl_ms < 0)
        return err_make(ERR_USAGE, "neither margin_ms nor ttl_ms can be negative");
    return OK_ERR;
}

static struct baton_worker_spec keep_spec(const struct baton_worker_spec *spec,
                                          struct arena *memory)
{
    struct baton_worker_spec kept = *spec;
    struct baton_label *labels = arena_array(memory, spec->label_count, sizeof *labels);
    struct baton_resource *all = arena_array(memory, spec->resource_count, sizeof *all);
    for (size_t i = 0; i < spec->label_count; i++)
        labels[i] = (struct baton_label){item_keep_text(spec->labels[i].name, memory),
                                         item_keep_text(spec->labels[i].value, memory)};
    for (size_t i = 0; i < spec->resource_count; i++)
        all[i] = (struct baton_resource){item_keep_text(spec->resources[i].name, memory),
                                         spec->resources[i].amount};
    kept.type = item_keep_text(spec->type, memory);
    kept.addr = item_keep_text(spec->addr, memory);
    kept.labels = labels;
    kept.resources = all;
    return kept;
}

int baton_worker_open(struct baton_worker **out, struct baton_client *client,
                      const struct baton_worker_options *options, struct baton_error *err)
{
    struct err e = check(options);
    *out = NULL;
    if (err_is(&e))
        return api_fail(&e, NULL, err);
    struct baton_worker *w = mem_alloc(sizeof *w);
    w->client = client;
    w->told = *options;
    w->told.spec = keep_spec(&options->spec, &w->memory);
    rng_seed_os(&w->rng);
    worker_life_init(&w->life, options->margin_ms, rng_next(&w->rng), clock_boot_ms());
    pthread_mutex_init(&w->lock, NULL);
    thread_cond_init(&w->woken);
    *out = w;
    w->thread = thread_start_small("baton-worker", live, w, STACK_BYTES);
    return 0;
}

int64_t baton_worker_until_ms(struct baton_worker *worker)
{
    return __atomic_load_n(&worker->until_ms, __ATOMIC_SEQ_CST);
}

bool baton_worker_may_work(struct baton_worker *worker)
{
    return clock_boot_ms() < baton_worker_until_ms(worker);
}

void baton_worker_close(struct baton_worker *worker, int64_t timeout_ms)
{
    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->leave_until_ms = clock_boot_ms() + (timeout_ms > 0 ? timeout_ms : LEAVE_MS);
    pthread_cond_broadcast(&worker->woken);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->woken);
    pthread_mutex_destroy(&worker->lock);
    baton_result_free(worker->self);
    arena_close(&worker->memory);
    free(worker);
}
