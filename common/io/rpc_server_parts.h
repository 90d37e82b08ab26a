/* How the files of the RPC server see each other; only for common/io/rpc_*.c.
 *
 * A call slot waits at C core for a request of one method; when one comes it becomes the call, and
 * another slot takes its place. A slot of a unary method returns to its queue's pool, on the
 * queue's own thread; one of a stream is freed, on whichever thread lets go of it last. */
#pragma once
#include "common/io/rpc_core.h"
#include "common/io/rpc_server.h"
#include <pthread.h>

/* What a completion queue hands back. */
struct rpc_tag {
    void (*on)(struct rpc_call *call, bool ok);
    struct rpc_call *call;
};

struct rpc_queue {
    struct rpc_server *server;
    grpc_completion_queue *cq;
    pthread_t thread;
    struct rpc_call *pool; /* of this queue's thread only */
    size_t pooled;
    struct rpc_call
        *handed_over;       /* a stack, atomic: answers of other threads, for this one to send */
    int64_t calls, streams; /* given to handlers and not yet done; atomic */
};

struct rpc_server {
    grpc_server *core;
    int port;
    size_t max_message_bytes, max_stream_bytes;
    void (*answered)(const struct rpc_method *method, int status, int64_t spent_us); /* or NULL */
    struct rpc_queue *queues;
    int queue_count;
    const struct rpc_method *methods;
    void **registered; /* handles of C core, one for each method */
    size_t method_count;
    bool draining;      /* atomic */
    int64_t refused_us; /* when a call came last while draining; atomic */
    bool drained;
    struct rpc_tag shutdown_tag;
    pthread_mutex_t lock; /* for what follows, and for waiting on the counters of the queues */
    pthread_cond_t changed;
    bool shut_down;
    bool streams_drained; /* the drain has been through the list: who comes now ends at once */
    struct rpc_call *open_streams; /* a utlist */
};

struct rpc_message {
    struct rpc_message *next;
    grpc_slice bytes;
};

/* Of a stream; guarded by its lock, but for what is marked atomic. */
struct rpc_stream {
    pthread_mutex_t lock;
    pthread_cond_t event_over;
    int refs;       /* atomic: the owner, the receipt of the close, each batch under way, a drain */
    bool writing;   /* a batch that sends is under way */
    bool closed;    /* the reader is gone, or has everything */
    bool drained;   /* the server ends it: the owner sends no more */
    bool finishing; /* the status is made, to be sent behind what is queued */
    bool finished;  /* and was given to C core */
    bool ended;     /* the owner said its last word */
    bool told_gone;
    bool wanted;    /* the owner asked for a request: fetched once the one before is dealt with */
    bool receiving; /* a batch that receives is under way, or its event */
    bool in_event;  /* a callback runs, on event_thread */
    pthread_t event_thread;
    rpc_stream_fn *on_event;
    void *user;
    struct rpc_message *queue; /* a utlist, singly linked with its tail at tail */
    struct rpc_message *tail;
    size_t writing_bytes, queued_bytes; /* of the message being written; of all not yet written */
    size_t pending;                     /* atomic: messages not yet written */
    struct rpc_call *prev, *next;       /* in open_streams */
};

struct rpc_call {
    struct rpc_queue *queue;
    const struct rpc_method *method; /* NULL: the slot for paths that no method has */
    void *registered;
    struct rpc_call *next; /* in the pool, or among the answers handed over */
    struct rpc_tag arrived, answered, written, received, handed_over, closed;
    grpc_call *core;
    gpr_timespec deadline;
    int64_t arrived_us;        /* clock_mono_us */
    grpc_call_details details; /* without a method */
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
    struct bytes body;
    uint8_t *flat_body;
    char *path, *peer;
    void *user;
    int cancelled;
    /* of rpc_call_on_gone: its close is awaited by a batch of its own */
    void (*gone)(void *ctx, uint64_t id);
    void *gone_ctx;
    uint64_t gone_id;
    int is_gone;      /* atomic */
    int batches_open; /* the one of the answer, and that of the close; the queue's thread */
    grpc_byte_buffer message;
    bool has_message;
    struct rpc_outgoing initial, trailers;
    grpc_slice status_message;
    grpc_status_code status;
    struct rpc_stream *stream; /* NULL: answered as a unary call */
};

/* The queue whose thread this is; NULL on other threads. */
extern _Thread_local struct rpc_queue *rpc_this_queue;

static inline bool rpc_server_draining(const struct rpc_server *s)
{
    return __atomic_load_n(&s->draining, __ATOMIC_SEQ_CST);
}

/* Makes a slot wait for a request; frees it when the server takes none any more. */
void rpc_call_await(struct rpc_queue *q, const struct rpc_method *method, void *registered);
/* The call is over: gives everything of C core back and counts it out. */
void rpc_call_release(struct rpc_call *call);
void rpc_call_free(struct rpc_call *call);
/* The request message, when it was dealt with. */
void rpc_call_forget_body(struct rpc_call *call);

/* The status and trailers of an error into call->status, status_message and trailers. */
void rpc_call_set_failure(struct rpc_call *call, const struct err *e,
                          const struct rpc_hints *hints);
/* Fills the op that sends them. */
void rpc_call_status_op(struct rpc_call *call, grpc_op *op);
/* Ends a call with a status and nothing else; e may be NULL or OK. */
void rpc_call_answer_status(struct rpc_call *call, const struct err *e,
                            const struct rpc_hints *hints);
/* One batch; C core refuses only what is wrongly made. */
void rpc_call_batch(struct rpc_call *call, const grpc_op *ops, size_t n, struct rpc_tag *tag);

/* A reference for rpc_stream_drain; false when the stream is on its way out already. Under the
 * server's lock. */
bool rpc_stream_try_hold(struct rpc_call *call);
/* Ends a stream on the server's own account and consumes the reference. */
void rpc_stream_drain(struct rpc_call *call);

#define RPC_DRAINING_TEXT "this member is shutting down; call another one"
void rpc_server_on_shutdown(struct rpc_server *s);
