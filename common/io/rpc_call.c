/* One call: from the slot that waits for it to the answer. */
#include "common/io/rpc_server_parts.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rpc_status.h"
#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Slots kept for reuse by one queue; more than so many at once are a burst that need not be
 * remembered. */
#define POOL_LIMIT 4096

static void on_arrived(struct rpc_call *call, bool ok);
static void on_answered(struct rpc_call *call, bool ok);
static void on_handed_over(struct rpc_call *call, bool ok);
static void on_closed(struct rpc_call *call, bool ok);

static struct rpc_call *slot_new(struct rpc_queue *q)
{
    struct rpc_call *call = q->pool;
    if (call) {
        q->pool = call->next;
        q->pooled--;
        return call;
    }
    call = mem_alloc(sizeof *call);
    call->queue = q;
    call->arrived = (struct rpc_tag){.on = on_arrived, .call = call};
    call->answered = (struct rpc_tag){.on = on_answered, .call = call};
    call->handed_over = (struct rpc_tag){.on = on_handed_over, .call = call};
    call->closed = (struct rpc_tag){.on = on_closed, .call = call};
    grpc_metadata_array_init(&call->metadata);
    grpc_call_details_init(&call->details);
    return call;
}

void rpc_call_free(struct rpc_call *call)
{
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    free(call);
}

void rpc_call_await(struct rpc_queue *q, const struct rpc_method *method, void *registered)
{
    struct rpc_call *call = slot_new(q);
    call->method = method;
    call->registered = registered;
    rpc_core_give(&call->arrived);
    bool bidi = method && method->kind == RPC_BIDI_STREAM;
    grpc_call_error e =
        method ? grpc_server_request_registered_call(
                     q->server->core, registered, &call->core, &call->deadline, &call->metadata,
                     bidi ? NULL : &call->payload, q->cq, q->cq, &call->arrived)
               : grpc_server_request_call(q->server->core, &call->core, &call->details,
                                          &call->metadata, q->cq, q->cq, &call->arrived);
    INVARIANT(e == GRPC_CALL_OK);
}

/* Refuses in the name of the server itself. */
static void refuse(struct rpc_call *call, enum err_code code, const char *why)
{
    struct err e = err_make(code, "%s", why);
    rpc_fail(call, &e, NULL);
}

static void refuse_unknown(struct rpc_call *call)
{
    char why[200];
    snprintf(why, sizeof why, "no such method: %.150s", rpc_call_path(call));
    refuse(call, ERR_NO_METHOD, why);
}

static void refuse_size(struct rpc_call *call)
{
    struct err e = err_make(ERR_TOO_LARGE, "a request of %zu bytes: requests are at most %zu bytes",
                            call->body.len, call->queue->server->max_message_bytes);
    rpc_fail(call, &e, NULL);
}

static int64_t *counter_of(struct rpc_call *call)
{
    return rpc_call_is_stream(call) ? &call->queue->streams : &call->queue->calls;
}

static void on_arrived(struct rpc_call *call, bool ok)
{
    if (!ok) { /* the server shuts down */
        rpc_call_free(call);
        return;
    }
    rpc_call_await(call->queue, call->method, call->registered);
    __atomic_fetch_add(counter_of(call), 1, __ATOMIC_SEQ_CST);
    call->arrived_us = clock_mono_us();
    if (call->payload)
        call->body = rpc_core_contiguous(call->payload, &call->flat_body);
    if (rpc_server_draining(call->queue->server)) {
        __atomic_store_n(&call->queue->server->refused_us, clock_mono_us(), __ATOMIC_SEQ_CST);
        refuse(call, ERR_DRAINING, RPC_DRAINING_TEXT);
    } else if (!call->method)
        refuse_unknown(call);
    else if (!call->payload && call->method->kind != RPC_BIDI_STREAM)
        refuse(call, ERR_BAD_REQUEST, "the call carries no request message");
    else if (call->body.len > call->queue->server->max_message_bytes)
        refuse_size(call);
    else
        call->method->handle(call, call->method->ctx);
}

static void on_answered(struct rpc_call *call, bool ok)
{
    if (!call->gone || --call->batches_open == 0)
        rpc_call_release(call);
}

static void on_closed(struct rpc_call *call, bool ok)
{
    if (call->cancelled) {
        __atomic_store_n(&call->is_gone, 1, __ATOMIC_SEQ_CST);
        call->gone(call->gone_ctx, call->gone_id);
    }
    if (--call->batches_open == 0)
        rpc_call_release(call);
}

