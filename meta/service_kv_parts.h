/* What the files of the key-value service share. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"
#include "meta/service_kv.h"

/* A message with the epoch it was answered under; and, after an error, the leader that this member
 * knows. */
void kv_reply(struct service_kv *s, struct rpc_call *call, uint64_t epoch, bool replayed,
              struct bytes message);
void kv_fail(struct service_kv *s, struct rpc_call *call, const struct err *e);
/* This member takes no leader's work: the reason that the board gives, or `otherwise` if it gives
 * none any more. */
void kv_refuse(struct service_kv *s, struct rpc_call *call, const struct err *otherwise);

/* One method, begun or begun anew. `confirmed`: the epoch of this member's leadership that etcd has
 * confirmed since the call came; 0: none. */
typedef void kv_run(struct service_kv *s, struct rpc_call *call, uint64_t confirmed);

/* Until etcd has confirmed this leadership; then runs the method with its epoch. Or answers an
 * error. */
void kv_wait_confirmed(struct service_kv *s, struct rpc_call *call, kv_run *run);
/* Until the state holds a revision; then runs the method with the same `confirmed`. */
void kv_wait_revision(struct service_kv *s, struct rpc_call *call, int64_t revision,
                      bool needs_leader, uint64_t confirmed, kv_run *run);
/* Whether a call may go on whose sender has seen the epoch in its metadata. If not, it was
 * answered, or runs anew once this leader, which the sender believes to be deposed, knows better.
 */
bool kv_check_epoch(struct service_kv *s, struct rpc_call *call, uint64_t confirmed, kv_run *run);

/* ---- service_kv_read.c ---- */
void kv_handle_get(struct rpc_call *call, void *ctx);
void kv_handle_range(struct rpc_call *call, void *ctx);
