/* Answers in etcd's own encoding. What the library unpacks lives in an arena for a moment; what is
 * handed out is one block, as from JSON. */
#include "common/io/etcd_pb.h"
#include "common/base/mem.h"
#include "etcd/etcd.pb-c.h"
#include <stdlib.h>

bool etcd_frame_message(struct bytes body, struct bytes *message, size_t *whole)
{
    *whole = 0;
    if (body.len < ETCD_FRAME_HEAD)
        return false;
    const uint8_t *p = body.data;
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    *whole = ETCD_FRAME_HEAD + len;
    *message = bytes_of(p + ETCD_FRAME_HEAD, len);
    return *whole <= body.len;
}

static void *allocate(void *arena, size_t size)
{
    return arena_raw(arena, size);
}

static void keep(void *arena, void *pointer)
{
}

/* The only message of body, or NULL. */
static void *unpack(const ProtobufCMessageDescriptor *d, struct bytes body, struct arena *a)
{
    ProtobufCAllocator allocator = {allocate, keep, a};
    struct bytes m;
    size_t whole;
    if (!etcd_frame_message(body, &m, &whole) || whole != body.len)
        return NULL;
    return protobuf_c_message_unpack(d, &allocator, m.len, m.data);
}

static struct etcd_header header_of(const Etcdpb__ResponseHeader *h)
{
    if (!h)
        return (struct etcd_header){0};
    return (struct etcd_header){.cluster_id = h->cluster_id,
                                .member_id = h->member_id,
                                .revision = h->revision,
                                .raft_term = h->raft_term};
}

/* Where the bytes go that a block holds behind its structs. */
struct filler {
    uint8_t *at;
};

static struct bytes take(struct filler *f, ProtobufCBinaryData d)
{
    if (d.len == 0)
        return BYTES_NONE;
    memcpy(f->at, d.data, d.len);
    f->at += d.len;
    return bytes_of(f->at - d.len, d.len);
}

static struct etcd_kv take_kv(struct filler *f, const Etcdpb__KeyValue *kv)
{
    return (struct etcd_kv){.key = take(f, kv->key),
                            .value = take(f, kv->value),
                            .create_revision = kv->create_revision,
                            .mod_revision = kv->mod_revision,
                            .version = kv->version,
                            .lease = kv->lease};
}

static const Etcdpb__RangeResponse *range_of(const Etcdpb__ResponseOp *op)
{
    return op->response_case == ETCDPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE ? op->response_range
                                                                             : NULL;
}

/* Takes from *kvs what it needs; false: what it is about is unknown. */
static bool take_result(struct filler *f, const Etcdpb__ResponseOp *op, struct etcd_kv **kvs,
                        struct etcd_op_result *out)
{
    const Etcdpb__RangeResponse *range = range_of(op);
    *out = (struct etcd_op_result){0};
    if (range) {
        out->kind = ETCD_OP_RANGE;
        out->kvs = *kvs;
        out->count = range->n_kvs;
        out->more = range->more;
        for (size_t i = 0; i < out->count; i++)
            *(*kvs)++ = take_kv(f, range->kvs[i]);
        return true;
    }
    switch ((int)op->response_case) {
    case ETCDPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT:
        out->kind = ETCD_OP_PUT;
        return true;
    case ETCDPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
        out->kind = ETCD_OP_DELETE;
        out->deleted = op->response_delete_range->deleted;
        return true;
    default:
        return false;
    }
}

/* The structs of the block, zeroed; their bytes, which are at most as many as those of the body,
 * follow. */
static void *make_block(struct filler *f, size_t structs, struct bytes body)
{
    uint8_t *block = mem_resize(NULL, structs + body.len);
    memset(block, 0, structs);
    f->at = block + structs;
    return block;
}

