/* baton.v1.ClusterService: the workers of a cluster. */
#pragma once
#include "meta/service_lead.h"

struct fanout;
struct live;
struct store;
struct workforce;

enum { SERVICE_CLUSTER_METHODS = 8 };

/* Borrowed until the RPC server is freed. */
struct service_cluster {
    struct service_lead *lead;
    struct store *store;
    struct workforce *workforce;
    struct fanout *fanout;
    struct live *live; /* NULL: this member is the only one */
    struct lead_mutation add, activate, update, remove;
};

void service_cluster_methods(struct service_cluster *s,
                             struct rpc_method methods[SERVICE_CLUSTER_METHODS]);
