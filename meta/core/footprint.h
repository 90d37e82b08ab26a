/* The keys and ranges that the requests of one batch read and write. Two requests may share a batch
 * when neither writes what the other reads or writes: then all of them are true at the commit's
 * revision. What the request under way itself touches is added when it is taken, so it does not
 * stop itself. */
#pragma once
#include "common/base/buf.h"

struct footprint_key {
    struct bytes key;
    uint64_t hash;
    bool written;
};

struct footprint_range {
    struct bytes key, end; /* end empty: to the last key */
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

/* Does the batch leave this key, or range, alone, so that a further request may read or write it?
 */
bool footprint_key_free(const struct footprint *f, struct bytes key, bool write);
bool footprint_range_free(const struct footprint *f, struct bytes key, struct bytes end);
void footprint_add_key(struct footprint *f, struct bytes key, bool write);
void footprint_add_range(struct footprint *f, struct bytes key, struct bytes end);

void footprint_clear(struct footprint *f); /* keeps the memory */
void footprint_close(struct footprint *f);

/* Is key from start up to end, not included; end empty: to the last key? */
bool range_holds(struct bytes start, struct bytes end, struct bytes key);
