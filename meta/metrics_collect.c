#include "meta/metrics_collect.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/fanout.h"
#include "meta/follow.h"
#include "meta/live.h"
#include "meta/metrics.h"
#include "meta/metrics_rows.h"
#include "meta/replica.h"
#include "meta/store.h"
#include "meta/workforce.h"
#include <stdatomic.h>
#include <stdlib.h>

static void set(enum meta_metric m, double value)
{
    metric_set(&meta_metrics[m], value);
}

/* ---- what is noted, to be shown as of the moment of the question ---- */

static _Atomic int64_t lease_ttl_ms, lease_kept_ms, seen_revision;

void meta_note_lease(int64_t ttl_ms)
{
    atomic_store(&lease_kept_ms, clock_boot_ms());
    atomic_store(&lease_ttl_ms, ttl_ms);
}

void meta_note_seen_revision(int64_t revision)
{
    atomic_store(&seen_revision, revision);
}

static double seconds_since(int64_t then_ms)
{
    int64_t spent_ms = clock_boot_ms() - then_ms;
    return spent_ms > 0 ? (double)spent_ms / 1e3 : 0;
}

static void collect_lease(void)
{
    int64_t ttl_ms = atomic_load(&lease_ttl_ms);
    set(META_LEASE_TTL, (double)ttl_ms / 1e3);
    set(META_LEASE_AGE, ttl_ms ? seconds_since(atomic_load(&lease_kept_ms)) : 0);
}

/* ---- the parts of the member ---- */

static void collect_board(struct board *board, const struct board_self *self)
{
    struct board_leader leader;
    board_leader(board, &leader);
    for (int i = ROLE_FOLLOWER; i <= ROLE_STEPPING_DOWN; i++)
        cell_set(metric_cell(&meta_metrics[META_ROLE], role_str((enum role)i)),
                 (int)self->role == i);
    set(META_LEADER_KNOWN, leader.known);
    set(META_EPOCH, (double)leader.epoch);
    set(META_DRAINING, self->draining);
    struct err refused = board_refused(board);
    set(META_STATE_REFUSED, err_is(&refused));
    set(META_READ_DEADLINE, self->deadline_left_ms > 0 ? (double)self->deadline_left_ms / 1e3 : 0);
    set(META_APPLIED, (double)self->applied);
    int64_t lag = atomic_load(&seen_revision) - self->applied;
    set(META_LAG, lag > 0 ? (double)lag : 0);
    set(META_RECORD_AGE, self->role == ROLE_LEADER ? 0 : (double)leader.age_ms / 1e3);
}

/* How far the others were behind when they reported last: only a leader is told. */
static void collect_members(struct live *live, const char *self_id, const struct board_self *self)
{
    struct member_info *members = mem_array(LIVE_MEMBERS_MAX, sizeof *members);
    size_t count = live_members(live, members, LIVE_MEMBERS_MAX);
    struct metric *lags = &meta_metrics[META_MEMBER_LAG];
    metric_clear(lags);
    for (size_t i = 0; i < count && i < LIVE_MEMBERS_MAX && self->role == ROLE_LEADER; i++) {
        struct live_report report;
        if (strcmp(members[i].id, self_id) == 0 || !live_reported(live, members[i].id, &report))
            continue;
        int64_t lag = self->applied - report.applied;
        cell_set(metric_cell(lags, members[i].id), lag > 0 ? (double)lag : 0);
    }
    free(members);
    set(META_MEMBERS, (double)count);
}

static void collect_replica(struct replica *replica)
{
    struct replica_pending pending;
    replica_pending(replica, &pending);
    set(META_PENDING_WRITES, (double)pending.count);
    set(META_PENDING_WRITES_LIMIT, (double)pending.max_count);
    set(META_PENDING_BYTES, (double)pending.bytes);
    set(META_PENDING_BYTES_LIMIT, (double)pending.max_bytes);
    set(META_ID_BYTES_LIMIT, (double)pending.max_id_bytes);
}

