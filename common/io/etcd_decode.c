/* Answers to structs. Everything an answer holds goes into one block, sized before it is filled. */
#include "common/io/etcd_json.h"
#include "common/io/etcd_codec.h"
#include "common/io/etcd_pb.h"
#include "common/base/mem.h"
#include <stdio.h>
#include <stdlib.h>

/* Every answer to a request of ours has these; `{}` must not pass for a txn whose compare failed.
 */
static bool is_answer(const struct reader *r, const struct etcd_header *h)
{
    return !r->bad && h->cluster_id != 0 && h->revision > 0;
}

static size_t count_kvs(struct json_object *responses)
{
    size_t n = 0;
    for (size_t i = 0; i < read_length(responses); i++) {
        struct json_object *range, *kvs;
        struct json_object *o = json_object_array_get_idx(responses, i);
        if (json_object_object_get_ex(o, "response_range", &range) &&
            json_object_object_get_ex(range, "kvs", &kvs) &&
            json_object_is_type(kvs, json_type_array))
            n += json_object_array_length(kvs);
    }
    return n;
}

static void read_range(struct reader *r, struct json_object *o, struct etcd_kv *kvs, size_t *count,
                       bool *more)
{
    struct json_object *array = read_array(r, o, "kvs");
    *count = read_length(array);
    *more = read_bool(r, o, "more");
    for (size_t i = 0; i < *count; i++)
        read_kv(r, json_object_array_get_idx(array, i), &kvs[i]);
}

/* Takes from *kvs what it needs. */
static void read_op_result(struct reader *r, struct json_object *o, struct etcd_kv **kvs,
                           struct etcd_op_result *out)
{
    struct json_object *f;
    if ((f = read_object(r, o, "response_range"))) {
        out->kind = ETCD_OP_RANGE;
        out->kvs = *kvs;
        read_range(r, f, out->kvs, &out->count, &out->more);
        *kvs += out->count;
    } else if ((f = read_object(r, o, "response_delete_range"))) {
        out->kind = ETCD_OP_DELETE;
        out->deleted = read_int(r, f, "deleted");
    } else if (read_object(r, o, "response_put")) {
        out->kind = ETCD_OP_PUT;
    } else {
        r->bad = "responses";
    }
}

static void read_txn(struct reader *r, struct json_object *o, struct bytes body,
                     struct etcd_txn_result *out)
{
    struct json_object *responses = read_array(r, o, "responses");
    out->header = read_header(r, o);
    out->succeeded = read_bool(r, o, "succeeded");
    out->result_count = read_length(responses);
    size_t results = out->result_count * sizeof *out->results;
    out->results = reader_block(r, results + count_kvs(responses) * sizeof(struct etcd_kv), body);
    struct etcd_kv *kvs = (struct etcd_kv *)((uint8_t *)out->results + results);
    for (size_t i = 0; i < out->result_count && !r->bad; i++)
        read_op_result(r, json_object_array_get_idx(responses, i), &kvs, &out->results[i]);
}

struct err etcd_decode_txn(struct bytes body, struct etcd_txn_result *out)
{
    *out = (struct etcd_txn_result){0};
    if (etcd_is_frame(body))
        return etcd_pb_decode_txn(body, out);
    struct reader r = {0};
    struct json_object *o = NULL;
    bool read = etcd_decode_writes(body, out);
    if (!read && (o = etcd_json_parse(body))) {
        read_txn(&r, o, body, out);
        json_object_put(o);
        read = true;
    }
    if (read && is_answer(&r, &out->header))
        return OK_ERR;
    etcd_txn_result_close(out);
    return reader_error(&r, body, "answer to a txn");
}

void etcd_txn_result_close(struct etcd_txn_result *r)
{
    free(r->results);
    *r = (struct etcd_txn_result){0};
}

struct err etcd_decode_range(struct bytes body, struct etcd_range_result *out)
{
    *out = (struct etcd_range_result){0};
    struct reader r = {0};
    struct json_object *o = etcd_json_parse(body);
    if (!o)
        return reader_error(&r, body, "answer to a range");
    out->header = read_header(&r, o);
    out->total = read_int(&r, o, "count");
    size_t count = read_length(read_array(&r, o, "kvs"));
    out->kvs = reader_block(&r, count * sizeof *out->kvs, body);
    read_range(&r, o, out->kvs, &out->count, &out->more);
    json_object_put(o);
    if (is_answer(&r, &out->header))
        return OK_ERR;
    etcd_range_result_close(out);
    return reader_error(&r, body, "answer to a range");
}

void etcd_range_result_close(struct etcd_range_result *r)
{
    free(r->kvs);
    *r = (struct etcd_range_result){0};
}

struct err etcd_decode_lease(struct bytes body, struct etcd_lease_result *out)
{
    *out = (struct etcd_lease_result){0};
    struct reader r = {0};
    struct json_object *o = etcd_json_parse(body);
    if (!o)
        return reader_error(&r, body, "answer about a lease");
    /* A keepalive is a stream of one message. */
    struct json_object *in = read_object(&r, o, "result");
    if (!in)
        in = o;
    out->header = read_header(&r, in);
    out->id = read_int(&r, in, "ID");
    out->ttl_s = read_int(&r, in, "TTL");
    json_object_put(o);
    if (is_answer(&r, &out->header) && out->id != 0)
        return OK_ERR;
    *out = (struct etcd_lease_result){0};
    return reader_error(&r, body, "answer about a lease");
}

struct err etcd_decode_status(struct bytes body, struct etcd_status *out)
{
    *out = (struct etcd_status){0};
    struct reader r = {0};
    struct json_object *o = etcd_json_parse(body);
    if (!o)
        return reader_error(&r, body, "status");
    out->header = read_header(&r, o);
    out->leader = read_uint(&r, o, "leader");
    out->db_bytes = read_int(&r, o, "dbSize");
    out->db_in_use_bytes = read_int(&r, o, "dbSizeInUse");
    snprintf(out->version, sizeof out->version, "%s", read_string(&r, o, "version"));
    json_object_put(o);
    if (is_answer(&r, &out->header))
        return OK_ERR;
    *out = (struct etcd_status){0};
    return reader_error(&r, body, "status");
}

struct err etcd_decode_token(struct bytes body, struct etcd_header *header, char *room, size_t size)
{
    struct reader r = {0};
    struct json_object *o = etcd_json_parse(body);
    const char *token = o ? read_string(&r, o, "token") : "";
    size_t len = strlen(token);
    bool fine = len > 0 && len < size && !strpbrk(token, "\r\n");
    if (fine) {
        *header = read_header(&r, o);
        memcpy(room, token, len + 1);
    }
    json_object_put(o);
    /* The body is not shown: what is in it may be a token. */
    return fine && !r.bad ? OK_ERR
                          : err_make(ERR_PROTOCOL,
                                     "etcd's answer holds no token of at most %zu bytes", size - 1);
}
