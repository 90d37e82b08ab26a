/* The standard gRPC health service: the server and the member service always serve, what only the
 * leader does is SERVING on the leader alone. */
#pragma once
#include "common/io/rpc_server.h"

struct board;
struct service_health;

struct service_health *service_health_start(struct board *board);
/* After the RPC server is freed. */
void service_health_stop(struct service_health *s);
void service_health_changed(struct service_health *s);

#define SERVICE_HEALTH_METHODS 2
void service_health_methods(struct service_health *s,
                            struct rpc_method methods[SERVICE_HEALTH_METHODS]);
