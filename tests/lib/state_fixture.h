/* What is below state/ in an etcd, in memory: a sorted table that commits are applied to, which
 * says what a watch would bring, and a view of it for the planner. Makers of requests. */
#pragma once
#include "common/base/mem.h"
#include "meta/core/plan.h"
#include <stdlib.h>

#define STATE_PREFIX "/baton/t/state/"

struct state_table {
    struct etcd_kv *kvs; /* sorted; keys and values are owned */
    size_t count, cap;
    int64_t revision;
    struct etcd_event *events; /* of the last commit; slices live until the table is closed */
    size_t event_count, event_cap;
    struct arena memory;
};

static inline size_t table_at(const struct state_table *t, struct bytes key)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bytes_compare(t->kvs[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline struct etcd_kv *table_find(const struct state_table *t, struct bytes key)
{
    size_t at = table_at(t, key);
    return at < t->count && bytes_equal(t->kvs[at].key, key) ? &t->kvs[at] : NULL;
}

static inline void table_event(struct state_table *t, bool deleted, struct etcd_kv kv)
{
    if (t->event_count == t->event_cap) {
        t->event_cap = t->event_cap ? t->event_cap * 2 : 64;
        t->events = mem_resize(t->events, t->event_cap * sizeof *t->events);
    }
    t->events[t->event_count++] = (struct etcd_event){.deleted = deleted, .kv = kv};
}

static inline void table_put(struct state_table *t, struct bytes key, struct bytes value)
{
    struct etcd_kv *kv = table_find(t, key);
    if (!kv) {
        size_t at = table_at(t, key);
        if (t->count == t->cap) {
            t->cap = t->cap ? t->cap * 2 : 64;
            t->kvs = mem_resize(t->kvs, t->cap * sizeof *t->kvs);
        }
        memmove(&t->kvs[at + 1], &t->kvs[at], (t->count - at) * sizeof *t->kvs);
        t->count++;
        kv = &t->kvs[at];
        *kv = (struct etcd_kv){.key = arena_copy(&t->memory, key), .create_revision = t->revision};
    }
    kv->value = arena_copy(&t->memory, value);
    kv->mod_revision = t->revision;
    kv->version++;
    table_event(t, false, *kv);
}

static inline void table_delete(struct state_table *t, struct bytes key, struct bytes end)
{
    size_t at = table_at(t, key);
    while (at < t->count &&
           (end.len ? bytes_compare(t->kvs[at].key, end) < 0 : bytes_equal(t->kvs[at].key, key))) {
        table_event(t, true, (struct etcd_kv){.key = t->kvs[at].key, .mod_revision = t->revision});
        memmove(&t->kvs[at], &t->kvs[at + 1], (t->count - at - 1) * sizeof *t->kvs);
        t->count--;
    }
}

/* One commit, with the record if it is not empty. */
static inline void table_commit(struct state_table *t, const struct etcd_op *ops, size_t count,
                                struct bytes record)
{
    t->revision++;
    t->event_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind == ETCD_OP_PUT)
            table_put(t, ops[i].key, ops[i].value);
        else
            table_delete(t, ops[i].key, ops[i].range_end);
    }
    if (record.len)
        table_put(t, bytes_str(STATE_PREFIX "commit"), record);
}

static inline void table_close(struct state_table *t)
{
    free(t->kvs);
    free(t->events);
    arena_close(&t->memory);
    *t = (struct state_table){0};
}

/* ---- as a planner sees it: user keys without their prefix ---- */

static inline bool table_is_user_key(const struct etcd_kv *kv)
{
    return bytes_starts_with(kv->key, bytes_str(STATE_PREFIX "kv/"));
}

static inline struct etcd_kv table_user_kv(const struct etcd_kv *kv)
{
    size_t skip = strlen(STATE_PREFIX "kv/");
    struct etcd_kv user = *kv;
    user.key = bytes_of(kv->key.data + skip, kv->key.len - skip);
    return user;
}

