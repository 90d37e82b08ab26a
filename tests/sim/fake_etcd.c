#include "tests/sim/fake_etcd.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <stdlib.h>

static void *grow(void *array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    *cap = *cap ? *cap * 2 : 64;
    return mem_resize(array, *cap * size);
}

void fake_etcd_init(struct fake_etcd *e, uint64_t cluster_id)
{
    *e = (struct fake_etcd){
        .cluster_id = cluster_id, .revision = 1, .clock_rate = 1.0, .min_ttl_ms = 1000};
}

void fake_etcd_close(struct fake_etcd *e)
{
    for (size_t i = 0; i < e->key_count; i++)
        free(e->keys[i]->versions);
    free(e->keys);
    free(e->changes);
    free(e->revisions);
    free(e->leases);
    arena_close(&e->arena);
    *e = (struct fake_etcd){0};
}

/* The first key that is not below `key`. */
static size_t key_index(const struct fake_etcd *e, struct bytes key)
{
    size_t low = 0, high = e->key_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bytes_compare(e->keys[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct fake_key *key_make(struct fake_etcd *e, struct bytes key)
{
    size_t i = key_index(e, key);
    if (i < e->key_count && bytes_equal(e->keys[i]->key, key))
        return e->keys[i];
    e->keys = grow(e->keys, e->key_count, &e->key_cap, sizeof *e->keys);
    memmove(&e->keys[i + 1], &e->keys[i], (e->key_count - i) * sizeof *e->keys);
    struct fake_key *k = arena_alloc(&e->arena, sizeof *k);
    k->key = arena_copy(&e->arena, key);
    e->keys[i] = k;
    e->key_count++;
    return k;
}

static const struct fake_version *version_at(const struct fake_key *k, int64_t revision)
{
    for (size_t i = k->count; i-- > 0;) {
        if (revision == 0 || k->versions[i].revision <= revision)
            return k->versions[i].deleted ? NULL : &k->versions[i];
    }
    return NULL;
}

static bool range_is_open(struct bytes end)
{
    return end.len == 1 && end.data[0] == 0;
}

/* etcd's way of naming keys: no end is one key, an end of one zero byte is everything from key on.
 */
static bool range_holds(struct bytes key, struct bytes end, struct bytes k)
{
    if (end.len == 0)
        return bytes_equal(key, k);
    return bytes_compare(k, key) >= 0 && (range_is_open(end) || bytes_compare(k, end) < 0);
}

static struct etcd_kv kv_of(const struct fake_key *k, const struct fake_version *v)
{
    return (struct etcd_kv){.key = k->key,
                            .value = v->value,
                            .create_revision = v->create_revision,
                            .mod_revision = v->revision,
                            .version = v->version,
                            .lease = v->lease};
}

const struct fake_version *fake_etcd_get(const struct fake_etcd *e, struct bytes key,
                                         int64_t revision)
{
    size_t i = key_index(e, key);
    if (i >= e->key_count || !bytes_equal(e->keys[i]->key, key))
        return NULL;
    return version_at(e->keys[i], revision);
}

int64_t fake_etcd_last_change(const struct fake_etcd *e, struct bytes key, int64_t revision)
{
    size_t i = key_index(e, key);
    if (i >= e->key_count || !bytes_equal(e->keys[i]->key, key))
        return 0;
    const struct fake_key *k = e->keys[i];
    for (size_t n = k->count; n-- > 0;) {
        if (revision == 0 || k->versions[n].revision <= revision)
            return k->versions[n].revision;
    }
    return 0;
}

static int kv_order_create(const void *a, const void *b)
{
    const struct etcd_kv *x = a, *y = b;
    return (x->create_revision > y->create_revision) - (x->create_revision < y->create_revision);
}

void fake_etcd_range(const struct fake_etcd *e, const struct etcd_op *op,
                     struct etcd_op_result *out)
{
    *out = (struct etcd_op_result){.kind = ETCD_OP_RANGE};
    size_t cap = 0;
    for (size_t i = key_index(e, op->key); i < e->key_count; i++) {
        if (!range_holds(op->key, op->range_end, e->keys[i]->key))
            break;
        const struct fake_version *v = version_at(e->keys[i], op->revision);
        if (v == NULL)
            continue;
        out->kvs = grow(out->kvs, out->count, &cap, sizeof *out->kvs);
        out->kvs[out->count] = kv_of(e->keys[i], v);
        if (op->keys_only)
            out->kvs[out->count].value = BYTES_NONE;
        out->count++;
    }
    if (op->by_create && out->count)
        qsort(out->kvs, out->count, sizeof *out->kvs, kv_order_create);
    if (op->limit > 0 && out->count > (size_t)op->limit) {
        out->count = (size_t)op->limit;
        out->more = true;
    }
}

static int order_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static bool compare_one(const struct etcd_compare *c, const struct etcd_kv *kv)
{
    int order = 0;
    switch (c->target) {
    case ETCD_VERSION:
        order = order_numbers(kv->version, c->number);
        break;
    case ETCD_CREATE:
        order = order_numbers(kv->create_revision, c->number);
        break;
    case ETCD_MOD:
        order = order_numbers(kv->mod_revision, c->number);
        break;
    case ETCD_VALUE:
        order = bytes_compare(kv->value, c->value);
        break;
    case ETCD_LEASE:
        order = order_numbers(kv->lease, c->number);
        break;
    }
    switch (c->relation) {
    case ETCD_EQUAL:
        return order == 0;
    case ETCD_NOT_EQUAL:
        return order != 0;
    case ETCD_LESS:
        return order < 0;
    case ETCD_GREATER:
        return order > 0;
    }
    UNREACHABLE_CASE();
}

/* A compare holds for all keys of its range. Where there is none it looks at zeroes, but a value
 * never equals the value of an absent key. */
static bool compare_holds(const struct fake_etcd *e, const struct etcd_compare *c)
{
    struct etcd_op op = {.kind = ETCD_OP_RANGE, .key = c->key, .range_end = c->range_end};
    struct etcd_op_result found;
    fake_etcd_range(e, &op, &found);
    bool holds = true;
    if (found.count == 0)
        holds = c->target != ETCD_VALUE && compare_one(c, &(struct etcd_kv){0});
    for (size_t i = 0; i < found.count && holds; i++)
        holds = compare_one(c, &found.kvs[i]);
    free(found.kvs);
    return holds;
}

static void version_add(struct fake_etcd *e, struct fake_key *k, struct fake_version v)
{
    k->versions = grow(k->versions, k->count, &k->cap, sizeof *k->versions);
    k->versions[k->count++] = v;
    e->changes = grow(e->changes, e->change_count, &e->change_cap, sizeof *e->changes);
    e->changes[e->change_count++] = (struct fake_change){.key = k, .version = k->count - 1};
}

static void put_apply(struct fake_etcd *e, const struct etcd_op *op)
{
    struct fake_key *k = key_make(e, op->key);
    const struct fake_version *old = version_at(k, 0);
    version_add(
        e, k,
        (struct fake_version){.revision = e->revision + 1,
                              .create_revision = old ? old->create_revision : e->revision + 1,
                              .version = old ? old->version + 1 : 1,
                              .lease = op->lease,
                              .value = arena_copy(&e->arena, op->value)});
}

static int64_t delete_apply(struct fake_etcd *e, struct bytes key, struct bytes end)
{
    int64_t deleted = 0;
    for (size_t i = key_index(e, key); i < e->key_count; i++) {
        struct fake_key *k = e->keys[i];
        if (!range_holds(key, end, k->key))
            break;
        if (version_at(k, 0) == NULL)
            continue;
        version_add(e, k, (struct fake_version){.revision = e->revision + 1, .deleted = true});
        deleted++;
    }
    return deleted;
}

/* Whatever was changed since `first` becomes one revision; nothing changed, no revision. */
static void revision_close(struct fake_etcd *e, size_t first)
{
    if (e->change_count == first)
        return;
    e->revision++;
    e->revisions = grow(e->revisions, e->revision_count, &e->revision_cap, sizeof *e->revisions);
    e->revisions[e->revision_count++] = (struct fake_revision){.revision = e->revision,
                                                               .at_us = e->now_us,
                                                               .first = first,
                                                               .count = e->change_count - first};
    if (e->applied)
        e->applied(e->arg, &e->revisions[e->revision_count - 1]);
}

static bool lease_alive(const struct fake_etcd *e, int64_t id)
{
    for (size_t i = 0; i < e->lease_count; i++) {
        if (e->leases[i].id == id)
            return e->leases[i].alive;
    }
    return false;
}

static bool ops_collide(const struct etcd_op *a, const struct etcd_op *b)
{
    if (a->kind == ETCD_OP_RANGE || b->kind == ETCD_OP_RANGE)
        return false;
    if (a->kind == ETCD_OP_PUT)
        return range_holds(b->key, b->range_end, a->key);
    return b->kind == ETCD_OP_PUT && range_holds(a->key, a->range_end, b->key);
}

static struct err ops_check(const struct fake_etcd *e, const struct etcd_op *ops, size_t count)
{
    if (e->max_ops && count > e->max_ops)
        return err_make(ERR_TOO_LARGE, "etcd: too many operations in txn request");
    for (size_t i = 0; i < count; i++) {
        if (ops[i].key.len == 0)
            return err_make(ERR_BAD_REQUEST, "etcd: key is not provided");
        if (ops[i].kind == ETCD_OP_PUT && e->no_space)
            return err_make(ERR_NO_SPACE, "etcd: mvcc: database space exceeded");
        if (ops[i].kind == ETCD_OP_PUT && ops[i].lease && !lease_alive(e, ops[i].lease))
            return err_make(ERR_KEY_NOT_FOUND, "etcd: requested lease not found");
        for (size_t j = 0; j < i; j++) {
            if (ops_collide(&ops[j], &ops[i]))
                return err_make(ERR_BAD_REQUEST, "etcd: duplicate key given in txn request");
        }
    }
    return OK_ERR;
}

static void op_run(struct fake_etcd *e, const struct etcd_op *op, struct etcd_op_result *out)
{
    *out = (struct etcd_op_result){.kind = op->kind};
    switch (op->kind) {
    case ETCD_OP_PUT:
        put_apply(e, op);
        return;
    case ETCD_OP_DELETE:
        out->deleted = delete_apply(e, op->key, op->range_end);
        return;
    case ETCD_OP_RANGE:
        fake_etcd_range(e, op, out);
        return;
    }
}

struct err fake_etcd_txn(struct fake_etcd *e, const struct etcd_txn *txn,
                         struct etcd_txn_result *out)
{
    *out = (struct etcd_txn_result){0};
    struct err err = ops_check(e, txn->success, txn->success_count);
    if (!err_is(&err))
        err = ops_check(e, txn->failure, txn->failure_count);
    if (err_is(&err))
        return err;
    out->succeeded = true;
    for (size_t i = 0; i < txn->compare_count && out->succeeded; i++)
        out->succeeded = compare_holds(e, &txn->compares[i]);
    const struct etcd_op *ops = out->succeeded ? txn->success : txn->failure;
    out->result_count = out->succeeded ? txn->success_count : txn->failure_count;
    out->results = out->result_count ? mem_array(out->result_count, sizeof *out->results) : NULL;
    size_t first = e->change_count;
    for (size_t i = 0; i < out->result_count; i++)
        op_run(e, &ops[i], &out->results[i]);
    revision_close(e, first);
    out->header = fake_etcd_header(e);
    return OK_ERR;
}

void fake_op_result_close(struct etcd_op_result *result)
{
    free(result->kvs);
    *result = (struct etcd_op_result){0};
}

void fake_result_close(struct etcd_txn_result *result)
{
    for (size_t i = 0; i < result->result_count; i++)
        fake_op_result_close(&result->results[i]);
    free(result->results);
    *result = (struct etcd_txn_result){0};
}

struct err fake_etcd_put(struct fake_etcd *e, struct bytes key, struct bytes value, int64_t lease)
{
    struct etcd_op op = {.kind = ETCD_OP_PUT, .key = key, .value = value, .lease = lease};
    struct err err = ops_check(e, &op, 1);
    if (err_is(&err))
        return err;
    size_t first = e->change_count;
    put_apply(e, &op);
    revision_close(e, first);
    return OK_ERR;
}

int64_t fake_etcd_delete(struct fake_etcd *e, struct bytes key, struct bytes range_end)
{
    size_t first = e->change_count;
    int64_t deleted = delete_apply(e, key, range_end);
    revision_close(e, first);
    return deleted;
}

const struct fake_revision *fake_etcd_log(const struct fake_etcd *e, int64_t revision)
{
    PRE(revision >= 2 && revision <= e->revision);
    return &e->revisions[revision - 2];
}

struct etcd_event fake_etcd_event(const struct fake_etcd *e, const struct fake_revision *r,
                                  size_t i)
{
    const struct fake_change *c = &e->changes[r->first + i];
    const struct fake_version *v = &c->key->versions[c->version];
    return (struct etcd_event){.deleted = v->deleted, .kv = kv_of(c->key, v)};
}

int64_t fake_etcd_revision_at(const struct fake_etcd *e, int64_t at_us)
{
    size_t n = e->revision_count;
    while (n > 0 && e->revisions[n - 1].at_us > at_us)
        n--;
    return n ? e->revisions[n - 1].revision : 1;
}

struct etcd_header fake_etcd_header(const struct fake_etcd *e)
{
    return (struct etcd_header){
        .cluster_id = e->cluster_id, .member_id = 1, .revision = e->revision, .raft_term = 2};
}

static struct fake_lease *lease_find(struct fake_etcd *e, int64_t id)
{
    for (size_t i = 0; i < e->lease_count; i++) {
        if (e->leases[i].id == id)
            return &e->leases[i];
    }
    return NULL;
}

static void lease_renew(struct fake_etcd *e, struct fake_lease *lease)
{
    lease->expires_us = e->now_us + (int64_t)((double)lease->ttl_ms * 1000.0 / e->clock_rate);
}

struct err fake_etcd_grant(struct fake_etcd *e, int64_t id, int64_t ttl_ms, int64_t *granted_ms)
{
    struct fake_lease *lease = lease_find(e, id);
    if (lease && lease->alive)
        return err_make(ERR_IN_USE, "etcd: lease already exists");
    if (e->no_space)
        return err_make(ERR_NO_SPACE, "etcd: mvcc: database space exceeded");
    if (lease == NULL) {
        e->leases = grow(e->leases, e->lease_count, &e->lease_cap, sizeof *e->leases);
        lease = &e->leases[e->lease_count++];
    }
    *granted_ms = ttl_ms > e->min_ttl_ms ? ttl_ms : e->min_ttl_ms;
    *lease = (struct fake_lease){.id = id, .ttl_ms = *granted_ms, .alive = true};
    lease_renew(e, lease);
    return OK_ERR;
}

int64_t fake_etcd_keepalive(struct fake_etcd *e, int64_t id)
{
    struct fake_lease *lease = lease_find(e, id);
    if (lease == NULL || !lease->alive)
        return 0;
    lease_renew(e, lease);
    return lease->ttl_ms;
}

bool fake_etcd_revoke(struct fake_etcd *e, int64_t id)
{
    struct fake_lease *lease = lease_find(e, id);
    if (lease == NULL || !lease->alive)
        return false;
    lease->alive = false;
    size_t first = e->change_count;
    for (size_t i = 0; i < e->key_count; i++) {
        const struct fake_version *v = version_at(e->keys[i], 0);
        if (v && v->lease == id)
            delete_apply(e, e->keys[i]->key, BYTES_NONE);
    }
    revision_close(e, first);
    return true;
}

void fake_etcd_expire(struct fake_etcd *e)
{
    for (size_t i = 0; i < e->lease_count; i++) {
        if (e->leases[i].alive && e->leases[i].expires_us <= e->now_us)
            fake_etcd_revoke(e, e->leases[i].id);
    }
}

void fake_etcd_reset_leases(struct fake_etcd *e)
{
    for (size_t i = 0; i < e->lease_count; i++) {
        if (e->leases[i].alive)
            lease_renew(e, &e->leases[i]);
    }
}
