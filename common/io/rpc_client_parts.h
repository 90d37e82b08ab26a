/* How the files of the RPC client see each other; only for common/io/rpc_*.c. */
#pragma once
#include "common/io/rpc_client.h"
#include "common/io/rpc_core.h"

/* What the module's completion queue hands back. */
struct rpc_event {
    void (*on)(void *arg, bool ok);
    void *arg;
};

struct rpc_channel {
    grpc_channel *core;
    char *addr;
};

/* The parts of a call on its way out that unary calls and streams share. */
struct rpc_outcall {
    struct rpc_channel *channel;
    grpc_call *core;
    grpc_byte_buffer request;
    struct rpc_outgoing metadata;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *message;
    grpc_status_code status;
    grpc_slice status_message;
};

/* Of the thread that serves all channels; alive as long as any channel is. */
grpc_completion_queue *rpc_client_queue(void);

void rpc_outcall_init(struct rpc_outcall *c, struct rpc_channel *ch, struct bytes request,
                      const struct rpc_metadata *metadata, size_t n);
void rpc_outcall_create(struct rpc_outcall *c, const char *path, int64_t deadline_ms);
/* The three ops that send the whole request, into ops. */
void rpc_outcall_send_ops(struct rpc_outcall *c, grpc_op ops[3]);
grpc_op rpc_outcall_status_op(struct rpc_outcall *c);
grpc_op rpc_outcall_initial_op(struct rpc_outcall *c);
grpc_op rpc_outcall_message_op(struct rpc_outcall *c);
void rpc_outcall_batch(struct rpc_outcall *c, const grpc_op *ops, size_t n, struct rpc_event *tag);
/* What came besides messages, once the status is there; the error that it stands for. */
struct err rpc_outcall_finish(struct rpc_outcall *c, struct rpc_answer *a);
/* Moves the message that was received, if any, into out (replaced). false: there was none. */
bool rpc_outcall_take_message(struct rpc_outcall *c, struct buf *out);
/* Forgets the call that was made and what it was told; the request stays, for another one. */
void rpc_outcall_again(struct rpc_outcall *c);
void rpc_outcall_close(struct rpc_outcall *c);
