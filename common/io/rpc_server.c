/* The server: its port, its threads, and its end. */
#include "common/io/rpc_server_parts.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/options.h"
#include "common/base/thread.h"
#include <errno.h>
#include <grpc/grpc_security.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

/* Slots that wait for a request, per method and queue: as many calls as one read of a busy
 * connection may bring; more queue up inside C core, at a small cost. */
#define SLOTS_WAITING 32

/* What all calls together may hold inside C core; past it, idle connections and then streams are
 * cut. */
#define MEMORY_LIMIT_BYTES ((size_t)1 << 30)

/* How long no call may have come before the server shuts down, and how long that is waited for. */
enum { QUIET_US = 50 * 1000, QUIET_MAX_US = 1000 * 1000 };

_Thread_local struct rpc_queue *rpc_this_queue;

static void *queue_run(void *arg)
{
    struct rpc_queue *q = arg;
    rpc_this_queue = q;
    for (;;) {
        grpc_event e = grpc_completion_queue_next(q->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
        struct rpc_tag *tag = e.tag;
        rpc_core_take(tag);
        if (tag->call)
            tag->on(tag->call, e.success != 0);
        else
            rpc_server_on_shutdown(q->server);
    }
    return NULL;
}

/* --- the port --- */

/* C core says only that it could not listen; this says why. The address may have several forms
 * (localhost), and one that is taken is enough, though C core would be content with another. */
static struct err probe(const struct addrinfo *a, const char *listen)
{
    int yes = 1;
    struct err e = OK_ERR;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return e;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0) {
        if (errno == EADDRINUSE)
            e = err_make(ERR_IN_USE, "%s is taken by another process", listen);
        else if (errno == EACCES)
            e = err_make(ERR_DENIED, "%s may not be listened on by this user", listen);
    }
    close(fd);
    return e;
}

static struct err probe_all(const char *listen)
{
    char host[256], service[16];
    int port;
    struct err e = options_split_address(listen, host, sizeof host, &port);
    if (err_is(&e))
        return e;
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int failed = getaddrinfo(*host ? host : NULL, service, &hints, &found);
    if (failed)
        return err_make(ERR_USAGE, "%s: %s", listen, gai_strerror(failed));
    for (struct addrinfo *a = found; a && !err_is(&e); a = a->ai_next)
        e = probe(a, listen);
    freeaddrinfo(found);
    return e;
}

static struct err listen_on(struct rpc_server *s, const char *listen)
{
    struct err e = probe_all(listen);
    if (err_is(&e))
        return e;
    char *any = *listen == ':' ? mem_printf("[::]%s", listen) : mem_strdup(listen);
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    s->port = grpc_server_add_http2_port(s->core, any, creds);
    grpc_server_credentials_release(creds);
    free(any);
    return s->port ? OK_ERR : err_make(ERR_IO, "cannot listen on %s", listen);
}

/* --- start --- */

static grpc_arg arg_int(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

static int int_or(size_t value, int fallback)
{
    return value == 0 ? fallback : value > INT32_MAX ? INT32_MAX : (int)value;
}

static size_t message_bytes(const struct rpc_server_config *cfg)
{
    return cfg->max_message_bytes ? cfg->max_message_bytes : (size_t)4 << 20;
}

static grpc_server *core_new(const struct rpc_server_config *cfg)
{
    grpc_resource_quota *quota = grpc_resource_quota_create("baton");
    grpc_resource_quota_resize(quota, MEMORY_LIMIT_BYTES);
    grpc_arg args[] = {
        /* a taken port is an error, not a partner */
        arg_int(GRPC_ARG_ALLOW_REUSEPORT, 0),
        /* the proxy and libbaton look after their connections with PINGs, idle ones too */
        arg_int(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        arg_int(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500),
        arg_int(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 10),
        /* a list of headers that is too long costs everybody the connection, so the limit is far */
        arg_int(GRPC_ARG_MAX_METADATA_SIZE, 65536),
        /* connections whose other end is gone without a word */
        arg_int(GRPC_ARG_KEEPALIVE_TIME_MS, 10000),
        arg_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000),
        arg_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        /* what it refuses itself comes without a reason, so its limit is farther than ours */
        arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, int_or(4 * message_bytes(cfg), 0)),
        arg_int(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                int_or((size_t)(cfg->max_streams > 0 ? cfg->max_streams : 0), 10000)),
        /* a timer for each call, 6 % of its instructions: who sets a deadline resets the stream
           when it is over, and rpc_call_deadline_ms tells those who would work in vain */
        arg_int(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0),
        /* bookkeeping that nobody reads */
        arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0),
        {.type = GRPC_ARG_POINTER,
         .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
         .value.pointer = {quota, grpc_resource_quota_arg_vtable()}},
    };
    grpc_channel_args all = {.num_args = sizeof args / sizeof *args, .args = args};
    grpc_server *core = grpc_server_create(&all, NULL);
    grpc_resource_quota_unref(quota);
    return core;
}

