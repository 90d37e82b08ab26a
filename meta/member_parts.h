/* Inside of a member: member_start.c puts it together, member.c ends it. */
#pragma once
#include "common/io/etcd.h"
#include "meta/admin.h"
#include "meta/core/cluster.h"
#include "meta/core/fence.h"
#include "meta/fanout.h"
#include "meta/guardian.h"
#include "meta/identity.h"
#include "meta/member.h"
#include "meta/options.h"
#include "meta/service_cluster.h"
#include "meta/service_health.h"
#include "meta/service_kv.h"
#include "meta/service_maintenance.h"
#include "meta/service_member.h"
#include "meta/service_notification.h"
#include "meta/service_reflection.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
    FORMAT_LEVEL = 1,
    METHODS = SERVICE_MEMBER_METHODS + SERVICE_HEALTH_METHODS + SERVICE_KV_METHODS +
              SERVICE_MAINTENANCE_METHODS + SERVICE_NOTIFICATION_METHODS + SERVICE_CLUSTER_METHODS +
              SERVICE_REFLECTION_METHODS
};

struct member {
    const struct meta_options *options;
    struct guardian_link *guardian;
    struct etcd_access etcd;
    struct identity identity;
    struct member_info self;
    struct marks *marks;
    struct store *store;
    struct workforce *workforce;
    struct board *board;
    struct live *live;
    struct replica *replica;
    struct waiting *waiting;
    struct fanout *fanout;
    struct upkeep *upkeep;
    struct candidate *candidate;
    struct follow *follow;
    struct service_lead lead;
    struct service_member *members;
    struct service_health *health;
    struct service_kv kv;
    struct service_cluster workers;
    struct service_maintenance *maintenance;
    struct service_notification *notifications;
    struct service_reflection *reflection;
    struct rpc_method methods[METHODS];
    struct rpc_server *rpc;
    struct admin admin;
    struct http_admin *http;
    struct reporter *reporter;
    bool replica_runs;
    _Atomic bool fatal_told;

    /* of a member without etcd */
    struct cluster cluster;
    struct leadership alone;

    /* what ends the process */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool draining, drained, failed;
};

/* From the data directory to serving; what was begun stays in m when it fails. */
struct err member_start(struct member *m);
/* Of the election, or of the replica that leads alone: the role of this member. */
void member_publish(void *ctx, enum role role, uint64_t epoch);
/* It has handed over, or has failed. */
void member_ended(struct member *m, bool failed);
