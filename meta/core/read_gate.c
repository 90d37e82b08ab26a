#include "meta/core/read_gate.h"
#include "meta/core/bug.h"

void read_gate_open(struct read_gate *g, uint64_t epoch)
{
    if (epoch <= g->last)
        return;
    *g = (struct read_gate){.epoch = epoch, .last = epoch};
}

void read_gate_extend(struct read_gate *g, uint64_t epoch, int64_t deadline_ms)
{
    if (BUG(BUG_GATE_REOPENS) && !g->epoch && epoch == g->last)
        g->epoch = epoch;
    if (!g->epoch || g->epoch != epoch || deadline_ms <= g->deadline_ms)
        return;
    g->deadline_ms = deadline_ms;
}

void read_gate_close(struct read_gate *g, uint64_t epoch)
{
    if (epoch > g->last)
        g->last = epoch;
    if (g->epoch && g->epoch <= epoch) {
        g->epoch = 0;
        g->deadline_ms = 0;
    }
}

uint64_t read_gate_epoch(const struct read_gate *g, int64_t now_ms)
{
    return g->epoch && now_ms < g->deadline_ms ? g->epoch : 0;
}

int64_t read_gate_left_ms(const struct read_gate *g, int64_t now_ms)
{
    return read_gate_epoch(g, now_ms) ? g->deadline_ms - now_ms : 0;
}
