/* The HTTP pages of a member: /metrics, /healthz, /readyz, /status. */
#pragma once
#include "common/io/http_admin.h"

struct board;
struct follow;
struct live;
struct fanout;
struct replica;
struct rpc_server;
struct store;
struct workforce;

/* Borrowed until the HTTP server is stopped. `follow` is set last and once. */
struct admin {
    const char *member_id, *cluster;
    bool alone; /* without etcd: there is nobody to follow */
    struct board *board;
    struct live *live;
    struct store *store;
    struct workforce *workforce;
    int64_t max_workers;
    struct replica *replica;
    struct fanout *fanout;
    struct rpc_server *rpc;
    struct follow *_Atomic follow;
};

struct err admin_start(struct admin *a, const char *addr, struct http_admin **out);
