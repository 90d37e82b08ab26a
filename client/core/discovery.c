#include "client/core/discovery.h"
#include "common/base/check.h"

void discovery_init(struct discovery *d)
{
    *d = (struct discovery){.pause = {.min_ms = 20, .max_ms = 400}};
}

int64_t discovery_begin(struct discovery *d, int64_t now_ms)
{
    if (d->asking)
        return INT64_MAX;
    if (now_ms < d->begin_ms)
        return d->begin_ms;
    d->asking = true;
    return 0;
}

void discovery_over(struct discovery *d, bool found, int64_t now_ms, struct rng *r)
{
    PRE(d->asking);
    d->asking = false;
    d->rounds++;
    if (found) {
        backoff_reset(&d->pause);
        d->begin_ms = 0;
    } else {
        d->begin_ms = now_ms + backoff_next_ms(&d->pause, r);
    }
}
