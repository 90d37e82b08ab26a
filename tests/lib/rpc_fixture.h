/* A server and a channel in one process, with methods that the RPC tests need. */
#pragma once
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/rpc_client.h"
#include "common/io/rpc_server.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include <pthread.h>

struct fixture {
    struct rpc_server *server;
    struct rpc_channel *channel;
    char addr[32];
};

static inline int64_t in_ms(int64_t ms)
{
    return clock_boot_ms() + ms;
}

static inline struct err fixture_serve(struct fixture *f, const struct rpc_method *methods,
                                       size_t n)
{
    struct rpc_server_config cfg = {.listen = "127.0.0.1:0",
                                    .methods = methods,
                                    .method_count = n,
                                    .max_message_bytes = 1 << 20,
                                    .max_stream_bytes = 1 << 16};
    struct err e = rpc_server_start(&f->server, &cfg);
    if (!err_is(&e))
        snprintf(f->addr, sizeof f->addr, "127.0.0.1:%d", rpc_server_port(f->server));
    return e;
}

static inline struct fixture *fixture_new(const struct rpc_method *methods, size_t n)
{
    struct fixture *f = mem_alloc(sizeof *f);
    struct err e = fixture_serve(f, methods, n);
    assert_string_equal(e.message, "");
    f->channel = rpc_channel_new(f->addr);
    return f;
}

static inline void fixture_free(struct fixture *f)
{
    rpc_channel_free(f->channel);
    rpc_server_free(f->server);
    free(f);
}

static inline struct err fixture_call(struct fixture *f, const char *path, const char *request,
                                      struct rpc_answer *out)
{
    return rpc_channel_call(f->channel, path, bytes_str(request), NULL, 0, in_ms(10000), out);
}

/* A call that a handler put aside, for the test to answer. */
struct held {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rpc_call *call;
    int events[4]; /* by enum rpc_stream_event */
};
#define HELD_INIT                                                                                  \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static inline void held_put(struct held *h, struct rpc_call *call)
{
    pthread_mutex_lock(&h->lock);
    h->call = call;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static inline bool held_wait(struct held *h)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    return pthread_cond_timedwait(&h->changed, &h->lock, &until) == 0;
}

static inline struct rpc_call *held_take(struct held *h)
{
    pthread_mutex_lock(&h->lock);
    while (!h->call)
        assert_true(held_wait(h));
    struct rpc_call *call = h->call;
    h->call = NULL;
    pthread_mutex_unlock(&h->lock);
    return call;
}

static inline void held_event(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    struct held *h = user;
    pthread_mutex_lock(&h->lock);
    h->events[event]++;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static inline void held_wait_event(struct held *h, enum rpc_stream_event event)
{
    pthread_mutex_lock(&h->lock);
    while (!h->events[event])
        assert_true(held_wait(h));
    pthread_mutex_unlock(&h->lock);
}
