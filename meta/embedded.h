/* A member without etcd: it is the whole cluster, and its own synced state is the truth. It leads
 * from its start to its end, with an epoch of its own at each start that is on the disk before
 * anything is served. */
#pragma once
#include "common/base/err.h"
#include "meta/core/cluster.h"
#include "meta/core/fence.h"

struct store;

enum { EMBEDDED_TXN_OPS = 1024 }; /* of one commit, as etcd is told to take beside Baton */
/* Nobody else could lead, so nothing ends the time to read: a hundred years. */
#define EMBEDDED_TTL_MS (100ll * 365 * 24 * 3600 * 1000)

/* What the state says of its cluster; with a new id when nothing was there. `known_id` is the one
 * that the directory recorded ("": none yet). CORRUPT: the state of that cluster is gone. */
struct err embedded_cluster(struct store *store, const char *known_id, struct cluster *out);

/* Raises the floor of epochs as cluster_raise does; *out is what the state says then. */
struct err embedded_raise(struct store *store, uint64_t above, struct cluster *out);

/* Continues from what the store holds, at its revision + 1. The epoch is durable when it returns.
 * Only on the thread that writes the store. */
struct err embedded_take_over(struct store *store, const char *prefix,
                              const struct member_info *self, const struct cluster *cluster,
                              const char *reason, struct leadership *out);
