#include "meta/core/dedup_index.h"
#include "common/base/mem.h"
#include "meta/core/request.h"
#include <stdlib.h>

static size_t slot_of(const struct dedup_index *x, uint64_t hash)
{
    return hash & (x->cap - 1);
}

static void insert(struct dedup_index *x, const struct dedup_place *place)
{
    size_t at = slot_of(x, place->hash);
    while (x->table[at].offset)
        at = (at + 1) & (x->cap - 1);
    x->table[at] = *place;
    x->count++;
}

static void resize(struct dedup_index *x, size_t cap)
{
    struct dedup_index old = *x;
    *x = (struct dedup_index){.table = mem_array(cap, sizeof *x->table), .cap = cap};
    for (size_t i = 0; i < old.cap; i++)
        if (old.table[i].offset)
            insert(x, &old.table[i]);
    dedup_index_close(&old);
}

void dedup_index_add(struct dedup_index *x, uint64_t n, struct bytes chunk)
{
    struct dedup_reader r;
    struct dedup_entry entry;
    struct dedup_place place = {.n = n};
    if (!dedup_reader_init(&r, chunk))
        return;
    while (dedup_reader_next(&r, &entry, &place.offset)) {
        if ((x->count + 1) * 3 > x->cap * 2)
            resize(x, x->cap ? x->cap * 2 : 1024);
        place.hash = request_hash(entry.id);
        insert(x, &place);
    }
}

/* Closes the gap at `hole` by moving back what was pushed beyond it, so that no marks are needed.
 */
static void close_gap(struct dedup_index *x, size_t hole)
{
    size_t mask = x->cap - 1;
    for (size_t at = (hole + 1) & mask; x->table[at].offset; at = (at + 1) & mask) {
        size_t home = slot_of(x, x->table[at].hash);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        x->table[hole] = x->table[at];
        hole = at;
    }
    x->table[hole] = (struct dedup_place){0};
}

static void remove_place(struct dedup_index *x, const struct dedup_place *place)
{
    for (size_t at = slot_of(x, place->hash); x->table[at].offset; at = (at + 1) & (x->cap - 1)) {
        const struct dedup_place *p = &x->table[at];
        if (p->hash == place->hash && p->n == place->n && p->offset == place->offset) {
            close_gap(x, at);
            x->count--;
            return;
        }
    }
}

void dedup_index_remove(struct dedup_index *x, uint64_t n, struct bytes chunk)
{
    struct dedup_reader r;
    struct dedup_entry entry;
    struct dedup_place place = {.n = n};
    if (x->cap == 0 || !dedup_reader_init(&r, chunk))
        return;
    while (dedup_reader_next(&r, &entry, &place.offset)) {
        place.hash = request_hash(entry.id);
        remove_place(x, &place);
    }
    if (x->cap > 1024 && x->count * 8 < x->cap)
        resize(x, x->cap / 2);
}

const struct dedup_place *dedup_index_next(const struct dedup_index *x, struct bytes id, size_t *at)
{
    uint64_t hash = request_hash(id);
    while (x->cap) {
        const struct dedup_place *p = &x->table[(slot_of(x, hash) + *at) & (x->cap - 1)];
        if (p->offset == 0)
            return NULL;
        ++*at;
        if (p->hash == hash)
            return p;
    }
    return NULL;
}

void dedup_index_close(struct dedup_index *x)
{
    free(x->table);
    *x = (struct dedup_index){0};
}
