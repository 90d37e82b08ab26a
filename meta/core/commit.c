#include "meta/core/commit.h"
#include "common/base/backoff.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/core/bug.h"
#include <stdlib.h>

enum { LATENCIES = 64, ATTEMPT_GAP_MAX_MS = 600 };

enum phase {
    IDLE,
    TRYING,   /* attempts of the batch */
    SETTLING, /* etcd refused the batch, but an attempt of it may apply: attempts to settle it */
    PROBING,  /* a probe of its own */
};

struct attempt {
    uint64_t id; /* 0: the slot is free */
    enum commit_txn_kind kind;
    size_t endpoint;
    int64_t sent_ms;
    bool alone; /* when it was sent, nothing else of this place could still apply */
};

struct commit {
    struct leadership l;
    size_t endpoints, endpoint; /* endpoint: that of the last good answer */
    struct rng rng;
    struct backoff backoff;
    enum phase phase;
    bool stopped, ended;

    uint64_t seq; /* of place.last */
    struct fence_place place;
    struct fence_txn batch, settle, probe;
    bool heartbeat;
    int64_t batch_first_ms, settle_first_ms, last_sent_ms;

    struct attempt open[COMMIT_OPEN_MAX];
    uint64_t last_attempt; /* of all, ever */
    size_t tries;          /* of this place */
    size_t failures;       /* of this place, one after the other */
    bool lost; /* an attempt of the batch or of its settling may still apply, and will not answer */
    bool perhaps; /* the batch was answered with a refusal that does not exclude that it applied */
    bool probe_next;
    struct err refusal;
    int64_t next_ms;

    int64_t latencies[LATENCIES];
    size_t latency_count;
};

struct commit *commit_new(const struct leadership *l, size_t endpoints, uint64_t seed)
{
    PRE(endpoints > 0 && l->takeover.len);
    struct commit *c = mem_alloc(sizeof *c);
    c->l = *l;
    c->endpoints = endpoints;
    c->place.last = l->takeover;
    c->backoff = (struct backoff){.min_ms = 20, .max_ms = 500};
    rng_seed(&c->rng, seed);
    return c;
}

void commit_free(struct commit *c)
{
    if (!c)
        return;
    fence_txn_close(&c->batch);
    fence_txn_close(&c->settle);
    fence_txn_close(&c->probe);
    free(c);
}

/* ---- sending ---- */

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of so few samples the 99th percentile is the largest. */
static int64_t slowest_recent_ms(const struct commit *c)
{
    int64_t slowest = 0;
    for (size_t i = 0; i < LATENCIES; i++)
        slowest = max_i64(slowest, c->latencies[i]);
    return slowest;
}

/* From one attempt to the next: a little longer each time, so that the open ones do not run out. */
static int64_t gap_ms(const struct commit *c)
{
    int64_t gap = max_i64(COMMIT_ATTEMPT_MIN_MS, 4 * slowest_recent_ms(c));
    gap = max_i64(1, min_i64(gap, c->l.ttl_ms / 3));
    for (size_t i = 1; i < c->tries && gap < ATTEMPT_GAP_MAX_MS; i++)
        gap = min_i64(gap + gap / 2, ATTEMPT_GAP_MAX_MS);
    return gap;
}

static struct attempt *find_attempt(struct commit *c, uint64_t id)
{
    for (size_t i = 0; i < COMMIT_OPEN_MAX; i++)
        if (c->open[i].id == id)
            return &c->open[i];
    return NULL;
}

/* Whether the batch or its settling commit may still be applied by an attempt already made. */
static bool may_still_apply(const struct commit *c)
{
    for (size_t i = 0; i < COMMIT_OPEN_MAX; i++)
        if (c->open[i].id && c->open[i].kind != COMMIT_TXN_PROBE)
            return true;
    return c->lost;
}

static enum commit_txn_kind next_kind(const struct commit *c)
{
    if (c->phase == TRYING)
        return COMMIT_TXN_BATCH;
    if (c->phase == SETTLING && !c->probe_next && may_still_apply(c))
        return COMMIT_TXN_SETTLE;
    return COMMIT_TXN_PROBE;
}

static struct record next_record(struct commit *c, uint64_t events)
{
    struct record r = {
        .epoch = c->l.epoch, .seq = c->seq + 1, .ttl_ms = c->l.ttl_ms, .events = events};
    memcpy(r.leader, c->l.leader, sizeof r.leader);
    memcpy(r.nonce, c->l.nonce, sizeof r.nonce);
    rng_hex(&c->rng, r.batch, NONCE_DIGITS);
    return r;
}

