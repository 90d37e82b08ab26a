/* Messages of the key-value service <-> plain values. */
#pragma once
#include "client/core/txn_script.h"

#define KV_PATH_GET "/baton.v1.KvService/Get"
#define KV_PATH_RANGE "/baton.v1.KvService/Range"
#define KV_PATH_PUT "/baton.v1.KvService/Put"
#define KV_PATH_DELETE "/baton.v1.KvService/Delete"
#define KV_PATH_TXN "/baton.v1.KvService/Txn"

/* How fresh a read must be, see kv.proto. */
enum kv_consistency { KV_LEASE, KV_QUORUM, KV_STALE };
struct kv_freshness {
    enum kv_consistency consistency;
    int64_t min_revision; /* 0: any */
};

struct kv_range {
    struct bytes key, end; /* end empty: to the end of all keys */
    bool prefix;           /* instead of end: what starts with key */
    uint32_t limit;        /* 0: as the service likes */
    bool keys_only, count_only;
    struct kv_freshness freshness;
};

struct kv_item {
    struct bytes key, value;
    int64_t create_revision, mod_revision, version;
};

/* Of one operation of a transaction. */
struct kv_result {
    enum kv_op_kind kind;
    bool found; /* GET */
    struct kv_item item;
    uint64_t deleted; /* DELETE */
};

/* Any answer; its kind says which fields mean something. What they point to lives in the arena. */
struct kv_answer {
    int64_t revision;
    bool succeeded;        /* of a transaction */
    struct kv_item *items; /* Get: one or none; Range */
    size_t item_count;
    bool more; /* Range: go on at next_key */
    struct bytes next_key;
    uint64_t count; /* Range with count_only; Delete: how many */
    struct kv_result *results;
    size_t result_count;
};

/* Encoded messages replace what out held. */
void kv_encode_get(struct bytes key, struct kv_freshness freshness, struct buf *out);
void kv_encode_range(const struct kv_range *range, struct buf *out);
void kv_encode_put(struct bytes key, struct bytes value, struct buf *out);
void kv_encode_delete(struct bytes key, bool prefix, bool must_exist, struct buf *out);
void kv_encode_txn(const struct kv_txn *txn, struct buf *out);

/* PROTOCOL when the bytes are no such message. */
struct err kv_decode_get(struct bytes message, struct arena *memory, struct kv_answer *out);
struct err kv_decode_range(struct bytes message, struct arena *memory, struct kv_answer *out);
struct err kv_decode_put(struct bytes message, struct arena *memory, struct kv_answer *out);
struct err kv_decode_delete(struct bytes message, struct arena *memory, struct kv_answer *out);
struct err kv_decode_txn(struct bytes message, struct arena *memory, struct kv_answer *out);