static void queues_new(struct rpc_server *s)
{
    s->queues = mem_array((size_t)s->queue_count, sizeof *s->queues);
    for (int i = 0; i < s->queue_count; i++) {
        s->queues[i].server = s;
        s->queues[i].cq = grpc_completion_queue_create_for_next(NULL);
        grpc_server_register_completion_queue(s->core, s->queues[i].cq, NULL);
    }
}

static void methods_register(struct rpc_server *s)
{
    s->registered = mem_array(s->method_count, sizeof *s->registered);
    for (size_t i = 0; i < s->method_count; i++) {
        s->registered[i] = grpc_server_register_method(
            s->core, s->methods[i].path, NULL,
            s->methods[i].kind == RPC_BIDI_STREAM ? GRPC_SRM_PAYLOAD_NONE
                                                  : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
            0);
        PRE(s->registered[i]); /* no path stands in the table twice */
    }
}

static void slots_await(struct rpc_server *s)
{
    for (int i = 0; i < s->queue_count; i++)
        for (int n = 0; n < SLOTS_WAITING; n++) {
            for (size_t m = 0; m < s->method_count; m++)
                rpc_call_await(&s->queues[i], &s->methods[m], s->registered[m]);
            rpc_call_await(&s->queues[i], NULL, NULL);
        }
}

static void threads_start(struct rpc_server *s)
{
    for (int i = 0; i < s->queue_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "rpc-%d", i);
        s->queues[i].thread = thread_start(name, queue_run, &s->queues[i]);
    }
}

static void queues_free(struct rpc_server *s, bool running)
{
    for (int i = 0; i < s->queue_count; i++) {
        struct rpc_queue *q = &s->queues[i];
        grpc_completion_queue_shutdown(q->cq);
        if (running)
            pthread_join(q->thread, NULL);
        else
            queue_run(q);
        grpc_completion_queue_destroy(q->cq);
        while (q->pool) {
            struct rpc_call *call = q->pool;
            q->pool = call->next;
            rpc_call_free(call);
        }
    }
    free(s->queues);
}

static void server_free(struct rpc_server *s, bool running)
{
    grpc_server_destroy(s->core);
    queues_free(s, running);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s->registered);
    free(s);
    rpc_core_close();
}

static void locks_init(struct rpc_server *s)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
}

struct err rpc_server_start(struct rpc_server **out, const struct rpc_server_config *cfg)
{
    struct rpc_server *s = mem_alloc(sizeof *s);
    rpc_core_open();
    locks_init(s);
    s->core = core_new(cfg);
    s->methods = cfg->methods;
    s->method_count = cfg->method_count;
    s->max_message_bytes = message_bytes(cfg);
    s->max_stream_bytes = cfg->max_stream_bytes ? cfg->max_stream_bytes : (size_t)4 << 20;
    s->answered = cfg->answered;
    s->queue_count = cfg->threads > 0 ? cfg->threads : 2;
    queues_new(s);
    methods_register(s);
    struct err e = listen_on(s, cfg->listen);
    if (err_is(&e)) {
        server_free(s, false);
        return e;
    }
    grpc_server_start(s->core);
    slots_await(s);
    threads_start(s);
    *out = s;
    return OK_ERR;
}

