#include "baton/v1/kv.pb-c.h"
#include "meta/convert.h"
#include "meta/convert_unpack.h"

enum { RANGE_LIMIT_DEFAULT = 1000 };

static struct bytes bytes_in(ProtobufCBinaryData data)
{
    return bytes_of(data.data, data.len);
}

static struct err no_message(void)
{
    return err_make(ERR_BAD_REQUEST, "the request is no valid message of this method");
}

static struct err terms_of(Baton__V1__Consistency consistency, int64_t min_revision,
                           struct read_terms *out)
{
    static const enum read_consistency all[] = {
        [BATON__V1__CONSISTENCY__CONSISTENCY_LEASE] = READ_LEASE,
        [BATON__V1__CONSISTENCY__CONSISTENCY_QUORUM] = READ_QUORUM,
        [BATON__V1__CONSISTENCY__CONSISTENCY_STALE] = READ_STALE,
    };
    if ((size_t)consistency >= sizeof all / sizeof *all)
        return err_make(ERR_BAD_REQUEST, "consistency %d is not known to this member",
                        (int)consistency);
    if (min_revision < 0)
        return err_make(ERR_BAD_REQUEST, "min_revision is %lld: revisions are not negative",
                        (long long)min_revision);
    *out = (struct read_terms){.consistency = all[consistency], .min_revision = min_revision};
    return OK_ERR;
}

/* A Txn reads the state that it changes. */
static struct err no_terms(const Baton__V1__GetRequest *m)
{
    if (m->consistency == BATON__V1__CONSISTENCY__CONSISTENCY_LEASE && m->min_revision == 0)
        return OK_ERR;
    return err_make(ERR_BAD_REQUEST, "consistency and min_revision have no meaning in a Txn, which "
                                     "reads the newest state: leave them out");
}

/* ---- ranges ---- */

/* Every key that starts with `prefix`: from it to the first one behind. */
static struct bytes end_of_prefix(struct bytes prefix, struct arena *memory)
{
    struct buf end = {0};
    struct bytes out = BYTES_NONE;
    if (bytes_prefix_end(prefix, &end))
        out = arena_copy(memory, buf_view(&end));
    buf_close(&end);
    return out;
}

static struct err both_ends(void)
{
    return err_make(ERR_BAD_REQUEST, "range_end and prefix are both given: give one of them");
}

/* ---- operations ---- */

static struct request_op op_of_put(const Baton__V1__PutRequest *m)
{
    return (struct request_op){.kind = REQUEST_OP_PUT,
                               .key = bytes_in(m->key),
                               .value = bytes_in(m->value),
                               .prev_kv = m->prev_kv};
}

static struct err op_of_delete(const Baton__V1__DeleteRequest *m, struct arena *memory,
                               struct request_op *out)
{
    if (m->prefix && m->range_end.len)
        return both_ends();
    *out = (struct request_op){.kind = REQUEST_OP_DELETE,
                               .ranged = m->prefix || m->range_end.len,
                               .key = bytes_in(m->key),
                               .end = bytes_in(m->range_end),
                               .prev_kv = m->prev_kv,
                               .must_exist = m->must_exist};
    if (m->prefix)
        out->end = end_of_prefix(out->key, memory);
    return OK_ERR;
}

static struct err op_of(const Baton__V1__Operation *m, struct arena *memory, struct request_op *out)
{
    switch (m->op_case) {
    case BATON__V1__OPERATION__OP_GET:
        *out = (struct request_op){.kind = REQUEST_OP_GET, .key = bytes_in(m->get->key)};
        return no_terms(m->get);
    case BATON__V1__OPERATION__OP_PUT:
        *out = op_of_put(m->put);
        return OK_ERR;
    case BATON__V1__OPERATION__OP_DELETE:
        return op_of_delete(m->delete_, memory, out);
    default:
        return err_make(ERR_BAD_REQUEST, "an operation that is neither get, put nor delete");
    }
}

static struct err branch_of(Baton__V1__Operation *const *ops, size_t count, struct arena *memory,
                            const struct request_op **out, size_t *out_count)
{
    if (count > REQUEST_OPS_MAX)
        return err_make(ERR_TOO_LARGE, "%zu operations: a Txn has at most %d in each branch", count,
                        REQUEST_OPS_MAX);
    struct request_op *branch = arena_array(memory, count, sizeof *branch);
    struct err e = OK_ERR;
    for (size_t i = 0; i < count && !err_is(&e); i++)
        e = op_of(ops[i], memory, &branch[i]);
    *out = branch;
    *out_count = count;
    return e;
}

/* ---- comparisons ---- */

