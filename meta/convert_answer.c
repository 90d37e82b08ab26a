#include "baton/v1/kv.pb-c.h"
#include "common/base/check.h"
#include "meta/convert.h"

typedef Baton__V1__KeyValue KeyValue;
typedef Baton__V1__OperationResult OperationResult;

static void pack(const ProtobufCMessage *m, struct buf *out)
{
    buf_reserve(out, protobuf_c_message_get_packed_size(m));
    out->len += protobuf_c_message_pack(m, out->data + out->len);
}

static ProtobufCBinaryData data_of(struct bytes s)
{
    return (ProtobufCBinaryData){.len = s.len, .data = (uint8_t *)s.data};
}

static void fill_kv(KeyValue *m, const struct etcd_kv *kv)
{
    baton__v1__key_value__init(m);
    m->key = data_of(kv->key);
    m->value = data_of(kv->value);
    m->create_revision = kv->create_revision;
    m->mod_revision = kv->mod_revision;
    m->version = kv->version;
}

static KeyValue *kv_in(const struct etcd_kv *kv, struct arena *memory)
{
    KeyValue *m = arena_raw(memory, sizeof *m);
    fill_kv(m, kv);
    return m;
}

static KeyValue **kvs_in(const struct etcd_kv *kvs, size_t count, struct arena *memory)
{
    KeyValue *all = arena_raw(memory, count * sizeof *all);
    KeyValue **list = arena_raw(memory, count * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        fill_kv(&all[i], &kvs[i]);
        list[i] = &all[i];
    }
    return list;
}

/* ---- reads ---- */

void convert_get_answer(int64_t revision, const struct etcd_kv *kv, struct buf *out)
{
    Baton__V1__GetResponse m = BATON__V1__GET_RESPONSE__INIT;
    KeyValue found;
    m.revision = revision;
    if (kv) {
        fill_kv(&found, kv);
        m.found = true;
        m.kv = &found;
    }
    pack(&m.base, out);
}

void convert_range_answer(const struct read_page *page, struct arena *memory, struct buf *out)
{
    Baton__V1__RangeResponse m = BATON__V1__RANGE_RESPONSE__INIT;
    m.revision = page->revision;
    m.n_kvs = page->count;
    m.kvs = kvs_in(page->kvs, page->count, memory);
    m.more = page->more;
    m.next_key = data_of(page->next_key);
    m.count = page->total;
    pack(&m.base, out);
}

/* ---- mutations ---- */

static void fill_put(Baton__V1__PutResponse *m, const struct answer_result *r, int64_t revision,
                     struct arena *memory)
{
    baton__v1__put_response__init(m);
    m->revision = revision;
    if (r->kv_count)
        m->prev_kv = kv_in(&r->kvs[0], memory);
}

static void fill_delete(Baton__V1__DeleteResponse *m, const struct answer_result *r,
                        int64_t revision, struct arena *memory)
{
    baton__v1__delete_response__init(m);
    m->revision = revision;
    m->deleted = r->deleted;
    m->n_prev_kvs = r->kv_count;
    m->prev_kvs = kvs_in(r->kvs, r->kv_count, memory);
}

static OperationResult *result_in(const struct answer_result *r, int64_t revision,
                                  struct arena *memory)
{
    OperationResult *m = arena_raw(memory, sizeof *m);
    baton__v1__operation_result__init(m);
    switch (r->kind) {
    case REQUEST_OP_GET:
        m->result_case = BATON__V1__OPERATION_RESULT__RESULT_GET;
        m->get = arena_raw(memory, sizeof *m->get);
        baton__v1__get_response__init(m->get);
        m->get->revision = revision;
        m->get->found = r->kv_count > 0;
        m->get->kv = r->kv_count ? kv_in(&r->kvs[0], memory) : NULL;
        break;
    case REQUEST_OP_PUT:
        m->result_case = BATON__V1__OPERATION_RESULT__RESULT_PUT;
        m->put = arena_raw(memory, sizeof *m->put);
        fill_put(m->put, r, revision, memory);
        break;
    case REQUEST_OP_DELETE:
        m->result_case = BATON__V1__OPERATION_RESULT__RESULT_DELETE;
        m->delete_ = arena_raw(memory, sizeof *m->delete_);
        fill_delete(m->delete_, r, revision, memory);
        break;
    }
    return m;
}

static void pack_txn(const struct plan_answer *answer, struct arena *memory, struct buf *out)
{
    Baton__V1__TxnResponse m = BATON__V1__TXN_RESPONSE__INIT;
    m.revision = answer->revision;
    m.succeeded = answer->succeeded;
    m.n_results = answer->result_count;
    m.results = arena_raw(memory, m.n_results * sizeof *m.results);
    for (size_t i = 0; i < m.n_results; i++)
        m.results[i] = result_in(&answer->results[i], answer->revision, memory);
    pack(&m.base, out);
}

void convert_answer(const struct plan_answer *answer, struct buf *out)
{
    PRE(answer->code == ERR_OK && (answer->method == REQUEST_TXN || answer->result_count == 1));
    struct arena memory = {0};
    switch (answer->method) {
    case REQUEST_PUT: {
        Baton__V1__PutResponse m;
        fill_put(&m, &answer->results[0], answer->revision, &memory);
        pack(&m.base, out);
        break;
    }
    case REQUEST_DELETE: {
        Baton__V1__DeleteResponse m;
        fill_delete(&m, &answer->results[0], answer->revision, &memory);
        pack(&m.base, out);
        break;
    }
    case REQUEST_TXN:
        pack_txn(answer, &memory, out);
        break;
    case REQUEST_ADD_WORKER:
    case REQUEST_ACTIVATE_WORKER:
    case REQUEST_UPDATE_WORKER:
    case REQUEST_DELETE_WORKER:
    case REQUEST_EXPIRE_WORKER:
        UNREACHABLE_CASE();
    }
    arena_close(&memory);
}
