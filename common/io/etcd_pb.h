/* etcd's own encoding of a txn and of watches: for the etcd_pb files, the codec and the transport.
 * A message travels as a frame of gRPC: a zero byte, its length in four bytes, and itself. JSON
 * never starts with a zero byte, so a body says by itself what it is. */
#pragma once
#include "common/base/arena.h"
#include "common/io/etcd_codec.h"

enum { ETCD_FRAME_HEAD = 5 };

static inline bool etcd_is_frame(struct bytes body)
{
    return body.len >= ETCD_FRAME_HEAD && body.data[0] == 0;
}

/* The message of the first frame of body; *whole: how long the frame is in all. False: body holds
 * no whole frame yet, and *whole says how much it takes (0: not even that is known). */
bool etcd_frame_message(struct bytes body, struct bytes *message, size_t *whole);

/* As etcd_decode_txn and etcd_decode_watch, of one frame. */
struct err etcd_pb_decode_txn(struct bytes body, struct etcd_txn_result *out);
struct err etcd_pb_decode_watch(struct bytes body, struct etcd_watch_line *out);
struct etcd_header etcd_pb_decode_header(struct bytes body);
struct err etcd_why_canceled(const struct etcd_watch_line *l, const char *reason);

/* A request in frames as the JSON that etcd's gateway takes; false when path has no such requests
 * or the frames make no sense. */
bool etcd_pb_to_json(const char *path, struct bytes body, struct buf *out);
/* "/etcdserverpb.KV/Txn" for "/v3/kv/txn"; NULL: this request is only sent as JSON. */
const char *etcd_pb_method(const char *path);
