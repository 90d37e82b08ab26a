/* Messages of the key-value service <-> the library's values. */
#pragma once
#include "client/include/baton/baton.h"
#include "common/base/arena.h"
#include "common/base/err.h"

#define KV_PATH_GET "/baton.v1.KvService/Get"
#define KV_PATH_RANGE "/baton.v1.KvService/Range"
#define KV_PATH_PUT "/baton.v1.KvService/Put"
#define KV_PATH_DELETE "/baton.v1.KvService/Delete"
#define KV_PATH_TXN "/baton.v1.KvService/Txn"

/* Encoded messages replace what out held. read may be NULL. Enumerators are in range. */
void kv_encode_get(struct baton_bytes key, const struct baton_read *read, struct buf *out);
void kv_encode_range(const struct baton_range *range, const struct baton_read *read,
                     struct buf *out);
void kv_encode_put(struct baton_bytes key, struct baton_bytes value, struct buf *out);
void kv_encode_delete(struct baton_bytes key, bool prefix, struct buf *out);
void kv_encode_txn(const struct baton_txn *txn, struct buf *out);

/* PROTOCOL when the bytes are no such message. What they point to lives in the arena. */
struct err kv_decode_get(struct bytes message, struct arena *memory, struct baton_kvs *out);
struct err kv_decode_range(struct bytes message, struct arena *memory, struct baton_kvs *out);
struct err kv_decode_put(struct bytes message, struct arena *memory, struct baton_kvs *out);
struct err kv_decode_delete(struct bytes message, struct arena *memory, struct baton_kvs *out);
struct err kv_decode_txn(struct bytes message, struct arena *memory, struct baton_txn_result *out);
