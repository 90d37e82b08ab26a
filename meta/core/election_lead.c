/* From a takeover that won to the end of that leadership. */
#include "common/base/check.h"
#include "meta/core/election_parts.h"
#include <stdio.h>

enum { MARGIN_MIN_MS = 100 };

void election_lead_begin(struct election *e, int64_t revision)
{
    const struct fence_takeover *t = &e->takeover;
    struct leadership *l = &e->leadership;
    *l = (struct leadership){.seat = t->seat,
                             .epoch = t->next.epoch,
                             .takeover_revision = revision,
                             .ttl_ms = t->next.ttl_ms,
                             .margin_ms = t->next.ttl_ms / 10,
                             .first_attempt_ms = e->takeover_first_ms};
    if (l->margin_ms < MARGIN_MIN_MS)
        l->margin_ms = MARGIN_MIN_MS;
    snprintf(l->nonce, sizeof l->nonce, "%s", t->next.nonce);
    snprintf(l->leader, sizeof l->leader, "%s", t->next.leader);
    record_bytes_encode(&l->takeover, &t->next);
    if (l->epoch > e->highest_epoch)
        e->highest_epoch = l->epoch;
    ask_drop(e);
    e->proof_ms = e->takeover_first_ms;
    e->settled = false;
    e->end_why = NULL;
    e->end_rests = false;
    e->give_way_ms = 0;
    election_move_seat(e, SEAT_LEADING, "its takeover won");
    election_move_role(e, ROLE_ACTIVATING, "its takeover won");
    election_act(e, ELECTION_LEAD)->leadership = l;
}

static const char leaves[] = "the member leaves";

static const char *why_end(const struct election *e)
{
    const struct leadership *l = &e->leadership;
    const struct record *seen = &e->seen.record;
    if (e->end_why)
        return e->end_why;
    if (e->held)
        return "etcd's state is not the one it knows";
    if (e->lease_lost)
        return "its lease is gone";
    if (e->key_gone)
        return "its key is gone";
    if (seen->epoch > l->epoch || (seen->epoch == l->epoch && strcmp(seen->nonce, l->nonce) != 0))
        return "another member leads";
    if (e->epoch_floor >= l->epoch) /* raised through another leader, who was deposed meanwhile */
        return "the epochs to come are above its own";
    if (e->now_ms - e->proof_ms >= l->ttl_ms)
        return "nothing was committed for a TTL";
    return e->draining ? leaves : NULL;
}

/* The gate is closed before anybody is told, and stays so, whatever becomes of what is told. */
static void step_down(struct election *e, const char *why)
{
    struct leadership *l = &e->leadership;
    election_act(e, ELECTION_CLOSE_GATE)->epoch = l->epoch;
    e->closed.epoch = l->epoch;
    memcpy(e->closed.nonce, l->nonce, sizeof e->closed.nonce);
    election_move_role(e, ROLE_STEPPING_DOWN, why);
    struct election_action *a = election_act(e, ELECTION_STEP_DOWN);
    a->epoch = l->epoch;
    a->why = why;
}

void election_lead_break_off(struct election *e, const char *why)
{
    if (e->role.state == ROLE_ACTIVATING || e->role.state == ROLE_LEADER)
        step_down(e, why);
}

/* Puts `released` unless the leadership is history already, and the key goes in the same txn: what
 * is still in flight fails for certain from then on. */
static void resign(struct election *e)
{
    e->release = (struct released){0};
    if (e->seen.record.epoch <= e->leadership.epoch)
        e->release = e->closed;
    election_move_seat(e, SEAT_LEAVING, "its gate is closed");
    seat_ask_release(e);
}

bool election_lead_advance(struct election *e)
{
    const char *why = NULL;
    switch ((enum role)e->role.state) {
    case ROLE_ACTIVATING:
    case ROLE_LEADER:
        why = why_end(e);
        if (!why)
            return false;
        /* who leaves in peace settles first what is in flight */
        e->resign_ms = e->now_ms;
        if (why == leaves || why == transfer_why)
            e->resign_ms += e->leadership.ttl_ms;
        if (e->end_rests)
            seat_rest(e);
        step_down(e, why);
        return true;
    case ROLE_STEPPING_DOWN:
        if (e->seat.state == SEAT_LEADING) {
            if (!e->settled && e->now_ms < e->resign_ms)
                return false;
            resign(e);
            return true;
        }
        if (!e->settled || e->seat.state == SEAT_LEAVING)
            return false;
        e->leadership.epoch = 0;
        election_move_role(e, ROLE_FOLLOWER, "its work has stopped");
        return true;
    case ROLE_FOLLOWER:
    case ROLE_CANDIDATE:
        break;
    }
    return false;
}

int64_t election_lead_next_ms(const struct election *e)
{
    if (e->role.state == ROLE_ACTIVATING || e->role.state == ROLE_LEADER)
        return e->proof_ms + e->leadership.ttl_ms;
    if (e->role.state == ROLE_STEPPING_DOWN && e->seat.state == SEAT_LEADING)
        return e->resign_ms;
    return INT64_MAX;
}
