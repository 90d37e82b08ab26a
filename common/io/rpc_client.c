/* Channels, the thread that serves them, and unary calls. */
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/io/rpc_client_parts.h"
#include "common/base/rpc_status.h"
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <stdlib.h>

/* --- the thread --- */

static struct {
    pthread_mutex_t lock;
    int channels;
    grpc_completion_queue *cq;
    pthread_t thread;
} client = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *client_run(void *arg)
{
    grpc_completion_queue *cq = arg;
    for (;;) {
        grpc_event e = grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
        struct rpc_event *event = e.tag;
        rpc_core_take(event);
        event->on(event->arg, e.success != 0);
    }
    return NULL;
}

static void client_enter(void)
{
    pthread_mutex_lock(&client.lock);
    if (client.channels++ == 0) {
        rpc_core_open();
        client.cq = grpc_completion_queue_create_for_next(NULL);
        client.thread = thread_start("rpc-client", client_run, client.cq);
    }
    pthread_mutex_unlock(&client.lock);
}

static void client_leave(void)
{
    pthread_mutex_lock(&client.lock);
    if (--client.channels == 0) {
        grpc_completion_queue_shutdown(client.cq);
        pthread_join(client.thread, NULL);
        grpc_completion_queue_destroy(client.cq);
        rpc_core_close();
    }
    pthread_mutex_unlock(&client.lock);
}

grpc_completion_queue *rpc_client_queue(void)
{
    return client.cq;
}

/* --- channels --- */

static grpc_arg arg_int(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

static grpc_channel *core_new(const char *target)
{
    grpc_arg args[] = {
        /* client/core alone decides who sends again */
        arg_int(GRPC_ARG_ENABLE_RETRIES, 0),
        arg_int(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        arg_int(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        arg_int(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        arg_int(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50),
        arg_int(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000),
        /* in spite of its name: how long one attempt to connect may take */
        arg_int(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000),
        arg_int(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000),
        /* connections whose other end is gone without a word */
        arg_int(GRPC_ARG_KEEPALIVE_TIME_MS, 2000),
        arg_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000),
        arg_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, 16 << 20),
        arg_int(GRPC_ARG_MAX_METADATA_SIZE, 65536),
        arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0),
        {.type = GRPC_ARG_STRING,
         .key = (char *)GRPC_ARG_PRIMARY_USER_AGENT_STRING,
         .value.string = (char *)"baton/" BATON_VERSION},
    };
    grpc_channel_args all = {.num_args = sizeof args / sizeof *args, .args = args};
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_channel *core = grpc_channel_create(target, creds, &all);
    grpc_channel_credentials_release(creds);
    return core;
}

struct rpc_channel *rpc_channel_new(const char *addr)
{
    client_enter();
    struct rpc_channel *ch = mem_alloc(sizeof *ch);
    char *target = mem_printf("dns:///%s", addr);
    ch->addr = mem_strdup(addr);
    ch->core = core_new(target);
    free(target);
    return ch;
}

void rpc_channel_free(struct rpc_channel *ch)
{
    if (!ch)
        return;
    grpc_channel_destroy(ch->core);
    free(ch->addr);
    free(ch);
    client_leave();
}

const char *rpc_channel_addr(const struct rpc_channel *ch)
{
    return ch->addr;
}

/* --- unary calls --- */

/* Waits for a connection first: only then is a failure to connect told from a connection that
 * broke. */
struct unary {
    struct rpc_outcall out;
    struct rpc_event event;
    char *path;
    int64_t deadline_ms;
    rpc_done_fn *done;
    void *arg;
};

static void unary_end(struct unary *u, struct err e, struct rpc_answer *a)
{
    u->done(u->arg, &e, a);
    rpc_answer_close(a);
    rpc_outcall_close(&u->out);
    free(u->path);
    free(u);
}

static void unary_end_unsent(struct unary *u, struct err e)
{
    struct rpc_answer a = {.status = rpc_status_of(e.code), .not_executed = true};
    unary_end(u, e, &a);
}

static void on_answer(void *arg, bool ok)
{
    struct unary *u = arg;
    struct rpc_answer a = {0};
    struct err e = rpc_outcall_finish(&u->out, &a);
    if (!rpc_outcall_take_message(&u->out, &a.message) && !err_is(&e))
        e = err_make(ERR_PROTOCOL, "%s: status OK without a message", u->out.channel->addr);
    unary_end(u, e, &a);
}

static void unary_send(struct unary *u)
{
    grpc_op ops[6];
    rpc_outcall_create(&u->out, u->path, u->deadline_ms);
    rpc_outcall_send_ops(&u->out, ops);
    ops[3] = rpc_outcall_initial_op(&u->out);
    ops[4] = rpc_outcall_message_op(&u->out);
    ops[5] = rpc_outcall_status_op(&u->out);
    u->event.on = on_answer;
    rpc_outcall_batch(&u->out, ops, 6, &u->event);
}

static void on_changed(void *arg, bool ok);
static void unary_watch(struct unary *u, grpc_connectivity_state now);

/* "Connection refused" of "...; last error: UNKNOWN: ipv4:127.0.0.1:1: ...: Connection refused". */
static struct bytes cause_of(struct bytes message)
{
    size_t at = message.len;
    while (at > 1 && !(message.data[at - 2] == ':' && message.data[at - 1] == ' '))
        at--;
    return at > 1 ? bytes_of(message.data + at, message.len - at) : message;
}

/* Of a call that nobody serves: whatever else than UNAVAILABLE it says, there is a connection now.
 */
static void on_cause(void *arg, bool ok)
{
    struct unary *u = arg;
    const char *addr = u->out.channel->addr;
    struct bytes why = cause_of(rpc_core_view(&u->out.status_message));
    if (u->out.status == GRPC_STATUS_UNAVAILABLE) {
        unary_end_unsent(u, err_make(ERR_UNREACHABLE, "%s: cannot connect: %.*s", addr,
                                     (int)why.len, (const char *)why.data));
        return;
    }
    rpc_outcall_again(&u->out);
    unary_watch(u, GRPC_CHANNEL_SHUTDOWN);
}

/* Only a call that fails is told why there is no connection; the real one must not be it, as it
 * might yet find one, lose it, and be taken for unsent. */
static void unary_ask_cause(struct unary *u)
{
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, rpc_outcall_status_op(&u->out)};
    rpc_outcall_create(&u->out, "/baton.Connection/Cause", u->deadline_ms);
    u->event.on = on_cause;
    rpc_outcall_batch(&u->out, ops, 2, &u->event);
}

