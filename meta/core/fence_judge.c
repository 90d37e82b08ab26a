/* What etcd's answers mean. A doubt is never resolved in favour of an outcome. */
#include "common/base/check.h"
#include "meta/core/bug.h"
#include "meta/core/fence.h"

/* The reads of a failed guard; NULL: the key is not there. */
struct reads {
    const struct etcd_kv *own, *commit;
    const struct etcd_kv *third; /* of a commit `history/<epoch + 1>`, of a takeover `cluster` */
};

enum { READS = 3 };

static bool is_foreign(const struct candidacy *seat, const struct etcd_txn_result *r)
{
    return seat->etcd_cluster_id && r->header.cluster_id != seat->etcd_cluster_id;
}

/* False unless all of them are in the answer: `{}` is not a failed compare. */
static bool take_reads(const struct etcd_txn_result *r, struct reads *out)
{
    const struct etcd_kv **slots[READS] = {&out->own, &out->commit, &out->third};
    if (r->result_count != READS)
        return false;
    for (size_t i = 0; i < READS; i++) {
        const struct etcd_op_result *one = &r->results[i];
        if (one->kind != ETCD_OP_RANGE || one->count > 1)
            return false;
        *slots[i] = one->count ? one->kvs : NULL;
    }
    return true;
}

static bool is_held(const struct candidacy *seat, const struct reads *reads)
{
    return reads->own && reads->own->create_revision == seat->create_revision;
}

static bool holds(const struct etcd_kv *kv, const struct record_bytes *bytes)
{
    return bytes->len && kv && bytes_equal(kv->value, record_view(bytes));
}

/* `commit` holds nothing of the place: the successor's history says which record it replaced. */
static enum fence_verdict judge_history(const struct leadership *l, const struct fence_place *place,
                                        const struct etcd_kv *history, int64_t *revision)
{
    struct history h;
    struct record batch, settle = {0};
    struct err e = OK_ERR;
    if (!history || !place->batch.len)
        return FENCE_DEPOSED;
    e = history_decode(history->value, &h);
    if (err_is(&e) || strcmp(h.prev_nonce, l->nonce) != 0)
        return FENCE_DEPOSED;
    e = record_decode(record_view(&place->batch), &batch);
    INVARIANT(!err_is(&e));
    if (h.prev_seq < batch.seq)
        return FENCE_NOT_APPLIED;
    if (h.prev_seq > batch.seq)
        return place->settle.len ? FENCE_DEPOSED : FENCE_APPLIED_DEPOSED;
    if (strcmp(h.prev_batch, batch.batch) == 0) {
        *revision = h.prev_revision;
        return FENCE_APPLIED_DEPOSED;
    }
    if (place->settle.len)
        e = record_decode(record_view(&place->settle), &settle);
    INVARIANT(!err_is(&e));
    return strcmp(h.prev_batch, settle.batch) == 0 ? FENCE_NOT_APPLIED : FENCE_DEPOSED;
}

static enum fence_verdict judge_reads(const struct leadership *l, const struct fence_place *place,
                                      const struct reads *reads, int64_t *revision)
{
    bool held = is_held(&l->seat, reads);
    if (holds(reads->commit, &place->batch)) {
        *revision = reads->commit->mod_revision;
        return held ? FENCE_APPLIED : FENCE_APPLIED_DEPOSED;
    }
    if (holds(reads->commit, &place->settle)) {
        *revision = held ? reads->commit->mod_revision : 0;
        return held ? FENCE_SETTLED : FENCE_NOT_APPLIED;
    }
    if (holds(reads->commit, &place->last)) {
        if (held)
            return FENCE_UNKNOWN; /* then the guard would have held: no answer that makes sense */
        return place->batch.len ? FENCE_NOT_APPLIED : FENCE_DEPOSED;
    }
    return judge_history(l, place, reads->third, revision);
}

static enum fence_verdict judge_failed(const struct leadership *l, const struct fence_place *place,
                                       const struct etcd_txn_result *r, int64_t *revision)
{
    struct reads reads = {0};
    if (take_reads(r, &reads))
        return judge_reads(l, place, &reads, revision);
    return BUG(BUG_EMPTY_ANSWER) ? FENCE_NOT_APPLIED : FENCE_UNKNOWN;
}

enum fence_verdict fence_judge_commit(const struct leadership *l, const struct fence_place *place,
                                      bool of_settle, const struct etcd_txn_result *r,
                                      int64_t *revision)
{
    *revision = 0;
    if (is_foreign(&l->seat, r))
        return FENCE_UNKNOWN;
    if (!r->succeeded)
        return judge_failed(l, place, r, revision);
    if (r->header.revision <= 0)
        return FENCE_UNKNOWN;
    *revision = r->header.revision;
    return of_settle ? FENCE_SETTLED : FENCE_APPLIED;
}

enum fence_verdict fence_judge_probe(const struct leadership *l, const struct fence_place *place,
                                     const struct etcd_txn_result *r, int64_t *revision)
{
    *revision = 0;
    if (is_foreign(&l->seat, r))
        return FENCE_UNKNOWN;
    return r->succeeded ? FENCE_HELD : judge_failed(l, place, r, revision);
}

enum fence_takeover_verdict fence_judge_takeover(const struct fence_takeover *t,
                                                 const struct etcd_txn_result *r, int64_t *revision,
                                                 struct record_bytes *now)
{
    struct reads reads = {0};
    struct record_bytes mine;
    *revision = 0;
    now->len = 0;
    if (is_foreign(&t->seat, r))
        return TAKEOVER_UNKNOWN;
    if (r->succeeded) {
        *revision = r->header.revision;
        return *revision > 0 ? TAKEOVER_WON : TAKEOVER_UNKNOWN;
    }
    if (!take_reads(r, &reads))
        return BUG(BUG_EMPTY_ANSWER) ? TAKEOVER_LOST : TAKEOVER_UNKNOWN;
    record_bytes_encode(&mine, &t->next);
    if (holds(reads.commit, &mine)) {
        *revision = reads.commit->mod_revision;
        return TAKEOVER_WON;
    }
    bool held = is_held(&t->seat, &reads);
    if (reads.commit)
        record_bytes_set(now, reads.commit->value);
    if (!held)
        return TAKEOVER_NO_KEY;
    bool same = reads.third ? holds(reads.third, &t->cluster) : !t->cluster.len;
    if (!same)
        return TAKEOVER_LOST; /* what bounds the epoch has changed */
    if (!reads.commit && !t->old.len)
        return TAKEOVER_REGRESSED;
    return holds(reads.commit, &t->old) ? TAKEOVER_UNKNOWN : TAKEOVER_LOST;
}
