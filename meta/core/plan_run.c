#include "meta/core/plan_run.h"
#include "common/base/mem.h"
#include <stdlib.h>

/* ---- what is written ---- */

void plan_push_op(struct plan_batch *b, const struct etcd_op *op)
{
    if (b->op_count == b->op_cap) {
        b->op_cap = b->op_cap ? b->op_cap * 2 : 64;
        b->ops = mem_resize(b->ops, b->op_cap * sizeof *b->ops);
    }
    b->ops[b->op_count++] = *op;
}

struct bytes plan_key(struct plan_batch *b, const char *folder, struct bytes rest)
{
    size_t folder_len = strlen(folder), prefix_len = b->state_prefix.len;
    uint8_t *key = arena_raw(&b->memory, prefix_len + folder_len + rest.len + 1);
    memcpy(key, b->state_prefix.data, prefix_len);
    memcpy(key + prefix_len, folder, folder_len);
    if (rest.len)
        memcpy(key + prefix_len + folder_len, rest.data, rest.len);
    return bytes_of(key, prefix_len + folder_len + rest.len);
}

void plan_write(struct plan_run *r, struct etcd_op op, size_t events)
{
    plan_push_op(r->batch, &op);
    r->events += events;
    r->bytes += op.key.len + op.range_end.len + op.value.len;
}

/* ---- what is answered ---- */

/* Both limits are looked at before anything is copied. */
static bool answer_has_room(struct plan_run *r, const struct etcd_kv *kv)
{
    enum { NUMBERS_BYTES = 24 };
    r->answer_bytes += kv->key.len + kv->value.len + NUMBERS_BYTES;
    if (r->answer_bytes <= r->answer_max)
        return true;
    r->refusal = err_make(
        ERR_TOO_LARGE, "the answer would exceed %zu bytes: ask for less of what was there before%s",
        r->answer_max, r->req->id.len ? ", or send no request id" : "");
    return false;
}

/* The array doubles at each power of two. */
static bool answer_kv(struct plan_run *r, struct answer_result *result, const struct etcd_kv *kv)
{
    if (!answer_has_room(r, kv))
        return false;
    struct arena *memory = &r->batch->memory;
    size_t n = result->kv_count;
    if ((n & (n - 1)) == 0) {
        struct etcd_kv *grown = arena_raw(memory, (n ? n * 2 : 1) * sizeof *grown);
        if (n)
            memcpy(grown, result->kvs, n * sizeof *grown);
        result->kvs = grown;
    }
    result->kvs[result->kv_count++] = (struct etcd_kv){
        .key = arena_copy(memory, kv->key),
        .value = arena_copy(memory, kv->value),
        .create_revision = kv->create_revision,
        .mod_revision = kv->mod_revision,
        .version = kv->version,
    };
    return true;
}

/* ---- comparisons ---- */

static bool relation_holds(enum etcd_relation relation, int order)
{
    switch (relation) {
    case ETCD_EQUAL:
        return order == 0;
    case ETCD_NOT_EQUAL:
        return order != 0;
    case ETCD_LESS:
        return order < 0;
    case ETCD_GREATER:
        return order > 0;
    }
    return false;
}

/* As in etcd: all numbers of an absent key are 0, and no comparison with a value holds for it, not
 * even NOT_EQUAL. */
static bool compare_holds(const struct plan_view *view, const struct request_compare *c)
{
    struct etcd_kv kv = {0};
    bool found = view->get(view->ctx, c->key, &kv);
    if (c->target == ETCD_VALUE)
        return found && relation_holds(c->relation, bytes_compare(kv.value, c->value));
    int64_t number = c->target == ETCD_VERSION  ? kv.version
                     : c->target == ETCD_CREATE ? kv.create_revision
                                                : kv.mod_revision;
    return relation_holds(c->relation, (number > c->number) - (number < c->number));
}

/* ---- operations ---- */

static bool run_put(struct plan_run *r, const struct request_op *op, struct answer_result *result)
{
    struct etcd_kv before;
    const struct plan_view *view = r->batch->view;
    if (op->prev_kv && view->get(view->ctx, op->key, &before) && !answer_kv(r, result, &before))
        return false;
    plan_write(r,
               (struct etcd_op){.kind = ETCD_OP_PUT,
                                .key = plan_key(r->batch, "kv/", op->key),
                                .value = op->value},
               1);
    return true;
}

struct deletion {
    struct plan_run *run;
    const struct request_op *op;
    struct answer_result *result;
    bool refused;
};

static bool delete_one(void *arg, const struct etcd_kv *kv)
{
    struct deletion *d = arg;
    struct plan_run *r = d->run;
    if (++d->result->deleted > PLAN_DELETE_MAX) {
        r->refusal = err_make(ERR_TOO_LARGE, "more than %d keys to delete: delete them in parts",
                              PLAN_DELETE_MAX);
        d->refused = true;
    } else if (d->op->prev_kv && !answer_kv(r, d->result, kv)) {
        d->refused = true;
    }
    return !d->refused;
}

