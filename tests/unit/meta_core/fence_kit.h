/* What the tests of fence and commit have in common: a leadership, and answers as etcd gives them.
 */
#pragma once
#include "common/base/mem.h"
#include "meta/core/fence.h"
#include <stdio.h>

#define KIT_CLUSTER 99
#define KIT_PREFIX "/baton/t/"
#define KIT_NONCE "0123456789abcdef0123456789abcdef"
#define KIT_OTHER "ffffffffffffffffffffffffffffffff"

static inline struct record kit_record(uint64_t epoch, uint64_t seq, char batch)
{
    struct record r = {.epoch = epoch, .seq = seq, .ttl_ms = 5000};
    snprintf(r.leader, sizeof r.leader, "m1");
    snprintf(r.nonce, sizeof r.nonce, KIT_NONCE);
    memset(r.batch, batch, NONCE_DIGITS);
    return r;
}

static inline struct record_bytes kit_bytes(uint64_t epoch, uint64_t seq, char batch)
{
    struct record r = kit_record(epoch, seq, batch);
    struct record_bytes b;
    record_bytes_encode(&b, &r);
    return b;
}

static inline struct leadership kit_leadership(void)
{
    struct leadership l = {
        .seat = {.etcd_cluster_id = KIT_CLUSTER, .lease = 0xabc, .create_revision = 17},
        .epoch = 5,
        .takeover = kit_bytes(5, 0, 'a'),
        .takeover_revision = 20,
        .ttl_ms = 5000,
        .margin_ms = 500,
        .first_attempt_ms = 1000};
    snprintf(l.seat.prefix, sizeof l.seat.prefix, KIT_PREFIX);
    snprintf(l.nonce, sizeof l.nonce, KIT_NONCE);
    snprintf(l.leader, sizeof l.leader, "m1");
    return l;
}

/* An answer that owns nothing; it lives as long as its room. */
struct kit_answer {
    struct etcd_txn_result result;
    struct etcd_op_result reads[5];
    struct etcd_kv kvs[5];
};

static inline void kit_succeeded(struct kit_answer *a, int64_t revision)
{
    *a = (struct kit_answer){
        .result = {.header = {.cluster_id = KIT_CLUSTER, .revision = revision}, .succeeded = true}};
}

static inline void kit_failed(struct kit_answer *a, size_t reads)
{
    *a = (struct kit_answer){.result = {.header = {.cluster_id = KIT_CLUSTER, .revision = 50},
                                        .results = a->reads,
                                        .result_count = reads}};
    for (size_t i = 0; i < reads; i++)
        a->reads[i].kind = ETCD_OP_RANGE;
}

static inline void kit_found(struct kit_answer *a, size_t i, struct etcd_kv kv)
{
    a->kvs[i] = kv;
    a->reads[i].kvs = &a->kvs[i];
    a->reads[i].count = 1;
}