void rpc_call_on_gone(struct rpc_call *call, void (*gone)(void *ctx, uint64_t id), void *ctx,
                      uint64_t id)
{
    PRE(!call->gone && !call->stream);
    call->gone = gone;
    call->gone_ctx = ctx;
    call->gone_id = id;
    call->batches_open = 2;
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    op.data.recv_close_on_server.cancelled = &call->cancelled;
    rpc_call_batch(call, &op, 1, &call->closed);
}

bool rpc_call_is_gone(const struct rpc_call *call)
{
    return __atomic_load_n(&call->is_gone, __ATOMIC_SEQ_CST);
}

void rpc_call_forget_body(struct rpc_call *call)
{
    if (call->payload)
        grpc_byte_buffer_destroy(call->payload);
    call->payload = NULL;
    call->body = BYTES_NONE;
    free(call->flat_body);
    call->flat_body = NULL;
}

/* What the request brought. */
static void clear_request(struct rpc_call *call)
{
    rpc_call_forget_body(call);
    call->metadata.count = 0;
    if (call->method == NULL) {
        grpc_call_details_destroy(&call->details);
        grpc_call_details_init(&call->details);
    }
    free(call->path);
    call->path = NULL;
    gpr_free(call->peer);
    call->peer = NULL;
    call->user = NULL;
    call->gone = NULL;
    call->is_gone = 0;
}

static void clear_answer(struct rpc_call *call)
{
    rpc_outgoing_clear(&call->initial);
    rpc_outgoing_clear(&call->trailers);
    grpc_slice_unref(call->status_message);
    call->status_message = grpc_empty_slice();
    call->status = GRPC_STATUS_OK;
    if (call->has_message)
        rpc_core_message_close(&call->message);
    call->has_message = false;
}