static struct err compare_of(const Baton__V1__Compare *m, struct request_compare *out)
{
    static const enum etcd_target targets[] = {
        [BATON__V1__COMPARE__TARGET__TARGET_VALUE] = ETCD_VALUE,
        [BATON__V1__COMPARE__TARGET__TARGET_VERSION] = ETCD_VERSION,
        [BATON__V1__COMPARE__TARGET__TARGET_CREATE_REVISION] = ETCD_CREATE,
        [BATON__V1__COMPARE__TARGET__TARGET_MOD_REVISION] = ETCD_MOD,
    };
    static const enum etcd_relation relations[] = {
        [BATON__V1__COMPARE__RESULT__RESULT_EQUAL] = ETCD_EQUAL,
        [BATON__V1__COMPARE__RESULT__RESULT_NOT_EQUAL] = ETCD_NOT_EQUAL,
        [BATON__V1__COMPARE__RESULT__RESULT_LESS] = ETCD_LESS,
        [BATON__V1__COMPARE__RESULT__RESULT_GREATER] = ETCD_GREATER,
    };
    size_t target = (size_t)m->target, relation = (size_t)m->result;
    if (target >= sizeof targets / sizeof *targets ||
        relation >= sizeof relations / sizeof *relations)
        return err_make(ERR_BAD_REQUEST, "a comparison that is not known to this member");
    *out = (struct request_compare){.target = targets[target],
                                    .relation = relations[relation],
                                    .key = bytes_in(m->key),
                                    .value = bytes_in(m->value),
                                    .number = m->number};
    return OK_ERR;
}

static struct err compares_of(const Baton__V1__TxnRequest *m, struct plan_request *out)
{
    if (m->n_compare > REQUEST_COMPARES_MAX)
        return err_make(ERR_TOO_LARGE, "%zu comparisons: a Txn has at most %d", m->n_compare,
                        REQUEST_COMPARES_MAX);
    struct request_compare *all = arena_array(&out->memory, m->n_compare, sizeof *all);
    struct err e = OK_ERR;
    for (size_t i = 0; i < m->n_compare && !err_is(&e); i++)
        e = compare_of(m->compare[i], &all[i]);
    out->compares = all;
    out->compare_count = m->n_compare;
    return e;
}

/* ---- mutations ---- */

static struct request_op *only_op(struct plan_request *out, enum request_method method)
{
    struct request_op *op = arena_alloc(&out->memory, sizeof *op);
    out->method = method;
    out->then_ops = op;
    out->then_count = 1;
    out->id_revision = -1;
    return op;
}

struct err convert_put(struct bytes body, struct plan_request *out)
{
    const Baton__V1__PutRequest *m =
        (void *)convert_unpack(&baton__v1__put_request__descriptor, body, &out->memory);
    if (!m)
        return no_message();
    *only_op(out, REQUEST_PUT) = op_of_put(m);
    return OK_ERR;
}

struct err convert_delete(struct bytes body, struct plan_request *out)
{
    const Baton__V1__DeleteRequest *m =
        (void *)convert_unpack(&baton__v1__delete_request__descriptor, body, &out->memory);
    if (!m)
        return no_message();
    return op_of_delete(m, &out->memory, only_op(out, REQUEST_DELETE));
}

struct err convert_txn(struct bytes body, struct plan_request *out)
{
    const Baton__V1__TxnRequest *m =
        (void *)convert_unpack(&baton__v1__txn_request__descriptor, body, &out->memory);
    if (!m)
        return no_message();
    out->method = REQUEST_TXN;
    out->id_revision = -1;
    struct err e = compares_of(m, out);
    if (!err_is(&e))
        e = branch_of(m->then_ops, m->n_then_ops, &out->memory, &out->then_ops, &out->then_count);
    if (!err_is(&e))
        e = branch_of(m->else_ops, m->n_else_ops, &out->memory, &out->else_ops, &out->else_count);
    return e;
}

/* ---- reads ---- */

struct err convert_get(struct bytes body, struct arena *memory, struct read_get *out)
{
    const Baton__V1__GetRequest *m =
        (void *)convert_unpack(&baton__v1__get_request__descriptor, body, memory);
    if (!m)
        return no_message();
    out->key = bytes_in(m->key);
    if (out->key.len == 0 || out->key.len > REQUEST_KEY_MAX)
        return err_make(ERR_BAD_KEY, "a key of %zu bytes: keys are 1 to %d bytes", out->key.len,
                        REQUEST_KEY_MAX);
    return terms_of(m->consistency, m->min_revision, &out->terms);
}

struct err convert_range(struct bytes body, struct arena *memory, struct read_range *out)
{
    const Baton__V1__RangeRequest *m =
        (void *)convert_unpack(&baton__v1__range_request__descriptor, body, memory);
    if (!m)
        return no_message();
    if (m->prefix && m->range_end.len)
        return both_ends();
    *out = (struct read_range){.start = bytes_in(m->key),
                               .end = bytes_in(m->range_end),
                               .limit = m->limit ? m->limit : RANGE_LIMIT_DEFAULT,
                               .keys_only = m->keys_only,
                               .count_only = m->count_only};
    if (m->prefix)
        out->end = end_of_prefix(out->start, memory);
    if (out->start.len > REQUEST_KEY_MAX || out->end.len > REQUEST_KEY_MAX)
        return err_make(ERR_BAD_KEY, "the end of a range is longer than %d bytes", REQUEST_KEY_MAX);
    return terms_of(m->consistency, m->min_revision, &out->terms);
}
