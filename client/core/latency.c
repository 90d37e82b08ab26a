#include "client/core/latency.h"

enum { STEPS = 32, STEP_BITS = 5 };

static unsigned cell_of(uint64_t us)
{
    if (us < STEPS)
        return (unsigned)us;
    unsigned power = 63 - (unsigned)__builtin_clzll(us); /* at least STEP_BITS */
    unsigned step = (unsigned)(us >> (power - STEP_BITS)) & (STEPS - 1);
    return (power - STEP_BITS + 1) * STEPS + step;
}

/* The largest value that falls into a cell. */
static int64_t top_of(unsigned cell)
{
    if (cell < STEPS)
        return cell;
    unsigned shift = cell / STEPS - 1;
    uint64_t low = (uint64_t)(STEPS + cell % STEPS) << shift;
    return (int64_t)(low + ((uint64_t)1 << shift) - 1);
}

void latency_add(struct latency *l, int64_t us)
{
    if (us < 0)
        us = 0;
    l->cells[cell_of((uint64_t)us)]++;
    l->count++;
    if (us > l->max_us)
        l->max_us = us;
}

int64_t latency_quantile(const struct latency *l, double share)
{
    uint64_t seen = 0;
    for (unsigned cell = 0; cell < LATENCY_CELLS; cell++) {
        seen += l->cells[cell];
        if (seen > 0 && (double)seen >= share * (double)l->count) {
            int64_t top = top_of(cell);
            return top < l->max_us ? top : l->max_us;
        }
    }
    return l->max_us;
}
