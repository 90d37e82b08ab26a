/* The only maker of the guards of txns, and the only judge of what etcd answers to them. A
 * candidacy is known to etcd by the key of its lease and that key's create revision; a leadership
 * by the exact bytes that it wrote last into `commit`. */
#pragma once
#include "common/base/etcd_types.h"
#include "meta/core/keys.h"
#include "meta/core/record.h"

struct candidacy {
    char prefix[PREFIX_MAX];
    uint64_t etcd_cluster_id; /* answers of another etcd do not count; 0: any does */
    int64_t lease;
    int64_t create_revision; /* of the own election key */
};

/* What a won takeover hands to whoever commits. A plain value. */
struct leadership {
    struct candidacy seat;
    uint64_t epoch;
    char nonce[NONCE_DIGITS + 1];
    char leader[ID_MAX + 1];
    struct record_bytes takeover; /* the record now in `commit` */
    int64_t takeover_revision;
    int64_t ttl_ms, margin_ms; /* the read deadline: first attempt + ttl - margin */
    int64_t first_attempt_ms;  /* of the takeover, clock_boot_ms */
};

/* A txn that owns everything its slices show; all zero is none. */
struct fence_txn {
    struct etcd_txn txn;
    void *block;
};
void fence_txn_own(struct fence_txn *out, const struct etcd_txn *borrowed); /* copies everything */
void fence_txn_close(struct fence_txn *t);

/* ---- commits ---- */

/* Guard: own key still the same and `commit` exactly `last`; then ops (copied) and `next` into
 * `commit`; else reads own key, `commit`, `history/<epoch + 1>`. A settling commit has no ops. */
void fence_make_commit(struct fence_txn *out, const struct leadership *l, struct bytes last,
                       const struct record *next, const struct etcd_op *ops, size_t count);
/* The same guard and reads, and one deletion that never finds anything: asks through raft, writes
 * nothing. */
void fence_make_probe(struct fence_txn *out, const struct leadership *l, struct bytes last);

enum fence_verdict {
    FENCE_UNKNOWN, /* the answer settles nothing; ask again */
    FENCE_HELD,    /* of a probe: the guard held when etcd worked it off */
    FENCE_APPLIED,
    FENCE_APPLIED_DEPOSED, /* applied; the guard will not hold again */
    FENCE_SETTLED,         /* the settling commit took the place: the batch never applies */
    FENCE_NOT_APPLIED,     /* and never will be; deposed */
    FENCE_DEPOSED,         /* deposed, and what became of the batch cannot be told from this */
};

/* The place seq + 1 and who may take it. */
struct fence_place {
    struct record_bytes last, batch, settle; /* settle.len 0: no settling commit was sent */
};

/* A batch and its settling commit share their place, so an answer to either may settle both.
 * `of_settle`: the answer is to the settling commit. *revision: of the batch (or of the settling
 * commit when FENCE_SETTLED), where applied; 0 when not told. Answers that lack a read or come from
 * another etcd are FENCE_UNKNOWN. */
enum fence_verdict fence_judge_commit(const struct leadership *l, const struct fence_place *place,
                                      bool of_settle, const struct etcd_txn_result *r,
                                      int64_t *revision);
/* FENCE_HELD, or, when the guard failed, what the answer tells about the batch at `place`; where
 * there is none (batch.len 0), FENCE_DEPOSED. */
enum fence_verdict fence_judge_probe(const struct leadership *l, const struct fence_place *place,
                                     const struct etcd_txn_result *r, int64_t *revision);

/* ---- taking over and letting go ---- */

struct fence_takeover {
    struct candidacy seat;
    struct record_bytes old;     /* len 0: the first takeover of all */
    struct record_bytes cluster; /* the value of `cluster` that bounds the epoch; len 0: none */
    struct record next;
    struct history history;
};
/* Guard: own key, exactly `old` (first of all: neither `commit` nor anything below state/) and
 * exactly `cluster`; then `commit` and `history/<next.epoch>`; else reads own key, `commit` and
 * `cluster`. Deletes what history there is 1000 epochs back and before. */
void fence_make_takeover(struct fence_txn *out, const struct fence_takeover *t);

enum fence_takeover_verdict {
    TAKEOVER_UNKNOWN,   /* send the same again */
    TAKEOVER_WON,       /* *revision: of the takeover */
    TAKEOVER_LOST,      /* this txn never applies, or somebody came after it: *now holds what stands
                           there */
    TAKEOVER_NO_KEY,    /* likewise, and the own key is gone */
    TAKEOVER_REGRESSED, /* the state is there without `commit` */
};
enum fence_takeover_verdict fence_judge_takeover(const struct fence_takeover *t,
                                                 const struct etcd_txn_result *r, int64_t *revision,
                                                 struct record_bytes *now);

/* Puts `released` (NULL or epoch 0: does not) and deletes the own election key. For resigning, for
 * the guardian, and, without `released`, for leaving the queue. The read gate of that epoch is
 * closed before. With a create_revision only that key is deleted, so that a late copy of this txn
 * spares the next candidacy of the same lease; 0: whatever has the name. */
void fence_make_release(struct fence_txn *out, const char *prefix, int64_t lease,
                        int64_t create_revision, const struct released *released);
