/* Small bounds with their rules: the ramp towards a new leader, and clients that open and reset
 * streams. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new leader is met with few parked calls; each answer lets one more go, so that their number
 * doubles with every round trip. */
struct ramp {
    unsigned window, in_flight;
    bool active;
};

#define RAMP_START 32
#define RAMP_END (1u << 20) /* no bound any more */

void ramp_start(struct ramp *r);
static inline bool ramp_allows(const struct ramp *r)
{
    return !r->active || r->in_flight < r->window;
}
void ramp_sent(struct ramp *r);
void ramp_answered(struct ramp *r); /* or ended otherwise */
void ramp_widen(struct ramp *r); /* now and then: calls that never answer must not block the rest */
void ramp_stop(struct ramp *r);  /* nobody is parked any more */

/* Rapid reset: over RESET_BURST streams reset within a second of opening, and over half of all that
 * the connection opened. Calls that were parked or overdue are not counted: their clients may well
 * give up. */
#define RESET_BURST 500
#define RESET_QUICK_MS 1000

struct reset_guard {
    uint64_t opened, quick_resets;
};

bool reset_guard_on_reset(struct reset_guard *g, int64_t age_ms); /* true: send the client away */

/* Frames that cost us and move nothing (PING, SETTINGS, empty DATA, PRIORITY), in each second. */
#define IDLE_FRAMES_PER_SECOND 1000
struct frame_guard {
    int64_t second;
    unsigned count;
};
bool frame_guard_on_frame(struct frame_guard *g, int64_t now_ms); /* true: send the client away */