/* A range goes to etcd as one operation, whatever it holds; nothing goes where nothing is. */
static bool run_delete(struct plan_run *r, const struct request_op *op,
                       struct answer_result *result)
{
    struct deletion d = {.run = r, .op = op, .result = result};
    const struct plan_view *view = r->batch->view;
    struct etcd_kv kv;
    if (op->ranged)
        view->range(view->ctx, op->key, op->end, delete_one, &d);
    else if (view->get(view->ctx, op->key, &kv))
        delete_one(&d, &kv);
    if (d.refused)
        return false;
    if (result->deleted == 0) {
        if (op->must_exist)
            r->answer->code = ERR_KEY_NOT_FOUND;
        return true;
    }
    struct etcd_op del = {.kind = ETCD_OP_DELETE, .key = plan_key(r->batch, "kv/", op->key)};
    if (op->ranged)
        del.range_end = op->end.len ? plan_key(r->batch, "kv/", op->end)
                                    : plan_key(r->batch, "kv0", BYTES_NONE);
    plan_write(r, del, result->deleted);
    return true;
}

/* The operation before `count` in the branch that writes the key, or NULL. */
static const struct request_op *own_write(const struct plan_run *r, size_t count, struct bytes key)
{
    for (size_t i = 0; i < count; i++) {
        const struct request_op *op = &r->branch[i];
        if (op->kind == REQUEST_OP_GET)
            continue;
        if (op->ranged ? range_holds(op->key, op->end, key) : bytes_equal(op->key, key))
            return op;
    }
    return NULL;
}

/* Sees what the branch has written before it, as in etcd. */
static bool run_get(struct plan_run *r, size_t index, struct answer_result *result)
{
    struct bytes key = r->branch[index].key;
    struct etcd_kv kv = {0};
    const struct plan_view *view = r->batch->view;
    bool found = view->get(view->ctx, key, &kv);
    const struct request_op *own = own_write(r, index, key);
    if (own && own->kind == REQUEST_OP_DELETE)
        return true;
    if (own) {
        kv.key = key;
        kv.value = own->value;
        kv.mod_revision = 0; /* the commit's, see answer.h */
        kv.version++;
    }
    return !(found || own) || answer_kv(r, result, &kv);
}

static bool run_op(struct plan_run *r, size_t index)
{
    const struct request_op *op = &r->branch[index];
    struct answer_result *result = &r->answer->results[index];
    result->kind = op->kind;
    switch (op->kind) {
    case REQUEST_OP_GET:
        return run_get(r, index, result);
    case REQUEST_OP_PUT:
        return run_put(r, op, result);
    case REQUEST_OP_DELETE:
        return run_delete(r, op, result);
    }
    return false;
}

/* ---- the whole ---- */

static bool op_is_free(const struct footprint *keys, const struct request_op *op)
{
    return op->ranged ? footprint_range_free(keys, op->key, op->end)
                      : footprint_key_free(keys, op->key, op->kind != REQUEST_OP_GET);
}

static bool compares_are_free(const struct plan_run *r)
{
    for (size_t i = 0; i < r->req->compare_count; i++)
        if (!footprint_key_free(&r->batch->keys, r->req->compares[i].key, false))
            return false;
    return true;
}

static bool compares_hold(const struct plan_run *r)
{
    for (size_t i = 0; i < r->req->compare_count; i++)
        if (!compare_holds(r->batch->view, &r->req->compares[i]))
            return false;
    return true;
}

static bool puts_any(const struct plan_run *r)
{
    for (size_t i = 0; i < r->branch_count; i++)
        if (r->branch[i].kind == REQUEST_OP_PUT)
            return true;
    return false;
}

enum plan_verdict plan_run(struct plan_run *r)
{
    const struct plan_request *req = r->req;
    if (req->worker)
        return plan_run_worker(r);
    if (!compares_are_free(r))
        return PLAN_WAIT_NEXT;
    bool holds = compares_hold(r);
    r->branch = holds ? req->then_ops : req->else_ops;
    r->branch_count = holds ? req->then_count : req->else_count;
    for (size_t i = 0; i < r->branch_count; i++)
        if (!op_is_free(&r->batch->keys, &r->branch[i]))
            return PLAN_WAIT_NEXT;

    if (r->batch->limits.no_puts && puts_any(r)) {
        r->refusal = *r->batch->limits.no_puts;
        return PLAN_REFUSED;
    }
    struct arena *memory = &r->batch->memory;
    r->answer = arena_alloc(memory, sizeof *r->answer);
    r->answer->method = req->method;
    r->answer->succeeded = holds;
    r->answer->result_count = r->branch_count;
    r->answer->results = arena_array(memory, r->branch_count, sizeof *r->answer->results);
    for (size_t i = 0; i < r->branch_count; i++)
        if (!run_op(r, i))
            return PLAN_REFUSED;
    return PLAN_TAKEN;
}

void plan_run_keep(const struct plan_run *r)
{
    struct footprint *keys = &r->batch->keys;
    if (r->req->worker)
        plan_run_worker_keep(r);
    for (size_t i = 0; i < r->req->compare_count; i++)
        footprint_add_key(keys, r->req->compares[i].key, false);
    for (size_t i = 0; i < r->branch_count; i++) {
        const struct request_op *op = &r->branch[i];
        if (op->ranged)
            footprint_add_range(keys, op->key, op->end);
        else
            footprint_add_key(keys, op->key, op->kind != REQUEST_OP_GET);
    }
}
