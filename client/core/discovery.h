/* The search for the leader, of all threads of a client together: one asks, the others wait for
 * what it hears. A round asks each address once at most; after one that found nobody the next
 * begins a random while later, the later the more there were. */
#pragma once
#include "common/base/backoff.h"
#include <stdbool.h>

struct discovery {
    bool asking;      /* a round is under way */
    uint64_t rounds;  /* that are over */
    int64_t begin_ms; /* not before this moment does the next one begin */
    struct backoff pause;
};

void discovery_init(struct discovery *d);
/* Who needs the leader asks this. 0: the round is the caller's, who ends it with discovery_over;
 * else look again at this moment, or when the round under way is over (then INT64_MAX). */
int64_t discovery_begin(struct discovery *d, int64_t now_ms);
void discovery_over(struct discovery *d, bool found, int64_t now_ms, struct rng *r);
