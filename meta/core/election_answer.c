/* What etcd's answers tell the seat. */
#include "common/base/check.h"
#include "meta/core/election_parts.h"
#include "meta/core/removal.h"

enum { CONFLICT_SLACK_MS = 2000 };

static bool is_foreign(const struct election *e, const struct etcd_txn_result *r)
{
    return e->cfg.etcd_cluster_id && r->header.cluster_id != e->cfg.etcd_cluster_id;
}

/* Whoever answers a txn well brings its result. */
static const struct etcd_txn_result *result_of(const struct election_event *event)
{
    PRE(event->result);
    return event->result;
}

/* The i-th read of an answer; false when the answer lacks it. *kv is NULL when nothing is there. */
static bool take_read(const struct etcd_txn_result *r, size_t i, const struct etcd_kv **kv)
{
    if (i >= r->result_count || r->results[i].kind != ETCD_OP_RANGE)
        return false;
    *kv = r->results[i].count ? r->results[i].kvs : NULL;
    return true;
}

static void start_registering(struct election *e)
{
    election_move_seat(e, SEAT_REGISTERING, "it has a lease");
    seat_ask_registration(e);
}

static void on_granted(struct election *e, const struct election_event *event)
{
    int64_t asked_ms = (e->cfg.ttl_ms + 999) / 1000 * 1000;
    bool earlier = event->err.code == ERR_IN_USE; /* by an attempt whose answer was lost */
    if (err_is(&event->err) && !earlier) {
        ask_failed(e, event);
        return;
    }
    if (!earlier && event->ttl_ms <= 0) {
        ask_puzzled(e, "a grant without a TTL");
        return;
    }
    e->ttl_ms = earlier ? asked_ms : event->ttl_ms;
    if (e->ttl_ms != asked_ms)
        election_warn(e, err_make(ERR_USAGE, "etcd granted a TTL of %lld ms instead of %lld ms",
                                  (long long)e->ttl_ms, (long long)asked_ms));
    struct election_action *keep = election_act(e, ELECTION_KEEP);
    keep->lease = e->lease;
    keep->every_ms = e->ttl_ms / 4;
    seat_tell_lease(e);
    start_registering(e);
}

/* ---- the member's own record ---- */

/* It may be of a process that died a moment ago, whose lease still runs: only one that outlives its
 * lease is alive. */
static void on_conflict(struct election *e, const struct member_info *other)
{
    const struct member_info *self = &e->cfg.self;
    bool copy = strcmp(other->instance, self->instance) == 0;
    struct err err =
        err_make(ERR_IN_USE,
                 "member id %s is in use by the data directory %.8s at %s, and this one is %s%.8s "
                 "at %s: give one of them another id%s",
                 self->id, other->instance, other->addr, copy ? "its copy " : "", self->instance,
                 self->addr, copy ? " and an empty directory" : "");
    if (!e->conflict_until_ms)
        e->conflict_until_ms = e->now_ms + e->ttl_ms + CONFLICT_SLACK_MS;
    if (e->now_ms < e->conflict_until_ms)
        ask_puzzled(e, err.message);
    else
        election_fail(e, err);
}

/* That process is dead, so what it led can be released for it; nobody has to wait for its reads
 * then. */
static void evict(struct election *e, int64_t lease)
{
    struct fence_txn txn = {0};
    e->former_lease = lease;
    election_move_seat(e, SEAT_EVICTING, "its former process left a record");
    fence_make_release(&txn, e->cfg.prefix, lease, 0, &e->cfg.dead);
    ask_start_txn(e, &txn);
}

static bool is_former(const struct election *e, const struct member_info *info)
{
    return strcmp(info->instance, e->cfg.self.instance) == 0 &&
           strstr(e->cfg.former_starts, info->start) != NULL;
}

static void on_record_there(struct election *e, const struct etcd_kv *kv)
{
    struct member_info info;
    struct err err = member_info_decode(kv->value, &info);
    if (err_is(&err)) {
        election_fail(e, err);
    } else if (kv->lease == e->lease) {
        seat_step_out(e, "it is registered");
    } else if (is_former(e, &info) && kv->lease) {
        evict(e, kv->lease);
    } else {
        on_conflict(e, &info);
    }
}

/* The mark of an operator who took a member of this id out: false when it is of a former process,
 * and no news. */
