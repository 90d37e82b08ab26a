/* How long the parts of a takeover took, from the moves of the election's state machines. */
#include "common/base/clock.h"
#include "meta/metrics.h"
#include "meta/metrics_rows.h"
#include <stdatomic.h>

/* When the parts of the takeover under way began, clock_mono_us; 0: not. */
static struct {
    int64_t read_us;              /* it may be first in line, and looks */
    int64_t first_us;             /* it is */
    int64_t txn_us;               /* the takeover was sent */
    int64_t won_us;               /* and applied */
    _Atomic int64_t activated_us; /* the state holds it; told by the replica */
} now;

static void observe_phase(const char *phase, int64_t from_us, int64_t to_us)
{
    if (from_us && to_us >= from_us)
        cell_observe(metric_cell(&meta_metrics[META_TAKEOVER_PHASES], phase),
                     (double)(to_us - from_us) / 1e6);
}

static void forget(void)
{
    now.read_us = now.first_us = now.txn_us = now.won_us = 0;
    atomic_store(&now.activated_us, 0);
}

/* A seat goes to and fro between READING and WAITING until it may take over, or straight to WAITING
 * where there is nothing to read, and back after a takeover that lost: the wait goes on. */
void meta_note_seat(enum seat to, const char *why)
{
    static const char *reason;
    int64_t now_us = clock_mono_us();
    if (to <= SEAT_QUEUED || to > SEAT_LEADING)
        forget();
    if (to == SEAT_READING && !now.read_us)
        now.read_us = now_us;
    if (to == SEAT_WAITING && !now.first_us)
        now.first_us = now.read_us ? now.read_us : now_us;
    if (to == SEAT_TAKING) {
        now.txn_us = now_us;
        reason = why;
    }
    if (to == SEAT_LEADING && now.txn_us) {
        now.won_us = now_us;
        cell_add(metric_cell(&meta_metrics[META_TAKEOVERS], reason), 1);
        observe_phase("wait", now.first_us, now.txn_us);
        observe_phase("txn", now.txn_us, now.won_us);
    }
}

void meta_note_activated(void)
{
    atomic_store(&now.activated_us, clock_mono_us());
}

void meta_note_published(enum role role)
{
    int64_t now_us = clock_mono_us(), activated_us = atomic_load(&now.activated_us);
    cell_add(metric_cell(&meta_metrics[META_ROLE_CHANGES], role_str(role)), 1);
    if (role != ROLE_LEADER)
        return;
    observe_phase("activation", now.won_us, activated_us);
    if (now.won_us)
        observe_phase("publish", activated_us, now_us);
    if (now.first_us)
        metric_observe(&meta_metrics[META_TAKEOVER_TIME], (double)(now_us - now.first_us) / 1e6);
}

void meta_count_step_down(const char *why)
{
    cell_add(metric_cell(&meta_metrics[META_STEP_DOWNS], why), 1);
}
