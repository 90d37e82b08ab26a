/* What the services of a leader share: the metadata of their answers, refusals that name the
 * leader, calls that wait until etcd has confirmed this leadership, callers who know of a higher
 * epoch, and mutations. Handlers of any thread of the RPC server, unless it says something else. */
#pragma once
#include "common/base/buf.h"
#include "common/io/rpc_server.h"

struct board;
struct plan_answer;
struct plan_request;
struct replica;
struct waiting;

/* Borrowed until the RPC server is freed. */
struct service_lead {
    struct board *board;
    struct replica *replica;
    struct waiting *waiting;
};

/* ---- answers ---- */

/* A message with the epoch it was answered under. */
void lead_reply(struct service_lead *l, struct rpc_call *call, uint64_t epoch, bool replayed,
                struct bytes message);
/* rpc_stream_begin, with the same metadata. */
void lead_stream_begin(struct service_lead *l, struct rpc_call *call, uint64_t epoch,
                       rpc_stream_fn *on_event, void *user);
/* An error, with the leader that this member knows; ends a stream, too. */
void lead_fail(struct service_lead *l, struct rpc_call *call, const struct err *e);
/* The same, with the oldest revision that changes are kept from; 0: none. */
void lead_fail_compacted(struct service_lead *l, struct rpc_call *call, const struct err *e,
                         int64_t oldest_revision);
/* This member takes no leader's work: the reason that the board gives, or `otherwise` if it gives
 * none any more. */
void lead_refuse(struct service_lead *l, struct rpc_call *call, const struct err *otherwise);
/* Refuses, and is true, unless this member leads; it may have lost touch with etcd for the moment.
 */
bool lead_refuses(struct service_lead *l, struct rpc_call *call);

/* ---- waiting; of a stream, before it has begun ---- */

/* A call begun, or begun anew, perhaps on another thread. `confirmed`: the epoch of this member's
 * leadership that etcd has confirmed since the call came; 0: none. */
typedef void lead_run(struct rpc_call *call, void *ctx, uint64_t confirmed);

/* For a call that may not be answered by the gate: a leader whose gate has run out for the moment
 * asks etcd instead, everybody else refuses. */
void lead_confirm_or_refuse(struct service_lead *l, struct rpc_call *call, lead_run *run,
                            void *ctx);
/* Until etcd has confirmed this leadership; then runs with its epoch. Or answers an error. */
void lead_wait_confirmed(struct service_lead *l, struct rpc_call *call, lead_run *run, void *ctx);
/* Until the state holds a revision; then runs with the same `confirmed`. */
void lead_wait_revision(struct service_lead *l, struct rpc_call *call, int64_t revision,
                        bool needs_leader, uint64_t confirmed, lead_run *run, void *ctx);
/* Whether a call may go on whose sender has seen the epoch in its metadata. If not, it was
 * answered, or runs anew once this leader, which the sender believes to be deposed, knows better. A
 * member that does not lead refuses such calls anyway, so it lets them go on. */
bool lead_check_epoch(struct service_lead *l, struct rpc_call *call, uint64_t confirmed,
                      lead_run *run, void *ctx);

/* ---- mutations ---- */

/* A method that is one mutation: the ctx of its row of the method table. */
struct lead_mutation {
    struct service_lead *lead;
    /* The message into an empty request. */
    struct err (*decode)(struct bytes body, struct plan_request *out);
    /* The response to an answer with code OK. */
    void (*encode)(const struct plan_answer *answer, struct buf *out);
};

/* The handler of such a row: checks, takes the request id, commits, answers. */
void lead_handle_mutation(struct rpc_call *call, void *ctx);
