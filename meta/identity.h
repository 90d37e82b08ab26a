/* Who a data directory belongs to: one file that is written once and checked at each start, and a
 * lock for as long as the process lives. */
#pragma once
#include "common/base/err.h"
#include "meta/core/record.h"
#include <stdbool.h>
#include <stdint.h>

struct identity {
    char mode[12];             /* "etcd" or "embedded" */
    char cluster[72];          /* its name */
    char cluster_id[40];       /* "": not known yet */
    char etcd_cluster_id[24];  /* of etcd itself, in decimal; "": not known yet */
    char instance[40];         /* uuid of this directory */
    char start_id[40];         /* new at each start */
    char starts[STARTS_BYTES]; /* start ids at this place, this one first, with ',' between */
    char place[128]; /* boot id of the machine, device and inode: the lock tells of this one only */
    /* It lay elsewhere before, or the machine was started anew: a former process of this directory,
     * or of the one that it was copied from, may be alive. Until identity_settle. */
    char copied[4]; /* "yes" or "" */
    char dir[512];
    int lock_fd;
};

/* Makes the directory when it is missing, locks it, and claims it for a new start. IN_USE: another
 * process has it. USAGE: it belongs to another mode or cluster. DENIED: it cannot be written.
 * CORRUPT: the file makes no sense. All of them name the directory and what to do. */
struct err identity_open(struct identity *id, const char *dir, const char *mode,
                         const char *cluster);
/* Nothing is left in the directory that takes its former process for dead. */
struct err identity_settle(struct identity *id);
void identity_close(struct identity *id); /* unlocks; also after a failed open */

/* The cluster's id, once etcd told it (NULL: it holds no such cluster): records the first one, or
 * refuses (USAGE) when the directory knows another. */
struct err identity_confirm(struct identity *id, const char *cluster_id);
/* Which etcd the member goes on with: recorded. Whether it may is the admission's to say. */
struct err identity_note_etcd(struct identity *id, uint64_t etcd_cluster_id);
