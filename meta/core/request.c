#include "meta/core/request.h"
#include "common/base/check.h"
#include "meta/core/footprint.h"

void request_close(struct plan_request *req)
{
    struct arena memory = req->memory;
    *req = (struct plan_request){0};
    arena_close(&memory);
}

static struct err check_key(struct bytes key)
{
    if (key.len == 0)
        return err_make(ERR_BAD_KEY, "the key is empty: keys are 1 to %d bytes", REQUEST_KEY_MAX);
    if (key.len > REQUEST_KEY_MAX)
        return err_make(ERR_BAD_KEY, "a key of %zu bytes: keys are 1 to %d bytes", key.len,
                        REQUEST_KEY_MAX);
    return OK_ERR;
}

static struct err check_value(struct bytes value)
{
    if (value.len > REQUEST_VALUE_MAX)
        return err_make(ERR_TOO_LARGE, "a value of %zu bytes: values are at most %d bytes",
                        value.len, REQUEST_VALUE_MAX);
    return OK_ERR;
}

/* The ends of a range are no keys that are stored, but they are compared with keys. */
static struct err check_range(const struct request_op *op)
{
    if (op->key.len > REQUEST_KEY_MAX || op->end.len > REQUEST_KEY_MAX)
        return err_make(ERR_BAD_KEY, "the end of a range is longer than %d bytes", REQUEST_KEY_MAX);
    return OK_ERR;
}

static struct err check_op(const struct plan_request *req, const struct request_op *op)
{
    if (op->must_exist && req->method == REQUEST_TXN)
        return err_make(ERR_BAD_REQUEST, "must_exist makes no sense in a Txn: compare VERSION > 0");
    struct err e = op->ranged ? check_range(op) : check_key(op->key);
    if (err_is(&e))
        return e;
    return check_value(op->value);
}

static bool op_covers(const struct request_op *op, struct bytes key)
{
    return op->ranged ? range_holds(op->key, op->end, key) : bytes_equal(op->key, key);
}

/* Two ranges have a key in common exactly when one holds the start of the other. */
static bool ops_overlap(const struct request_op *a, const struct request_op *b)
{
    return op_covers(a, b->key) || op_covers(b, a->key);
}

static struct err check_branch(const struct plan_request *req, const struct request_op *ops,
                               size_t count)
{
    if (count > REQUEST_OPS_MAX)
        return err_make(ERR_TOO_LARGE, "%zu operations: a Txn has at most %d in each branch", count,
                        REQUEST_OPS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct err e = check_op(req, &ops[i]);
        if (err_is(&e))
            return e;
        for (size_t j = 0; j < i && ops[i].kind != REQUEST_OP_GET; j++)
            if (ops[j].kind != REQUEST_OP_GET && ops_overlap(&ops[i], &ops[j]))
                return err_make(
                    ERR_BAD_REQUEST,
                    "operations %zu and %zu of a branch write the same key: a Txn writes "
                    "a key once",
                    j, i);
    }
    return OK_ERR;
}

static struct err check_compare(const struct request_compare *c)
{
    struct err e = check_key(c->key);
    if (err_is(&e))
        return e;
    return check_value(c->value);
}

static struct err check_names(const struct bytes *names, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        struct err e = worker_check_name(names[i], what);
        if (err_is(&e))
            return e;
    }
    return OK_ERR;
}

static struct err check_new_worker(const struct request_worker *w)
{
    struct err e = worker_check_name(w->type, "type");
    if (!err_is(&e))
        e = worker_check_addr(w->addr);
    return err_is(&e) ? e : worker_check_ttl(w->ttl_ms);
}

static struct err check_worker(const struct plan_request *req)
{
    const struct request_worker *w = req->worker;
    struct err e = OK_ERR;
    if (req->method == REQUEST_ADD_WORKER)
        e = check_new_worker(w);
    else if (w->id == 0)
        e = err_make(ERR_BAD_WORKER, "id is missing: ids are from 1");
    if (!err_is(&e) && req->method == REQUEST_ACTIVATE_WORKER && w->incarnation == 0)
        e = err_make(ERR_BAD_WORKER, "incarnation is missing: AddWorker answers it");
    if (!err_is(&e))
        e = worker_check_labels(w->labels, w->label_count);
    if (!err_is(&e))
        e = worker_check_resources(w->resources, w->resource_count);
    if (!err_is(&e))
        e = check_names(w->remove_labels, w->remove_label_count, "label");
    return err_is(&e) ? e : check_names(w->remove_resources, w->remove_resource_count, "resource");
}

struct err request_check(const struct plan_request *req)
{
    if (req->worker)
        return check_worker(req);
    PRE(req->method == REQUEST_TXN || (req->then_count == 1 && req->else_count == 0));
    if (req->compare_count > REQUEST_COMPARES_MAX)
        return err_make(ERR_TOO_LARGE, "%zu comparisons: a Txn has at most %d", req->compare_count,
                        REQUEST_COMPARES_MAX);
    for (size_t i = 0; i < req->compare_count; i++) {
        struct err e = check_compare(&req->compares[i]);
        if (err_is(&e))
            return e;
    }
    struct err e = check_branch(req, req->then_ops, req->then_count);
    if (err_is(&e))
        return e;
    return check_branch(req, req->else_ops, req->else_count);
}

/* The number behind the last '@', or -1 when there is none that fits. */
static int64_t revision_suffix(struct bytes id)
{
    size_t at = id.len;
    while (at > 0 && id.data[at - 1] >= '0' && id.data[at - 1] <= '9')
        at--;
    if (at == 0 || at == id.len || id.data[at - 1] != '@')
        return -1;
    int64_t revision = 0;
    for (size_t i = at; i < id.len; i++)
        if (__builtin_mul_overflow(revision, 10, &revision) ||
            __builtin_add_overflow(revision, id.data[i] - '0', &revision))
            return -1;
    return revision;
}

struct err request_set_id(struct plan_request *req, struct bytes text)
{
    if (text.len < REQUEST_ID_MIN || text.len > REQUEST_ID_MAX)
        return err_make(ERR_BAD_REQUEST_ID, "a request id of %zu bytes: ids are %d to %d bytes",
                        text.len, REQUEST_ID_MIN, REQUEST_ID_MAX);
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < 0x20 || text.data[i] > 0x7e)
            return err_make(ERR_BAD_REQUEST_ID, "a request id has only printable ASCII characters");
    req->id = arena_copy(&req->memory, text);
    req->id_revision = revision_suffix(req->id);
    return OK_ERR;
}

/* Mixes eight bytes at a time by multiplying with odd constants; it tells one body from another,
 * and resists no attacker: whoever knows an id owns it. */
uint64_t request_hash(struct bytes body)
{
    uint64_t h = 0x2545f4914f6cdd1dull ^ body.len;
    size_t i = 0;
    for (; i + 8 <= body.len; i += 8) {
        uint64_t word;
        memcpy(&word, body.data + i, 8);
        h = (h ^ word) * 0xd6e8feb86659fd93ull;
        h ^= h >> 32;
    }
    uint64_t rest = 0;
    if (i < body.len)
        memcpy(&rest, body.data + i, body.len - i);
    h = (h ^ rest) * 0xd6e8feb86659fd93ull;
    h ^= h >> 32;
    h *= 0xa0761d6478bd642full;
    return h ^ (h >> 29);
}
