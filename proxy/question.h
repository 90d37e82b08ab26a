/* The proxy's own RPCs to a member: WatchLeader and ListMembers, as streams on a connection that is
 * there anyway. */
#pragma once
#include "proxy/uplink.h"

struct question {
    struct up_stream up; /* first: the two are cast into each other */
    struct target *target;
    const struct question_kind *kind;
    struct buf in; /* a message that is not complete yet */
    size_t sent;
    unsigned heard;   /* messages on this stream */
    int64_t last_ms;  /* when the last message came */
    int64_t ended_ms; /* when the last stream ended */
};

void question_init_watch(struct question *q, struct target *t);
void question_init_list(struct question *q, struct target *t);
static inline bool question_is_open(const struct question *q)
{
    return q->up.link != NULL;
}
void question_ask(struct question *q, struct uplink *l);
void question_close(struct question *q); /* its stream must be over or go with the connection */
