/* How long calls took: a histogram with 32 steps for each power of two, so a quantile is off by 3 %
 * at most. */
#pragma once
#include <stdint.h>

#define LATENCY_CELLS 1920

struct latency {
    uint64_t cells[LATENCY_CELLS];
    uint64_t count;
    int64_t max_us;
};

void latency_add(struct latency *l, int64_t us);
/* The value that the given share (0 .. 1) of all is not above; 0 when there is none. */
int64_t latency_quantile(const struct latency *l, double share);
