#include "client/convert_kv.h"
#include <baton/v1/kv.pb-c.h>

static struct err garbled(const char *what)
{
    return err_make(ERR_PROTOCOL, "the answer is no %s; are both programs of one version?", what);
}

static struct bytes keep(struct arena *memory, ProtobufCBinaryData d)
{
    return arena_copy(memory, bytes_of(d.data, d.len));
}

static struct kv_item item_of(const Baton__V1__KeyValue *kv, struct arena *memory)
{
    if (!kv)
        return (struct kv_item){0};
    return (struct kv_item){.key = keep(memory, kv->key),
                            .value = keep(memory, kv->value),
                            .create_revision = kv->create_revision,
                            .mod_revision = kv->mod_revision,
                            .version = kv->version};
}

struct err kv_decode_get(struct bytes message, struct arena *memory, struct kv_answer *out)
{
    Baton__V1__GetResponse *m = baton__v1__get_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("GetResponse");
    *out = (struct kv_answer){.revision = m->revision, .item_count = m->found && m->kv};
    out->items = arena_array(memory, 1, sizeof *out->items);
    out->items[0] = item_of(m->kv, memory);
    baton__v1__get_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err kv_decode_range(struct bytes message, struct arena *memory, struct kv_answer *out)
{
    Baton__V1__RangeResponse *m =
        baton__v1__range_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("RangeResponse");
    *out = (struct kv_answer){.revision = m->revision,
                              .more = m->more,
                              .count = m->count,
                              .next_key = keep(memory, m->next_key),
                              .item_count = m->n_kvs};
    out->items = arena_array(memory, m->n_kvs, sizeof *out->items);
    for (size_t i = 0; i < m->n_kvs; i++)
        out->items[i] = item_of(m->kvs[i], memory);
    baton__v1__range_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err kv_decode_put(struct bytes message, struct arena *memory, struct kv_answer *out)
{
    Baton__V1__PutResponse *m = baton__v1__put_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("PutResponse");
    *out = (struct kv_answer){.revision = m->revision};
    baton__v1__put_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err kv_decode_delete(struct bytes message, struct arena *memory, struct kv_answer *out)
{
    Baton__V1__DeleteResponse *m =
        baton__v1__delete_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("DeleteResponse");
    *out = (struct kv_answer){.revision = m->revision, .count = m->deleted};
    baton__v1__delete_response__free_unpacked(m, NULL);
    return OK_ERR;
}

static struct kv_result result_of(const Baton__V1__OperationResult *m, struct arena *memory)
{
    struct kv_result out = {0};
    switch ((int)m->result_case) {
    case BATON__V1__OPERATION_RESULT__RESULT_PUT:
        out.kind = KV_PUT;
        break;
    case BATON__V1__OPERATION_RESULT__RESULT_DELETE:
        out.kind = KV_DELETE;
        out.deleted = m->delete_->deleted;
        break;
    case BATON__V1__OPERATION_RESULT__RESULT_GET:
        out.kind = KV_GET;
        out.found = m->get->found;
        out.item = item_of(m->get->kv, memory);
        break;
    default: /* of a newer service */
        break;
    }
    return out;
}

struct err kv_decode_txn(struct bytes message, struct arena *memory, struct kv_answer *out)
{
    Baton__V1__TxnResponse *m = baton__v1__txn_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("TxnResponse");
    *out = (struct kv_answer){
        .revision = m->revision, .succeeded = m->succeeded, .result_count = m->n_results};
    out->results = arena_array(memory, m->n_results, sizeof *out->results);
    for (size_t i = 0; i < m->n_results; i++)
        out->results[i] = result_of(m->results[i], memory);
    baton__v1__txn_response__free_unpacked(m, NULL);
    return OK_ERR;
}
