/* Whether this member may go on with what etcd holds: its own cluster, and not behind what it has
 * seen of it. What a plain read suggests to a member's disadvantage is asked again, in the order of
 * raft, before it is believed. One thread. */
#pragma once
#include "meta/core/restore.h"

struct admission;
struct marks;

struct admission_config {
    const char *prefix;
    struct marks *marks;
    /* Asks etcd; blocks. */
    struct err (*ask)(void *ctx, const struct etcd_txn *txn, struct etcd_txn_result *out);
    /* Whether the data directory belongs to this cluster (NULL: etcd holds none). An error that
     * repeating does not mend: it has been told to whoever ends the process. */
    struct err (*confirm)(void *ctx, const struct cluster *cluster);
    /* err OK: this member goes on with that cluster, in this etcd. Else it neither leads nor
     * follows (cluster is NULL), and says why. Each time it was looked at. */
    void (*decided)(void *ctx, const struct err *why, const struct cluster *cluster, uint64_t etcd);
    void *ask_ctx, *ctx;
};

struct admission *admission_new(const struct admission_config *cfg); /* strings are borrowed */
void admission_free(struct admission *a);

/* `v` is what plain reads brought, and what a look in the order of raft brought when it returns.
 * CANCELLED: the cluster's value was just written, look anew. *reload: the copy of the state is of
 * no use. */
struct err admission_judge(struct admission *a, struct restore_view *v, bool *reload);
