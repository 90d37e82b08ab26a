#include "proxy/core/pool.h"
#include "common/base/mem.h"
#include <stdlib.h>
#include <string.h>

/* In front of every piece: which list it belongs to, or how large it is when to none. */
struct pool_piece {
    union {
        struct pool_piece *next; /* while in a list */
        size_t size;             /* usable bytes, while in use */
    };
    size_t class; /* POOL_CLASSES: none */
};

#if defined(__SANITIZE_ADDRESS__)
#define POOL_OFF 1 /* the sanitizer shall see every piece die */
#else
#define POOL_OFF 0
#endif

static size_t class_of(size_t size)
{
    size_t class = size ? (size - 1) / POOL_STEP : 0;
    return POOL_OFF || class >= POOL_CLASSES ? POOL_CLASSES : class;
}

void *pool_alloc(struct pool *p, size_t size)
{
    size_t class = class_of(size);
    struct pool_piece *piece;
    if (class < POOL_CLASSES) {
        size = (class + 1) * POOL_STEP;
        piece = p->free[class];
        if (piece) {
            p->free[class] = piece->next;
            __builtin_prefetch(piece->next); /* the next one asked for */
            p->kept[class] -= (uint32_t)size;
            piece->size = size;
            return piece + 1;
        }
    }
    piece = mem_resize(NULL, sizeof *piece + size);
    piece->size = size;
    piece->class = class;
    return piece + 1;
}

void *pool_zeroed(struct pool *p, size_t size)
{
    return memset(pool_alloc(p, size), 0, size);
}

void pool_free(struct pool *p, void *memory)
{
    if (!memory)
        return;
    struct pool_piece *piece = (struct pool_piece *)memory - 1;
    size_t class = piece->class;
    if (class >= POOL_CLASSES || p->kept[class] >= POOL_KEPT) {
        free(piece);
        return;
    }
    p->kept[class] += (uint32_t)piece->size;
    piece->next = p->free[class];
    p->free[class] = piece;
}

void *pool_resize(struct pool *p, void *old, size_t size)
{
    if (!old)
        return pool_alloc(p, size);
    struct pool_piece *piece = (struct pool_piece *)old - 1;
    if (size <= piece->size && piece->class < POOL_CLASSES)
        return old;
    if (piece->class == POOL_CLASSES && class_of(size) == POOL_CLASSES) {
        piece = mem_resize(piece, sizeof *piece + size);
        piece->size = size;
        return piece + 1;
    }
    void *fresh = pool_alloc(p, size);
    memcpy(fresh, old, piece->size < size ? piece->size : size);
    pool_free(p, old);
    return fresh;
}

void pool_close(struct pool *p)
{
    for (size_t i = 0; i < POOL_CLASSES; i++)
        while (p->free[i]) {
            struct pool_piece *piece = p->free[i];
            p->free[i] = piece->next;
            free(piece);
        }
    memset(p, 0, sizeof *p);
}