int rpc_server_port(const struct rpc_server *s)
{
    return s->port;
}

/* --- the end --- */

void rpc_server_on_shutdown(struct rpc_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->shut_down = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static int64_t count(const struct rpc_server *s, bool calls, bool streams)
{
    int64_t n = 0;
    for (int i = 0; i < s->queue_count; i++) {
        n += calls ? __atomic_load_n(&s->queues[i].calls, __ATOMIC_SEQ_CST) : 0;
        n += streams ? __atomic_load_n(&s->queues[i].streams, __ATOMIC_SEQ_CST) : 0;
    }
    return n;
}

void rpc_server_load(const struct rpc_server *s, struct rpc_server_load *out)
{
    out->calls = count(s, true, false);
    out->streams = count(s, false, true);
}

static bool no_calls(struct rpc_server *s)
{
    return count(s, true, false) == 0;
}

static bool nothing_open(struct rpc_server *s)
{
    return count(s, true, true) == 0;
}

static bool is_shut_down(struct rpc_server *s)
{
    return s->shut_down;
}

/* Waits for a condition until deadline_us (monotonic; INT64_MAX: for ever). */
static bool wait_for(struct rpc_server *s, bool (*met)(struct rpc_server *), int64_t deadline_us)
{
    struct timespec until = {.tv_sec = deadline_us / 1000000,
                             .tv_nsec = deadline_us % 1000000 * 1000};
    pthread_mutex_lock(&s->lock);
    bool done, late = false;
    while (!(done = met(s)) && !late) {
        if (deadline_us == INT64_MAX)
            pthread_cond_wait(&s->changed, &s->lock);
        else
            late = pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT;
    }
    pthread_mutex_unlock(&s->lock);
    return done;
}

static void streams_drain(struct rpc_server *s)
{
    struct rpc_call *call, **held = NULL;
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    s->streams_drained = true;
    DL_COUNT2(s->open_streams, call, n, stream->next);
    held = mem_array(n, sizeof *held);
    n = 0;
    DL_FOREACH2(s->open_streams, call, stream->next)
    if (rpc_stream_try_hold(call))
        held[n++] = call;
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++)
        rpc_stream_drain(held[i]);
    free(held);
}

static bool never(struct rpc_server *s)
{
    (void)s;
    return false;
}

/* C core drops what it has received and not handed out yet when it is shut down, and its callers
 * see CANCELLED: so first they are refused by name until none has come for a moment. */
static void wait_quiet(struct rpc_server *s, int64_t deadline_us)
{
    int64_t began_us = clock_mono_us();
    int64_t end_us = began_us + QUIET_MAX_US < deadline_us ? began_us + QUIET_MAX_US : deadline_us;
    for (;;) {
        int64_t last_us = __atomic_load_n(&s->refused_us, __ATOMIC_SEQ_CST);
        int64_t quiet_us = (last_us > began_us ? last_us : began_us) + QUIET_US;
        int64_t until_us = quiet_us < end_us ? quiet_us : end_us;
        if (clock_mono_us() >= until_us)
            return;
        wait_for(s, never, until_us);
    }
}

void rpc_server_drain(struct rpc_server *s, int64_t timeout_ms)
{
    if (s->drained)
        return;
    s->drained = true;
    int64_t deadline_us = clock_mono_us() + timeout_ms * 1000;
    __atomic_store_n(&s->draining, true, __ATOMIC_SEQ_CST);
    wait_for(s, no_calls, deadline_us);
    streams_drain(s);
    wait_quiet(s, deadline_us);
    grpc_server_shutdown_and_notify(s->core, s->queues[0].cq, &s->shutdown_tag);
    if (!wait_for(s, is_shut_down, deadline_us)) {
        grpc_server_cancel_all_calls(s->core);
        wait_for(s, is_shut_down, INT64_MAX);
    }
}

void rpc_server_free(struct rpc_server *s)
{
    if (!s)
        return;
    rpc_server_drain(s, 0);
    wait_for(s, nothing_open, INT64_MAX);
    server_free(s, true);
}
