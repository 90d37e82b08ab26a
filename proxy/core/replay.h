/* The body of a request: what still has to be sent, and, as long as it is whole, everything that
 * was received, so that another attempt can start from the first byte. */
#pragma once
#include "common/base/buf.h"

/* Bytes that many buffers share; one worker thread. */
struct budget {
    size_t used, limit;
};

static inline bool budget_has(const struct budget *b, size_t more)
{
    return b->used + more <= b->limit;
}

struct replay {
    struct buf data;
    size_t sent;    /* of data, by the attempt in flight */
    size_t max;     /* bytes kept for a replay at most */
    size_t charged; /* taken from the budget */
    bool whole;     /* data starts at the first byte of the request */
    bool ended;     /* the client half-closed: nothing more comes */
    struct budget *budget;
};

/* Keeps the memory of an earlier use when there is some. budget is borrowed. */
void replay_init(struct replay *r, size_t max, struct budget *budget);
/* Appends what was received. Past max or the budget a buffer in flight stops being whole: what was
 * sent is dropped. One that waits (in_flight = false) keeps everything: the caller gives no credit
 * past replay_room. */
void replay_append(struct replay *r, struct bytes data, bool in_flight);
/* How many more bytes a waiting buffer may be given before it could not be replayed any more. */
size_t replay_room(const struct replay *r);
/* What is to be sent next. */
static inline struct bytes replay_unsent(const struct replay *r)
{
    return bytes_of(r->data.data + r->sent, r->data.len - r->sent);
}
/* len bytes left; they stay for a replay while the buffer is whole. */
void replay_sent(struct replay *r, size_t len);
void replay_rewind(struct replay *r); /* for another attempt; must be whole */
void replay_forget(struct replay *r); /* no replay any more: drops what was sent */
/* Gives the budget back; keeps at most keep bytes of memory for the next use. */
void replay_close(struct replay *r, size_t keep);
