/* baton.v1.KvService: reads from a snapshot on the RPC thread or, when they had to wait, on that of
 * `waiting`; mutations by way of the replica. */
#pragma once
#include "common/io/rpc_server.h"

struct board;
struct store;
struct replica;
struct waiting;

/* Borrowed until the RPC server is freed. */
struct service_kv {
    struct board *board;
    struct store *store;
    struct replica *replica;
    struct waiting *waiting;
    bool
        default_quorum; /* reads of consistency LEASE, the default of the contract, are confirmed */
};

#define SERVICE_KV_METHODS 5
void service_kv_methods(struct service_kv *s, struct rpc_method methods[SERVICE_KV_METHODS]);
