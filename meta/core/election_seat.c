/* What follows from the facts for the lease, the place in the queue and the takeover. */
#include "common/base/check.h"
#include "meta/core/bug.h"
#include "meta/core/election_parts.h"
#include <stdio.h>

/* ---- questions ---- */

static struct etcd_op a_range(struct bytes key)
{
    return (struct etcd_op){.kind = ETCD_OP_RANGE, .key = key};
}

/* A borrowed txn is owned by the question that it becomes. */
static void ask_txn(struct election *e, const struct etcd_txn *txn)
{
    struct fence_txn owned = {0};
    fence_txn_own(&owned, txn);
    ask_start_txn(e, &owned);
}

/* Puts a key that must not be there yet, under the lease; else reads it. */
static void ask_create(struct election *e, struct bytes key, struct bytes value)
{
    struct etcd_compare absent = {.target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = key};
    struct etcd_op put = {.kind = ETCD_OP_PUT, .key = key, .value = value, .lease = e->lease};
    struct etcd_op read = a_range(key);
    ask_txn(e, &(struct etcd_txn){.compares = &absent,
                                  .compare_count = 1,
                                  .success = &put,
                                  .success_count = 1,
                                  .failure = &read,
                                  .failure_count = 1});
}

/* Puts the member's record unless one is there or an operator has taken this very process out; the
 * mark of a former one goes with it. Else reads both. */
void seat_ask_registration(struct election *e)
{
    char room[KEY_MAX], mark_room[KEY_MAX];
    struct buf value = {0};
    struct bytes key = keys_member(room, e->cfg.prefix, e->cfg.self.id);
    struct bytes mark = keys_removed(mark_room, e->cfg.prefix, e->cfg.self.id);
    member_info_encode(&e->cfg.self, &value);
    struct etcd_compare free[] = {
        {.target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = key},
        {.target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = mark},
    };
    if (e->mark.len) {
        free[1].target = ETCD_VALUE;
        free[1].value = record_view(&e->mark);
    }
    struct etcd_op ops[] = {
        {.kind = ETCD_OP_PUT, .key = key, .value = buf_view(&value), .lease = e->lease},
        {.kind = ETCD_OP_DELETE, .key = mark}};
    struct etcd_op reads[] = {a_range(key), a_range(mark)};
    ask_txn(e, &(struct etcd_txn){.compares = free,
                                  .compare_count = 2,
                                  .success = ops,
                                  .success_count = e->mark.len ? 2 : 1,
                                  .failure = reads,
                                  .failure_count = 2});
    buf_close(&value);
}

/* Own key, `commit`, `released`, who is first in line, and `cluster`, at one revision. */
static void ask_look(struct election *e)
{
    char own[KEY_MAX], commit[KEY_MAX], released[KEY_MAX], line[KEY_MAX], cluster[KEY_MAX];
    struct buf end = {0};
    const char *prefix = e->cfg.prefix;
    struct etcd_op reads[] = {
        a_range(keys_election(own, prefix, e->lease)), a_range(keys_commit(commit, prefix)),
        a_range(keys_released(released, prefix)), a_range(keys_elections(line, prefix)),
        a_range(keys_cluster(cluster, prefix))};
    bytes_prefix_end(reads[3].key, &end);
    reads[3].range_end = buf_view(&end);
    reads[3].by_create = true;
    reads[3].limit = 1;
    ask_txn(e, &(struct etcd_txn){.success = reads, .success_count = 5});
    buf_close(&end);
}

void seat_ask_release(struct election *e)
{
    struct fence_txn txn = {0};
    if (transfer_ask_release(e))
        return;
    fence_make_release(&txn, e->cfg.prefix, e->lease, e->create_revision, &e->release);
    ask_start_txn(e, &txn);
}

/* ---- the wait ---- */

/* When the leader that wrote `commit` can certainly read no more. */
static int64_t wait_until_ms(const struct election *e)
{
    const struct record *old = &e->seen.record;
    if (!e->seen.bytes.len || BUG(BUG_NO_WAIT))
        return 0;
    if (released_names(&e->released, old) || released_names(&e->closed, old) ||
        released_names(&e->cfg.dead, old))
        return 0;
    return e->seen.since_ms + (BUG(BUG_OWN_TTL) ? e->ttl_ms : old->ttl_ms);
}

