#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/fanout_parts.h"
#include <stdlib.h>
#include <uthash.h>

/* ---- messages ---- */

void fanout_say(struct fanout_out *out, struct bytes message)
{
    if (out->count == out->cap) {
        out->cap = out->cap ? 2 * out->cap : 4;
        out->messages = mem_resize(out->messages, out->cap * sizeof(struct rpc_shared *));
    }
    out->messages[out->count++] = rpc_shared_new(message);
    out->bytes += message.len;
}

void fanout_out_clear(struct fanout_out *out)
{
    while (out->count)
        rpc_shared_drop(out->messages[--out->count]);
    out->bytes = out->sent = 0;
}

void fanout_out_close(struct fanout_out *out)
{
    fanout_out_clear(out);
    free(out->messages);
    *out = (struct fanout_out){0};
}

/* ---- filters ---- */

struct filter {
    UT_hash_handle hh;
    size_t refs;
    const struct fanout_kind *kind;
    void *decoded;
    struct filter_entry slots[FILTER_SLOTS]; /* the commit of place p in slot p % FILTER_SLOTS */
    bool used;                               /* a slot may be made: it is in that list */
    struct filter *next_used;
    size_t key_len;
    uint8_t key[]; /* the kind's address, then the filter */
};

struct filter *filter_take(struct filter_table *t, const struct fanout_kind *kind,
                           struct bytes bytes)
{
    struct filter *f;
    struct buf key = {0};
    buf_append(&key, &kind, sizeof kind);
    buf_bytes(&key, bytes);
    HASH_FIND(hh, t->all, key.data, key.len, f);
    if (!f) {
        f = mem_alloc(sizeof *f + key.len);
        f->kind = kind;
        f->decoded = kind->filter_new(kind->ctx, bytes);
        f->key_len = key.len;
        memcpy(f->key, key.data, key.len);
        HASH_ADD_KEYPTR(hh, t->all, f->key, f->key_len, f);
    }
    f->refs++;
    buf_close(&key);
    return f;
}

static void forget(struct filter_entry *e)
{
    ring_commit_drop(e->commit);
    fanout_out_close(&e->out);
    *e = (struct filter_entry){0};
}

static void free_unwanted(struct filter_table *t, struct filter *f)
{
    if (f->refs || f->used)
        return;
    HASH_DEL(t->all, f);
    f->kind->filter_free(f->decoded);
    free(f);
}

void filter_give(struct filter_table *t, struct filter *f)
{
    f->refs--;
    free_unwanted(t, f);
}

const void *filter_decoded(const struct filter *f)
{
    return f->decoded;
}

struct filter_entry *filter_entry_at(struct filter *f, uint64_t place)
{
    struct filter_entry *e = &f->slots[place % FILTER_SLOTS];
    if (e->made && e->place != place)
        forget(e);
    return e;
}

void filter_entry_make(struct filter_table *t, struct filter *f, struct filter_entry *e,
                       uint64_t place, struct ring_commit *c)
{
    PRE(!e->made);
    if (!f->used) {
        f->used = true;
        f->next_used = t->used;
        t->used = f;
    }
    e->made = true;
    e->place = place;
    e->epoch = c->epoch;
    e->revision = c->revision;
    e->commit = c;
    e->weight = f->kind->weigh(f->decoded, c);
}

void filter_entry_encode(struct filter *f, struct filter_entry *e, const struct fanout_view *v)
{
    if (e->encoded || !e->weight)
        return;
    f->kind->commit(f->decoded, v, e->commit, &e->out);
    e->encoded = true;
}

void filters_forget(struct filter_table *t)
{
    while (t->used) {
        struct filter *f = t->used;
        t->used = f->next_used;
        for (size_t i = 0; i < FILTER_SLOTS; i++)
            forget(&f->slots[i]);
        f->used = false;
        free_unwanted(t, f);
    }
}
