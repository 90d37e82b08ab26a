/* What Baton writes into its keys, apart from the state itself. All values are one line of text:
 * "name=value name=value …", where spaces, '%' and control characters are written as %XX, so that
 * etcdctl shows them well. Decoding skips names it does not know and gives CORRUPT for what is
 * missing or senseless; encoding appends, and the same struct gives the same bytes. So who writes
 * anew what a later version wrote drops what that knew; only `cluster` has several writers, and
 * keeps it. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"

enum {
    ID_MAX = 64,       /* characters of a member id */
    NONCE_DIGITS = 32, /* of nonces, batch, instance and start ids: hexadecimal */
    ADDR_MAX = 299,    /* characters of an address */
    CLUSTER_ID_DIGITS = 32,
    STARTS_BYTES = 8 * (NONCE_DIGITS + 1), /* of the last start ids of one directory */
    HISTORY_KEPT = 1000,                   /* epochs before that of the last takeover */
    RECORD_BYTES_MAX = 1024,               /* of a commit record that is still understood */
    RECORD_TTL_MAX_MS = 3600000, /* a record that asks for a longer wait is not understood */
};

/* `state/commit`: fence, order, outcome and heartbeat at once. */
struct record {
    uint64_t epoch, seq; /* epoch >= 1; the takeover has seq 0 */
    char leader[ID_MAX + 1];
    char nonce[NONCE_DIGITS + 1]; /* of the leadership */
    char batch[NONCE_DIGITS + 1]; /* of this batch, heartbeat or takeover */
    int64_t ttl_ms; /* how long its writer may read at most, from when it was first sent */
    uint64_t
        events; /* changes of other keys in the same txn; a takeover does not count its history */
};
void record_encode(const struct record *r, struct buf *out);
struct err record_decode(struct bytes value, struct record *out);

/* The exact bytes of a record, as a plain value. len 0: no record. */
struct record_bytes {
    size_t len;
    uint8_t data[RECORD_BYTES_MAX];
};
static inline struct bytes record_view(const struct record_bytes *b)
{
    return bytes_of(b->data, b->len);
}
bool record_bytes_set(struct record_bytes *b, struct bytes value); /* false: longer than fits */
void record_bytes_encode(struct record_bytes *b, const struct record *r);

/* `state/history/<epoch>`: written by the takeover of that epoch; prev_* is the record it replaced.
 */
struct history {
    char leader[ID_MAX + 1];
    char addr[ADDR_MAX + 1];
    char nonce[NONCE_DIGITS + 1];
    int64_t started_unix_ms;
    char reason[80]; /* why the one before was replaced: first, released, restarted, leads-again,
                        silent */
    char prev_nonce[NONCE_DIGITS + 1]; /* "": there was none */
    uint64_t prev_seq;
    char prev_batch[NONCE_DIGITS + 1];
    int64_t prev_revision; /* mod_revision of that record */
};
void history_encode(const struct history *h, struct buf *out);
struct err history_decode(struct bytes value, struct history *out);

/* `live/released`: a leadership that certainly reads no more. epoch 0: none. */
struct released {
    uint64_t epoch;
    char nonce[NONCE_DIGITS + 1];
};
void released_encode(const struct released *r, struct buf *out);
struct err released_decode(struct bytes value, struct released *out);
/* Only with both equal: an epoch alone may have been led by somebody else after a restore. */
bool released_names(const struct released *released, const struct record *record);

/* `live/members/<id>` */
struct member_info {
    char id[ID_MAX + 1];
    char instance[NONCE_DIGITS + 1];                  /* of the data directory */
    char start[NONCE_DIGITS + 1];                     /* of the process */
    char addr[ADDR_MAX + 1], http_addr[ADDR_MAX + 1]; /* http_addr may be "" */
    char version[32];
    uint32_t format_min, format_max; /* levels spoken */
    int64_t started_unix_ms;
};
void member_info_encode(const struct member_info *m, struct buf *out);
struct err member_info_decode(struct bytes value, struct member_info *out);