static const char *takeover_reason(const struct election *e)
{
    const struct record *old = &e->seen.record;
    if (!e->seen.bytes.len)
        return "first";
    if (released_names(&e->released, old))
        return "released";
    if (released_names(&e->closed, old))
        return "leads-again";
    if (released_names(&e->cfg.dead, old))
        return "restarted";
    return "silent";
}

/* ---- the takeover: built once, and the same for all its attempts ---- */

static void build_takeover(struct election *e)
{
    const struct record *old = &e->seen.record;
    const struct member_info *self = &e->cfg.self;
    struct fence_takeover *t = &e->takeover;
    bool first = !e->seen.bytes.len;
    *t = (struct fence_takeover){
        .old = e->seen.bytes,
        .cluster = e->cluster_bytes,
        .next = {.epoch = cluster_next_epoch(&e->cluster, first ? 0 : old->epoch),
                 .ttl_ms = e->ttl_ms},
        .history = {.started_unix_ms = e->now_ms + e->cfg.unix_minus_boot_ms}};
    t->seat.etcd_cluster_id = e->cfg.etcd_cluster_id;
    t->seat.lease = e->lease;
    t->seat.create_revision = e->create_revision;
    snprintf(t->seat.prefix, sizeof t->seat.prefix, "%s", e->cfg.prefix);
    rng_hex(&e->rng, t->next.nonce, NONCE_DIGITS);
    rng_hex(&e->rng, t->next.batch, NONCE_DIGITS);
    snprintf(t->next.leader, sizeof t->next.leader, "%s", self->id);
    snprintf(t->history.leader, sizeof t->history.leader, "%s", self->id);
    snprintf(t->history.addr, sizeof t->history.addr, "%s", self->addr);
    snprintf(t->history.nonce, sizeof t->history.nonce, "%s", t->next.nonce);
    snprintf(t->history.reason, sizeof t->history.reason, "%s", takeover_reason(e));
    if (first)
        return;
    snprintf(t->history.prev_nonce, sizeof t->history.prev_nonce, "%s", old->nonce);
    snprintf(t->history.prev_batch, sizeof t->history.prev_batch, "%s", old->batch);
    t->history.prev_seq = old->seq;
    t->history.prev_revision = e->seen.revision;
    if (bytes_equal(record_view(&e->read), record_view(&e->seen.bytes)))
        t->history.prev_revision = e->read_revision;
}

static void take_over(struct election *e)
{
    struct fence_txn txn = {0};
    struct election_action *tell;
    build_takeover(e);
    fence_make_takeover(&txn, &e->takeover);
    election_move_seat(e, SEAT_TAKING, takeover_reason(e));
    tell = election_act(e, ELECTION_TELL); /* before etcd can know of it */
    tell->lease = e->lease;
    tell->release.epoch = e->takeover.next.epoch;
    memcpy(tell->release.nonce, e->takeover.next.nonce, sizeof tell->release.nonce);
    e->takeover_first_ms = e->now_ms;
    ask_start_txn(e, &txn);
}

/* ---- moves ---- */

static const struct released NOTHING = {0};

void seat_tell_lease(struct election *e)
{
    election_act(e, ELECTION_TELL)->lease = e->lease;
}

static void leave_line(struct election *e)
{
    if (e->create_revision > e->left_revision)
        e->left_revision = e->create_revision;
    e->stray_revision = 0;
    e->create_revision = 0;
    e->view_revision = 0;
    e->first = e->key_gone = false;
    e->give_way_ms = 0;
    transfer_end(e);
}

void seat_step_out(struct election *e, const char *why)
{
    ask_drop(e);
    leave_line(e);
    e->conflict_until_ms = 0;
    election_move_seat(e, SEAT_OUT, why);
    if (e->role.state == ROLE_CANDIDATE)
        election_move_role(e, ROLE_FOLLOWER, why);
}

/* `closed`: what is known to read no more, and would not be told otherwise; epoch 0: nothing. */
static void leave_queue(struct election *e, const char *why, struct released closed)
{
    e->release = closed;
    election_move_seat(e, SEAT_LEAVING, why);
    if (e->role.state == ROLE_CANDIDATE)
        election_move_role(e, ROLE_FOLLOWER, why);
    seat_ask_release(e);
}

void seat_rest(struct election *e)
{
    e->rest_until_ms = e->now_ms + backoff_next_ms(&e->rest, &e->rng);
}

