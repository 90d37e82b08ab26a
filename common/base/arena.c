#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <stdalign.h>
#include <stdlib.h>

enum { FIRST_BYTES = 1024, GROWTH_MAX_BYTES = 256 * 1024, ALIGN = alignof(max_align_t) };

struct arena_block {
    struct arena_block *older;
    size_t size;
    bool borrowed; /* lies in a buffer of the caller's */
    alignas(max_align_t) uint8_t data[];
};

/* Blocks double, so that few are needed whatever is asked for; a large piece gets one of its own
 * size. */
static void add_block(struct arena *a, size_t size)
{
    size_t next = a->newest ? a->newest->size * 2 : FIRST_BYTES;
    if (next > GROWTH_MAX_BYTES)
        next = GROWTH_MAX_BYTES;
    if (next < size)
        next = size;
    struct arena_block *block = mem_resize(NULL, sizeof *block + next);
    block->older = a->newest;
    block->size = next;
    block->borrowed = false;
    a->newest = block;
    a->used = 0;
}

void arena_use(struct arena *a, void *buffer, size_t size)
{
    PRE(!a->newest && size >= sizeof(struct arena_block));
    struct arena_block *block = buffer;
    *block = (struct arena_block){.size = size - sizeof *block, .borrowed = true};
    a->newest = block;
    a->used = 0;
}

void *arena_raw(struct arena *a, size_t size)
{
    PRE(size <= SIZE_MAX / 2);
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (!a->newest || a->newest->size - a->used < size)
        add_block(a, size);
    void *piece = a->newest->data + a->used;
    a->used += size;
    return piece;
}

void *arena_alloc(struct arena *a, size_t size)
{
    return memset(arena_raw(a, size), 0, size);
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    PRE(size == 0 || count <= SIZE_MAX / 2 / size);
    return arena_alloc(a, count * size);
}

struct bytes arena_copy(struct arena *a, struct bytes s)
{
    uint8_t *copy = arena_raw(a, s.len + 1);
    if (s.len)
        memcpy(copy, s.data, s.len);
    copy[s.len] = 0;
    return bytes_of(copy, s.len);
}

static void free_blocks(struct arena_block *block)
{
    while (block) {
        struct arena_block *older = block->older;
        if (!block->borrowed)
            free(block);
        block = older;
    }
}

void arena_clear(struct arena *a)
{
    if (!a->newest)
        return;
    free_blocks(a->newest->older);
    a->newest->older = NULL;
    a->used = 0;
}

void arena_close(struct arena *a)
{
    free_blocks(a->newest);
    *a = (struct arena){0};
}
