#include "meta/core/removal.h"
#include "common/base/check.h"
#include "meta/core/fields.h"

void removal_make(struct fence_txn *out, const char *prefix, const struct removal *r)
{
    char record_room[KEY_MAX], mark_room[KEY_MAX], election_room[KEY_MAX];
    struct bytes record = keys_member(record_room, prefix, r->id);
    struct bytes mark = keys_removed(mark_room, prefix, r->id);
    struct buf value = {0};
    PRE(r->record_revision > 0);
    removal_encode_mark(r->start, &value);
    struct etcd_compare same = {
        .target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = record, .number = r->record_revision};
    struct etcd_op ops[] = {
        {.kind = ETCD_OP_PUT, .key = mark, .value = buf_view(&value)},
        {.kind = ETCD_OP_DELETE, .key = record},
        {.kind = ETCD_OP_DELETE, .key = keys_election(election_room, prefix, r->lease)}};
    struct etcd_op reads[] = {{.kind = ETCD_OP_RANGE, .key = record},
                              {.kind = ETCD_OP_RANGE, .key = mark}};
    fence_txn_own(out, &(struct etcd_txn){.compares = &same,
                                          .compare_count = 1,
                                          .success = ops,
                                          .success_count = r->lease ? 3 : 2,
                                          .failure = reads,
                                          .failure_count = 2});
    buf_close(&value);
}

static const struct etcd_kv *found(const struct etcd_op_result *r)
{
    return r->count ? r->kvs : NULL;
}

enum removal_verdict removal_judge(const struct removal *r, uint64_t etcd_cluster_id,
                                   const struct etcd_txn_result *result)
{
    char start[NONCE_DIGITS + 1] = "";
    if (etcd_cluster_id && result->header.cluster_id != etcd_cluster_id)
        return REMOVAL_UNKNOWN;
    if (result->succeeded)
        return result->header.revision > 0 ? REMOVAL_DONE : REMOVAL_UNKNOWN;
    if (result->result_count != 2 || result->results[0].kind != ETCD_OP_RANGE ||
        result->results[1].kind != ETCD_OP_RANGE)
        return REMOVAL_UNKNOWN;
    const struct etcd_kv *record = found(&result->results[0]), *mark = found(&result->results[1]);
    if (mark)
        removal_decode_mark(mark->value, start);
    if (strcmp(start, r->start) == 0)
        return REMOVAL_DONE;
    if (!record)
        return REMOVAL_LEFT;
    /* the guard would have held, so this is no answer that makes sense */
    return record->create_revision == r->record_revision ? REMOVAL_UNKNOWN : REMOVAL_OTHER;
}

void removal_encode_mark(const char *start, struct buf *out)
{
    struct buf line = {0};
    field_put_str(&line, "start", start);
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
}

void removal_decode_mark(struct bytes value, char start[NONCE_DIGITS + 1])
{
    struct field_reader r = {.text = value};
    field_hex(&r, "start", start, NONCE_DIGITS);
    if (r.bad)
        start[0] = 0;
}
