#include "proxy/worker.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK_MS 100
#define RAMP_EVERY_TICKS 10
#define CLIENTS_EVERY_TICKS 5 /* clients may be many, and their limits are long */
#define MAILBOX_LIMIT 65536
/* How long a draining proxy waits for a connection's first bytes, and for the confirmation that a
 * client starts no more calls: a client that is slow shall lose none. */
#define HELLO_MAX_MS 1000
#define NOTICE_MAX_MS 5000
/* After the drain time: for the last answers to leave. */
#define LAST_WORDS_MS 500

static void on_wheel(uv_timer_t *timer)
{
    struct worker *w = timer->data;
    struct wheel_entry *e;
    while ((e = wheel_pop(&w->wheel, worker_now_ms(w))))
        relay_on_timer(e);
    if (w->wheel.count == 0)
        uv_timer_stop(timer);
}

void worker_wheel_set(struct worker *w, struct wheel_entry *e, int64_t at_ms)
{
    if (w->wheel.count == 0 && !uv_is_active((uv_handle_t *)&w->wheel_timer))
        uv_timer_start(&w->wheel_timer, on_wheel, WHEEL_STEP_MS, WHEEL_STEP_MS);
    wheel_set(&w->wheel, e, at_ms);
}

static void flush_all(struct worker *w)
{
    while (w->dirty) {
        struct session *s = w->dirty;
        w->dirty = s->next_dirty;
        if (!w->dirty)
            w->dirty_last = &w->dirty;
        session_flush(s);
    }
}

static void reap(struct worker *w)
{
    while (w->over) {
        struct session *s = w->over;
        w->over = s->next_over;
        s->ops->on_over(s);
        session_close(s);
    }
}

/* The end of a turn: what the callbacks noted is done, all frames go out, dead connections go away.
 * One may cause the other, so it goes on until nothing is left. */
static void before_wait(uv_prepare_t *prepare)
{
    struct worker *w = prepare->data;
    while (w->pump || w->dirty || w->over) {
        if (w->pump)
            relay_pump(w);
        flush_all(w);
        reap(w);
    }
    w->turn_ns = 0;
}

static void publish(struct worker *w)
{
    stat_set(&w->stats.relay_bytes, w->relay_bytes);
    stat_set(&w->stats.replay_bytes, w->replay_budget.used);
    stat_set(&w->stats.clients, __atomic_load_n(&w->load, __ATOMIC_RELAXED));
    worker_tell_upstreams(w);
}

static void for_each_client(struct worker *w, void (*act)(struct client *k, int64_t arg),
                            int64_t arg)
{
    struct client *next;
    for (struct client *k = w->clients; k; k = next) {
        next = k->next;
        act(k, arg);
    }
}

static void see_off(struct client *k, int64_t spent_ms)
{
    if (k->leaving)
        return;
    if (k->greeted && !k->warned)
        client_warn(k);
    if (spent_ms >= (k->greeted ? NOTICE_MAX_MS : HELLO_MAX_MS))
        client_leave(k, H2_NO_ERROR);
}

static void shut(struct client *k, int64_t arg)
{
    relay_shut(k);
}

static void stop(struct worker *w)
{
    if (w->stopping)
        return;
    w->stopping = true;
    for (struct client *k = w->clients; k; k = k->next)
        session_fail(&k->session, "the proxy ends");
    follow_stop(&w->follow);
    uv_close((uv_handle_t *)&w->tick, NULL);
    uv_close((uv_handle_t *)&w->wheel_timer, NULL);
    uv_close((uv_handle_t *)&w->wake, NULL);
    uv_unref((uv_handle_t *)&w->before_wait);
}

static void drain_tick(struct worker *w, int64_t now_ms)
{
    int64_t spent_ms = now_ms - w->drain_started_ms;
    int64_t limit_ms = w->shared->options.drain_timeout_ms;
    for_each_client(w, see_off, spent_ms);
    if (spent_ms >= limit_ms)
        for_each_client(w, shut, 0);
    if (!w->clients || spent_ms >= limit_ms + LAST_WORDS_MS)
        stop(w);
}