static bool fill_txn(const Etcdpb__TxnResponse *m, struct bytes body, struct etcd_txn_result *out)
{
    struct filler f;
    size_t kv_count = 0;
    for (size_t i = 0; i < m->n_responses; i++) {
        const Etcdpb__RangeResponse *range = range_of(m->responses[i]);
        kv_count += range ? range->n_kvs : 0;
    }
    size_t results = m->n_responses * sizeof *out->results;
    out->header = header_of(m->header);
    out->succeeded = m->succeeded;
    out->result_count = m->n_responses;
    out->results = make_block(&f, results + kv_count * sizeof(struct etcd_kv), body);
    struct etcd_kv *kvs = (struct etcd_kv *)((uint8_t *)out->results + results);
    for (size_t i = 0; i < m->n_responses; i++)
        if (!take_result(&f, m->responses[i], &kvs, &out->results[i]))
            return false;
    return out->header.cluster_id != 0 && out->header.revision > 0;
}

struct err etcd_pb_decode_txn(struct bytes body, struct etcd_txn_result *out)
{
    struct arena a = {0};
    *out = (struct etcd_txn_result){0};
    const Etcdpb__TxnResponse *m = unpack(&etcdpb__txn_response__descriptor, body, &a);
    bool fine = m && fill_txn(m, body, out);
    arena_close(&a);
    if (fine)
        return OK_ERR;
    etcd_txn_result_close(out);
    return err_make(ERR_PROTOCOL, "etcd's answer to a txn makes no sense");
}

static bool fill_line(const Etcdpb__WatchResponse *m, struct bytes body,
                      struct etcd_watch_line *out)
{
    struct filler f;
    out->header = header_of(m->header);
    out->watch_id = m->watch_id;
    out->created = m->created;
    out->canceled = m->canceled;
    out->fragment = m->fragment;
    out->compact_revision = m->compact_revision;
    out->err = etcd_why_canceled(out, m->cancel_reason ? m->cancel_reason : "");
    out->event_count = m->n_events;
    if (m->n_events)
        out->events = make_block(&f, m->n_events * sizeof *out->events, body);
    for (size_t i = 0; i < m->n_events; i++) {
        const Etcdpb__Event *e = m->events[i];
        /* A kind of event that this program does not know must not pass for a put. */
        if (!e->kv || (e->type != ETCDPB__EVENT__EVENT_TYPE__PUT &&
                       e->type != ETCDPB__EVENT__EVENT_TYPE__DELETE))
            return false;
        out->events[i].deleted = e->type == ETCDPB__EVENT__EVENT_TYPE__DELETE;
        out->events[i].kv = take_kv(&f, e->kv);
    }
    return out->header.cluster_id != 0;
}

struct err etcd_pb_decode_watch(struct bytes body, struct etcd_watch_line *out)
{
    struct arena a = {0};
    *out = (struct etcd_watch_line){0};
    const Etcdpb__WatchResponse *m = unpack(&etcdpb__watch_response__descriptor, body, &a);
    bool fine = m && fill_line(m, body, out);
    arena_close(&a);
    if (fine)
        return OK_ERR;
    etcd_watch_line_close(out);
    return err_make(ERR_PROTOCOL, "a message of etcd's watch makes no sense");
}

/* It is the first field of every answer: the rest, which may be long, is not looked at. */
struct etcd_header etcd_pb_decode_header(struct bytes body)
{
    struct arena a = {0};
    ProtobufCAllocator allocator = {allocate, keep, &a};
    struct etcd_header none = {0};
    struct bytes m;
    size_t whole;
    enum { HEADER_TAG = 1 << 3 | 2, HEADER_MAX = 127 };
    if (!etcd_frame_message(body, &m, &whole) || m.len < 2 || m.data[0] != HEADER_TAG ||
        m.data[1] > HEADER_MAX || m.len < 2u + m.data[1])
        return none;
    Etcdpb__ResponseHeader *h = etcdpb__response_header__unpack(&allocator, m.data[1], m.data + 2);
    struct etcd_header header = header_of(h);
    arena_close(&a);
    return header;
}
