/* Memory that lives as long as one simulated world. */
#pragma once
#include "common/base/buf.h"

struct arena_block;
struct arena {
    struct arena_block *blocks;
    size_t used, size;
};

void *arena_alloc(struct arena *a, size_t size); /* zeroed, aligned for any type */
struct bytes arena_bytes(struct arena *a, struct bytes s);
void arena_close(struct arena *a);