static void on_tick(uv_timer_t *timer)
{
    struct worker *w = timer->data;
    int64_t now_ms = worker_now_ms(w);
    follow_tick(&w->follow, now_ms);
    if (w->ticks % RAMP_EVERY_TICKS == 0)
        ramp_widen(&w->ramp);
    w->pump = true;
    if (w->ticks++ % CLIENTS_EVERY_TICKS == 0)
        for_each_client(w, client_tick, now_ms);
    publish(w);
    if (w->draining)
        drain_tick(w, now_ms);
}

static void on_mail(struct worker *w, const struct mail *m)
{
    switch (m->kind) {
    case MAIL_CLIENT:
        if (w->stopping)
            close(m->fd);
        else
            client_open(w, m->fd, m->peer);
        break;
    case MAIL_DRAIN:
        w->draining = true;
        w->drain_started_ms = worker_now_ms(w);
        for_each_client(w, see_off, 0);
        break;
    case MAIL_STOP:
        stop(w);
        break;
    }
}

static void on_wake(uv_async_t *async)
{
    struct worker *w = async->data;
    struct mail *m;
    while ((m = queue_pop(w->mailbox, 0))) {
        on_mail(w, m);
        free(m);
    }
}

void worker_post(struct worker *w, enum mail_kind kind, int fd, const char *peer)
{
    struct mail *m = mem_alloc(sizeof *m);
    m->kind = kind;
    m->fd = fd;
    snprintf(m->peer, sizeof m->peer, "%s", peer);
    if (kind == MAIL_CLIENT)
        __atomic_fetch_add(&w->load, 1, __ATOMIC_RELAXED);
    queue_push_always(w->mailbox, m);
    uv_async_send(&w->wake);
}

static void *run(void *arg)
{
    struct worker *w = arg;
    uv_run(&w->loop, UV_RUN_DEFAULT);
    w->on_end(w->on_end_arg);
    return NULL;
}

static void init(struct worker *w)
{
    int failed = uv_loop_init(&w->loop);
    POST(!failed);
    uv_prepare_init(&w->loop, &w->before_wait);
    uv_timer_init(&w->loop, &w->tick);
    uv_timer_init(&w->loop, &w->wheel_timer);
    uv_async_init(&w->loop, &w->wake, on_wake);
    w->before_wait.data = w->tick.data = w->wheel_timer.data = w->wake.data = w;
    uv_prepare_start(&w->before_wait, before_wait);
    uv_timer_start(&w->tick, on_tick, TICK_MS, TICK_MS);
    w->mailbox = queue_new(MAILBOX_LIMIT);
    rng_seed_os(&w->rng);
    w->dirty_last = &w->dirty;
    w->in = mem_array(1, SESSION_IN_BYTES);
    pthread_mutex_init(&w->told_lock, NULL);
    parking_init(&w->parking);
    wheel_init(&w->wheel, worker_now_ms(w));
    w->replay_budget.limit = (size_t)w->shared->options.replay_bytes;
}

struct worker *worker_start(struct proxy_shared *shared, int index, void (*on_end)(void *),
                            void *arg)
{
    struct worker *w = mem_alloc(sizeof *w);
    w->shared = shared;
    w->index = index;
    w->on_end = on_end;
    w->on_end_arg = arg;
    init(w);
    follow_start(&w->follow, w);
    char name[16];
    snprintf(name, sizeof name, "worker-%d", index);
    w->thread = thread_start(name, run, w);
    return w;
}

void worker_join(struct worker *w)
{
    pthread_join(w->thread, NULL);
    follow_free(&w->follow);
    while (w->free_calls) {
        struct call *c = w->free_calls;
        w->free_calls = c->next;
        call_memory_free(c);
    }
    uv_close((uv_handle_t *)&w->before_wait, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    uv_loop_close(&w->loop);
    on_wake(&w->wake);
    queue_free(w->mailbox);
    pthread_mutex_destroy(&w->told_lock);
    pool_close(&w->pool);
    buf_close(&w->out);
    free(w->in);
    free(w);
}
