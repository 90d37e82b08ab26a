#include "meta/core/ring.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <stdlib.h>

/* ---- a commit ---- */

struct ring_change {
    size_t key, key_len, value_len; /* the value stands behind the key in the text */
    int64_t create_revision, version;
    bool deleted;
};

void ring_draft_add(struct ring_draft *d, const char *folder, struct bytes name,
                    const struct etcd_kv *kv)
{
    if (d->count == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 16;
        d->changes = mem_resize(d->changes, d->cap * sizeof *d->changes);
    }
    struct ring_change *c = &d->changes[d->count++];
    *c = (struct ring_change){.key = d->text.len, .deleted = !kv};
    buf_str(&d->text, folder);
    buf_bytes(&d->text, name);
    c->key_len = d->text.len - c->key;
    if (!kv)
        return;
    buf_bytes(&d->text, kv->value);
    c->value_len = kv->value.len;
    c->create_revision = kv->create_revision;
    c->version = kv->version;
}

void ring_draft_clear(struct ring_draft *d)
{
    d->count = 0;
    buf_clear(&d->text);
}

void ring_draft_close(struct ring_draft *d)
{
    free(d->changes);
    buf_close(&d->text);
    *d = (struct ring_draft){0};
}

struct ring_commit *ring_draft_take(struct ring_draft *d, int64_t revision, uint64_t epoch)
{
    if (!d->count)
        return NULL;
    size_t head = sizeof(struct ring_commit) + d->count * sizeof(struct etcd_event);
    struct ring_commit *c = mem_alloc(head + d->text.len);
    uint8_t *text = (uint8_t *)c + head;
    memcpy(text, d->text.data, d->text.len);
    c->revision = revision;
    c->epoch = epoch;
    c->bytes = head + d->text.len;
    c->count = d->count;
    c->events = (struct etcd_event *)(c + 1);
    c->refs = 1;
    for (size_t i = 0; i < d->count; i++) {
        const struct ring_change *change = &d->changes[i];
        const uint8_t *key = text + change->key;
        c->events[i] =
            (struct etcd_event){.deleted = change->deleted,
                                .kv = {.key = bytes_of(key, change->key_len),
                                       .value = bytes_of(key + change->key_len, change->value_len),
                                       .create_revision = change->create_revision,
                                       .mod_revision = revision,
                                       .version = change->version}};
    }
    ring_draft_clear(d);
    return c;
}

struct ring_commit *ring_commit_hold(struct ring_commit *c)
{
    __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

void ring_commit_drop(struct ring_commit *c)
{
    if (c && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(c);
}

/* ---- the ring ---- */

void ring_init(struct ring *r, size_t max_bytes)
{
    *r = (struct ring){.max_bytes = max_bytes, .cap = 64};
    r->commits = mem_array(r->cap, sizeof *r->commits);
}

static struct ring_commit **slot(const struct ring *r, uint64_t place)
{
    return &r->commits[place & (r->cap - 1)];
}

static void drop_oldest(struct ring *r)
{
    struct ring_commit *c = *slot(r, r->first++);
    r->bytes -= c->bytes;
    r->floor = c->revision;
    ring_commit_drop(c);
}

void ring_restart(struct ring *r, int64_t revision)
{
    while (r->first < r->end)
        drop_oldest(r);
    r->floor = r->last = revision;
}

void ring_close(struct ring *r)
{
    ring_restart(r, 0);
    free(r->commits);
    r->commits = NULL;
}

static void grow(struct ring *r)
{
    size_t cap = 2 * r->cap;
    struct ring_commit **commits = mem_array(cap, sizeof *commits);
    for (uint64_t p = r->first; p < r->end; p++)
        commits[p & (cap - 1)] = *slot(r, p);
    free(r->commits);
    r->commits = commits;
    r->cap = cap;
}

void ring_add(struct ring *r, int64_t revision, struct ring_commit *c)
{
    PRE(revision > r->last && (!c || c->revision == revision));
    r->last = revision;
    if (!c)
        return;
    if (r->end - r->first == r->cap)
        grow(r);
    *slot(r, r->end++) = c;
    r->bytes += c->bytes;
    while (r->bytes > r->max_bytes && r->end - r->first > 1)
        drop_oldest(r);
}

uint64_t ring_place_after(const struct ring *r, int64_t revision)
{
    PRE(revision >= r->floor);
    uint64_t low = r->first, high = r->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if ((*slot(r, middle))->revision <= revision)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct ring_commit *ring_at(const struct ring *r, uint64_t place)
{
    PRE(place >= r->first && place < r->end);
    return *slot(r, place);
}
