/* baton.v1.KvService: reads from a snapshot on the RPC thread, mutations by way of the replica. */
#pragma once
#include "common/io/rpc_server.h"

struct board;
struct store;
struct replica;

/* Borrowed until the RPC server is freed. */
struct service_kv {
    struct board *board;
    struct store *store;
    struct replica *replica;
};

#define SERVICE_KV_METHODS 5
void service_kv_methods(struct service_kv *s, struct rpc_method methods[SERVICE_KV_METHODS]);
