#include "client/cli/bench.h"
#include "client/convert_kv.h"
#include "client/convert_member.h"
#include "client/core/api_bytes.h"
#include "client/core/leader_view.h"
#include "client/core/request_id.h"
#include "client/core/retry.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/rpc_client.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TARGETS_MAX (LEADER_SEEDS_MAX + 16)
#define REST_MS 10 /* of an operation that failed, so that a dead service is not hammered */

struct target {
    char addr[LEADER_ADDR_MAX];
    struct rpc_channel **channels;
};

/* One of the operations in flight. */
struct slot {
    struct bench *bench;
    size_t index;
    bool put;
    char id[REQUEST_ID_MAX];
    char addr[LEADER_ADDR_MAX];
    struct buf request;
    int attempts;
    int64_t began_us, rests_until_ms; /* rests_until_ms 0: in flight, or done */
};

/* The lock is for what the callbacks (one thread) and the main thread share. */
struct bench {
    const struct bench_config *cfg;
    struct bench_result *out;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct leader_view view;
    struct target targets[TARGETS_MAX];
    size_t target_count;
    struct slot *slots;
    struct rng rng;
    uint8_t *value;
    int64_t started_us, last_success_us, ends_ms;
    int busy; /* slots in flight */
    bool ended;
};

static struct rpc_channel *channel_to(struct bench *b, const char *addr, size_t index)
{
    size_t i = 0;
    while (i < b->target_count && strcmp(b->targets[i].addr, addr) != 0)
        i++;
    if (i == TARGETS_MAX)
        i = TARGETS_MAX -
            1; /* a cluster of more addresses than that: any of them will say who leads */
    struct target *t = &b->targets[i];
    if (i == b->target_count) {
        b->target_count++;
        snprintf(t->addr, sizeof t->addr, "%s", addr);
        t->channels = mem_array((size_t)b->cfg->channels, sizeof *t->channels);
        for (int n = 0; n < b->cfg->channels; n++)
            t->channels[n] = rpc_channel_new(addr);
    }
    return t->channels[index % (size_t)b->cfg->channels];
}

static void make_operation(struct bench *b, struct slot *s)
{
    char key[40];
    snprintf(key, sizeof key, "bench/%08llu",
             (unsigned long long)rng_below(&b->rng, (uint64_t)b->cfg->keys));
    s->put = b->cfg->mix == BENCH_PUT || (b->cfg->mix == BENCH_MIXED && rng_below(&b->rng, 2));
    if (s->put)
        kv_encode_put(api_text(key), api_shown(bytes_of(b->value, b->cfg->value_bytes)),
                      &s->request);
    else
        kv_encode_get(api_text(key), NULL, &s->request);
    s->id[0] = 0;
    if (s->put && b->cfg->request_ids)
        request_id_make(&b->rng, b->view.revision, s->id);
    s->attempts = 0;
    s->began_us = clock_mono_us();
}

static void on_done(void *arg, const struct err *e, struct rpc_answer *answer);

/* Under the lock; the call itself is started outside of it. */
static struct rpc_channel *prepare(struct bench *b, struct slot *s)
{
    snprintf(s->addr, sizeof s->addr, "%s", leader_view_pick(&b->view));
    s->attempts++;
    b->out->attempts++;
    s->rests_until_ms = 0;
    return channel_to(b, s->addr, s->index);
}

static void start(struct bench *b, struct slot *s, struct rpc_channel *ch)
{
    struct rpc_metadata id = {"baton-request-id", bytes_str(s->id)};
    rpc_channel_start(ch, s->put ? KV_PATH_PUT : KV_PATH_GET, buf_view(&s->request), &id,
                      s->id[0] != 0, clock_boot_ms() + b->cfg->timeout_ms, on_done, s);
}

static bool over(const struct bench *b)
{
    return b->ended || clock_boot_ms() >= b->ends_ms;
}

