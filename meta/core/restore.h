/* Whether etcd's state went back behind what this member has seen of it, as after a restore from a
 * snapshot, and how a cluster goes on from there. Only an answer that raft has ordered convicts: a
 * plain read may come from an endpoint that lags behind. */
#pragma once
#include "meta/core/cluster.h"
#include "meta/core/fence.h"

/* The furthest that this member has seen of its cluster. All zero but for the first incarnation:
 * nothing yet. */
struct restore_mark {
    struct cluster cluster; /* as it was last accepted; no id: never */
    uint64_t etcd;          /* cluster id of etcd itself; 0: not known */
    uint64_t epoch, seq;    /* of the newest commit record; epoch 0: none */
    char nonce[NONCE_DIGITS + 1];
    int64_t revision; /* of etcd, the highest at which something was seen */
};
void restore_mark_init(struct restore_mark *m);
void restore_mark_encode(const struct restore_mark *m, struct buf *out); /* one line, as in etcd */
struct err restore_mark_decode(struct bytes line, struct restore_mark *out);

/* A record that etcd holds now or held before: moves the mark if it is newer. True when the mark
 * must be kept durably at once, because another leadership was seen; else lately is soon enough. */
bool restore_mark_see(struct restore_mark *m, const struct record *record, int64_t revision);

/* ---- looking ---- */

enum { RESTORE_LOOK_OPS = 4 };

struct restore_keys {
    char commit[KEY_MAX], cluster[KEY_MAX], same[KEY_MAX], next[KEY_MAX], end[KEY_MAX];
};
/* The reads that a verdict needs: `commit`, `cluster`, `history/<mark's epoch>` and the first entry
 * behind it. The ops show what is in *room. */
void restore_look_ops(struct etcd_op ops[RESTORE_LOOK_OPS], struct restore_keys *room,
                      const char *prefix, const struct restore_mark *m);
/* The same reads, ordered by raft: with a deletion that never finds anything. */
void restore_make_look(struct fence_txn *out, const char *prefix, const struct restore_mark *m);

/* What etcd holds, at one revision. */
struct restore_view {
    uint64_t etcd;
    int64_t revision;
    int64_t cluster_revision, record_revision; /* mod_revision; 0: the key is not there */
    struct err cluster_err, record_err;        /* CORRUPT: it is there and makes no sense */
    struct cluster cluster;
    struct record record;
    bool has_same, has_next;
    struct history same, next;
};
/* Takes the results of the reads, `first` being the place of the first one. PROTOCOL when some are
 * missing. */
struct err restore_view_take(struct restore_view *out, const struct etcd_txn_result *r,
                             size_t first);

enum restore_verdict {
    RESTORE_FINE,      /* it goes on from the mark */
    RESTORE_RECOVERED, /* another incarnation, above all that was seen: begins with what etcd holds
                        */
    RESTORE_APART,     /* likewise, because nobody knows any more: the history is too short */
    RESTORE_BACK,      /* it went back: *why says from where to where, and what to do */
};
enum restore_verdict restore_judge(const struct restore_mark *m, const struct restore_view *v,
                                   struct err *why);
/* What RECOVERED and APART mean for the mark. */
void restore_mark_begin(struct restore_mark *m, const struct restore_view *v);

/* ---- going on ---- */

struct restore_plan {
    uint64_t epoch_above, incarnation_above; /* the highest that anybody has seen */
    const char *member;                      /* who writes it */
    int64_t ttl_ms, now_unix_ms;
    char nonce[NONCE_DIGITS + 1], batch[NONCE_DIGITS + 1];
};
/* One txn: the next incarnation with its floor, and a commit record that nobody leads with, so that
 * each compare with a former one fails. Guard: `cluster` and `commit` as the view has them; else
 * the reads of a look. USAGE: the epoch is too high to go on from. */
struct err restore_make_recovery(struct fence_txn *out, const char *prefix,
                                 const struct restore_mark *m, const struct restore_view *v,
                                 const struct restore_plan *plan, struct cluster *written);
