/* Which address to call. The seeds are proxies or members, as the user gave them; members tell of
 * the leader, who may stand at yet another address, and of each other. Within one cluster the
 * higher epoch is believed. */
#pragma once
#include "common/base/err.h"
#include <stddef.h>
#include <stdint.h>

#define LEADER_SEEDS_MAX 32
#define LEADER_LEARNT_MAX 16
#define LEADER_ADDR_MAX 264

struct leader_view {
    /* first those that were given, then those that were learnt */
    char seeds[LEADER_SEEDS_MAX + LEADER_LEARNT_MAX][LEADER_ADDR_MAX];
    size_t count, learnt;         /* given; learnt from members */
    size_t next;                  /* seeds[next] is asked when no leader is known */
    char leader[LEADER_ADDR_MAX]; /* empty: not known */
    uint64_t epoch;               /* the highest seen */
    char cluster[64];             /* empty: not known yet */
    int64_t revision;             /* the highest seen; 0: none yet */
};

/* What a peer said of the leadership; fields it did not tell are empty or 0. */
struct leader_claim {
    const char *cluster;
    const char *addr;
    uint64_t epoch;
    int64_t revision;
};

/* "host:port[,host:port...]"; USAGE errors name the part that is wrong. */
struct err leader_view_init(struct leader_view *v, const char *addresses);
/* The seed whose turn it is. Borrowed until the view changes, as the next. */
const char *leader_view_seed(const struct leader_view *v);
/* The leader, or the seed whose turn it is. */
const char *leader_view_pick(const struct leader_view *v);
/* A claim counts when its epoch is not below the one known; one of another cluster starts the view
 * anew, because its epochs do not compare. A leader's address becomes a seed as well. true: the
 * leader changed. */
bool leader_view_learn(struct leader_view *v, const struct leader_claim *claim);
/* The members as one of them listed them: these are the learnt seeds from now on, as far as there
 * is room. */
void leader_view_members(struct leader_view *v, const char *const *addrs, size_t count);
/* The call to addr failed: it is not the leader any more, and the next seed has its turn. */
void leader_view_failed(struct leader_view *v, const char *addr);
/* Addresses to ask, given and learnt. */
static inline size_t leader_view_seeds(const struct leader_view *v)
{
    return v->count + v->learnt;
}
