/* Memory of one thread for the many small pieces that an RPC needs: freed pieces of one size are
 * kept in a list and handed out again without asking the allocator. Bounded: what does not fit into
 * the lists goes back to it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define POOL_STEP 32
#define POOL_CLASSES 32        /* pieces up to POOL_STEP * POOL_CLASSES bytes */
#define POOL_KEPT (256u << 10) /* bytes kept in each list at most */

struct pool {
    struct pool_piece *free[POOL_CLASSES];
    uint32_t kept[POOL_CLASSES];
};

/* Abort when memory is out, as mem.h does. A piece must come back to the pool that gave it; its
 * contents are not zeroed. */
void *pool_alloc(struct pool *p, size_t size);
void *pool_zeroed(struct pool *p, size_t size);
void *pool_resize(struct pool *p, void *old, size_t size);
void pool_free(struct pool *p, void *piece); /* NULL is fine */
void pool_close(struct pool *p);             /* gives the lists back to the allocator */