static bool take_mark(struct election *e, const struct etcd_kv *mark)
{
    char start[NONCE_DIGITS + 1] = "";
    struct bytes value = mark ? mark->value : BYTES_NONE;
    removal_decode_mark(value, start);
    election_see_removed(e, start);
    if (e->draining)
        return true;
    if (bytes_equal(value, record_view(&e->mark)))
        return false;
    if (record_bytes_set(&e->mark, value))
        seat_ask_registration(e);
    else
        ask_puzzled(e, "the mark of a removal is too long");
    return true;
}

static void on_registered(struct election *e, const struct election_event *event)
{
    const struct etcd_kv *kv, *mark;
    if (event->err.code == ERR_KEY_NOT_FOUND)
        e->lease_lost = true;
    else if (err_is(&event->err))
        ask_failed(e, event);
    else if (result_of(event)->succeeded)
        seat_step_out(e, "it is registered");
    else if (!take_read(event->result, 0, &kv) || !take_read(event->result, 1, &mark))
        ask_puzzled(e, "an answer that lacks reads");
    else if (take_mark(e, mark))
        return;
    else if (kv)
        on_record_there(e, kv);
    else
        ask_puzzled(e, "an answer without the member's record");
}

static void on_evicted(struct election *e, const struct election_event *event)
{
    bool full = event->err.code == ERR_NO_SPACE && e->ask.kind == CALL_TXN;
    if (err_is(&event->err) && event->err.code != ERR_KEY_NOT_FOUND && !full)
        ask_failed(e, event);
    else if (e->ask.kind == CALL_TXN)
        ask_start_lease(e, CALL_REVOKE, e->former_lease);
    else
        start_registering(e);
}

/* ---- the queue ---- */

static void on_enqueued(struct election *e, const struct election_event *event)
{
    const struct etcd_kv *kv = NULL;
    if (event->err.code == ERR_KEY_NOT_FOUND) {
        e->lease_lost = true;
        return;
    }
    if (err_is(&event->err)) {
        ask_failed(e, event);
        return;
    }
    const struct etcd_txn_result *r = result_of(event);
    if (!r->succeeded)
        take_read(r, 0, &kv);
    int64_t revision = r->succeeded ? r->header.revision : kv ? kv->create_revision : 0;
    if (revision <= 0) {
        ask_puzzled(e, "an answer without the election key");
        return;
    }
    ask_drop(e);
    e->create_revision = revision;
    e->stray_revision = 0;
    e->look_ms = e->now_ms;
    election_move_seat(e, SEAT_QUEUED, "its key is there");
}

struct look {
    const struct etcd_kv *own, *commit, *released, *line, *cluster;
};

/* Without it there is no takeover: nobody knows which epochs it may have. */
static bool take_cluster(struct election *e, const struct etcd_kv *kv)
{
    e->cluster = (struct cluster){0};
    e->cluster_bytes.len = 0;
    if (!kv)
        return true;
    struct err err = cluster_decode(kv->value, &e->cluster);
    if (!err_is(&err) && !record_bytes_set(&e->cluster_bytes, kv->value))
        err = err_make(ERR_CORRUPT, "the cluster's value in etcd is too long");
    if (err_is(&err))
        ask_puzzled(e, err.message);
    return !err_is(&err);
}

static void take_look(struct election *e, const struct etcd_txn_result *r, const struct look *look)
{
    struct released released = {0};
    int64_t revision = r->header.revision;
    if (look->released)
        released_decode(look->released->value, &released); /* a bad one names nothing */
    election_see_released(e, revision, &released);
    election_view(e, revision, look->own ? look->own->create_revision : 0,
                  look->own && look->line && bytes_equal(look->own->key, look->line->key));
    struct sight sight = {.received_ms = e->now_ms};
    if (look->commit) {
        sight.value = look->commit->value;
        sight.revision = look->commit->mod_revision;
    }
    election_see(e, &sight, false);
    e->read_since_seen = true;
    e->read_revision = look->commit ? look->commit->mod_revision : 0;
    if (!look->commit || !record_bytes_set(&e->read, look->commit->value))
        e->read.len = 0;
}

