/* What the files of the relay share among themselves. */
#pragma once
#include "proxy/relay.h"

extern const struct up_stream_ops call_ops;

/* What relay_decide may know of the call. usable: a connection it could go to now, or NULL. */
struct relay_facts call_facts(const struct call *c, const struct uplink *usable);
/* One thing happened: what relay_decide says becomes of the call is done. May not free it. */
void call_decide(struct call *c, enum relay_event event);
/* The client gets this status, and the call is done. */
void call_fail(struct call *c, const struct relay_verdict *v);
/* The call is decided: no timer any more. Attempt, line and ramp are the caller's to leave. */
void call_settle(struct call *c);
void call_leave_lot(struct call *c);              /* when parked */
void call_leave_ramp(struct call *c);             /* when counted there */
void call_count(struct call *c, uint64_t status); /* gRPC status; out of range: none */
/* Back to the worker's list. It belongs to no client, has no attempt in flight, is not in line. */
void call_free(struct call *c);
void call_drop_answer(struct call *c);       /* what is held of it; nothing went to the client */
bool relay_has_room(const struct worker *w); /* for more answer bytes */
struct bytes call_body(struct up_stream *up, bool *ended);
void call_body_sent(struct up_stream *up, size_t bytes);
