#include "meta/core/footprint.h"
#include "common/base/mem.h"
#include <stdlib.h>

bool range_holds(struct bytes start, struct bytes end, struct bytes key)
{
    return bytes_compare(start, key) <= 0 && (end.len == 0 || bytes_compare(key, end) < 0);
}

static uint64_t hash_of(struct bytes key)
{
    uint64_t h = 0x9e3779b97f4a7c15ull ^ key.len;
    for (size_t i = 0; i < key.len; i++)
        h = (h ^ key.data[i]) * 0x100000001b3ull;
    return h ^ (h >> 29);
}

/* The slot of the key, or the free one where it belongs. */
static uint32_t *find(const struct footprint *f, struct bytes key, uint64_t hash)
{
    size_t at = hash & (f->table_cap - 1);
    while (f->table[at]) {
        const struct footprint_key *k = &f->keys[f->table[at] - 1];
        if (k->hash == hash && bytes_equal(k->key, key))
            break;
        at = (at + 1) & (f->table_cap - 1);
    }
    return &f->table[at];
}

static void grow_table(struct footprint *f)
{
    free(f->table);
    f->table_cap = f->table_cap ? f->table_cap * 2 : 256;
    f->table = mem_array(f->table_cap, sizeof *f->table);
    for (size_t i = 0; i < f->key_count; i++)
        *find(f, f->keys[i].key, f->keys[i].hash) = (uint32_t)i + 1;
}

bool footprint_key_free(const struct footprint *f, struct bytes key, bool write)
{
    for (size_t i = 0; i < f->range_count; i++)
        if (range_holds(f->ranges[i].key, f->ranges[i].end, key))
            return false;
    if (f->key_count == 0)
        return true;
    uint32_t at = *find(f, key, hash_of(key));
    return at == 0 || (!write && !f->keys[at - 1].written);
}

bool footprint_range_free(const struct footprint *f, struct bytes key, struct bytes end)
{
    for (size_t i = 0; i < f->range_count; i++)
        if (range_holds(f->ranges[i].key, f->ranges[i].end, key) ||
            range_holds(key, end, f->ranges[i].key))
            return false;
    for (size_t i = 0; i < f->key_count; i++)
        if (range_holds(key, end, f->keys[i].key))
            return false;
    return true;
}

void footprint_add_key(struct footprint *f, struct bytes key, bool write)
{
    if (f->key_count * 2 >= f->table_cap)
        grow_table(f);
    uint64_t hash = hash_of(key);
    uint32_t *slot = find(f, key, hash);
    if (*slot) {
        f->keys[*slot - 1].written |= write;
        return;
    }
    if (f->key_count == f->key_cap) {
        f->key_cap = f->key_cap ? f->key_cap * 2 : 128;
        f->keys = mem_resize(f->keys, f->key_cap * sizeof *f->keys);
    }
    f->keys[f->key_count++] = (struct footprint_key){.key = key, .hash = hash, .written = write};
    *slot = (uint32_t)f->key_count;
}

void footprint_add_range(struct footprint *f, struct bytes key, struct bytes end)
{
    if (f->range_count == f->range_cap) {
        f->range_cap = f->range_cap ? f->range_cap * 2 : 16;
        f->ranges = mem_resize(f->ranges, f->range_cap * sizeof *f->ranges);
    }
    f->ranges[f->range_count++] = (struct footprint_range){.key = key, .end = end};
}

void footprint_clear(struct footprint *f)
{
    if (f->table_cap)
        memset(f->table, 0, f->table_cap * sizeof *f->table);
    f->key_count = 0;
    f->range_count = 0;
}

void footprint_close(struct footprint *f)
{
    free(f->keys);
    free(f->table);
    free(f->ranges);
    *f = (struct footprint){0};
}
