/* etcd's bodies to plain structs and back. Pure: no I/O, no state, any thread. Encoders append to
 * `out`. Decoders give PROTOCOL for what they cannot read and then leave nothing to close. What is
 * hot (a txn, watches) is written in etcd's own encoding, and the client makes JSON of it where an
 * etcd is only reached through its JSON gateway; everything else is JSON. Decoders see by the first
 * byte which of both they have. */
#pragma once
#include "common/base/err.h"
#include "common/base/etcd_types.h"

#define ETCD_PATH_TXN "/v3/kv/txn"
#define ETCD_PATH_RANGE "/v3/kv/range"
#define ETCD_PATH_COMPACT "/v3/kv/compaction"
#define ETCD_PATH_LEASE_GRANT "/v3/lease/grant"
#define ETCD_PATH_LEASE_KEEPALIVE "/v3/lease/keepalive"
#define ETCD_PATH_LEASE_REVOKE "/v3/lease/revoke"
#define ETCD_PATH_WATCH "/v3/watch"
#define ETCD_PATH_STATUS "/v3/maintenance/status"
#define ETCD_PATH_AUTHENTICATE "/v3/auth/authenticate"

/* The end of the range of all keys that start with prefix; "\0" (to the last key) when there is
 * none. With an empty prefix the range's key must be "\0" too. Appends to out. */
void etcd_prefix_end(struct bytes prefix, struct buf *out);

void etcd_encode_txn(struct buf *out, const struct etcd_txn *txn);
void etcd_json_txn(struct buf *out, const struct etcd_txn *txn);
void etcd_encode_range(struct buf *out, const struct etcd_op *range); /* kind is RANGE */
void etcd_encode_compact(struct buf *out, int64_t revision);
void etcd_encode_lease_grant(struct buf *out, int64_t id, int64_t ttl_s);
void etcd_encode_lease(struct buf *out, int64_t id); /* keepalive, revoke */
void etcd_encode_status(struct buf *out);
void etcd_encode_authenticate(struct buf *out, const char *user, const char *password);

struct etcd_watch {
    struct bytes key, range_end; /* range_end empty: one key */
    int64_t watch_id;            /* > 0, chosen by the caller; lines carry it */
    int64_t start_revision;      /* 0: from now on */
    bool progress_notify, fragment;
};
/* Several watches on one request: their lines come mixed, told apart by watch_id. */
void etcd_encode_watches(struct buf *out, const struct etcd_watch *watches, size_t count);
void etcd_json_watches(struct buf *out, const struct etcd_watch *watches, size_t count);

/* Results own one block; the close functions free it and may be called on zeroed structs. */
struct err etcd_decode_txn(struct bytes body, struct etcd_txn_result *out);
void etcd_txn_result_close(struct etcd_txn_result *r);

struct etcd_range_result {
    struct etcd_header header;
    struct etcd_kv *kvs;
    size_t count;
    bool more;
    int64_t total; /* keys in the range, whatever the limit */
};
struct err etcd_decode_range(struct bytes body, struct etcd_range_result *out);
void etcd_range_result_close(struct etcd_range_result *r);

struct etcd_lease_result {
    struct etcd_header header;
    int64_t id;
    int64_t ttl_s; /* 0 or less, from a keepalive: the lease is lost */
};
struct err etcd_decode_lease(struct bytes body,
                             struct etcd_lease_result *out); /* grant, keepalive */

struct etcd_status {
    struct etcd_header header;
    char version[32];
    uint64_t leader; /* member id; 0: none known */
    int64_t db_bytes, db_in_use_bytes;
};
struct err etcd_decode_status(struct bytes body, struct etcd_status *out);

/* One message of a watch stream. Neither created nor canceled and without events: a progress
 * notice. */
struct etcd_watch_line {
    struct etcd_header header;
    int64_t watch_id;
    bool created, canceled;
    bool fragment;             /* the same transaction goes on in the next line of this watch */
    int64_t compact_revision;  /* canceled because the start revision was compacted; else 0 */
    struct etcd_event *events; /* the block */
    size_t event_count;
    struct err
        err; /* of this watch (canceled) or, without a header, of the whole stream; else OK */
};
struct err etcd_decode_watch(struct bytes line, struct etcd_watch_line *out);
void etcd_watch_line_close(struct etcd_watch_line *l);

/* The token of an answer to authenticate, into room; PROTOCOL also when it is longer than that. */
struct err etcd_decode_token(struct bytes body, struct etcd_header *header, char *room,
                             size_t size);

/* The header of any answer, without reading the rest where it stands in front; zero when there is
 * none. */
struct etcd_header etcd_decode_header(struct bytes body);

/* What an answer says has gone wrong: OK for HTTP 200 without an error object. *grpc_code: 0 when
 * unknown. The one place where etcd's message text decides, because its codes are too coarse. */
struct err etcd_decode_error(int http_status, struct bytes body, int *grpc_code);

/* The same for an answer of gRPC. */
struct err etcd_grpc_error(int grpc_code, const char *message);

/* Whether etcd refused a request for want of a valid token, or authenticating because it is off. */
bool etcd_err_wants_token(int grpc_code, const struct err *e);
bool etcd_err_means_no_auth(int grpc_code, const struct err *e);

/* True when this error of a request says that it certainly did not and will not take effect.
 * NO_SPACE does not: etcd answers it also to the write that passes the quota, after it has applied
 * it. */
bool etcd_err_settles(enum err_code code);
