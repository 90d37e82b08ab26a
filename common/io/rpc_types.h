/* What the RPC server and the RPC client have in common. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"

/* One entry of gRPC metadata. Keys are lower case; values printable ASCII unless the key ends in
 * -bin. */
struct rpc_metadata {
    const char *key;
    struct bytes value;
};

/* What a refusal may tell besides its error; all zero says nothing. Borrowed for the length of the
 * call. */
struct rpc_hints {
    const char *leader;      /* baton-leader: host:port of the leader this member knows */
    uint64_t epoch;          /* baton-epoch; 0: none */
    const char *cluster;     /* baton-cluster */
    int64_t oldest_revision; /* baton-oldest-revision; 0: none */
    int64_t pushback_ms;     /* grpc-retry-pushback-ms; 0: none */
    const char *request_id;  /* baton-request-id, where the outcome can be asked for */
    bool not_executed;       /* nothing happened, though the error's code alone does not say so */
    bool outcome_unknown;    /* it may have happened, though the error's code says it did not */
};
