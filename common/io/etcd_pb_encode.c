/* Requests in etcd's own encoding. */
#include "common/io/etcd_pb.h"
#include "common/base/check.h"
#include "etcd/etcd.pb-c.h"

static ProtobufCBinaryData data(struct bytes s)
{
    return (ProtobufCBinaryData){.len = s.len, .data = (uint8_t *)s.data};
}

static void put_frame(struct buf *out, const ProtobufCMessage *m)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    PRE(len <= UINT32_MAX);
    uint8_t head[ETCD_FRAME_HEAD] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                     (uint8_t)(len >> 8), (uint8_t)len};
    buf_reserve(out, sizeof head + len);
    buf_append(out, head, sizeof head);
    protobuf_c_message_pack(m, out->data + out->len);
    out->len += len;
}

static void fill_compare(Etcdpb__Compare *m, const struct etcd_compare *c)
{
    static const Etcdpb__Compare__Result results[] = {
        [ETCD_EQUAL] = ETCDPB__COMPARE__RESULT__RESULT_EQUAL,
        [ETCD_NOT_EQUAL] = ETCDPB__COMPARE__RESULT__RESULT_NOT_EQUAL,
        [ETCD_LESS] = ETCDPB__COMPARE__RESULT__RESULT_LESS,
        [ETCD_GREATER] = ETCDPB__COMPARE__RESULT__RESULT_GREATER,
    };
    etcdpb__compare__init(m);
    m->result = results[c->relation];
    m->key = data(c->key);
    m->range_end = data(c->range_end);
    switch (c->target) {
    case ETCD_VERSION:
        m->target = ETCDPB__COMPARE__TARGET__TARGET_VERSION;
        m->operand_case = ETCDPB__COMPARE__OPERAND_VERSION;
        m->version = c->number;
        break;
    case ETCD_CREATE:
        m->target = ETCDPB__COMPARE__TARGET__TARGET_CREATE;
        m->operand_case = ETCDPB__COMPARE__OPERAND_CREATE_REVISION;
        m->create_revision = c->number;
        break;
    case ETCD_MOD:
        m->target = ETCDPB__COMPARE__TARGET__TARGET_MOD;
        m->operand_case = ETCDPB__COMPARE__OPERAND_MOD_REVISION;
        m->mod_revision = c->number;
        break;
    case ETCD_VALUE:
        m->target = ETCDPB__COMPARE__TARGET__TARGET_VALUE;
        m->operand_case = ETCDPB__COMPARE__OPERAND_VALUE;
        m->value = data(c->value);
        break;
    case ETCD_LEASE:
        m->target = ETCDPB__COMPARE__TARGET__TARGET_LEASE;
        m->operand_case = ETCDPB__COMPARE__OPERAND_LEASE;
        m->lease = c->number;
        break;
    }
}

static Etcdpb__RangeRequest *make_range(struct arena *a, const struct etcd_op *op)
{
    Etcdpb__RangeRequest *m = arena_raw(a, sizeof *m);
    etcdpb__range_request__init(m);
    m->key = data(op->key);
    m->range_end = data(op->range_end);
    m->limit = op->limit;
    m->revision = op->revision;
    m->keys_only = op->keys_only;
    if (op->by_create) {
        m->sort_order = ETCDPB__RANGE_REQUEST__SORT_ORDER__SORT_ORDER_ASCEND;
        m->sort_target = ETCDPB__RANGE_REQUEST__SORT_TARGET__SORT_TARGET_CREATE;
    }
    return m;
}

static Etcdpb__PutRequest *make_put(struct arena *a, const struct etcd_op *op)
{
    Etcdpb__PutRequest *m = arena_raw(a, sizeof *m);
    etcdpb__put_request__init(m);
    m->key = data(op->key);
    m->value = data(op->value);
    m->lease = op->lease;
    return m;
}

static Etcdpb__DeleteRangeRequest *make_delete(struct arena *a, const struct etcd_op *op)
{
    Etcdpb__DeleteRangeRequest *m = arena_raw(a, sizeof *m);
    etcdpb__delete_range_request__init(m);
    m->key = data(op->key);
    m->range_end = data(op->range_end);
    return m;
}

static Etcdpb__RequestOp **make_ops(struct arena *a, const struct etcd_op *ops, size_t count)
{
    Etcdpb__RequestOp **list = arena_array(a, count, sizeof *list);
    Etcdpb__RequestOp *all = arena_array(a, count, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        Etcdpb__RequestOp *m = list[i] = &all[i];
        etcdpb__request_op__init(m);
        switch (ops[i].kind) {
        case ETCD_OP_PUT:
            m->request_case = ETCDPB__REQUEST_OP__REQUEST_REQUEST_PUT;
            m->request_put = make_put(a, &ops[i]);
            break;
        case ETCD_OP_DELETE:
            m->request_case = ETCDPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
            m->request_delete_range = make_delete(a, &ops[i]);
            break;
        case ETCD_OP_RANGE:
            m->request_case = ETCDPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
            m->request_range = make_range(a, &ops[i]);
            break;
        }
    }
    return list;
}

void etcd_encode_txn(struct buf *out, const struct etcd_txn *txn)
{
    struct arena a = {0};
    Etcdpb__TxnRequest m = ETCDPB__TXN_REQUEST__INIT;
    Etcdpb__Compare **list = arena_array(&a, txn->compare_count, sizeof *list);
    Etcdpb__Compare *compares = arena_array(&a, txn->compare_count, sizeof *compares);
    for (size_t i = 0; i < txn->compare_count; i++) {
        list[i] = &compares[i];
        fill_compare(list[i], &txn->compares[i]);
    }
    m.n_compare = txn->compare_count;
    m.compare = list;
    m.n_success = txn->success_count;
    m.success = make_ops(&a, txn->success, txn->success_count);
    m.n_failure = txn->failure_count;
    m.failure = make_ops(&a, txn->failure, txn->failure_count);
    put_frame(out, &m.base);
    arena_close(&a);
}

void etcd_encode_watches(struct buf *out, const struct etcd_watch *watches, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct etcd_watch *w = &watches[i];
        Etcdpb__WatchRequest m = ETCDPB__WATCH_REQUEST__INIT;
        Etcdpb__WatchCreateRequest create = ETCDPB__WATCH_CREATE_REQUEST__INIT;
        PRE(w->watch_id > 0);
        create.key = data(w->key);
        create.range_end = data(w->range_end);
        create.watch_id = w->watch_id;
        create.start_revision = w->start_revision;
        create.progress_notify = w->progress_notify;
        create.fragment = w->fragment;
        m.request_case = ETCDPB__WATCH_REQUEST__REQUEST_CREATE_REQUEST;
        m.create_request = &create;
        put_frame(out, &m.base);
    }
}
