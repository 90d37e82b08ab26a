/* A worker: a thread with a loop, its clients, its connections to the members, its own view of who
 * leads. Workers share nothing but the options and the method table. */
#pragma once
#include "common/base/queue.h"
#include "common/base/rng.h"
#include "proxy/core/limits.h"
#include "proxy/core/pool.h"
#include "proxy/follow.h"
#include "proxy/options.h"
#include "proxy/relay.h"
#include "proxy/stats.h"
#include <pthread.h>

#define SESSION_IN_BYTES (256u << 10)
#define SESSION_OUT_BYTES (256u << 10)

/* What all workers read. Set before they start, unchanged until they end. */
struct proxy_shared {
    struct proxy_options options;
    struct method_table methods;
    struct relay_limits relay_limits;
    int64_t first_window;
    char instance[17]; /* random; finds loops */
    char via[32];      /* the header with it */
};

enum mail_kind { MAIL_CLIENT, MAIL_DRAIN, MAIL_STOP };

struct mail {
    enum mail_kind kind;
    int fd;
    char peer[46];
};

/* Who leads, as other threads are told. */
struct leader_told {
    bool known;
    uint64_t epoch;
    char cluster_id[LEADER_NAME_MAX], leader_id[LEADER_NAME_MAX], addr[LEADER_NAME_MAX];
};

/* An address that is dialled, as other threads are told. */
struct upstream_told {
    char name[256];
    unsigned connections, streams; /* ready ones; open ones on them */
};

struct worker {
    struct proxy_shared *shared;
    int index;
    pthread_t thread;
    uv_loop_t loop;
    uv_prepare_t before_wait;
    uv_timer_t tick, wheel_timer;
    uv_async_t wake;
    struct queue *mailbox;
    struct pool pool;
    struct rng rng;
    struct stats stats;
    struct session *dirty, **dirty_last;
    struct session *over;
    uint8_t *in;
    struct buf out;
    struct client *clients;
    struct follow follow;
    pthread_mutex_t told_lock;
    struct leader_told told; /* under told_lock, and so are: */
    struct upstream_told upstreams[FOLLOW_TARGETS_MAX];
    size_t upstream_count;
    struct parking parking;
    struct ramp ramp;
    struct wheel wheel;
    struct budget replay_budget;
    size_t relay_bytes;   /* answer bytes that clients have not taken */
    size_t widened_bytes; /* promised to members beyond the first windows */
    struct call *free_calls;
    size_t free_call_count;
    int64_t complaint_slot; /* lines about clients that speak something else */
    unsigned complaints, ticks;
    int64_t turn_ns; /* when the turn of the loop began; 0: nobody asked in this one */
    bool pump, draining, stopping;
    int64_t drain_started_ms;
    void (*on_end)(void *arg);
    void *on_end_arg;
    unsigned load; /* clients given to it and not over; also read by the acceptor */
};

static inline int64_t worker_now_ms(const struct worker *w)
{
    return (int64_t)uv_now(&w->loop);
}

/* For measuring: the clock, and the clock when this turn of the loop first asked. */
static inline int64_t worker_clock_ns(void)
{
    return (int64_t)uv_hrtime();
}
static inline int64_t worker_turn_ns(struct worker *w)
{
    if (!w->turn_ns)
        w->turn_ns = worker_clock_ns();
    return w->turn_ns;
}

/* on_end is called on the worker's thread when its loop has ended. */
struct worker *worker_start(struct proxy_shared *shared, int index, void (*on_end)(void *),
                            void *arg);
/* Any thread. */
void worker_post(struct worker *w, enum mail_kind kind, int fd, const char *peer);
void worker_join(struct worker *w);        /* waits for its end and frees it */
void worker_tell_leader(struct worker *w); /* after each change of the view; the worker's thread */
void worker_tell_upstreams(struct worker *w); /* a few times a second; the worker's thread */
void worker_leader(struct worker *w, struct leader_told *out); /* any thread */
/* Copies at most max; returns how many there are. Any thread. */
size_t worker_upstreams(struct worker *w, struct upstream_told *out, size_t max);
/* The wheel got its first entry. */
void worker_wheel_set(struct worker *w, struct wheel_entry *e, int64_t at_ms);
