#include "common/base/check.h"
#include "meta/core/election_parts.h"

enum { ASK_GAP_MS = 300, ASK_GAP_MAX_MS = 1000, ASK_TIMEOUT_MS = 8000 };

static int64_t gap_ms(const struct election *e)
{
    int64_t gap = e->ttl_ms / 3 < ASK_GAP_MS ? e->ttl_ms / 3 : ASK_GAP_MS;
    for (size_t i = 1; i < e->ask.tries && gap < ASK_GAP_MAX_MS; i++)
        gap += gap / 2;
    return gap < ASK_GAP_MAX_MS ? gap : ASK_GAP_MAX_MS;
}

static void send_attempt(struct election *e)
{
    struct ask *ask = &e->ask;
    struct election_action *a = election_act(e, ELECTION_CALL);
    ask->last = ++e->last_call;
    if (!ask->first)
        ask->first = ask->last;
    a->call = (struct election_call){.id = ask->last,
                                     .kind = ask->kind,
                                     .txn = ask->kind == CALL_TXN ? &ask->txn.txn : NULL,
                                     .lease = ask->lease,
                                     .ttl_s = (e->cfg.ttl_ms + 999) / 1000,
                                     .endpoint = (e->endpoint + ask->tries) % e->cfg.endpoints,
                                     .timeout_ms = ASK_TIMEOUT_MS};
    ask->tries++;
    ask->next_ms = e->now_ms + gap_ms(e);
}

static void start(struct election *e, struct ask ask)
{
    ask_drop(e);
    e->ask = ask;
    e->ask.active = true;
    backoff_reset(&e->retry);
    send_attempt(e);
}

void ask_start_txn(struct election *e, struct fence_txn *txn)
{
    start(e, (struct ask){.kind = CALL_TXN, .txn = *txn});
    *txn = (struct fence_txn){0};
}

void ask_start_lease(struct election *e, enum election_call_kind kind, int64_t lease)
{
    start(e, (struct ask){.kind = kind, .lease = lease});
}

/* Attempts of this step that nobody has sent yet are not sent. */
static void unsend(struct election *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->out->count; i++)
        if (e->out->actions[i].kind != ELECTION_CALL)
            e->out->actions[kept++] = e->out->actions[i];
    e->out->count = kept;
}

void ask_drop(struct election *e)
{
    if (e->out && e->ask.active)
        unsend(e);
    fence_txn_close(&e->ask.txn);
    e->ask = (struct ask){0};
}

bool ask_takes(struct election *e, const struct election_event *event)
{
    const struct ask *ask = &e->ask;
    if (!ask->active || event->call < ask->first || event->call > ask->last)
        return false;
    if (!err_is(&event->err)) /* the endpoints follow the attempts in order */
        e->endpoint = (e->endpoint + (size_t)(event->call - ask->first)) % e->cfg.endpoints;
    return true;
}

static void try_later(struct election *e)
{
    e->ask.next_ms = e->now_ms + backoff_next_ms(&e->retry, &e->rng);
}

void ask_failed(struct election *e, const struct election_event *event)
{
    election_warn(e, err_wrap(event->err, "%s", sm_str(&e->seat)));
    if (event->call != e->ask.last)
        return; /* a later attempt is under way */
    if (e->ask.tries < e->cfg.endpoints)
        send_attempt(e);
    else
        try_later(e);
}

void ask_puzzled(struct election *e, const char *what)
{
    election_warn(e, err_make(ERR_PROTOCOL, "%s: %s", sm_str(&e->seat), what));
    try_later(e);
}

void ask_tick(struct election *e)
{
    if (e->ask.active && e->now_ms >= e->ask.next_ms)
        send_attempt(e);
}
