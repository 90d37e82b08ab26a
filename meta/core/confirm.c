#include "meta/core/confirm.h"
#include "meta/core/bug.h"

void confirm_on_sent(struct confirm *c, uint64_t attempt, uint64_t asked)
{
    c->sent[attempt % CONFIRM_ATTEMPTS] =
        (struct confirm_sent){.attempt = attempt, .ticket = asked};
}

void confirm_on_proof(struct confirm *c, uint64_t attempt, uint64_t asked)
{
    const struct confirm_sent *sent = &c->sent[attempt % CONFIRM_ATTEMPTS];
    uint64_t ticket = sent->attempt == attempt ? sent->ticket : 0;
    if (BUG(BUG_EARLY_PROBE))
        ticket = asked;
    if (ticket > c->done)
        c->done = ticket;
}

void confirm_on_over(struct confirm *c, bool proved)
{
    c->unproven = !proved;
}

enum confirm_turn confirm_turn(const struct confirm *c, uint64_t asked, bool writes_wait,
                               bool heartbeat_due)
{
    bool reads_wait = asked > c->done;
    if (reads_wait && c->unproven)
        return CONFIRM_PROBE;
    if (writes_wait || heartbeat_due)
        return CONFIRM_BATCH;
    return reads_wait ? CONFIRM_PROBE : CONFIRM_NOTHING;
}
