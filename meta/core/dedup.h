/* The table of request ids: every commit records the ids of its batch with their answers in one
 * chunk, `state/dedup/<n>`. Chunks are the unit of age and eviction; n grows over the cluster's
 * life. */
#pragma once
#include "common/base/buf.h"

/* One id in a chunk. The slices point into the chunk. */
struct dedup_entry {
    struct bytes id;
    uint8_t method;
    uint64_t body_hash;
    struct bytes answer;
};

/* What a lookup of an id gives: its entry and the revision of the commit that recorded it. */
struct dedup_hit {
    struct dedup_entry entry;
    int64_t revision;
};

void dedup_chunk_begin(struct buf *out);
void dedup_chunk_add(struct buf *chunk, const struct dedup_entry *entry);
size_t dedup_entry_bytes(const struct dedup_entry *entry); /* what it adds to a chunk */

/* Goes through a chunk; all bytes are checked. */
struct dedup_reader {
    struct bytes chunk;
    size_t at;
    uint32_t left; /* entries */
};
bool dedup_reader_init(struct dedup_reader *r,
                       struct bytes chunk); /* false: no chunk of this format */
/* The next entry, and where it starts in the chunk. false: the end, or broken when entries are
 * left. */
bool dedup_reader_next(struct dedup_reader *r, struct dedup_entry *out, uint32_t *offset);
bool dedup_chunk_valid(struct bytes chunk);
uint32_t dedup_chunk_count(struct bytes chunk); /* of a valid one */
/* The one entry that starts at offset; false: there is none. */
bool dedup_entry_at(struct bytes chunk, uint32_t offset, struct dedup_entry *out);

/* What is in the table, as the leader sees it. Ages are counted on the leader's own clock. */
struct dedup_limits {
    int64_t min_age_ms, max_age_ms; /* never evicted before; evicted after */
    uint64_t max_ids;               /* past it the oldest go, once min_age_ms old */
    uint64_t max_bytes;             /* of chunks: past it the oldest go; too young: OVERLOADED */
};
#define DEDUP_LIMITS_DEFAULT                                                                       \
    ((struct dedup_limits){.min_age_ms = 120 * 1000,                                               \
                           .max_age_ms = 600 * 1000,                                               \
                           .max_ids = 1000 * 1000,                                                 \
                           .max_bytes = 256ull << 20})

enum { DEDUP_EVICT_MAX = 4 }; /* chunks that one commit drops: more than the one it adds */

struct dedup_slot {
    uint64_t n;
    int64_t revision, seen_ms;
    uint32_t ids;
    uint32_t bytes;
};

/* Owned by one thread. */
struct dedup_window {
    struct dedup_limits limits;
    struct dedup_slot *ring; /* oldest first */
    size_t head, count, cap; /* cap is a power of two */
    uint64_t ids, bytes;
    uint64_t next_n;
    int64_t floor; /* largest revision of an evicted chunk: ids made before it may have been
                      forgotten */
};

void dedup_window_init(struct dedup_window *w, const struct dedup_limits *limits);
void dedup_window_close(struct dedup_window *w);
/* At activation: first clear with the replicated floor, then each chunk in the order of n, as
 * fresh. */
void dedup_window_clear(struct dedup_window *w, int64_t floor);
void dedup_window_add(struct dedup_window *w, const struct dedup_slot *slot);
const struct dedup_slot *dedup_window_slot(const struct dedup_window *w,
                                           size_t index); /* 0: oldest */
/* How many of the oldest chunks the next commit should drop; at most DEDUP_EVICT_MAX, never the
 * newest, so that n goes on growing. */
size_t dedup_window_evictable(const struct dedup_window *w, int64_t now_ms);
/* May a commit that drops so many of the oldest chunks add one of so many bytes? false: OVERLOADED.
 */
bool dedup_window_has_room(const struct dedup_window *w, size_t evicted, size_t chunk_bytes);
void dedup_window_evict(struct dedup_window *w,
                        size_t count); /* after the commit; raises the floor */
int64_t dedup_window_floor_after(const struct dedup_window *w, size_t evicted);

/* `state/dedup/floor` holds the floor in decimal, `state/dedup/<n>` has n in 20 decimal digits. */
bool dedup_number_decode(struct bytes text, uint64_t *out);