static void note_gap(struct bench *b, int64_t now_us)
{
    if (now_us - b->last_success_us > b->out->longest_gap_us)
        b->out->longest_gap_us = now_us - b->last_success_us;
    b->last_success_us = now_us;
}

static void succeed(struct bench *b, struct slot *s)
{
    int64_t now = clock_mono_us();
    b->out->ops++;
    latency_add(&b->out->latency, now - s->began_us);
    note_gap(b, now);
}

static void fail(struct bench *b, struct slot *s, const struct err *e)
{
    b->out->errors++;
    if (b->out->shown == BENCH_ERRORS_SHOWN)
        return;
    snprintf(b->out->first_errors[b->out->shown++], sizeof b->out->first_errors[0],
             "%s after %lld ms: %s (%s)", s->put ? "put" : "get",
             (long long)((clock_mono_us() - b->started_us) / 1000), e->message, err_word(e->code));
}

static void learn(struct bench *b, struct slot *s, const struct err *e, const struct rpc_answer *a)
{
    if (retry_may_pass(e->code) || e->code == ERR_TIMEOUT)
        leader_view_failed(&b->view, s->addr);
    struct leader_claim claim = {.cluster = a->cluster, .addr = a->leader, .epoch = a->epoch};
    if (a->epoch)
        leader_view_learn(&b->view, &claim);
}

static bool goes_on(const struct bench *b, const struct slot *s, const struct err *e,
                    const struct rpc_answer *a)
{
    struct retry_call call = {
        .idempotent = !s->put, .has_request_id = s->id[0], .attempts_max = b->cfg->attempts_max};
    struct retry_outcome last = {
        .code = e->code, .not_executed = a->not_executed, .attempts = s->attempts};
    return retry_decide(&call, &last) == RETRY_AGAIN && !over(b);
}

static void on_done(void *arg, const struct err *e, struct rpc_answer *a)
{
    struct slot *s = arg;
    struct bench *b = s->bench;
    struct rpc_channel *next = NULL;
    pthread_mutex_lock(&b->lock);
    learn(b, s, e, a);
    bool again = err_is(e) && goes_on(b, s, e, a);
    if (!err_is(e))
        succeed(b, s);
    else if (!again)
        fail(b, s, e);
    if (over(b)) {
        b->busy--;
        pthread_cond_signal(&b->changed);
    } else if (err_is(e)) {
        if (!again)
            make_operation(b, s);
        s->rests_until_ms = clock_boot_ms() + (a->pushback_ms > REST_MS ? a->pushback_ms : REST_MS);
        b->busy--;
    } else {
        make_operation(b, s);
        next = prepare(b, s);
    }
    pthread_mutex_unlock(&b->lock);
    if (next)
        start(b, s, next);
}

/* Starts what has rested long enough. Called without the lock, by the main thread. */
static void wake(struct bench *b)
{
    for (int i = 0; i < b->cfg->concurrency; i++) {
        struct slot *s = &b->slots[i];
        struct rpc_channel *ch = NULL;
        pthread_mutex_lock(&b->lock);
        if (s->rests_until_ms && s->rests_until_ms <= clock_boot_ms() && !over(b)) {
            b->busy++;
            ch = prepare(b, s);
        }
        pthread_mutex_unlock(&b->lock);
        if (ch)
            start(b, s, ch);
    }
}

static void wait_tick(struct bench *b)
{
    struct timespec until;
    int64_t at_us = clock_mono_us() + REST_MS * 1000;
    until.tv_sec = at_us / 1000000;
    until.tv_nsec = at_us % 1000000 * 1000;
    pthread_mutex_lock(&b->lock);
    pthread_cond_timedwait(&b->changed, &b->lock, &until);
    b->ended = b->ended || *b->cfg->stop;
    pthread_mutex_unlock(&b->lock);
}

