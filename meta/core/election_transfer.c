/* Handing over on purpose: the leadership ends as when the member leaves, but the txn that resigns
 * also makes way for the target. */
#include "meta/core/election_parts.h"

const char transfer_why[] = "it is handed over";

static void answer(struct election *e, uint64_t ticket, struct err err, int64_t first)
{
    struct election_action *a = election_act(e, ELECTION_TRANSFERRED);
    a->ticket = ticket;
    a->epoch = e->leadership.epoch;
    a->err = err;
    a->lease = first;
}

static struct err why_not(const struct election *e, const struct election_event *event)
{
    if (e->transfer.ticket)
        return err_make(ERR_IN_TRANSFER, "the leadership is being handed over to member %s already",
                        e->transfer.to.target);
    if (e->draining)
        return err_make(ERR_DRAINING, "member %s is leaving, and hands over by itself",
                        e->cfg.self.id);
    if (e->role.state != ROLE_LEADER || event->epoch != e->leadership.epoch || e->end_why)
        return err_make(ERR_NOT_LEADER, "member %s leads no more", e->cfg.self.id);
    return OK_ERR;
}

void transfer_ask(struct election *e, const struct election_event *event)
{
    struct err err = why_not(e, event);
    if (err_is(&err)) {
        answer(e, event->ticket, err, 0);
        return;
    }
    e->transfer.ticket = event->ticket;
    e->transfer.to = event->handover;
    e->transfer.until_ms = e->now_ms + 2 * e->leadership.ttl_ms;
    e->end_why = transfer_why;
}

bool transfer_ask_release(struct election *e)
{
    struct fence_txn txn = {0};
    if (!e->transfer.to.target[0])
        return false;
    handover_make(&txn, e->cfg.prefix, e->lease, e->create_revision, &e->release, &e->transfer.to);
    ask_start_txn(e, &txn);
    return true;
}

static void finish(struct election *e, struct err err, int64_t first)
{
    if (e->transfer.ticket)
        answer(e, e->transfer.ticket, err, first);
    e->transfer.ticket = 0;
}

/* After a failed compare it is not known: the key went before, or an attempt whose answer was lost
 * has applied. */
void transfer_released(struct election *e, const struct etcd_txn_result *r)
{
    if (e->transfer.to.target[0] && r->succeeded)
        finish(e, OK_ERR, handover_first(e->cfg.prefix, r));
}

void transfer_end(struct election *e)
{
    finish(e,
           err_make(ERR_OUTCOME_UNKNOWN,
                    "whether the leadership has gone to member %s is not known: look who leads",
                    e->transfer.to.target),
           0);
    e->transfer.to = (struct handover){0};
}

/* Whoever asked is not kept waiting for an etcd that does not answer; the work goes on. */
void transfer_tick(struct election *e)
{
    if (e->transfer.ticket && e->now_ms >= e->transfer.until_ms)
        finish(e,
               err_make(ERR_OUTCOME_UNKNOWN,
                        "etcd does not answer: whether the leadership has gone to member %s is not "
                        "known",
                        e->transfer.to.target),
               0);
}

int64_t transfer_next_ms(const struct election *e)
{
    return e->transfer.ticket ? e->transfer.until_ms : INT64_MAX;
}
