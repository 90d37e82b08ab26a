/* MaintenanceService: the state as a whole. */
#pragma once
#include "common/io/rpc_server.h"

struct board;
struct candidate;
struct replica;
struct service_lead;
struct service_maintenance;
struct store;

struct service_maintenance_config {
    struct service_lead *lead;
    struct board *board;
    struct store *store;
    struct replica *replica;
    const char *prefix; /* "/baton/<cluster>/" */
    bool alone;         /* without etcd */
};

/* Starts the thread that exports. */
struct service_maintenance *service_maintenance_start(const struct service_maintenance_config *cfg);
/* The election, once it runs; NULL before it stops. Any thread. */
void service_maintenance_connect(struct service_maintenance *s, struct candidate *candidate);
/* After the RPC server is freed: no stream is left by then. */
void service_maintenance_stop(struct service_maintenance *s);

#define SERVICE_MAINTENANCE_METHODS 2
void service_maintenance_methods(struct service_maintenance *s,
                                 struct rpc_method methods[SERVICE_MAINTENANCE_METHODS]);