static void show_progress(struct bench *b, int64_t *next_us, uint64_t *ops_before)
{
    int64_t now = clock_mono_us();
    if (!b->cfg->progress || now < *next_us)
        return;
    pthread_mutex_lock(&b->lock);
    uint64_t ops = b->out->ops, errors = b->out->errors;
    pthread_mutex_unlock(&b->lock);
    fprintf(stderr, "%4lld s  %llu op/s  %llu errors\n",
            (long long)((now - b->started_us) / 1000000), (unsigned long long)(ops - *ops_before),
            (unsigned long long)errors);
    *ops_before = ops;
    *next_us += 1000000;
}

static bool busy(struct bench *b)
{
    pthread_mutex_lock(&b->lock);
    bool more = !over(b) || b->busy > 0;
    pthread_mutex_unlock(&b->lock);
    return more;
}

/* false: this seed does not answer, or knows no leader; the next one has its turn. */
static bool ask_seed(struct bench *b, int64_t deadline_ms)
{
    struct rpc_answer a = {0};
    struct member_leader said = {0};
    const char *seed = leader_view_pick(&b->view);
    struct err e = rpc_channel_call(channel_to(b, seed, 0), MEMBER_GET_LEADER, BYTES_NONE, NULL, 0,
                                    deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_leader(buf_view(&a.message), &said);
    rpc_answer_close(&a);
    if (err_is(&e) || !said.known) {
        leader_view_failed(&b->view, seed);
        return false;
    }
    struct leader_claim claim = {.cluster = said.cluster,
                                 .epoch = said.epoch,
                                 .revision = said.revision,
                                 .addr = strcmp(said.id, said.member_id) ? said.addr : seed};
    leader_view_learn(&b->view, &claim);
    return true;
}

/* Best effort: members will say NOT_LEADER, and who does lead, later. */
static void find_leader(struct bench *b)
{
    int64_t share_ms = b->cfg->timeout_ms / (int64_t)b->view.count;
    for (size_t i = 0; i < b->view.count; i++)
        if (ask_seed(b, clock_boot_ms() + share_ms))
            return;
}

static void prepare_all(struct bench *b)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&b->lock, NULL);
    rng_seed_os(&b->rng);
    b->value = mem_alloc(b->cfg->value_bytes);
    memset(b->value, 'v', b->cfg->value_bytes);
    b->slots = mem_array((size_t)b->cfg->concurrency, sizeof *b->slots);
    find_leader(b);
    b->started_us = b->last_success_us = clock_mono_us();
    b->ends_ms = clock_boot_ms() + b->cfg->duration_ms;
    for (int i = 0; i < b->cfg->concurrency; i++) {
        struct slot *s = &b->slots[i];
        s->bench = b;
        s->index = (size_t)i;
        make_operation(b, s);
        s->rests_until_ms = 1; /* ready; wake starts them all */
    }
}

static void close_all(struct bench *b)
{
    for (size_t i = 0; i < b->target_count; i++) {
        for (int n = 0; n < b->cfg->channels; n++)
            rpc_channel_free(b->targets[i].channels[n]);
        free(b->targets[i].channels);
    }
    for (int i = 0; i < b->cfg->concurrency; i++)
        buf_close(&b->slots[i].request);
    free(b->slots);
    free(b->value);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
}

struct err bench_run(const struct bench_config *cfg, struct bench_result *out)
{
    struct bench *b = mem_alloc(sizeof *b);
    *out = (struct bench_result){0};
    b->cfg = cfg;
    b->out = out;
    struct err e = leader_view_init(&b->view, cfg->addresses);
    if (err_is(&e)) {
        free(b);
        return e;
    }
    prepare_all(b);
    int64_t next_us = b->started_us + 1000000;
    uint64_t ops_before = 0;
    while (busy(b)) {
        wake(b);
        wait_tick(b);
        show_progress(b, &next_us, &ops_before);
    }
    out->elapsed_us = clock_mono_us() - b->started_us;
    note_gap(b, clock_mono_us());
    close_all(b);
    free(b);
    return OK_ERR;
}