static const struct etcd_txn *settle_txn(struct commit *c, int64_t now_ms)
{
    if (!c->settle.block) {
        struct record r = next_record(c, 0);
        record_bytes_encode(&c->place.settle, &r);
        fence_make_commit(&c->settle, &c->l, record_view(&c->place.last), &r, NULL, 0);
        c->settle_first_ms = now_ms;
    }
    return &c->settle.txn;
}

static const struct etcd_txn *probe_txn(struct commit *c)
{
    if (!c->probe.block)
        fence_make_probe(&c->probe, &c->l, record_view(&c->place.last));
    return &c->probe.txn;
}

static const struct etcd_txn *txn_of(struct commit *c, enum commit_txn_kind kind, int64_t now_ms)
{
    if (kind == COMMIT_TXN_BATCH)
        return &c->batch.txn;
    return kind == COMMIT_TXN_SETTLE ? settle_txn(c, now_ms) : probe_txn(c);
}

static void send_attempt(struct commit *c, int64_t now_ms, struct commit_effects *out)
{
    struct attempt *slot = find_attempt(c, 0);
    if (!slot) {
        c->next_ms = INT64_MAX; /* until one of them answers */
        return;
    }
    bool alone = !may_still_apply(c);
    enum commit_txn_kind kind = next_kind(c);
    *slot = (struct attempt){.id = ++c->last_attempt,
                             .kind = kind,
                             .endpoint = (c->endpoint + c->tries) % c->endpoints,
                             .sent_ms = now_ms,
                             .alone = alone};
    c->tries++;
    c->last_sent_ms = now_ms;
    c->next_ms = now_ms + gap_ms(c);
    out->send = true;
    out->attempt = (struct commit_send){.attempt = slot->id,
                                        .kind = kind,
                                        .txn = txn_of(c, kind, now_ms),
                                        .endpoint = slot->endpoint,
                                        .timeout_ms = COMMIT_CALL_TIMEOUT_MS};
}

/* At once on the endpoints not yet tried, then after a pause. */
static void try_again(struct commit *c, int64_t now_ms, struct commit_effects *out)
{
    if (++c->failures < c->endpoints)
        send_attempt(c, now_ms, out);
    else
        c->next_ms = now_ms + backoff_next_ms(&c->backoff, &c->rng);
}

/* ---- beginning ---- */

static bool may_share_place(const struct commit *c)
{
    return BUG(BUG_SHARED_SEQ) && c->phase == TRYING && c->heartbeat;
}

bool commit_may_begin(const struct commit *c)
{
    return !c->stopped && !c->ended && (c->phase == IDLE || may_share_place(c));
}

static void begin_place(struct commit *c, enum phase phase)
{
    memset(c->open, 0, sizeof c->open);
    c->phase = phase;
    c->tries = c->failures = 0;
    c->lost = c->perhaps = c->probe_next = false;
    c->refusal = OK_ERR;
    backoff_reset(&c->backoff);
}

void commit_begin(struct commit *c, const struct etcd_op *ops, size_t count, uint64_t events,
                  int64_t now_ms, struct commit_effects *out)
{
    *out = (struct commit_effects){0};
    PRE(commit_may_begin(c));
    struct record r;
    if (c->phase == TRYING) { /* only with BUG_SHARED_SEQ */
        struct err e = record_decode(record_view(&c->place.batch), &r);
        INVARIANT(!err_is(&e));
        fence_txn_close(&c->batch);
    } else {
        begin_place(c, TRYING);
        r = next_record(c, events);
        c->batch_first_ms = now_ms;
    }
    record_bytes_encode(&c->place.batch, &r);
    fence_make_commit(&c->batch, &c->l, record_view(&c->place.last), &r, ops, count);
    c->heartbeat = count == 0;
    send_attempt(c, now_ms, out);
}

void commit_begin_probe(struct commit *c, int64_t now_ms, struct commit_effects *out)
{
    *out = (struct commit_effects){0};
    PRE(commit_may_begin(c) && c->phase == IDLE);
    begin_place(c, PROBING);
    send_attempt(c, now_ms, out);
}

const struct record_bytes *commit_record(const struct commit *c)
{
    return &c->place.batch;
}

/* ---- outcomes ---- */

