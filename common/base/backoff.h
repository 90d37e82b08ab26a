/* How long to wait before trying again: doubles from min to max, each time a random part of it
 * (half to whole), so that many who failed together do not come back together. */
#pragma once
#include "common/base/rng.h"

struct backoff {
    int64_t min_ms, max_ms;
    int64_t next_ms; /* 0: start over */
};

int64_t backoff_next_ms(struct backoff *b, struct rng *r);
static inline void backoff_reset(struct backoff *b)
{
    b->next_ms = 0;
}