static void unary_watch(struct unary *u, grpc_connectivity_state now)
{
    grpc_channel *core = u->out.channel->core;
    gpr_timespec deadline = rpc_core_deadline(u->deadline_ms);
    u->event.on = on_changed;
    rpc_core_give(&u->event); /* u is the other thread's from here on */
    grpc_channel_watch_connectivity_state(core, now, deadline, rpc_client_queue(), &u->event);
}

/* What cannot be sent yet goes on when the state changes, also to tell of failure: so the caller of
 * rpc_channel_start is never called back from within it. */
static void on_changed(void *arg, bool ok)
{
    struct unary *u = arg;
    const char *addr = u->out.channel->addr;
    grpc_connectivity_state now = grpc_channel_check_connectivity_state(u->out.channel->core, 1);
    if (now == GRPC_CHANNEL_READY)
        unary_send(u);
    else if (!ok)
        unary_end_unsent(u, err_make(ERR_TIMEOUT, "%s: no connection came about in time", addr));
    else if (now == GRPC_CHANNEL_TRANSIENT_FAILURE || now == GRPC_CHANNEL_SHUTDOWN)
        unary_ask_cause(u);
    else
        unary_watch(u, now);
}

void rpc_channel_start(struct rpc_channel *ch, const char *path, struct bytes request,
                       const struct rpc_metadata *metadata, size_t n, int64_t deadline_ms,
                       rpc_done_fn *done, void *arg)
{
    struct unary *u = mem_alloc(sizeof *u);
    rpc_outcall_init(&u->out, ch, request, metadata, n);
    u->path = mem_strdup(path);
    u->deadline_ms = deadline_ms;
    u->done = done;
    u->arg = arg;
    u->event.arg = u;
    grpc_connectivity_state now = grpc_channel_check_connectivity_state(ch->core, 1);
    if (now == GRPC_CHANNEL_READY)
        unary_send(u);
    else if (now == GRPC_CHANNEL_TRANSIENT_FAILURE)
        unary_watch(u,
                    GRPC_CHANNEL_SHUTDOWN); /* which it is not: reports at once, from the thread */
    else
        unary_watch(u, now);
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
    struct err e;
    struct rpc_answer *out;
};

static void on_waited(void *arg, const struct err *e, struct rpc_answer *answer)
{
    struct waiter *w = arg;
    pthread_mutex_lock(&w->lock);
    w->e = *e;
    *w->out = *answer;
    answer->message = (struct buf){0};
    w->done = true;
    pthread_cond_signal(&w->answered);
    pthread_mutex_unlock(&w->lock);
}

struct err rpc_channel_call(struct rpc_channel *ch, const char *path, struct bytes request,
                            const struct rpc_metadata *metadata, size_t n, int64_t deadline_ms,
                            struct rpc_answer *out)
{
    struct waiter w = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER, .out = out};
    rpc_answer_close(out);
    rpc_channel_start(ch, path, request, metadata, n, deadline_ms, on_waited, &w);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.answered, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.answered);
    return w.e;
}

void rpc_answer_close(struct rpc_answer *a)
{
    buf_close(&a->message);
    *a = (struct rpc_answer){0};
}
