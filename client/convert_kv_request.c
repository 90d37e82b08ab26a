#include "client/convert_item.h"
#include "client/convert_kv.h"

static Baton__V1__Consistency consistency_of(const struct baton_read *read)
{
    static const Baton__V1__Consistency all[] = {
        [BATON_LEASE] = BATON__V1__CONSISTENCY__CONSISTENCY_LEASE,
        [BATON_QUORUM] = BATON__V1__CONSISTENCY__CONSISTENCY_QUORUM,
        [BATON_STALE] = BATON__V1__CONSISTENCY__CONSISTENCY_STALE,
    };
    return all[read ? read->consistency : BATON_LEASE];
}

void kv_encode_get(struct baton_bytes key, const struct baton_read *read, struct buf *out)
{
    Baton__V1__GetRequest m = BATON__V1__GET_REQUEST__INIT;
    m.key = item_data(key);
    m.consistency = consistency_of(read);
    m.min_revision = read ? read->min_revision : 0;
    item_pack(&m.base, out);
}

void kv_encode_range(const struct baton_range *range, const struct baton_read *read,
                     struct buf *out)
{
    Baton__V1__RangeRequest m = BATON__V1__RANGE_REQUEST__INIT;
    m.key = item_data(range->key);
    m.range_end = item_data(range->range_end);
    m.prefix = range->prefix;
    m.limit = range->limit;
    m.keys_only = range->keys_only;
    m.count_only = range->count_only;
    m.consistency = consistency_of(read);
    m.min_revision = read ? read->min_revision : 0;
    item_pack(&m.base, out);
}

void kv_encode_put(struct baton_bytes key, struct baton_bytes value, struct buf *out)
{
    Baton__V1__PutRequest m = BATON__V1__PUT_REQUEST__INIT;
    m.key = item_data(key);
    m.value = item_data(value);
    item_pack(&m.base, out);
}

void kv_encode_delete(struct baton_bytes key, bool prefix, struct buf *out)
{
    Baton__V1__DeleteRequest m = BATON__V1__DELETE_REQUEST__INIT;
    m.key = item_data(key);
    m.prefix = prefix;
    item_pack(&m.base, out);
}

/* --- transactions --- */

static Baton__V1__Compare *compare_of(const struct baton_compare *c, struct arena *memory)
{
    static const Baton__V1__Compare__Target targets[] = {
        [BATON_TARGET_VALUE] = BATON__V1__COMPARE__TARGET__TARGET_VALUE,
        [BATON_TARGET_VERSION] = BATON__V1__COMPARE__TARGET__TARGET_VERSION,
        [BATON_TARGET_CREATE_REVISION] = BATON__V1__COMPARE__TARGET__TARGET_CREATE_REVISION,
        [BATON_TARGET_MOD_REVISION] = BATON__V1__COMPARE__TARGET__TARGET_MOD_REVISION,
    };
    static const Baton__V1__Compare__Result results[] = {
        [BATON_EQUAL] = BATON__V1__COMPARE__RESULT__RESULT_EQUAL,
        [BATON_NOT_EQUAL] = BATON__V1__COMPARE__RESULT__RESULT_NOT_EQUAL,
        [BATON_LESS] = BATON__V1__COMPARE__RESULT__RESULT_LESS,
        [BATON_GREATER] = BATON__V1__COMPARE__RESULT__RESULT_GREATER,
    };
    Baton__V1__Compare *m = arena_alloc(memory, sizeof *m);
    baton__v1__compare__init(m);
    m->key = item_data(c->key);
    m->target = targets[c->target];
    m->result = results[c->relation];
    m->number = c->number;
    m->value = item_data(c->value);
    return m;
}

static void set_get(Baton__V1__Operation *m, const struct baton_op *op, struct arena *memory)
{
    m->op_case = BATON__V1__OPERATION__OP_GET;
    m->get = arena_alloc(memory, sizeof *m->get);
    baton__v1__get_request__init(m->get);
    m->get->key = item_data(op->key);
}

static void set_put(Baton__V1__Operation *m, const struct baton_op *op, struct arena *memory)
{
    m->op_case = BATON__V1__OPERATION__OP_PUT;
    m->put = arena_alloc(memory, sizeof *m->put);
    baton__v1__put_request__init(m->put);
    m->put->key = item_data(op->key);
    m->put->value = item_data(op->value);
}

static void set_delete(Baton__V1__Operation *m, const struct baton_op *op, struct arena *memory)
{
    m->op_case = BATON__V1__OPERATION__OP_DELETE;
    m->delete_ = arena_alloc(memory, sizeof *m->delete_);
    baton__v1__delete_request__init(m->delete_);
    m->delete_->key = item_data(op->key);
    m->delete_->prefix = op->kind == BATON_OP_DELETE_PREFIX;
}

static Baton__V1__Operation **branch_of(const struct baton_op *all, size_t count,
                                        struct arena *memory)
{
    static void (*const set[])(Baton__V1__Operation *, const struct baton_op *,
                               struct arena *) = {[BATON_OP_GET] = set_get,
                                                  [BATON_OP_PUT] = set_put,
                                                  [BATON_OP_DELETE] = set_delete,
                                                  [BATON_OP_DELETE_PREFIX] = set_delete};
    Baton__V1__Operation **ops = arena_array(memory, count, sizeof *ops);
    for (size_t i = 0; i < count; i++) {
        ops[i] = arena_alloc(memory, sizeof *ops[i]);
        baton__v1__operation__init(ops[i]);
        set[all[i].kind](ops[i], &all[i], memory);
    }
    return ops;
}

void kv_encode_txn(const struct baton_txn *txn, struct buf *out)
{
    struct arena memory = {0};
    Baton__V1__TxnRequest m = BATON__V1__TXN_REQUEST__INIT;
    m.n_compare = txn->compare_count;
    m.compare = arena_array(&memory, m.n_compare, sizeof *m.compare);
    for (size_t i = 0; i < m.n_compare; i++)
        m.compare[i] = compare_of(&txn->compares[i], &memory);
    m.n_then_ops = txn->then_count;
    m.then_ops = branch_of(txn->then_ops, txn->then_count, &memory);
    m.n_else_ops = txn->else_count;
    m.else_ops = branch_of(txn->else_ops, txn->else_count, &memory);
    item_pack(&m.base, out);
    arena_close(&memory);
}
