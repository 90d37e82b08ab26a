/* baton.v1.KvService: reads from a snapshot on the RPC thread or, when they had to wait, on that of
 * `waiting`; mutations by way of the replica. */
#pragma once
#include "meta/service_lead.h"
#include "meta/service_watch.h"

struct store;

/* Borrowed until the RPC server is freed. */
struct service_kv {
    struct service_lead *lead;
    struct store *store;
    bool
        default_quorum; /* reads of consistency LEASE, the default of the contract, are confirmed */
    struct service_watch watch;
    struct lead_mutation put, delete, txn; /* set by service_kv_methods */
};

#define SERVICE_KV_METHODS 6
void service_kv_methods(struct service_kv *s, struct rpc_method methods[SERVICE_KV_METHODS]);
