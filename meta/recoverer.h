/* Makes the cluster go on from what etcd holds, after an operator has accepted a restore: asks in
 * the order of raft what is there, and writes the next incarnation over exactly that. */
#pragma once
#include "meta/core/restore.h"

struct etcd_client;
struct marks;

struct recoverer_config {
    struct etcd_client *etcd;
    struct marks *marks;
    const char *prefix, *member_id;
    int64_t ttl_ms;
    uint64_t epoch_above, incarnation_above; /* the highest that anybody has seen; 0: nothing */
};

/* err OK: `cluster` stands there now; written: by this call. On a thread of the client's. */
typedef void recoverer_done(void *arg, const struct err *err, const struct cluster *cluster,
                            bool written);

/* `done` is called exactly once. RESTART_FIRST: this process took part before the restore.
 * OUTCOME_UNKNOWN: etcd did not say what became of it; it may be repeated. Writes nothing where
 * this member goes on with what etcd holds, and that is above epoch_above. */
void recoverer_start(const struct recoverer_config *cfg, recoverer_done *done, void *arg);