/* A drain or a free may be waiting for this call. */
static void count_out(struct rpc_server *s, int64_t *counter)
{
    __atomic_fetch_sub(counter, 1, __ATOMIC_SEQ_CST);
    if (!rpc_server_draining(s))
        return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void rpc_call_release(struct rpc_call *call)
{
    struct rpc_queue *q = call->queue;
    int64_t *counter = counter_of(call);
    bool streams = counter == &q->streams;
    grpc_call_unref(call->core);
    call->core = NULL;
    clear_request(call);
    clear_answer(call);
    if (streams || q->pooled == POOL_LIMIT) {
        rpc_call_free(call);
    } else {
        call->next = q->pool;
        q->pool = call;
        q->pooled++;
    }
    count_out(q->server, counter);
}

struct bytes rpc_call_body(const struct rpc_call *call)
{
    return call->body;
}

const char *rpc_call_path(const struct rpc_call *call)
{
    if (call->method)
        return call->method->path;
    struct rpc_call *mutable_call = (struct rpc_call *)call;
    if (!call->path) {
        struct bytes path = rpc_core_view(&call->details.method);
        mutable_call->path = mem_strndup((const char *)path.data, path.len);
    }
    return call->path;
}

bool rpc_call_is_stream(const struct rpc_call *call)
{
    return call->method && call->method->kind != RPC_UNARY;
}

struct bytes rpc_call_metadata(const struct rpc_call *call, const char *key)
{
    return rpc_core_find(&call->metadata, key);
}

int64_t rpc_call_deadline_ms(const struct rpc_call *call)
{
    return rpc_core_deadline_ms(call->method ? call->deadline : call->details.deadline);
}

const char *rpc_call_peer(struct rpc_call *call)
{
    if (!call->peer)
        call->peer = grpc_call_get_peer(call->core);
    return call->peer;
}

void *rpc_call_user(const struct rpc_call *call)
{
    return call->user;
}

void rpc_call_set_user(struct rpc_call *call, void *user)
{
    call->user = user;
}

void rpc_call_batch(struct rpc_call *call, const grpc_op *ops, size_t n, struct rpc_tag *tag)
{
    grpc_call *core = call->core; /* the call may be over before this function is */
    rpc_core_give(tag);
    grpc_call_error e = grpc_call_start_batch(core, ops, n, tag, NULL);
    INVARIANT(e == GRPC_CALL_OK);
}

void rpc_call_status_op(struct rpc_call *call, grpc_op *op)
{
    struct rpc_server *server = call->queue->server;
    if (server->answered)
        server->answered(call->method, (int)call->status, clock_mono_us() - call->arrived_us);
    *op = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op->data.send_status_from_server.status = call->status;
    op->data.send_status_from_server.trailing_metadata_count = call->trailers.n;
    op->data.send_status_from_server.trailing_metadata = call->trailers.items;
    if (call->status != GRPC_STATUS_OK)
        op->data.send_status_from_server.status_details = &call->status_message;
}

/* --- sending the answer --- */

/* Everything in one batch, the receipt of the client's close included: one completion, and for a
 * refusal the Trailers-Only form, which C core uses only when empty initial metadata and the status
 * come together. */
static void send_answer(struct rpc_call *call)
{
    grpc_op ops[4];
    size_t n = 0;
    ops[n] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
    ops[n].data.send_initial_metadata.count = call->initial.n;
    ops[n++].data.send_initial_metadata.metadata = call->initial.items;
    if (call->has_message) {
        ops[n] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
        ops[n++].data.send_message.send_message = &call->message;
    }
    rpc_call_status_op(call, &ops[n++]);
    if (!call->gone) {
        ops[n] = (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
        ops[n++].data.recv_close_on_server.cancelled = &call->cancelled;
    }
    rpc_call_batch(call, ops, n, &call->answered);
}

/* Sends what was handed over, in the order in which it came. */
static void on_handed_over(struct rpc_call *call, bool ok)
{
    struct rpc_call *stack = __atomic_exchange_n(&call->queue->handed_over, NULL, __ATOMIC_ACQUIRE);
    struct rpc_call *first = NULL;
    while (stack) {
        struct rpc_call *next = stack->next;
        stack->next = first;
        first = stack;
        stack = next;
    }
    while (first) {
        struct rpc_call *next = first->next;
        send_answer(first);
        first = next;
    }
}

/* Whoever finds the stack empty wakes the queue's thread, by a batch without operations, which C
 * core completes at once. Nobody else can take the call off the stack before, so it lives until
 * then. */
static void hand_over(struct rpc_call *call)
{
    struct rpc_queue *q = call->queue;
    struct rpc_call *top = __atomic_load_n(&q->handed_over, __ATOMIC_RELAXED);
    do
        call->next = top;
    while (!__atomic_compare_exchange_n(&q->handed_over, &top, call, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
    if (!top)
        rpc_call_batch(call, NULL, 0, &call->handed_over);
}

/* C core sends within the call that starts a batch, system call included. A thread that answers
 * many calls in a row, as the one does that commits writes by the hundred, should not be held up by
 * that: after the first answer of a burst, the threads of the calls' queues send the rest. A single
 * answer goes out at once. */
static bool in_burst(void)
{
    enum { APART_US = 100 };
    static _Thread_local int64_t last_us;
    int64_t now_us = clock_mono_us();
    bool burst = now_us - last_us < APART_US;
    last_us = now_us;
    return burst;
}

static void answer(struct rpc_call *call)
{
    if (call->queue != rpc_this_queue && in_burst())
        hand_over(call);
    else
        send_answer(call);
}

void rpc_reply(struct rpc_call *call, struct bytes message, const struct rpc_metadata *initial,
               size_t n)
{
    PRE(!call->stream);
    rpc_outgoing_add_all(&call->initial, initial, n);
    rpc_core_message_init(&call->message, rpc_core_slice(message));
    call->has_message = true;
    answer(call);
}

void rpc_call_answer_status(struct rpc_call *call, const struct err *e,
                            const struct rpc_hints *hints)
{
    PRE(!call->stream);
    if (e && err_is(e))
        rpc_call_set_failure(call, e, hints);
    answer(call);
}

void rpc_fail(struct rpc_call *call, const struct err *e, const struct rpc_hints *hints)
{
    PRE(err_is(e));
    rpc_call_answer_status(call, e, hints);
}

static void add_text(struct rpc_outgoing *o, const char *key, const char *value)
{
    if (value && *value)
        rpc_outgoing_add(o, key, bytes_str(value));
}

static void add_number(struct rpc_outgoing *o, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    if (value)
        add_text(o, key, digits);
}

void rpc_call_set_failure(struct rpc_call *call, const struct err *e, const struct rpc_hints *hints)
{
    static const struct rpc_hints silent;
    const struct rpc_hints *h = hints ? hints : &silent;
    struct rpc_outgoing *o = &call->trailers;
    bool unknown =
        h->outcome_unknown || (rpc_effect_of(e->code) == RPC_EFFECT_UNKNOWN && !h->not_executed);
    call->status = (grpc_status_code)rpc_status_of(e->code);
    call->status_message = rpc_core_slice(bytes_str(e->message));
    add_text(o, "baton-reason", err_word(e->code));
    add_text(o, unknown ? "baton-outcome" : "baton-not-executed", unknown ? "unknown" : "1");
    add_text(o, "baton-leader", h->leader);
    add_number(o, "baton-epoch", h->epoch);
    add_text(o, "baton-cluster", h->cluster);
    add_number(o, "grpc-retry-pushback-ms", h->pushback_ms > 0 ? (uint64_t)h->pushback_ms : 0);
    add_text(o, "baton-request-id", h->request_id);
    if (h->oldest_revision > 0)
        add_number(o, "baton-oldest-revision", (uint64_t)h->oldest_revision);
}