static void start_revoking(struct election *e)
{
    election_move_seat(e, SEAT_REVOKING, "the member leaves");
    if (e->role.state == ROLE_CANDIDATE)
        election_move_role(e, ROLE_FOLLOWER, "the member leaves");
    if (!e->leave_by_ms)
        e->leave_by_ms = e->now_ms + e->ttl_ms;
    election_act(e, ELECTION_KEEP)->lease = 0;
    ask_start_lease(e, CALL_REVOKE, e->lease);
}

static void start_granting(struct election *e)
{
    e->lease = (int64_t)(rng_next(&e->rng) >> 2) + 1;
    e->lease_lost = false;
    e->ttl_ms = e->cfg.ttl_ms;
    election_move_seat(e, SEAT_GRANTING, "it needs a lease");
    ask_start_lease(e, CALL_GRANT, e->lease);
}

static void start_queueing(struct election *e)
{
    char room[KEY_MAX];
    election_move_seat(e, SEAT_ENQUEUING, "it may stand");
    election_move_role(e, ROLE_CANDIDATE, "it may stand");
    ask_create(e, keys_election(room, e->cfg.prefix, e->lease), bytes_str(e->cfg.self.addr));
}

void seat_limit_wait(struct election *e)
{
    int64_t until_ms = wait_until_ms(e);
    if (e->first && e->seen.known && !e->give_way_ms)
        e->give_way_ms = (until_ms > e->now_ms ? until_ms : e->now_ms) + e->ttl_ms;
}

void seat_start_reading(struct election *e, const char *why)
{
    election_move_seat(e, SEAT_READING, why);
    seat_limit_wait(e);
    ask_look(e);
}

/* ---- what follows ---- */

static bool advance_none(struct election *e)
{
    if (e->draining) {
        if (e->role.state != ROLE_FOLLOWER)
            return false;
        election_move_seat(e, SEAT_GONE, "the member leaves");
        election_act(e, ELECTION_DRAINED);
        return true;
    }
    if (e->now_ms < e->rest_until_ms)
        return false;
    start_granting(e);
    return true;
}

/* Nothing hangs on a lease that is only asked for: should it be granted, it ends by itself. */
static bool advance_granting(struct election *e)
{
    if (!e->draining)
        return false;
    ask_drop(e);
    e->lease = 0;
    election_move_seat(e, SEAT_GONE, "the member leaves");
    election_act(e, ELECTION_DRAINED);
    return true;
}

static bool may_stand(const struct election *e)
{
    return e->caught_up && !e->held && level_is_spoken(e);
}

static bool advance_out(struct election *e)
{
    if (e->stray_revision && !e->draining) { /* its lease is kept: it would block the queue */
        e->create_revision = e->stray_revision;
        leave_queue(e, "a late attempt put its key again", NOTHING);
        return true;
    }
    if (e->role.state != ROLE_FOLLOWER) /* the leader's work has not stopped yet */
        return false;
    if (e->draining) {
        start_revoking(e);
        return true;
    }
    if (!may_stand(e) || e->now_ms < e->rest_until_ms)
        return false;
    start_queueing(e);
    return true;
}

/* While standing in the queue, whatever it waits for. */
static bool leaves_queue(struct election *e)
{
    if (e->draining)
        start_revoking(e); /* takes the key with it */
    else if (e->key_gone)
        seat_step_out(e, "its key is gone");
    else if (!e->caught_up)
        leave_queue(e, "its state fell behind", NOTHING);
    else if (e->held)
        leave_queue(e, "etcd's state is not the one it knows", NOTHING);
    else if (!level_is_spoken(e))
        leave_queue(e, "it does not speak the format level in use", NOTHING);
    else if (e->give_way_ms && e->now_ms >= e->give_way_ms) {
        seat_rest(e);
        leave_queue(e, "it could not take over in time", NOTHING);
    } else
        return false;
    return true;
}

/* The watch has told all that the takeover compares, and that nobody reads any more: reading it
 * once more would only take time. Should something of it be old, the takeover fails and all is read
 * then. */
static bool is_told(const struct election *e)
{
    return e->seen.revision && e->cluster_bytes.len && e->seen.bytes.len &&
           released_names(&e->released, &e->seen.record);
}

static bool advance_queued(struct election *e)
{
    if (leaves_queue(e))
        return true;
    if (e->first && is_told(e)) {
        election_move_seat(e, SEAT_WAITING, "it is first in line");
        seat_limit_wait(e);
    } else if (e->first)
        seat_start_reading(e, "it is first in line");
    else if (e->now_ms >= e->look_ms)
        seat_start_reading(e, "to be sure of its place");
    else
        return false;
    return true;
}