static void finish(struct commit *c, struct commit_outcome outcome, struct commit_effects *out)
{
    outcome.probe = c->phase == PROBING;
    out->done = true;
    out->outcome = outcome;
    c->phase = IDLE;
    c->place.batch.len = c->place.settle.len = 0;
    memset(c->open, 0, sizeof c->open);
    fence_txn_close(&c->batch);
    fence_txn_close(&c->settle);
    fence_txn_close(&c->probe);
}

static void finish_deposed(struct commit *c, enum commit_outcome_kind kind, struct err err,
                           int64_t revision, struct commit_effects *out)
{
    c->ended = true;
    finish(c, (struct commit_outcome){.kind = kind, .revision = revision, .err = err}, out);
}

/* The place is taken by `bytes`; the next one begins behind it. */
static void advance(struct commit *c, const struct record_bytes *bytes)
{
    c->place.last = *bytes;
    c->seq++;
}

static void prove(const struct attempt *a, struct commit_effects *out)
{
    out->proof_attempt = a->id;
    out->proof_ms = a->sent_ms;
}

static void finish_applied(struct commit *c, const struct attempt *a, int64_t revision,
                           struct commit_effects *out)
{
    int64_t renew_ms = BUG(BUG_LAST_ATTEMPT) ? c->last_sent_ms : c->batch_first_ms;
    prove(a, out);
    advance(c, &c->place.batch);
    finish(
        c,
        (struct commit_outcome){.kind = COMMIT_APPLIED, .revision = revision, .renew_ms = renew_ms},
        out);
}

static void finish_settled(struct commit *c, const struct attempt *a, struct commit_effects *out)
{
    prove(a, out);
    advance(c, &c->place.settle);
    finish(c,
           (struct commit_outcome){
               .kind = COMMIT_NEVER, .renew_ms = c->settle_first_ms, .err = c->refusal},
           out);
}

/* The guard holds. While attempts may still apply, that says nothing about the future. */
static void on_held(struct commit *c, const struct attempt *a, int64_t now_ms,
                    struct commit_effects *out)
{
    prove(a, out);
    if (c->phase == PROBING) {
        finish(c, (struct commit_outcome){.kind = COMMIT_APPLIED}, out);
    } else if (a->alone) {
        finish(c, (struct commit_outcome){.kind = COMMIT_NEVER, .err = c->refusal}, out);
    } else {
        c->probe_next = false;
        c->next_ms = now_ms + backoff_next_ms(&c->backoff, &c->rng);
    }
}

static void on_verdict(struct commit *c, const struct attempt *a, enum fence_verdict verdict,
                       int64_t revision, int64_t now_ms, struct commit_effects *out)
{
    struct err fenced = err_make(ERR_FENCED, "another member leads, or this one lost its key");
    switch (verdict) {
    case FENCE_UNKNOWN:
        c->lost |= a->kind != COMMIT_TXN_PROBE;
        c->next_ms = now_ms + backoff_next_ms(&c->backoff, &c->rng);
        break;
    case FENCE_HELD:
        on_held(c, a, now_ms, out);
        break;
    case FENCE_APPLIED:
        finish_applied(c, a, revision, out);
        break;
    case FENCE_APPLIED_DEPOSED:
        finish_deposed(c, COMMIT_APPLIED_DEPOSED, fenced, revision, out);
        break;
    case FENCE_SETTLED:
        finish_settled(c, a, out);
        break;
    case FENCE_NOT_APPLIED:
        finish_deposed(c, COMMIT_NOT_APPLIED, fenced, 0, out);
        break;
    case FENCE_DEPOSED:
        if (c->phase == PROBING)
            finish_deposed(c, COMMIT_NOT_APPLIED, fenced, 0, out);
        else
            finish_deposed(c, COMMIT_UNKNOWN,
                           err_make(ERR_OUTCOME_UNKNOWN, "another member leads, and its history "
                                                         "does not tell whether this applied"),
                           0, out);
        break;
    }
}

/* ---- answers ---- */

enum error_class {
    ERROR_LOST,    /* the attempt may still apply */
    ERROR_NOTHING, /* it certainly did nothing; worth trying again */
    ERROR_REFUSED, /* it certainly did nothing, and would not another time */
    ERROR_FULL,    /* no space: it applies no more, but may have (the write that fills the quota) */
};