/* What only a leader looks after, and a former one knows no more of. */
static void forget_leading(void)
{
    static const enum meta_metric of_leader[] = {META_ID_BYTES,  META_ID_WINDOW,  META_ETCD_FILE,
                                                 META_ETCD_USED, META_ETCD_QUOTA, META_ETCD_FULL};
    for (size_t i = 0; i < sizeof of_leader / sizeof of_leader[0]; i++)
        set(of_leader[i], 0);
}

static void collect_store(struct store *store)
{
    struct store_size size;
    store_size(store, &size);
    set(META_KEYS, (double)size.keys);
    set(META_IDS, (double)size.ids);
    set(META_STORE_USED, (double)size.used_bytes);
    set(META_STORE_MAP, (double)size.map_bytes);
}

static void collect_rpc(struct rpc_server *rpc)
{
    struct rpc_server_load load;
    rpc_server_load(rpc, &load);
    set(META_RPCS_IN_FLIGHT, (double)load.calls);
    set(META_STREAMS, (double)load.streams);
}

static void collect_fanout(struct fanout *fanout)
{
    struct fanout_load load;
    fanout_load(fanout, &load);
    set(META_WATCHES, (double)load.streams);
    set(META_WATCHES_LIMIT, (double)load.max_streams);
    set(META_HISTORY_BYTES, (double)load.history_bytes);
    set(META_HISTORY_LIMIT, (double)load.max_history_bytes);
    set(META_HISTORY_COMMITS, (double)load.history_commits);
    set(META_HISTORY_OLDEST, (double)load.oldest_revision);
}

/* Types that come and go, and the many that somebody may invent, are bounded by the cells. */
static void collect_workers(struct workforce *workforce, int64_t limit)
{
    enum { TYPES_SHOWN = 32 };
    struct workforce_type types[TYPES_SHOWN];
    struct worker_counters counters;
    size_t workers, count = workforce_types(workforce, types, TYPES_SHOWN, &counters, &workers);
    metric_clear(&meta_metrics[META_WORKERS]);
    metric_clear(&meta_metrics[META_WORKER_SLOTS]);
    for (size_t i = 0; i < count && i < TYPES_SHOWN; i++) {
        const struct workers_type *sum = &types[i].sum;
        struct metric *m = &meta_metrics[META_WORKERS];
        cell_set(metric_cell(m, types[i].name, "starting"), sum->starting);
        cell_set(metric_cell(m, types[i].name, "running"), sum->running);
        cell_set(metric_cell(m, types[i].name, "expiring"), sum->expiring);
        cell_set(metric_cell(&meta_metrics[META_WORKER_SLOTS], types[i].name), sum->slots);
    }
    set(META_WORKERS_LIMIT, (double)limit);
    set(META_WORKER_REGISTRATIONS, (double)counters.incarnation);
}

void meta_metrics_write(struct buf *out, const struct meta_metrics_of *of)
{
    struct board_self self;
    board_self(of->board, &self);
    cell_set(metric_cell(&meta_metrics[META_INFO], of->member_id, of->cluster,
                         of->alone ? "embedded" : "etcd"),
             1);
    collect_board(of->board, &self);
    collect_members(of->live, of->member_id, &self);
    collect_store(of->store);
    collect_replica(of->replica);
    if (self.role != ROLE_LEADER)
        forget_leading();
    collect_lease();
    if (of->follow) {
        set(META_WATCH_OPEN, follow_healthy(of->follow));
        set(META_WATCH_SILENCE, (double)follow_silent_ms(of->follow) / 1e3);
    }
    collect_workers(of->workforce, of->max_workers);
    collect_fanout(of->fanout);
    if (of->rpc)
        collect_rpc(of->rpc);
    metrics_write(out, meta_metrics, META_METRICS);
}
