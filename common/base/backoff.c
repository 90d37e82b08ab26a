#include "common/base/backoff.h"

int64_t backoff_next_ms(struct backoff *b, struct rng *r)
{
    int64_t whole = b->next_ms ? b->next_ms : b->min_ms;
    b->next_ms = whole * 2 < b->max_ms ? whole * 2 : b->max_ms;
    return whole / 2 + (int64_t)rng_below(r, (uint64_t)(whole - whole / 2 + 1));
}
