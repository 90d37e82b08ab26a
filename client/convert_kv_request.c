#include "client/convert_kv.h"
#include <baton/v1/kv.pb-c.h>

static ProtobufCBinaryData data(struct bytes b)
{
    return (ProtobufCBinaryData){.len = b.len, .data = (uint8_t *)b.data};
}

static void pack(const ProtobufCMessage *m, struct buf *out)
{
    buf_clear(out);
    buf_reserve(out, protobuf_c_message_get_packed_size(m));
    out->len = protobuf_c_message_pack(m, out->data);
}

static Baton__V1__Consistency consistency_of(enum kv_consistency c)
{
    static const Baton__V1__Consistency all[] = {
        [KV_LEASE] = BATON__V1__CONSISTENCY__CONSISTENCY_LEASE,
        [KV_QUORUM] = BATON__V1__CONSISTENCY__CONSISTENCY_QUORUM,
        [KV_STALE] = BATON__V1__CONSISTENCY__CONSISTENCY_STALE,
    };
    return all[c];
}

void kv_encode_get(struct bytes key, struct kv_freshness freshness, struct buf *out)
{
    Baton__V1__GetRequest m = BATON__V1__GET_REQUEST__INIT;
    m.key = data(key);
    m.consistency = consistency_of(freshness.consistency);
    m.min_revision = freshness.min_revision;
    pack(&m.base, out);
}

void kv_encode_range(const struct kv_range *range, struct buf *out)
{
    Baton__V1__RangeRequest m = BATON__V1__RANGE_REQUEST__INIT;
    m.key = data(range->key);
    m.range_end = data(range->end);
    m.prefix = range->prefix;
    m.limit = range->limit;
    m.keys_only = range->keys_only;
    m.count_only = range->count_only;
    m.consistency = consistency_of(range->freshness.consistency);
    m.min_revision = range->freshness.min_revision;
    pack(&m.base, out);
}

void kv_encode_put(struct bytes key, struct bytes value, struct buf *out)
{
    Baton__V1__PutRequest m = BATON__V1__PUT_REQUEST__INIT;
    m.key = data(key);
    m.value = data(value);
    pack(&m.base, out);
}

void kv_encode_delete(struct bytes key, bool prefix, bool must_exist, struct buf *out)
{
    Baton__V1__DeleteRequest m = BATON__V1__DELETE_REQUEST__INIT;
    m.key = data(key);
    m.prefix = prefix;
    m.must_exist = must_exist;
    pack(&m.base, out);
}

/* --- transactions --- */

static Baton__V1__Compare *compare_of(const struct kv_compare *c, struct arena *memory)
{
    static const Baton__V1__Compare__Target targets[] = {
        [KV_VALUE] = BATON__V1__COMPARE__TARGET__TARGET_VALUE,
        [KV_VERSION] = BATON__V1__COMPARE__TARGET__TARGET_VERSION,
        [KV_CREATE_REVISION] = BATON__V1__COMPARE__TARGET__TARGET_CREATE_REVISION,
        [KV_MOD_REVISION] = BATON__V1__COMPARE__TARGET__TARGET_MOD_REVISION,
    };
    static const Baton__V1__Compare__Result results[] = {
        [KV_EQUAL] = BATON__V1__COMPARE__RESULT__RESULT_EQUAL,
        [KV_NOT_EQUAL] = BATON__V1__COMPARE__RESULT__RESULT_NOT_EQUAL,
        [KV_LESS] = BATON__V1__COMPARE__RESULT__RESULT_LESS,
        [KV_GREATER] = BATON__V1__COMPARE__RESULT__RESULT_GREATER,
    };
    Baton__V1__Compare *m = arena_alloc(memory, sizeof *m);
    baton__v1__compare__init(m);
    m->key = data(c->key);
    m->target = targets[c->target];
    m->result = results[c->relation];
    m->number = c->number;
    m->value = data(c->value);
    return m;
}

static void set_get(Baton__V1__Operation *m, const struct kv_op *op, struct arena *memory)
{
    m->op_case = BATON__V1__OPERATION__OP_GET;
    m->get = arena_alloc(memory, sizeof *m->get);
    baton__v1__get_request__init(m->get);
    m->get->key = data(op->key);
}

static void set_put(Baton__V1__Operation *m, const struct kv_op *op, struct arena *memory)
{
    m->op_case = BATON__V1__OPERATION__OP_PUT;
    m->put = arena_alloc(memory, sizeof *m->put);
    baton__v1__put_request__init(m->put);
    m->put->key = data(op->key);
    m->put->value = data(op->value);
}

static void set_delete(Baton__V1__Operation *m, const struct kv_op *op, struct arena *memory)
{
    m->op_case = BATON__V1__OPERATION__OP_DELETE;
    m->delete_ = arena_alloc(memory, sizeof *m->delete_);
    baton__v1__delete_request__init(m->delete_);
    m->delete_->key = data(op->key);
    m->delete_->prefix = op->prefix;
}

static Baton__V1__Operation **branch_of(const struct kv_branch *b, struct arena *memory)
{
    static void (*const set[])(Baton__V1__Operation *, const struct kv_op *, struct arena *) = {
        [KV_GET] = set_get, [KV_PUT] = set_put, [KV_DELETE] = set_delete};
    Baton__V1__Operation **ops = arena_array(memory, b->count, sizeof *ops);
    for (size_t i = 0; i < b->count; i++) {
        ops[i] = arena_alloc(memory, sizeof *ops[i]);
        baton__v1__operation__init(ops[i]);
        set[b->ops[i].kind](ops[i], &b->ops[i], memory);
    }
    return ops;
}

void kv_encode_txn(const struct kv_txn *txn, struct buf *out)
{
    struct arena memory = {0};
    Baton__V1__TxnRequest m = BATON__V1__TXN_REQUEST__INIT;
    m.n_compare = txn->compare_count;
    m.compare = arena_array(&memory, m.n_compare, sizeof *m.compare);
    for (size_t i = 0; i < m.n_compare; i++)
        m.compare[i] = compare_of(&txn->compares[i], &memory);
    m.n_then_ops = txn->then_branch.count;
    m.then_ops = branch_of(&txn->then_branch, &memory);
    m.n_else_ops = txn->else_branch.count;
    m.else_ops = branch_of(&txn->else_branch, &memory);
    pack(&m.base, out);
    arena_close(&memory);
}
