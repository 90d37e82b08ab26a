#include "tests/sim/arena.h"
#include "common/base/mem.h"
#include <stdalign.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 64 * 1024 };

struct arena_block {
    struct arena_block *next;
    alignas(max_align_t) uint8_t data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (a->blocks == NULL || a->used + size > a->size) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        struct arena_block *block = mem_alloc(sizeof *block + room);
        block->next = a->blocks;
        a->blocks = block;
        a->used = 0;
        a->size = room;
    }
    void *p = a->blocks->data + a->used;
    a->used += size;
    return p;
}

struct bytes arena_bytes(struct arena *a, struct bytes s)
{
    uint8_t *copy = arena_alloc(a, s.len + 1);
    if (s.len)
        memcpy(copy, s.data, s.len);
    return bytes_of(copy, s.len);
}

void arena_close(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    *a = (struct arena){0};
}
