#include "meta/service_cluster.h"
#include "meta/convert_worker.h"
#include "meta/service_cluster_parts.h"
#include <string.h>

/* Of a worker that asks for none. Written once, before the server runs. */
static uint64_t default_ttl_ms;

static struct err decode_add(struct bytes body, struct plan_request *out)
{
    struct err e = convert_add_worker(body, out);
    if (err_is(&e) || out->worker->ttl_ms)
        return e;
    struct request_worker *w = arena_alloc(&out->memory, sizeof *w);
    *w = *out->worker;
    w->ttl_ms = default_ttl_ms;
    out->worker = w;
    return e;
}

void service_cluster_methods(struct service_cluster *s, int64_t ttl_ms,
                             struct rpc_method methods[SERVICE_CLUSTER_METHODS])
{
    default_ttl_ms = (uint64_t)ttl_ms;
    s->add = (struct lead_mutation){s->lead, decode_add, convert_worker_answer};
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