static inline void table_view_range(void *ctx, struct bytes key, struct bytes end,
                                    bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg)
{
    const struct state_table *t = ctx;
    for (size_t i = 0; i < t->count; i++) {
        if (!table_is_user_key(&t->kvs[i]))
            continue;
        struct etcd_kv kv = table_user_kv(&t->kvs[i]);
        if (range_holds(key, end, kv.key) && !visit(arg, &kv))
            return;
    }
}

static inline bool table_view_get(void *ctx, struct bytes key, struct etcd_kv *out)
{
    const struct state_table *t = ctx;
    struct buf full = {0};
    buf_str(&full, STATE_PREFIX "kv/");
    buf_bytes(&full, key);
    const struct etcd_kv *kv = table_find(t, buf_view(&full));
    buf_close(&full);
    if (kv)
        *out = table_user_kv(kv);
    return kv != NULL;
}

static inline bool table_view_dedup(void *ctx, struct bytes id, struct dedup_hit *out)
{
    const struct state_table *t = ctx;
    for (size_t i = 0; i < t->count; i++) {
        struct dedup_reader r;
        uint32_t offset;
        if (!bytes_starts_with(t->kvs[i].key, bytes_str(STATE_PREFIX "dedup/")) ||
            !dedup_reader_init(&r, t->kvs[i].value))
            continue;
        while (dedup_reader_next(&r, &out->entry, &offset)) {
            out->revision = t->kvs[i].mod_revision;
            if (bytes_equal(out->entry.id, id))
                return true;
        }
    }
    return false;
}

static inline struct plan_view table_view(struct state_table *t)
{
    return (struct plan_view){
        .ctx = t, .get = table_view_get, .range = table_view_range, .dedup = table_view_dedup};
}

/* ---- requests; everything that they show is borrowed or in their memory ---- */

static inline struct request_op put_op(const char *key, const char *value)
{
    return (struct request_op){
        .kind = REQUEST_OP_PUT, .key = bytes_str(key), .value = bytes_str(value)};
}

static inline struct request_op delete_op(const char *key)
{
    return (struct request_op){.kind = REQUEST_OP_DELETE, .key = bytes_str(key)};
}

static inline struct request_op delete_range_op(const char *key, const char *end)
{
    return (struct request_op){
        .kind = REQUEST_OP_DELETE, .ranged = true, .key = bytes_str(key), .end = bytes_str(end)};
}

static inline struct request_op get_op(const char *key)
{
    return (struct request_op){.kind = REQUEST_OP_GET, .key = bytes_str(key)};
}

static inline struct request_op *ops_in(struct plan_request *req, const struct request_op *ops,
                                        size_t count)
{
    struct request_op *copy = arena_array(&req->memory, count, sizeof *copy);
    if (count)
        memcpy(copy, ops, count * sizeof *copy);
    return copy;
}

/* A Put or Delete. */
static inline struct plan_request single(enum request_method method, struct request_op op)
{
    struct plan_request req = {.method = method, .id_revision = -1};
    req.then_ops = ops_in(&req, &op, 1);
    req.then_count = 1;
    return req;
}

static inline struct plan_request put_request(const char *key, const char *value)
{
    return single(REQUEST_PUT, put_op(key, value));
}

static inline struct plan_request delete_request(const char *key)
{
    return single(REQUEST_DELETE, delete_op(key));
}

static inline void request_then(struct plan_request *req, const struct request_op *ops,
                                size_t count)
{
    req->method = REQUEST_TXN;
    req->id_revision = -1;
    req->then_ops = ops_in(req, ops, count);
    req->then_count = count;
}

static inline void request_else(struct plan_request *req, const struct request_op *ops,
                                size_t count)
{
    req->else_ops = ops_in(req, ops, count);
    req->else_count = count;
}

static inline void request_when(struct plan_request *req, struct request_compare c)
{
    struct request_compare *grown =
        arena_array(&req->memory, req->compare_count + 1, sizeof *grown);
    if (req->compare_count)
        memcpy(grown, req->compares, req->compare_count * sizeof *grown);
    grown[req->compare_count++] = c;
    req->compares = grown;
}
