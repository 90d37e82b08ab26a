#include "client/convert_item.h"
#include "client/convert_kv.h"

struct err kv_decode_get(struct bytes message, struct arena *memory, struct baton_kvs *out)
{
    Baton__V1__GetResponse *m = baton__v1__get_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("GetResponse");
    out->revision = m->revision;
    out->kv_count = m->found && m->kv;
    out->kvs = item_convert_all(&m->kv, out->kv_count, memory);
    baton__v1__get_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err kv_decode_range(struct bytes message, struct arena *memory, struct baton_kvs *out)
{
    Baton__V1__RangeResponse *m =
        baton__v1__range_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("RangeResponse");
    out->revision = m->revision;
    out->more = m->more;
    out->count = m->count;
    out->next_key = item_keep(m->next_key, memory);
    out->kv_count = m->n_kvs;
    out->kvs = item_convert_all(m->kvs, m->n_kvs, memory);
    baton__v1__range_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err kv_decode_put(struct bytes message, struct arena *memory, struct baton_kvs *out)
{
    Baton__V1__PutResponse *m = baton__v1__put_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("PutResponse");
    out->revision = m->revision;
    baton__v1__put_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err kv_decode_delete(struct bytes message, struct arena *memory, struct baton_kvs *out)
{
    Baton__V1__DeleteResponse *m =
        baton__v1__delete_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("DeleteResponse");
    out->revision = m->revision;
    out->count = m->deleted;
    baton__v1__delete_response__free_unpacked(m, NULL);
    return OK_ERR;
}

static struct baton_op_result result_of(const Baton__V1__OperationResult *m, struct arena *memory)
{
    struct baton_op_result out = {0};
    if (m->result_case == BATON__V1__OPERATION_RESULT__RESULT_DELETE) {
        out.deleted = m->delete_->deleted;
    } else if (m->result_case == BATON__V1__OPERATION_RESULT__RESULT_GET) {
        out.kv_count = m->get->found && m->get->kv;
        out.kvs = item_convert_all(&m->get->kv, out.kv_count, memory);
    }
    return out;
}

struct err kv_decode_txn(struct bytes message, struct arena *memory, struct baton_txn_result *out)
{
    Baton__V1__TxnResponse *m = baton__v1__txn_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("TxnResponse");
    struct baton_op_result *results = arena_array(memory, m->n_results, sizeof *results);
    for (size_t i = 0; i < m->n_results; i++)
        results[i] = result_of(m->results[i], memory);
    out->revision = m->revision;
    out->succeeded = m->succeeded;
    out->results = results;
    out->result_count = m->n_results;
    baton__v1__txn_response__free_unpacked(m, NULL);
    return OK_ERR;
}
