#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/core/dedup.h"
#include <stdlib.h>

void dedup_window_init(struct dedup_window *w, const struct dedup_limits *limits)
{
    *w = (struct dedup_window){.limits = *limits, .next_n = 1};
}

void dedup_window_close(struct dedup_window *w)
{
    free(w->ring);
    *w = (struct dedup_window){0};
}

void dedup_window_clear(struct dedup_window *w, int64_t floor)
{
    w->head = w->count = 0;
    w->ids = w->bytes = 0;
    w->next_n = 1;
    w->floor = floor;
}

const struct dedup_slot *dedup_window_slot(const struct dedup_window *w, size_t index)
{
    PRE(index < w->count);
    return &w->ring[(w->head + index) & (w->cap - 1)];
}

static void grow(struct dedup_window *w)
{
    size_t cap = w->cap ? w->cap * 2 : 64;
    struct dedup_slot *ring = mem_array(cap, sizeof *ring);
    for (size_t i = 0; i < w->count; i++)
        ring[i] = *dedup_window_slot(w, i);
    free(w->ring);
    w->ring = ring;
    w->head = 0;
    w->cap = cap;
}

void dedup_window_add(struct dedup_window *w, const struct dedup_slot *slot)
{
    PRE(slot->n >= w->next_n);
    if (w->count == w->cap)
        grow(w);
    w->ring[(w->head + w->count++) & (w->cap - 1)] = *slot;
    w->ids += slot->ids;
    w->bytes += slot->bytes;
    w->next_n = slot->n + 1;
}

/* An eighth stays free, so that the chunks to come find room while the oldest are old enough to go.
 */
static uint64_t wanted_bytes(const struct dedup_limits *limits)
{
    return limits->max_bytes - limits->max_bytes / 8;
}

size_t dedup_window_evictable(const struct dedup_window *w, int64_t now_ms)
{
    uint64_t ids = w->ids, bytes = w->bytes;
    size_t n = 0;
    while (n < DEDUP_EVICT_MAX && n + 1 < w->count) {
        const struct dedup_slot *oldest = dedup_window_slot(w, n);
        int64_t age_ms = now_ms - oldest->seen_ms;
        bool wanted = age_ms > w->limits.max_age_ms || ids > w->limits.max_ids ||
                      bytes > wanted_bytes(&w->limits);
        if (age_ms < w->limits.min_age_ms || !wanted)
            break;
        ids -= oldest->ids;
        bytes -= oldest->bytes;
        n++;
    }
    return n;
}

bool dedup_window_has_room(const struct dedup_window *w, size_t evicted, size_t chunk_bytes)
{
    uint64_t bytes = w->bytes + chunk_bytes;
    for (size_t i = 0; i < evicted; i++)
        bytes -= dedup_window_slot(w, i)->bytes;
    return bytes <= w->limits.max_bytes;
}

int64_t dedup_window_floor_after(const struct dedup_window *w, size_t evicted)
{
    int64_t floor = w->floor;
    for (size_t i = 0; i < evicted; i++)
        if (dedup_window_slot(w, i)->revision > floor)
            floor = dedup_window_slot(w, i)->revision;
    return floor;
}

void dedup_window_evict(struct dedup_window *w, size_t count)
{
    w->floor = dedup_window_floor_after(w, count);
    for (size_t i = 0; i < count; i++) {
        w->ids -= dedup_window_slot(w, 0)->ids;
        w->bytes -= dedup_window_slot(w, 0)->bytes;
        w->head = (w->head + 1) & (w->cap - 1);
        w->count--;
    }
}
