/* Taking a member out by an operator's word: one txn that names one registration of it, by the
 * revision that made its record. Late or twice it finds another revision, or none, and does
 * nothing. Pure. */
#pragma once
#include "meta/core/fence.h"

/* `live/removed/<id>`: the start id of the process that was taken out. A process that finds its own
 * there leaves; one that starts later takes the mark away with its registration. */
struct removal {
    char id[ID_MAX + 1];
    char start[NONCE_DIGITS + 1];
    int64_t record_revision; /* create revision of its record */
    int64_t lease;           /* of its record; to be revoked afterwards */
};

/* Guard: the record is the same; then the mark, and neither record nor election key; else reads
 * record and mark. */
void removal_make(struct fence_txn *out, const char *prefix, const struct removal *r);

enum removal_verdict {
    REMOVAL_UNKNOWN, /* the answer settles nothing: send the same again */
    REMOVAL_DONE,    /* by this txn, or by one before it */
    REMOVAL_LEFT,    /* it is not listed any more, and was not removed: it left by itself */
    REMOVAL_OTHER,   /* another process has registered under this id since */
};
enum removal_verdict removal_judge(const struct removal *r, uint64_t etcd_cluster_id,
                                   const struct etcd_txn_result *result);

void removal_encode_mark(const char *start, struct buf *out);
/* "" for a mark that makes no sense. */
void removal_decode_mark(struct bytes value, char start[NONCE_DIGITS + 1]);
