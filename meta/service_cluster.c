#include "meta/service_cluster.h"
#include "meta/convert_worker.h"
#include "meta/service_cluster_parts.h"
#include <string.h>

void service_cluster_methods(struct service_cluster *s,
                             struct rpc_method methods[SERVICE_CLUSTER_METHODS])
{
    s->add = (struct lead_mutation){s->lead, convert_add_worker, convert_worker_answer};
    s->activate = (struct lead_mutation){s->lead, convert_activate_worker, convert_worker_answer};
    s->update = (struct lead_mutation){s->lead, convert_update_worker, convert_worker_answer};
    s->remove = (struct lead_mutation){s->lead, convert_delete_worker, convert_worker_answer};
#define SERVICE "/baton.v1.ClusterService/"
    const struct rpc_method table[SERVICE_CLUSTER_METHODS] = {
        {SERVICE "AddWorker", RPC_UNARY, lead_handle_mutation, &s->add},
        {SERVICE "ActivateWorker", RPC_UNARY, lead_handle_mutation, &s->activate},
        {SERVICE "UpdateWorker", RPC_UNARY, lead_handle_mutation, &s->update},
        {SERVICE "DeleteWorker", RPC_UNARY, lead_handle_mutation, &s->remove},
        {SERVICE "ListWorkers", RPC_UNARY, cluster_handle_list, s},
        {SERVICE "Heartbeat", RPC_UNARY, cluster_handle_heartbeat, s},
        {SERVICE "HeartbeatStream", RPC_BIDI_STREAM, cluster_handle_heartbeats, s},
        {SERVICE "GetClusterInfo", RPC_UNARY, cluster_handle_info, s},
    };
#undef SERVICE
    memcpy(methods, table, sizeof table);
}
