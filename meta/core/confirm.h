/* Reads that want this leadership confirmed by an answer of etcd to something that was sent after
 * they arrived. They are known by tickets, given out in the order of arrival; no clock is looked
 * at. Pure; one thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { CONFIRM_ATTEMPTS = 64 }; /* remembered; an older one confirms nothing */

/* All zero to start; goes on from leadership to leadership. */
struct confirm {
    uint64_t done; /* every ticket up to it is confirmed */
    bool unproven; /* what was begun last ended without proving anything */
    struct confirm_sent {
        uint64_t attempt, ticket;
    } sent[CONFIRM_ATTEMPTS];
};

/* An attempt is about to be sent when tickets up to `asked` have been given out. */
void confirm_on_sent(struct confirm *c, uint64_t attempt, uint64_t asked);
/* etcd's answer to this attempt proves the leadership: `done` moves. */
void confirm_on_proof(struct confirm *c, uint64_t attempt, uint64_t asked);
/* What was begun is over; it proved the leadership, or not. */
void confirm_on_over(struct confirm *c, bool proved);

enum confirm_turn {
    CONFIRM_NOTHING,
    CONFIRM_BATCH, /* of what waits, or a heartbeat: it confirms, too */
    CONFIRM_PROBE,
};
/* Whose turn it is when nothing is in flight. Writes go before reads, whom their commit serves as
 * well; only when that proved nothing (etcd refused it) a probe comes between. So writes wait for
 * one probe at most, and reads for one commit. */
enum confirm_turn confirm_turn(const struct confirm *c, uint64_t asked, bool writes_wait,
                               bool heartbeat_due);
