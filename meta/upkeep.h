/* Keeps etcd in order while this member leads: looks at how full it is, so that Baton's own writes
 * do not bring it to its quota, and compacts its history. A thread and a client of its own: nothing
 * here holds up a commit. */
#pragma once
#include "common/base/err.h"
#include <stdint.h>

struct board;
struct etcd_access;
struct fanout;
struct replica;
struct upkeep;

enum upkeep_compact { UPKEEP_COMPACT_AUTO, UPKEEP_COMPACT_ON, UPKEEP_COMPACT_OFF };

struct upkeep_config {
    const struct etcd_access *etcd;
    struct board *board;
    struct replica *replica;
    struct fanout *fanout;
    int64_t quota_bytes;         /* of etcd; 0: ask it */
    enum upkeep_compact compact; /* AUTO: unless etcd holds keys that are not Baton's */
    int64_t compact_growth_bytes, compact_every_ms, compact_keep_ms;
};

struct err upkeep_start(struct upkeep **out, const struct upkeep_config *cfg);
void upkeep_stop(struct upkeep *u); /* NULL is allowed */

/* Look at etcd's size now: a batch waits for it. Any thread, never blocks; NULL is allowed. */
void upkeep_look(struct upkeep *u);
