/* Calls to a gRPC server. One thread of this module serves all channels; callbacks run on it.
 * gRPC's own retries are off: who may send a call again is decided in client/core alone. */
#pragma once
#include "common/io/rpc_types.h"

struct rpc_channel;
struct rpc_reader;

/* What came back besides the error. All zero to start; rpc_answer_close frees it. */
struct rpc_answer {
    struct buf message;
    int status;          /* of the gRPC protocol, enum rpc_status */
    uint64_t epoch;      /* baton-epoch of initial metadata or trailers; 0: none */
    char cluster[64];    /* baton-cluster; empty: none; longer ones are cut */
    char reason[32];     /* baton-reason */
    char leader[264];    /* baton-leader */
    bool sent;           /* false: certainly nothing left this process */
    bool not_executed;   /* certainly nothing happened: not sent, or the peer says so */
    bool replayed;       /* the answer of an earlier try */
    int64_t pushback_ms; /* grpc-retry-pushback-ms; 0: none */
};
void rpc_answer_close(struct rpc_answer *a);

/* Does not connect yet. The address is host:port. */
struct rpc_channel *rpc_channel_new(const char *addr);
/* No call may be in flight and no reader open. */
void rpc_channel_free(struct rpc_channel *ch);
const char *rpc_channel_addr(const struct rpc_channel *ch);

/* One unary call; connects if needed. Deadlines are on the scale of clock_boot_ms. Errors: the
 * peer's, by its baton-reason or status; UNREACHABLE when no connection came about, LOST when one
 * broke with the request sent, TIMEOUT. Blocks; any number of threads at a time, but not from a
 * callback. */
struct err rpc_channel_call(struct rpc_channel *ch, const char *path, struct bytes request,
                            const struct rpc_metadata *metadata, size_t n, int64_t deadline_ms,
                            struct rpc_answer *out);

/* The same without blocking: done is called exactly once, on this module's thread; it must not
 * block and may start calls. answer is the module's and lives until done returns; its message may
 * be taken by leaving an empty buf. */
typedef void rpc_done_fn(void *arg, const struct err *e, struct rpc_answer *answer);
void rpc_channel_start(struct rpc_channel *ch, const char *path, struct bytes request,
                       const struct rpc_metadata *metadata, size_t n, int64_t deadline_ms,
                       rpc_done_fn *done, void *arg);

/* A server stream. Opening connects if needed and never fails: the first rpc_reader_next tells.
 * deadline_ms bounds the whole stream, INT64_MAX: not at all. */
struct rpc_reader *rpc_reader_open(struct rpc_channel *ch, const char *path, struct bytes request,
                                   const struct rpc_metadata *metadata, size_t n,
                                   int64_t deadline_ms);
enum rpc_next { RPC_NEXT_MESSAGE, RPC_NEXT_NOTHING, RPC_NEXT_END };
/* The next message, into out (replaced); NOTHING when none came until deadline_ms, the stream goes
 * on; END when it is over: *e then says why (OK: the server ended it in peace). One thread at a
 * time. */
enum rpc_next rpc_reader_next(struct rpc_reader *r, int64_t deadline_ms, struct buf *out,
                              struct err *e);
const struct rpc_answer *rpc_reader_answer(const struct rpc_reader *r); /* complete after END */
void rpc_reader_cancel(
    struct rpc_reader *r); /* any thread; rpc_reader_next then says END, CANCELLED */
void rpc_reader_free(struct rpc_reader *r);