static bool advance_waiting(struct election *e)
{
    if (leaves_queue(e))
        return true;
    if (e->now_ms < wait_until_ms(e))
        return false;
    if (!e->read_since_seen && !is_told(e))
        seat_start_reading(e, "the commit record has changed");
    else
        take_over(e);
    return true;
}

/* An open takeover may apply at any time, so it is not left before etcd has answered, or time is
 * up. */
static bool advance_taking(struct election *e)
{
    if (e->now_ms < e->give_way_ms)
        return false;
    seat_rest(e);
    /* if it did apply, nothing was read under it and nothing will be */
    e->closed.epoch = e->takeover.next.epoch;
    memcpy(e->closed.nonce, e->takeover.next.nonce, sizeof e->closed.nonce);
    leave_queue(e, "the takeover was not answered in time", e->closed);
    return true;
}

static bool advance_leaving(struct election *e)
{
    if (!e->draining)
        return false;
    if (!e->leave_by_ms)
        e->leave_by_ms = e->now_ms + e->ttl_ms;
    if (e->now_ms < e->leave_by_ms)
        return false;
    seat_step_out(e, "etcd does not answer");
    return true;
}

static bool advance_revoking(struct election *e)
{
    if (e->now_ms < e->leave_by_ms)
        return false;
    ask_drop(e);
    election_move_seat(e, SEAT_GONE, "etcd does not answer");
    election_act(e, ELECTION_DRAINED);
    return true;
}

/* Without its lease the key is gone or soon will be; whether a takeover was in time, only etcd
 * knows. */
static bool drop_lost_lease(struct election *e)
{
    enum seat seat = (enum seat)e->seat.state;
    if (!e->lease_lost || seat < SEAT_REGISTERING || seat > SEAT_WAITING)
        return false;
    ask_drop(e);
    leave_line(e);
    e->lease = 0;
    e->lease_lost = false;
    election_act(e, ELECTION_KEEP)->lease = 0;
    seat_tell_lease(e);
    election_move_seat(e, SEAT_NONE, "its lease is gone");
    if (e->role.state == ROLE_CANDIDATE)
        election_move_role(e, ROLE_FOLLOWER, "its lease is gone");
    return true;
}

bool seat_advance(struct election *e)
{
    if (drop_lost_lease(e))
        return true;
    switch ((enum seat)e->seat.state) {
    case SEAT_NONE:
        return advance_none(e);
    case SEAT_GRANTING:
        return advance_granting(e);
    case SEAT_REGISTERING:
    case SEAT_EVICTING:
    case SEAT_ENQUEUING:
        if (e->draining)
            start_revoking(e);
        return e->draining;
    case SEAT_OUT:
        return advance_out(e);
    case SEAT_QUEUED:
        return advance_queued(e);
    case SEAT_READING:
        return leaves_queue(e);
    case SEAT_WAITING:
        return advance_waiting(e);
    case SEAT_TAKING:
        return advance_taking(e);
    case SEAT_LEAVING:
        return advance_leaving(e);
    case SEAT_REVOKING:
        return advance_revoking(e);
    case SEAT_LEADING:
    case SEAT_GONE:
    case SEATS:
        break;
    }
    return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* 0 is no time limit. */
static int64_t limit(int64_t ms)
{
    return ms ? ms : INT64_MAX;
}

int64_t seat_next_ms(const struct election *e)
{
    switch ((enum seat)e->seat.state) {
    case SEAT_NONE:
        return e->draining ? INT64_MAX : e->rest_until_ms;
    case SEAT_OUT:
        return may_stand(e) && e->role.state == ROLE_FOLLOWER ? e->rest_until_ms : INT64_MAX;
    case SEAT_QUEUED:
        return e->look_ms;
    case SEAT_WAITING:
        return earlier(wait_until_ms(e), limit(e->give_way_ms));
    case SEAT_READING:
    case SEAT_TAKING:
        return limit(e->give_way_ms);
    case SEAT_LEAVING:
    case SEAT_REVOKING:
        return limit(e->leave_by_ms);
    case SEAT_GRANTING:
    case SEAT_REGISTERING:
    case SEAT_EVICTING:
    case SEAT_ENQUEUING:
    case SEAT_LEADING:
    case SEAT_GONE:
    case SEATS:
        break;
    }
    return INT64_MAX;
}
