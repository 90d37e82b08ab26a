#include "proxy/core/replay.h"
#include "common/base/check.h"
#include <stdlib.h>

/* Sent bytes are moved out of the way only when they are many: each byte moves a bounded number of
 * times. */
#define COMPACT_BYTES (32u << 10)

static void charge(struct replay *r)
{
    r->budget->used += r->data.len - r->charged;
    r->charged = r->data.len;
}

void replay_init(struct replay *r, size_t max, struct budget *budget)
{
    r->data.len = 0;
    r->sent = 0;
    r->max = max;
    r->charged = 0;
    r->whole = true;
    r->ended = false;
    r->budget = budget;
}

static void drop_sent(struct replay *r)
{
    if (r->sent == r->data.len) {
        buf_clear(&r->data);
        r->sent = 0;
    } else if (r->sent >= COMPACT_BYTES && r->sent >= r->data.len / 2) {
        buf_consume(&r->data, r->sent);
        r->sent = 0;
    }
    charge(r);
}

size_t replay_room(const struct replay *r)
{
    size_t own = r->max > r->data.len ? r->max - r->data.len : 0;
    size_t shared = r->budget->limit > r->budget->used ? r->budget->limit - r->budget->used : 0;
    return own < shared ? own : shared;
}

void replay_append(struct replay *r, struct bytes data, bool in_flight)
{
    if (r->whole && in_flight && data.len > replay_room(r))
        replay_forget(r);
    buf_bytes(&r->data, data);
    charge(r);
}

void replay_sent(struct replay *r, size_t len)
{
    PRE(len <= r->data.len - r->sent);
    r->sent += len;
    if (!r->whole)
        drop_sent(r);
}

void replay_rewind(struct replay *r)
{
    PRE(r->whole);
    r->sent = 0;
}

void replay_forget(struct replay *r)
{
    r->whole = false;
    drop_sent(r);
}

void replay_close(struct replay *r, size_t keep)
{
    if (r->budget)
        r->budget->used -= r->charged;
    r->charged = 0;
    if (r->data.cap > keep)
        buf_close(&r->data);
    else
        buf_clear(&r->data);
    r->sent = 0;
}
