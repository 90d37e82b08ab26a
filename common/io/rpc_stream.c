/* A stream: a bounded queue of messages with one write under way, and the status behind it; in the
 * other direction, one request at a time, when its owner asks. */
#include "common/io/rpc_server_parts.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <stdlib.h>
#include <utlist.h>

bool rpc_stream_try_hold(struct rpc_call *call)
{
    int refs = __atomic_load_n(&call->stream->refs, __ATOMIC_ACQUIRE);
    while (refs > 0)
        if (__atomic_compare_exchange_n(&call->stream->refs, &refs, refs + 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

static void hold(struct rpc_call *call)
{
    __atomic_fetch_add(&call->stream->refs, 1, __ATOMIC_ACQ_REL);
}

/* Nobody else knows the call any more when the last reference goes, but for the server's list. */
static void drop(struct rpc_call *call)
{
    struct rpc_stream *st = call->stream;
    struct rpc_server *s = call->queue->server;
    if (__atomic_sub_fetch(&st->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pthread_mutex_lock(&s->lock);
    DL_DELETE2(s->open_streams, call, stream->prev, stream->next);
    pthread_mutex_unlock(&s->lock);
    INVARIANT(!st->queue);
    pthread_mutex_destroy(&st->lock);
    pthread_cond_destroy(&st->event_over);
    free(st);
    call->stream = NULL;
    rpc_call_release(call);
}

/* --- sending; all under the stream's lock --- */

static void start_write(struct rpc_call *call, const grpc_op *op)
{
    call->stream->writing = true;
    hold(call);
    rpc_call_batch(call, op, 1, &call->written);
}

static void write_message(struct rpc_call *call, grpc_slice message)
{
    call->stream->writing_bytes = GRPC_SLICE_LENGTH(message);
    rpc_core_message_init(&call->message, message);
    call->has_message = true;
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    op.data.send_message.send_message = &call->message;
    start_write(call, &op);
}

static void write_status(struct rpc_call *call)
{
    grpc_op op;
    call->stream->finished = true;
    rpc_call_status_op(call, &op);
    start_write(call, &op);
}

static struct rpc_message *queue_pop(struct rpc_stream *st)
{
    struct rpc_message *m = st->queue;
    st->queue = m->next;
    if (!st->queue)
        st->tail = NULL;
    return m;
}

static void count_written(struct rpc_stream *st, size_t bytes)
{
    st->queued_bytes -= bytes;
    __atomic_fetch_sub(&st->pending, 1, __ATOMIC_RELAXED);
}

static void drop_queued(struct rpc_stream *st)
{
    while (st->queue) {
        struct rpc_message *m = queue_pop(st);
        count_written(st, GRPC_SLICE_LENGTH(m->bytes));
        grpc_slice_unref(m->bytes);
        free(m);
    }
}

/* Starts the next write, if none is under way and there is something to say. */
static void advance(struct rpc_call *call)
{
    struct rpc_stream *st = call->stream;
    if (st->writing || st->closed)
        return;
    if (st->queue) {
        struct rpc_message *m = queue_pop(st);
        write_message(call, m->bytes);
        free(m);
    } else if (st->finishing && !st->finished) {
        write_status(call);
    }
}

static void enqueue(struct rpc_stream *st, grpc_slice message)
{
    struct rpc_message *m = mem_alloc(sizeof *m);
    m->bytes = message;
    if (st->tail)
        st->tail->next = m;
    else
        st->queue = m;
    st->tail = m;
}

/* Takes the slice when it answers true. */
static bool send_slice(struct rpc_call *call, grpc_slice message)
{
    struct rpc_stream *st = call->stream;
    size_t limit = call->queue->server->max_stream_bytes, len = GRPC_SLICE_LENGTH(message);
    pthread_mutex_lock(&st->lock);
    PRE(!st->ended);
    /* one message is always taken, else a large one could never be sent */
    bool fits = st->queued_bytes == 0 || st->queued_bytes + len <= limit;
    bool taken = fits && !st->closed && !st->drained;
    if (taken) {
        st->queued_bytes += len;
        __atomic_fetch_add(&st->pending, 1, __ATOMIC_RELAXED);
        if (st->writing)
            enqueue(st, message);
        else
            write_message(call, message);
    }
    pthread_mutex_unlock(&st->lock);
    return taken;
}

bool rpc_stream_send(struct rpc_call *call, struct bytes message)
{
    grpc_slice copy = rpc_core_slice(message);
    bool taken = send_slice(call, copy);
    if (!taken)
        grpc_slice_unref(copy);
    return taken;
}

/* C core counts who holds the slice. */
struct rpc_shared {
    grpc_slice bytes;
};

struct rpc_shared *rpc_shared_new(struct bytes message)
{
    struct rpc_shared *m = mem_alloc(sizeof *m);
    m->bytes = rpc_core_slice(message);
    return m;
}

void rpc_shared_drop(struct rpc_shared *m)
{
    if (!m)
        return;
    grpc_slice_unref(m->bytes);
    free(m);
}

struct bytes rpc_shared_bytes(const struct rpc_shared *m)
{
    return rpc_core_view(&m->bytes);
}

bool rpc_stream_send_shared(struct rpc_call *call, struct rpc_shared *m)
{
    grpc_slice held = grpc_slice_ref(m->bytes);
    bool taken = send_slice(call, held);
    if (!taken)
        grpc_slice_unref(held);
    return taken;
}

size_t rpc_stream_queued_bytes(struct rpc_call *call)
{
    pthread_mutex_lock(&call->stream->lock);
    size_t bytes = call->stream->queued_bytes;
    pthread_mutex_unlock(&call->stream->lock);
    return bytes;
}

size_t rpc_stream_pending(const struct rpc_call *call)
{
    return __atomic_load_n(&call->stream->pending, __ATOMIC_RELAXED);
}

/* --- what the owner is told --- */

static bool may_tell(const struct rpc_stream *st)
{
    return st->on_event && !st->ended && !st->told_gone;
}

/* The caller holds a reference, and not the lock. */
static void tell(struct rpc_call *call, enum rpc_stream_event event)
{
    struct rpc_stream *st = call->stream;
    pthread_mutex_lock(&st->lock);
    while (st->in_event)
        pthread_cond_wait(&st->event_over, &st->lock);
    bool telling = may_tell(st);
    if (telling) {
        st->told_gone = event == RPC_STREAM_GONE;
        st->in_event = true;
        st->event_thread = pthread_self();
    }
    pthread_mutex_unlock(&st->lock);
    if (!telling)
        return;
    st->on_event(call, event, st->user);
    pthread_mutex_lock(&st->lock);
    st->in_event = false;
    pthread_cond_broadcast(&st->event_over);
    pthread_mutex_unlock(&st->lock);
}

static void forget_message(struct rpc_call *call)
{
    struct rpc_stream *st = call->stream;
    if (!call->has_message)
        return;
    rpc_core_message_close(&call->message);
    call->has_message = false;
    count_written(st, st->writing_bytes);
}

static void on_written(struct rpc_call *call, bool ok)
{
    struct rpc_stream *st = call->stream;
    pthread_mutex_lock(&st->lock);
    st->writing = false;
    forget_message(call);
    if (!ok) /* broken; on_closed follows */
        st->closed = true;
    if (st->closed)
        drop_queued(st);
    advance(call);
    bool writable = !st->writing && !st->closed && !st->finishing;
    pthread_mutex_unlock(&st->lock);
    if (writable)
        tell(call, RPC_STREAM_WRITABLE);
    drop(call);
}

static void on_closed(struct rpc_call *call, bool ok)
{
    struct rpc_stream *st = call->stream;
    pthread_mutex_lock(&st->lock);
    st->closed = true;
    drop_queued(st);
    pthread_mutex_unlock(&st->lock);
    tell(call, RPC_STREAM_GONE);
    drop(call);
}

/* --- receiving --- */

/* Under the stream's lock. */
static void fetch(struct rpc_call *call)
{
    struct rpc_stream *st = call->stream;
    if (!st->wanted || st->receiving || st->ended)
        return;
    st->wanted = false;
    st->receiving = true;
    hold(call);
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &call->payload;
    rpc_call_batch(call, &op, 1, &call->received);
}

static void on_received(struct rpc_call *call, bool ok)
{
    struct rpc_stream *st = call->stream;
    if (call->payload) {
        call->body = rpc_core_contiguous(call->payload, &call->flat_body);
        tell(call, RPC_STREAM_REQUEST);
        rpc_call_forget_body(call);
    } else {
        tell(call, RPC_STREAM_NO_MORE);
    }
    pthread_mutex_lock(&st->lock);
    st->receiving = false;
    fetch(call);
    pthread_mutex_unlock(&st->lock);
    drop(call);
}

void rpc_stream_receive(struct rpc_call *call)
{
    struct rpc_stream *st = call->stream;
    PRE(call->method->kind == RPC_BIDI_STREAM);
    pthread_mutex_lock(&st->lock);
    PRE(!st->ended && !st->wanted);
    st->wanted = true;
    fetch(call);
    pthread_mutex_unlock(&st->lock);
}

/* --- begin and end --- */

static void stream_new(struct rpc_call *call, rpc_stream_fn *on_event, void *user)
{
    struct rpc_stream *st = call->stream = mem_alloc(sizeof *st);
    pthread_mutex_init(&st->lock, NULL);
    pthread_cond_init(&st->event_over, NULL);
    st->refs = 2; /* the owner, and the receipt of the close */
    st->on_event = on_event;
    st->user = user;
    call->written = (struct rpc_tag){.on = on_written, .call = call};
    call->answered = (struct rpc_tag){.on = on_closed, .call = call};
    call->received = (struct rpc_tag){.on = on_received, .call = call};
}

/* False: the server ends it before it began. */
static bool enlist(struct rpc_call *call)
{
    struct rpc_server *s = call->queue->server;
    pthread_mutex_lock(&s->lock);
    DL_APPEND2(s->open_streams, call, stream->prev, stream->next);
    bool drained = s->streams_drained;
    pthread_mutex_unlock(&s->lock);
    return !drained;
}

void rpc_stream_begin(struct rpc_call *call, rpc_stream_fn *on_event, void *user,
                      const struct rpc_metadata *initial, size_t n)
{
    PRE(!call->stream && call->method && call->method->kind != RPC_UNARY);
    stream_new(call, on_event, user);
    struct rpc_stream *st = call->stream;
    bool served = enlist(call);
    rpc_outgoing_add_all(&call->initial, initial, n);
    pthread_mutex_lock(&st->lock);
    grpc_op first = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    first.data.send_initial_metadata.count = call->initial.n;
    first.data.send_initial_metadata.metadata = call->initial.items;
    start_write(call, &first);
    grpc_op last = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    last.data.recv_close_on_server.cancelled = &call->cancelled;
    rpc_call_batch(call, &last, 1, &call->answered);
    st->wanted = call->method->kind == RPC_BIDI_STREAM;
    fetch(call);
    pthread_mutex_unlock(&st->lock);
    if (!served) {
        hold(call);
        rpc_stream_drain(call);
    }
}

static void set_status(struct rpc_call *call, const struct err *e, const struct rpc_hints *hints)
{
    call->stream->finishing = true;
    if (e && err_is(e))
        rpc_call_set_failure(call, e, hints);
}

void rpc_stream_end(struct rpc_call *call, const struct err *e, const struct rpc_hints *hints)
{
    struct rpc_stream *st = call->stream;
    if (!st) {
        rpc_call_answer_status(call, e, hints);
        return;
    }
    pthread_mutex_lock(&st->lock);
    PRE(!st->ended);
    st->ended = true;
    if (!st->finishing)
        set_status(call, e, hints);
    advance(call);
    while (st->in_event && !pthread_equal(st->event_thread, pthread_self()))
        pthread_cond_wait(&st->event_over, &st->lock);
    pthread_mutex_unlock(&st->lock);
    drop(call);
}

void rpc_stream_drain(struct rpc_call *call)
{
    struct rpc_stream *st = call->stream;
    struct err e = err_make(ERR_DRAINING, "%s", RPC_DRAINING_TEXT);
    pthread_mutex_lock(&st->lock);
    if (!st->ended) { /* else what its owner sent, and its end, still go out */
        st->drained = true;
        drop_queued(st);
        set_status(call, &e, NULL);
        advance(call);
    }
    pthread_mutex_unlock(&st->lock);
    tell(call, RPC_STREAM_GONE);
    drop(call);
}
