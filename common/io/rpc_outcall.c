/* A call on its way out: its operations, and what its answer means. */
#include "common/base/check.h"
#include "common/io/rpc_client_parts.h"
#include "common/base/rpc_status.h"
#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>

void rpc_outcall_init(struct rpc_outcall *c, struct rpc_channel *ch, struct bytes request,
                      const struct rpc_metadata *metadata, size_t n)
{
    c->channel = ch;
    rpc_core_message_init(&c->request, rpc_core_slice(request));
    rpc_outgoing_add_all(&c->metadata, metadata, n);
    grpc_metadata_array_init(&c->initial);
    grpc_metadata_array_init(&c->trailing);
    c->status_message = grpc_empty_slice();
}

void rpc_outcall_create(struct rpc_outcall *c, const char *path, int64_t deadline_ms)
{
    grpc_slice method = grpc_slice_from_copied_string(path);
    c->core = grpc_channel_create_call(c->channel->core, NULL, GRPC_PROPAGATE_DEFAULTS,
                                       rpc_client_queue(), method, NULL,
                                       rpc_core_deadline(deadline_ms), NULL);
    grpc_slice_unref(method);
}

void rpc_outcall_send_ops(struct rpc_outcall *c, grpc_op ops[3])
{
    ops[0] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
    ops[0].data.send_initial_metadata.count = c->metadata.n;
    ops[0].data.send_initial_metadata.metadata = c->metadata.items;
    ops[1] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
    ops[1].data.send_message.send_message = &c->request;
    ops[2] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
}

grpc_op rpc_outcall_status_op(struct rpc_outcall *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    op.data.recv_status_on_client.trailing_metadata = &c->trailing;
    op.data.recv_status_on_client.status = &c->status;
    op.data.recv_status_on_client.status_details = &c->status_message;
    return op;
}

grpc_op rpc_outcall_initial_op(struct rpc_outcall *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_INITIAL_METADATA};
    op.data.recv_initial_metadata.recv_initial_metadata = &c->initial;
    return op;
}

grpc_op rpc_outcall_message_op(struct rpc_outcall *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &c->message;
    return op;
}

void rpc_outcall_batch(struct rpc_outcall *c, const grpc_op *ops, size_t n, struct rpc_event *tag)
{
    grpc_call *core = c->core; /* the call may be over before this function is */
    rpc_core_give(tag);
    grpc_call_error e = grpc_call_start_batch(core, ops, n, tag, NULL);
    INVARIANT(e == GRPC_CALL_OK);
}

/* The value under a key, of the trailers or else of the initial metadata. */
static struct bytes find(struct rpc_outcall *c, const char *key)
{
    struct bytes value = rpc_core_find(&c->trailing, key);
    return value.data ? value : rpc_core_find(&c->initial, key);
}

static void copy_text(char *out, size_t cap, struct bytes value)
{
    snprintf(out, cap, "%.*s", (int)value.len, value.data ? (const char *)value.data : "");
}

static uint64_t number(struct bytes value)
{
    char digits[24];
    copy_text(digits, sizeof digits, value);
    return strtoull(digits, NULL, 10);
}

static bool says(struct rpc_outcall *c, const char *key, const char *word)
{
    return bytes_equal(find(c, key), bytes_str(word));
}

static void read_metadata(struct rpc_outcall *c, struct rpc_answer *a)
{
    a->epoch = number(find(c, "baton-epoch"));
    copy_text(a->cluster, sizeof a->cluster, find(c, "baton-cluster"));
    copy_text(a->reason, sizeof a->reason, find(c, "baton-reason"));
    copy_text(a->leader, sizeof a->leader, find(c, "baton-leader"));
    a->not_executed = says(c, "baton-not-executed", "1") && !says(c, "baton-outcome", "unknown");
    a->replayed = says(c, "baton-replayed", "1");
    a->pushback_ms = (int64_t)(number(find(c, "grpc-retry-pushback-ms")) & INT32_MAX);
}

struct err rpc_outcall_finish(struct rpc_outcall *c, struct rpc_answer *a)
{
    read_metadata(c, a);
    a->status = c->status;
    a->sent = true;
    enum err_code code = rpc_code_of(a->status, a->reason);
    if (code == ERR_OK)
        return OK_ERR;
    if (code == ERR_LOST && a->not_executed)
        code = ERR_UNREACHABLE;
    struct bytes why = rpc_core_view(&c->status_message);
    return err_make(code, "%s: %.*s", c->channel->addr, (int)why.len, (const char *)why.data);
}

bool rpc_outcall_take_message(struct rpc_outcall *c, struct buf *out)
{
    uint8_t *flat = NULL;
    if (!c->message)
        return false;
    struct bytes all = rpc_core_contiguous(c->message, &flat);
    buf_clear(out);
    buf_bytes(out, all);
    free(flat);
    grpc_byte_buffer_destroy(c->message);
    c->message = NULL;
    return true;
}

void rpc_outcall_again(struct rpc_outcall *c)
{
    grpc_call_unref(c->core);
    c->core = NULL;
    grpc_metadata_array_destroy(&c->trailing);
    grpc_metadata_array_init(&c->trailing);
    grpc_slice_unref(c->status_message);
    c->status_message = grpc_empty_slice();
}

void rpc_outcall_close(struct rpc_outcall *c)
{
    if (c->message)
        grpc_byte_buffer_destroy(c->message);
    rpc_core_message_close(&c->request);
    rpc_outgoing_clear(&c->metadata);
    grpc_metadata_array_destroy(&c->initial);
    grpc_metadata_array_destroy(&c->trailing);
    grpc_slice_unref(c->status_message);
    if (c->core)
        grpc_call_unref(c->core);
}