static enum error_class classify(enum err_code code)
{
    switch ((int)code) {
    case ERR_UNREACHABLE:
    case ERR_OVERLOADED:
        return ERROR_NOTHING;
    case ERR_TOO_LARGE:
    case ERR_BAD_REQUEST:
    case ERR_DENIED:
    case ERR_KEY_NOT_FOUND:
    case ERR_IN_USE:
    case ERR_COMPACTED:
        return ERROR_REFUSED;
    case ERR_NO_SPACE:
        return ERROR_FULL;
    default:
        return ERROR_LOST;
    }
}

static void on_batch_refused(struct commit *c, const struct err *err, int64_t now_ms,
                             struct commit_effects *out)
{
    if (!err_is(&c->refusal))
        c->refusal = *err;
    if (BUG(BUG_LATER_ERROR) || (!may_still_apply(c) && !c->perhaps)) {
        finish(c, (struct commit_outcome){.kind = COMMIT_NEVER, .err = *err}, out);
        return;
    }
    if (c->phase == TRYING) {
        c->phase = SETTLING;
        c->failures = 0;
        send_attempt(c, now_ms, out);
    }
}

static void on_refused(struct commit *c, const struct attempt *a, const struct err *err,
                       int64_t now_ms, struct commit_effects *out)
{
    if (a->kind == COMMIT_TXN_BATCH) {
        on_batch_refused(c, err, now_ms, out);
    } else { /* whoever wants a probe would begin another one at once, so the pause is made here */
        c->probe_next = a->kind == COMMIT_TXN_SETTLE;
        c->next_ms = now_ms + backoff_next_ms(&c->backoff, &c->rng);
    }
}

static void on_error(struct commit *c, const struct attempt *a, const struct err *err,
                     int64_t now_ms, struct commit_effects *out)
{
    enum error_class class = classify(err->code);
    c->perhaps |= class == ERROR_FULL && a->kind != COMMIT_TXN_PROBE;
    c->lost |= class == ERROR_LOST && a->kind != COMMIT_TXN_PROBE;
    if (class == ERROR_REFUSED || class == ERROR_FULL)
        on_refused(c, a, err, now_ms, out);
    else if (a->id == c->last_attempt)
        try_again(c, now_ms, out);
}

static void on_result(struct commit *c, const struct attempt *a, const struct etcd_txn_result *r,
                      int64_t now_ms, struct commit_effects *out)
{
    int64_t revision;
    enum fence_verdict verdict =
        a->kind == COMMIT_TXN_PROBE
            ? fence_judge_probe(&c->l, &c->place, r, &revision)
            : fence_judge_commit(&c->l, &c->place, a->kind == COMMIT_TXN_SETTLE, r, &revision);
    if (verdict != FENCE_UNKNOWN) {
        c->endpoint = a->endpoint;
        c->latencies[c->latency_count++ % LATENCIES] = now_ms - a->sent_ms;
    }
    on_verdict(c, a, verdict, revision, now_ms, out);
}

void commit_on_answer(struct commit *c, uint64_t attempt, const struct err *err,
                      const struct etcd_txn_result *result, int64_t now_ms,
                      struct commit_effects *out)
{
    *out = (struct commit_effects){0};
    struct attempt *slot = attempt ? find_attempt(c, attempt) : NULL;
    if (!slot)
        return; /* of a place that is settled */
    struct attempt a = *slot;
    slot->id = 0;
    if (err_is(err))
        on_error(c, &a, err, now_ms, out);
    else
        on_result(c, &a, result, now_ms, out);
    if (c->phase != IDLE && c->next_ms == INT64_MAX) /* there was no free slot, but now there is */
        c->next_ms = now_ms;
}

void commit_on_tick(struct commit *c, int64_t now_ms, struct commit_effects *out)
{
    *out = (struct commit_effects){0};
    if (c->phase != IDLE && now_ms >= c->next_ms)
        send_attempt(c, now_ms, out);
}

int64_t commit_next_ms(const struct commit *c)
{
    return c->phase == IDLE ? INT64_MAX : c->next_ms;
}

void commit_stop(struct commit *c)
{
    c->stopped = true;
}

void commit_give_up(struct commit *c, struct commit_effects *out)
{
    *out = (struct commit_effects){0};
    c->stopped = c->ended = true;
    if (c->phase != IDLE)
        finish(c,
               (struct commit_outcome){
                   .kind = COMMIT_UNKNOWN,
                   .err = err_make(ERR_OUTCOME_UNKNOWN, "etcd did not answer in time")},
               out);
}
