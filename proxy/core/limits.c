#include "proxy/core/limits.h"

void ramp_start(struct ramp *r)
{
    *r = (struct ramp){.window = RAMP_START, .active = true};
}

void ramp_sent(struct ramp *r)
{
    if (r->active)
        r->in_flight++;
}

void ramp_answered(struct ramp *r)
{
    if (!r->active)
        return;
    if (r->in_flight)
        r->in_flight--;
    r->window++;
}

void ramp_widen(struct ramp *r)
{
    if (r->active && r->window < RAMP_END)
        r->window *= 2;
}

void ramp_stop(struct ramp *r)
{
    r->active = false;
}

bool reset_guard_on_reset(struct reset_guard *g, int64_t age_ms)
{
    if (age_ms < RESET_QUICK_MS)
        g->quick_resets++;
    return g->quick_resets > RESET_BURST && g->quick_resets * 2 > g->opened;
}

bool frame_guard_on_frame(struct frame_guard *g, int64_t now_ms)
{
    if (g->second != now_ms / 1000) {
        g->second = now_ms / 1000;
        g->count = 0;
    }
    return ++g->count > IDLE_FRAMES_PER_SECOND;
}
