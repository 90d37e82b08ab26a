/* ClusterMemberService: answered by every member. */
#pragma once
#include "common/io/rpc_server.h"

struct board;
struct candidate;
struct live;
struct marks;
struct service_lead;
struct service_member;
struct store;

struct service_member_config {
    struct service_lead *lead;
    struct board *board;
    struct live *live;
    struct store *store;
    const char *member_id;
    bool alone;          /* without etcd: leadership goes nowhere else */
    const char *prefix;  /* "/baton/<cluster>/" */
    struct marks *marks; /* NULL: without etcd */
    int64_t ttl_ms;
};

/* Starts the thread that serves WatchLeader. */
struct service_member *service_member_start(const struct service_member_config *cfg);
/* Before the election can win: whom to ask for a handover. NULL before that ends. */
void service_member_connect(struct service_member *s, struct candidate *candidate);
/* After the RPC server is freed: no stream is left by then. */
void service_member_stop(struct service_member *s);

/* Something on the board changed; may be called under its lock. */
void service_member_changed(struct service_member *s);

#define SERVICE_MEMBER_METHODS 9
void service_member_methods(struct service_member *s,
                            struct rpc_method methods[SERVICE_MEMBER_METHODS]);
