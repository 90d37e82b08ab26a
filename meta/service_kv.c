#include "meta/service_kv.h"
#include "meta/convert.h"
#include "meta/service_kv_parts.h"

void service_kv_methods(struct service_kv *s, struct rpc_method methods[SERVICE_KV_METHODS])
{
    s->put = (struct lead_mutation){s->lead, convert_put, convert_answer};
    s->delete = (struct lead_mutation){s->lead, convert_delete, convert_answer};
    s->txn = (struct lead_mutation){s->lead, convert_txn, convert_answer};
#define SERVICE "/baton.v1.KvService/"
    const struct rpc_method table[SERVICE_KV_METHODS] = {
        {SERVICE "Get", RPC_UNARY, kv_handle_get, s},
        {SERVICE "Range", RPC_UNARY, kv_handle_range, s},
        {SERVICE "Put", RPC_UNARY, lead_handle_mutation, &s->put},
        {SERVICE "Delete", RPC_UNARY, lead_handle_mutation, &s->delete},
        {SERVICE "Txn", RPC_UNARY, lead_handle_mutation, &s->txn},
        {SERVICE "Watch", RPC_SERVER_STREAM, watch_handle, &s->watch},
    };
#undef SERVICE
    memcpy(methods, table, sizeof table);
}
