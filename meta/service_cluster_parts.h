/* Inside of the service of the workers. */
#pragma once
#include "meta/service_cluster.h"

/* service_cluster_beat.c */
void cluster_handle_heartbeat(struct rpc_call *call, void *ctx);
void cluster_handle_heartbeats(struct rpc_call *call, void *ctx);
/* service_cluster_read.c */
void cluster_handle_list(struct rpc_call *call, void *ctx);
void cluster_handle_info(struct rpc_call *call, void *ctx);
