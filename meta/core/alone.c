#include "meta/core/alone.h"
#include <stdio.h>
#include <string.h>

static void take_text(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text);
}

void alone_take_over(struct alone_takeover *out, const struct cluster *cluster,
                     const struct record *old, int64_t old_revision, const struct member_info *self,
                     const char *reason, struct rng *rng)
{
    *out = (struct alone_takeover){
        .next = {.epoch = cluster_next_epoch(cluster, old->epoch), .ttl_ms = ALONE_RECORD_TTL_MS}};
    struct record *next = &out->next;
    struct history *history = &out->history;
    rng_hex(rng, next->nonce, NONCE_DIGITS);
    rng_hex(rng, next->batch, NONCE_DIGITS);
    take_text(next->leader, sizeof next->leader, self->id);
    take_text(history->leader, sizeof history->leader, self->id);
    take_text(history->addr, sizeof history->addr, self->addr);
    take_text(history->nonce, sizeof history->nonce, next->nonce);
    take_text(history->reason, sizeof history->reason, old->epoch ? reason : "first");
    if (!old->epoch)
        return;
    take_text(history->prev_nonce, sizeof history->prev_nonce, old->nonce);
    take_text(history->prev_batch, sizeof history->prev_batch, old->batch);
    history->prev_seq = old->seq;
    history->prev_revision = old_revision;
}

struct record alone_next(const struct record *last, uint64_t events, struct rng *rng)
{
    struct record next = *last;
    next.seq++;
    next.events = events;
    rng_hex(rng, next.batch, NONCE_DIGITS);
    return next;
}