static void on_look(struct election *e, const struct election_event *event)
{
    struct look look;
    if (err_is(&event->err)) {
        ask_failed(e, event);
        return;
    }
    const struct etcd_txn_result *r = result_of(event);
    if (!take_read(r, 0, &look.own) || !take_read(r, 1, &look.commit) ||
        !take_read(r, 2, &look.released) || !take_read(r, 3, &look.line) ||
        !take_read(r, 4, &look.cluster)) {
        ask_puzzled(e, "an answer that lacks reads");
        return;
    }
    if (!take_cluster(e, look.cluster))
        return;
    ask_drop(e);
    level_see(e, e->cluster.format);
    take_look(e, r, &look);
    if (e->seat.state == SEAT_GONE)
        return;
    if (e->first) {
        election_move_seat(e, SEAT_WAITING, "it is first in line");
        seat_limit_wait(e);
    } else {
        election_move_seat(e, SEAT_QUEUED, "others are before it");
        e->look_ms = e->now_ms + e->ttl_ms + (int64_t)rng_below(&e->rng, (uint64_t)e->ttl_ms);
    }
}

static void on_takeover(struct election *e, const struct election_event *event)
{
    int64_t revision;
    struct record_bytes now = {0};
    bool certain = event->call > e->seen.last_call;
    if (err_is(&event->err)) {
        ask_failed(e, event);
        return;
    }
    enum fence_takeover_verdict verdict =
        fence_judge_takeover(&e->takeover, event->result, &revision, &now);
    struct sight sight = {.value = record_view(&now), .received_ms = e->now_ms};
    switch (verdict) {
    case TAKEOVER_UNKNOWN:
        ask_puzzled(e, "an answer that settles nothing");
        break;
    case TAKEOVER_WON:
        election_lead_begin(e, revision);
        break;
    case TAKEOVER_LOST:
        ask_drop(e);
        seat_tell_lease(e);
        election_see(e, &sight, certain);
        if (e->seat.state == SEAT_TAKING)
            seat_start_reading(e, "the commit record has changed");
        break;
    case TAKEOVER_NO_KEY:
        seat_tell_lease(e);
        seat_step_out(e, "its key is gone");
        election_see(e, &sight, certain);
        break;
    case TAKEOVER_REGRESSED:
        seat_tell_lease(e);
        election_suspect(e, err_make(ERR_EPOCH_REGRESSION,
                                     "there is state under %sstate/ without its commit record",
                                     e->cfg.prefix));
        seat_start_reading(e, "the commit record is gone");
        break;
    }
}

/* ---- letting go ---- */

static void on_left(struct election *e, const struct election_event *event)
{
    if (event->err.code == ERR_NO_SPACE && e->release.epoch) {
        e->release.epoch = 0; /* the key can be deleted; the successor waits a TTL */
        seat_ask_release(e);
    } else if (event->err.code == ERR_TOO_LARGE && e->transfer.to.ahead_count) {
        e->transfer.to.ahead_count =
            0; /* this etcd takes fewer operations: the first in line leads */
        seat_ask_release(e);
    } else if (err_is(&event->err)) {
        ask_failed(e, event);
    } else {
        transfer_released(e, result_of(event));
        seat_tell_lease(e);
        seat_step_out(e, "its key is given up");
    }
}

static void on_revoked(struct election *e, const struct election_event *event)
{
    if (err_is(&event->err) && event->err.code != ERR_KEY_NOT_FOUND) {
        ask_failed(e, event);
        return;
    }
    ask_drop(e);
    e->lease = 0;
    seat_tell_lease(e);
    election_move_seat(e, SEAT_GONE, "its lease is given up");
    election_act(e, ELECTION_DRAINED);
}

void seat_on_answer(struct election *e, const struct election_event *event)
{
    if (!ask_takes(e, event))
        return;
    if (event->result && is_foreign(e, event->result)) {
        ask_puzzled(e, "the answer of another etcd cluster");
        return;
    }
    switch ((enum seat)e->seat.state) {
    case SEAT_GRANTING:
        on_granted(e, event);
        break;
    case SEAT_REGISTERING:
        on_registered(e, event);
        break;
    case SEAT_EVICTING:
        on_evicted(e, event);
        break;
    case SEAT_ENQUEUING:
        on_enqueued(e, event);
        break;
    case SEAT_READING:
        on_look(e, event);
        break;
    case SEAT_TAKING:
        on_takeover(e, event);
        break;
    case SEAT_LEAVING:
        on_left(e, event);
        break;
    case SEAT_REVOKING:
        on_revoked(e, event);
        break;
    case SEAT_LEADING:
        level_on_answer(e, event);
        break;
    case SEAT_NONE:
    case SEAT_OUT:
    case SEAT_QUEUED:
    case SEAT_WAITING:
    case SEAT_GONE:
    case SEATS:
        ask_drop(e); /* nothing is asked in these */
        break;
    }
}
