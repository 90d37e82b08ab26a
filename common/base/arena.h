/* Memory that is handed out piece by piece and given back all at once. One thread at a time. */
#pragma once
#include "common/base/buf.h"

struct arena_block;

/* All zero is an empty arena. */
struct arena {
    struct arena_block *newest; /* the others behind it */
    size_t used;                /* bytes of the newest block */
};

/* Makes an empty arena hand out this buffer (aligned like max_align_t) before it asks for memory.
 */
void arena_use(struct arena *a, void *buffer, size_t size);

/* Aligned for anything; never NULL. */
void *arena_raw(struct arena *a, size_t size);                 /* holds whatever was there */
void *arena_alloc(struct arena *a, size_t size);               /* zeroed */
void *arena_array(struct arena *a, size_t count, size_t size); /* zeroed */
struct bytes arena_copy(struct arena *a, struct bytes s);      /* with a 0 behind it */

void arena_clear(struct arena *a); /* everything handed out is gone; keeps the newest block */
void arena_close(struct arena *a); /* frees; the arena is empty again */
