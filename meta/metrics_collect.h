/* The exposition of a member: what is counted, and what is as it is now. */
#pragma once
#include "common/base/buf.h"
#include <stdbool.h>
#include <stdint.h>

struct board;
struct follow;
struct live;
struct fanout;
struct replica;
struct rpc_server;
struct store;
struct workforce;

/* Borrowed; each may be NULL when it is not there (yet). */
struct meta_metrics_of {
    const char *member_id, *cluster;
    bool alone; /* without etcd */
    struct board *board;
    struct live *live;
    struct store *store;
    struct workforce *workforce;
    int64_t max_workers;
    struct replica *replica;
    struct fanout *fanout;
    struct follow *follow;
    struct rpc_server *rpc;
};

/* HTTP thread only: it forgets the series of members that are gone. */
void meta_metrics_write(struct buf *out, const struct meta_metrics_of *of);
