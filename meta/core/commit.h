/* The one place in the order: a leadership's commits, one after the other, each settled before the
 * next begins. Pure; time and answers come in, txns to send and outcomes go out. Used by one
 * thread.
 *
 * A batch takes the place seq + 1 with its first attempt and keeps it, byte for byte, until etcd's
 * guard has answered. Attempts are short and go from endpoint to endpoint; a later one does not cut
 * an earlier one off. If etcd refuses a batch that may still apply, an empty commit on the same
 * compare settles it. */
#pragma once
#include "meta/core/fence.h"

enum {
    COMMIT_ATTEMPT_MIN_MS =
        300, /* after so long, or 4 x the recent p99, the next attempt is sent */
    COMMIT_CALL_TIMEOUT_MS = 8000, /* of one call; etcd's own answer may take 7 s */
    COMMIT_OPEN_MAX = 16,          /* attempts of one txn at the same time */
};

struct commit;

struct commit *commit_new(const struct leadership *l, size_t endpoints, uint64_t seed);
void commit_free(struct commit *c);

enum commit_outcome_kind {
    COMMIT_APPLIED,
    COMMIT_NEVER, /* refused for good, or settled away: certainly not and never; go on leading */
    /* Applied; step down. The local state may lack it: close the read gate before anybody hears. */
    COMMIT_APPLIED_DEPOSED,
    COMMIT_NOT_APPLIED, /* certainly not and never; step down */
    COMMIT_UNKNOWN,     /* step down (deposed without a trace), or given up */
};

/* The outcome of what was begun, exactly once. */
struct commit_outcome {
    enum commit_outcome_kind kind;
    bool probe;
    int64_t revision; /* where applied; 0 when etcd no longer tells it */
    /* First attempt of a commit that is now known applied: the read gate may be extended to
     * renew_ms + ttl - margin. 0: nothing that others could wait for was written (a probe, a
     * refusal). */
    int64_t renew_ms;
    struct err err; /* why, when not applied */
};

/* What an attempt is of: a batch has a settling commit when etcd refused it, and probes. */
enum commit_txn_kind { COMMIT_TXN_BATCH, COMMIT_TXN_SETTLE, COMMIT_TXN_PROBE };

struct commit_send {
    uint64_t attempt; /* > 0, never used twice; comes back with the answer */
    enum commit_txn_kind kind;
    const struct etcd_txn *txn; /* to be encoded before the next call of this module */
    size_t endpoint;
    int timeout_ms;
};

/* What to do now: perhaps send one attempt, perhaps take note of the outcome, and of a proof: this
 * leadership was certainly in force at some moment after proof_attempt was sent (at proof_ms), and
 * `commit` then held the last record of it that is known applied, the outcome's included. It comes
 * without an outcome, too, while a batch waits to be settled. 0: none. */
struct commit_effects {
    bool send, done;
    struct commit_send attempt;
    struct commit_outcome outcome;
    uint64_t proof_attempt;
    int64_t proof_ms;
};

/* Nothing is in flight and the leadership has not ended. */
bool commit_may_begin(const struct commit *c);
/* Needs commit_may_begin. Copies ops. `events` is how many changes of keys besides `commit` the ops
 * make. No ops: a heartbeat. */
void commit_begin(struct commit *c, const struct etcd_op *ops, size_t count, uint64_t events,
                  int64_t now_ms, struct commit_effects *out);
/* Takes its turn like a commit, but no place. */
void commit_begin_probe(struct commit *c, int64_t now_ms, struct commit_effects *out);
/* The record of the batch in flight, as it stands in `commit` once it is applied; len 0: none. */
const struct record_bytes *commit_record(const struct commit *c);

/* Exactly once for each attempt sent; the order does not matter and nothing breaks when one never
 * comes. err OK: `result` is what etcd answered, borrowed. */
void commit_on_answer(struct commit *c, uint64_t attempt, const struct err *err,
                      const struct etcd_txn_result *result, int64_t now_ms,
                      struct commit_effects *out);
/* At or after commit_next_ms. */
void commit_on_tick(struct commit *c, int64_t now_ms, struct commit_effects *out);
/* INT64_MAX: no tick is wanted. */
int64_t commit_next_ms(const struct commit *c);

/* The role ended: nothing new may begin, what is in flight goes on until it is settled. */
void commit_stop(struct commit *c);
/* Ends what is in flight with COMMIT_UNKNOWN. */
void commit_give_up(struct commit *c, struct commit_effects *out);
