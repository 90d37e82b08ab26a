/* Leadership without an election: a member without etcd is the whole cluster, and what it wrote
 * last is all there is to continue from. Its commits have the records of any other leader's, so
 * that the state is the same on both sides of a move. Pure. */
#pragma once
#include "common/base/rng.h"
#include "meta/core/cluster.h"

enum { ALONE_RECORD_TTL_MS = 1000 }; /* in its records: nobody waits for it */

struct alone_takeover {
    struct record next;
    struct history history;
};

/* Continues from `old` (epoch 0: the first leadership of all), written at old_revision. `reason` is
 * a word of the history. */
void alone_take_over(struct alone_takeover *out, const struct cluster *cluster,
                     const struct record *old, int64_t old_revision, const struct member_info *self,
                     const char *reason, struct rng *rng);
/* The record of the commit that follows `last` and changes so many other keys. */
struct record alone_next(const struct record *last, uint64_t events, struct rng *rng);
