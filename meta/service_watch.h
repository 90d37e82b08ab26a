/* KvService.Watch: a kind of the fan-out's streams. */
#pragma once
#include "meta/fanout.h"
#include "meta/service_lead.h"

/* Borrowed until the RPC server is freed. */
struct service_watch {
    struct service_lead *lead;
    struct fanout *fanout;
};

/* Whether the call may be served by a member that does not lead. */
bool watch_allows_follower(const struct rpc_call *call);

/* The row of the method; ctx is a struct service_watch. */
void watch_handle(struct rpc_call *call, void *ctx);
