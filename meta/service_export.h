/* The streams of MaintenanceService/Export: each reads one snapshot from its first key to its last,
 * as fast as its reader takes it, and not for ever. */
#pragma once
#include "common/io/rpc_server.h"

struct exporter;
struct service_lead;
struct store_snapshot;

/* What an export says of the state that it reads. */
struct export_header {
    char cluster_id[40];
    uint64_t epoch, incarnation;
};

struct exporter *exporter_start(void);
/* No stream is open any more. */
void exporter_stop(struct exporter *x);
/* From the handler, which has said nothing yet. The snapshot is the exporter's from here on. */
void exporter_open(struct exporter *x, struct service_lead *lead, struct rpc_call *call,
                   const struct export_header *header, struct store_snapshot *snap);
