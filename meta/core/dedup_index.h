/* Where each request id stands in the chunks, in memory: (hash of the id) -> (chunk, offset). It
 * keeps no ids, so whoever looks one up compares the entry that it is led to. Rebuilt from the
 * chunks at start. */
#pragma once
#include "meta/core/dedup.h"

struct dedup_place {
    uint64_t hash, n;
    uint32_t offset; /* 0: a free slot; no entry starts there */
};

/* All zero is empty. One thread at a time. */
struct dedup_index {
    struct dedup_place *table; /* open addressing */
    size_t cap, count;         /* cap is a power of two */
};

void dedup_index_add(struct dedup_index *x, uint64_t n, struct bytes chunk); /* a valid chunk */
void dedup_index_remove(struct dedup_index *x, uint64_t n,
                        struct bytes chunk);   /* one that was added */
void dedup_index_close(struct dedup_index *x); /* frees; it is empty again */

/* Places where the id may stand: start with *at = 0; NULL: no more. */
const struct dedup_place *dedup_index_next(const struct dedup_index *x, struct bytes id,
                                           size_t *at);
