/* The keys and ranges that the requests of one batch read and write. Two requests may share a batch
 * when neither writes what the other reads or writes: then all of them are true at the commit's
 * revision. */
#pragma once
#include "common/base/arena.h"
#include <stdbool.h>

struct footprint_key {
    struct bytes key;
    uint64_t hash;
    uint32_t owner; /* number of the request */
    bool written;
};

struct footprint_range {
    struct bytes key, end; /* end empty: to the last key */
    uint32_t owner;
};

/* All zero is empty. Keys are borrowed until footprint_clear. */
struct footprint {
    struct footprint_key *keys;
    size_t key_count, key_cap;
    uint32_t *table; /* open addressing; 0: free, else index + 1 */
    size_t table_cap;
    struct footprint_range *ranges; /* all of them written */
    size_t range_count, range_cap;
};

void footprint_clear(struct footprint *f); /* keeps the memory */
void footprint_close(struct footprint *f);
/* May this key, or range, be read or written with what is already there? */
bool footprint_key_free(const struct footprint *f, struct bytes key, bool write);
bool footprint_range_free(const struct footprint *f, struct bytes key, struct bytes end);
void footprint_add_key(struct footprint *f, struct bytes key, bool write);
void footprint_add_range(struct footprint *f, struct bytes key, struct bytes end);
