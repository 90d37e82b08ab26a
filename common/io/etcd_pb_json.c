/* Requests in etcd's own encoding for an etcd that is only reached through its JSON gateway. */
#include "common/io/etcd_pb.h"
#include "etcd/etcd.pb-c.h"

static void *allocate(void *arena, size_t size)
{
    return arena_raw(arena, size);
}

static void keep(void *arena, void *pointer)
{
}

static struct bytes bytes_in(ProtobufCBinaryData d)
{
    return bytes_of(d.data, d.len);
}

static bool read_compare(const Etcdpb__Compare *m, struct etcd_compare *out)
{
    static const enum etcd_relation relations[] = {ETCD_EQUAL, ETCD_GREATER, ETCD_LESS,
                                                   ETCD_NOT_EQUAL};
    if ((unsigned)m->result >= sizeof relations / sizeof *relations)
        return false;
    out->relation = relations[m->result];
    out->key = bytes_in(m->key);
    out->range_end = bytes_in(m->range_end);
    switch ((int)m->operand_case) {
    case ETCDPB__COMPARE__OPERAND_VERSION:
        out->target = ETCD_VERSION;
        out->number = m->version;
        return true;
    case ETCDPB__COMPARE__OPERAND_CREATE_REVISION:
        out->target = ETCD_CREATE;
        out->number = m->create_revision;
        return true;
    case ETCDPB__COMPARE__OPERAND_MOD_REVISION:
        out->target = ETCD_MOD;
        out->number = m->mod_revision;
        return true;
    case ETCDPB__COMPARE__OPERAND_VALUE:
        out->target = ETCD_VALUE;
        out->value = bytes_in(m->value);
        return true;
    case ETCDPB__COMPARE__OPERAND_LEASE:
        out->target = ETCD_LEASE;
        out->number = m->lease;
        return true;
    default:
        return false;
    }
}

static bool read_op(const Etcdpb__RequestOp *m, struct etcd_op *out)
{
    switch ((int)m->request_case) {
    case ETCDPB__REQUEST_OP__REQUEST_REQUEST_RANGE:
        out->kind = ETCD_OP_RANGE;
        out->key = bytes_in(m->request_range->key);
        out->range_end = bytes_in(m->request_range->range_end);
        out->limit = m->request_range->limit;
        out->revision = m->request_range->revision;
        out->keys_only = m->request_range->keys_only;
        out->by_create = m->request_range->sort_target != 0;
        return true;
    case ETCDPB__REQUEST_OP__REQUEST_REQUEST_PUT:
        out->kind = ETCD_OP_PUT;
        out->key = bytes_in(m->request_put->key);
        out->value = bytes_in(m->request_put->value);
        out->lease = m->request_put->lease;
        return true;
    case ETCDPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        out->kind = ETCD_OP_DELETE;
        out->key = bytes_in(m->request_delete_range->key);
        out->range_end = bytes_in(m->request_delete_range->range_end);
        return true;
    default:
        return false;
    }
}

static const struct etcd_op *read_ops(struct arena *a, Etcdpb__RequestOp **list, size_t count,
                                      bool *fine)
{
    struct etcd_op *ops = arena_array(a, count, sizeof *ops);
    for (size_t i = 0; i < count; i++)
        *fine &= read_op(list[i], &ops[i]);
    return ops;
}

static bool txn_to_json(struct bytes message, struct arena *a, struct buf *out)
{
    ProtobufCAllocator allocator = {allocate, keep, a};
    const Etcdpb__TxnRequest *m =
        etcdpb__txn_request__unpack(&allocator, message.len, message.data);
    bool fine = m != NULL;
    if (!fine)
        return false;
    struct etcd_compare *compares = arena_array(a, m->n_compare, sizeof *compares);
    for (size_t i = 0; i < m->n_compare; i++)
        fine &= read_compare(m->compare[i], &compares[i]);
    struct etcd_txn txn = {.compares = compares,
                           .compare_count = m->n_compare,
                           .success = read_ops(a, m->success, m->n_success, &fine),
                           .success_count = m->n_success,
                           .failure = read_ops(a, m->failure, m->n_failure, &fine),
                           .failure_count = m->n_failure};
    if (fine)
        etcd_json_txn(out, &txn);
    return fine;
}

static bool watch_to_json(struct bytes message, struct arena *a, struct buf *out)
{
    ProtobufCAllocator allocator = {allocate, keep, a};
    const Etcdpb__WatchRequest *m =
        etcdpb__watch_request__unpack(&allocator, message.len, message.data);
    if (!m || m->request_case != ETCDPB__WATCH_REQUEST__REQUEST_CREATE_REQUEST)
        return false;
    const Etcdpb__WatchCreateRequest *c = m->create_request;
    etcd_json_watches(out,
                      &(struct etcd_watch){.key = bytes_in(c->key),
                                           .range_end = bytes_in(c->range_end),
                                           .watch_id = c->watch_id,
                                           .start_revision = c->start_revision,
                                           .progress_notify = c->progress_notify,
                                           .fragment = c->fragment},
                      1);
    return true;
}

static const struct {
    const char *path, *method;
    bool (*to_json)(struct bytes message, struct arena *a, struct buf *out);
} methods[] = {
    {ETCD_PATH_TXN, "/etcdserverpb.KV/Txn", txn_to_json},
    {ETCD_PATH_WATCH, "/etcdserverpb.Watch/Watch", watch_to_json},
};

bool etcd_pb_to_json(const char *path, struct bytes body, struct buf *out)
{
    struct bytes message;
    size_t whole, m = 0;
    bool fine = true;
    while (m < sizeof methods / sizeof *methods && strcmp(path, methods[m].path) != 0)
        m++;
    if (m == sizeof methods / sizeof *methods)
        return false;
    while (fine && body.len) {
        struct arena a = {0};
        fine = etcd_frame_message(body, &message, &whole) && methods[m].to_json(message, &a, out);
        if (fine)
            body = bytes_of(body.data + whole, body.len - whole);
        arena_close(&a);
    }
    return fine;
}

const char *etcd_pb_method(const char *path)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(path, methods[i].path))
            return methods[i].method;
    return NULL;
}
