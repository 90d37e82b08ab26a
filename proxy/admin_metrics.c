#include "proxy/admin_metrics.h"
#include "common/base/mem.h"
#include "common/base/rpc_status.h"
#include "proxy/metrics_rows.h"
#include <stddef.h>
#include <stdlib.h>

/* Metrics that are the sum of one field over all workers. */
static const struct {
    enum proxy_metric metric;
    size_t offset;
} sums[] = {
    {PROXY_CANCELLED, offsetof(struct stats, cancelled)},
    {PROXY_CALLS, offsetof(struct stats, calls)},
    {PROXY_REQUEST_BYTES, offsetof(struct stats, request_bytes)},
    {PROXY_ANSWER_BYTES, offsetof(struct stats, answer_bytes)},
    {PROXY_ATTEMPTS, offsetof(struct stats, attempts)},
    {PROXY_REPLAYS, offsetof(struct stats, replays)},
    {PROXY_PARKED, offsetof(struct stats, parked)},
    {PROXY_PARKED_NOW, offsetof(struct stats, parked_now)},
    {PROXY_CONNECTS, offsetof(struct stats, connects)},
    {PROXY_CONNECT_FAILURES, offsetof(struct stats, connect_failures)},
    {PROXY_CONNECTIONS_LOST, offsetof(struct stats, connections_lost)},
    {PROXY_CLIENTS_ACCEPTED, offsetof(struct stats, clients_accepted)},
    {PROXY_CLIENTS, offsetof(struct stats, clients)},
    {PROXY_RELAY_BYTES, offsetof(struct stats, relay_bytes)},
    {PROXY_REPLAY_BYTES, offsetof(struct stats, replay_bytes)},
};

static const struct {
    const char *name;
    size_t offset;
} limits[] = {
    {"park", offsetof(struct stats, limit_park)},
    {"headers", offsetof(struct stats, limit_headers)},
    {"relay", offsetof(struct stats, limit_relay)},
    {"replay", offsetof(struct stats, limit_replay)},
    {"resets", offsetof(struct stats, limit_reset)},
    {"frames", offsetof(struct stats, limit_frames)},
    {"idle", offsetof(struct stats, limit_idle)},
};

static const struct {
    const char *name;
    enum relay_event event;
} retries[] = {
    {"not_sent", RELAY_NOT_SENT},     {"refused", RELAY_REFUSED},
    {"not_executed", RELAY_NOT_DONE}, {"lost", RELAY_LOST},
    {"superseded", RELAY_SUPERSEDED},
};

static const char *const classes[METHOD_CLASSES] = {"other", "read", "mutation"};

static struct metric *row(enum proxy_metric m)
{
    return &proxy_metrics[m];
}

static uint64_t sum(const struct server *s, size_t offset)
{
    uint64_t all = 0;
    for (size_t i = 0; i < server_worker_count(s); i++)
        all += stat_get((const uint64_t *)((const char *)&server_worker(s, i)->stats + offset));
    return all;
}

static void collect_sums(const struct server *s)
{
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        uint64_t now = sum(s, sums[i].offset);
        if (row(sums[i].metric)->kind == METRIC_GAUGE)
            metric_set(row(sums[i].metric), (double)now);
        else
            metric_raise(row(sums[i].metric), (double)now);
    }
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        cell_raise(metric_cell(row(PROXY_LIMIT_HITS), limits[i].name),
                   (double)sum(s, limits[i].offset));
    cell_raise(metric_cell(row(PROXY_LIMIT_HITS), "clients"), (double)server_refused_clients(s));
    for (size_t i = 0; i < sizeof retries / sizeof retries[0]; i++)
        cell_raise(metric_cell(row(PROXY_RETRIES), retries[i].name),
                   (double)sum(s, offsetof(struct stats, retries) +
                                      sizeof(uint64_t) * (size_t)retries[i].event));
}

/* What never happened has no series, but for the good end of each class: rates of it start at 0. */
static void collect_rpcs(const struct server *s)
{
    for (int c = 0; c < METHOD_CLASSES; c++)
        for (int i = 0; i < STATS_STATUSES; i++) {
            uint64_t n = sum(s, offsetof(struct stats, rpcs) +
                                    sizeof(uint64_t) * (size_t)(c * STATS_STATUSES + i));
            if (n || i == RPC_OK)
                cell_raise(metric_cell(row(PROXY_RPCS), classes[c],
                                       i <= RPC_UNAUTHENTICATED ? rpc_status_str(i) : "none"),
                           (double)n);
        }
}

static void collect_histogram(const struct server *s, struct metric_cell *cell, size_t offset)
{
    uint64_t buckets[STATS_BUCKETS_MAX];
    for (size_t i = 0; i < STATS_BUCKETS_MAX; i++)
        buckets[i] =
            sum(s, offset + offsetof(struct stats_histogram, buckets) + i * sizeof buckets[0]);
    uint64_t ns = sum(s, offset + offsetof(struct stats_histogram, sum_ns));
    cell_set_histogram(cell, buckets, (double)ns / 1e9);
}

static void collect_times(const struct server *s)
{
    collect_histogram(s, metric_cell(row(PROXY_PARKED_TIME)), offsetof(struct stats, parked_times));
    collect_histogram(s, metric_cell(row(PROXY_ADDED_TIME)), offsetof(struct stats, added_times));
    for (int c = 0; c < METHOD_CLASSES; c++)
        collect_histogram(s, metric_cell(row(PROXY_CALL_TIME), classes[c]),
                          offsetof(struct stats, call_times) +
                              (size_t)c * sizeof(struct stats_histogram));
}

static void add_upstream(const struct upstream_told *u)
{
    struct metric_cell *connections = metric_cell(row(PROXY_UPSTREAM_CONNECTIONS), u->name);
    struct metric_cell *streams = metric_cell(row(PROXY_UPSTREAM_STREAMS), u->name);
    cell_add(connections, u->connections);
    cell_add(streams, u->streams);
}

/* Only what the workers dial now: members that are gone have no series any more. */
static void collect_upstreams(const struct server *s)
{
    struct upstream_told *told = mem_array(FOLLOW_TARGETS_MAX, sizeof *told);
    metric_clear(row(PROXY_UPSTREAM_CONNECTIONS));
    metric_clear(row(PROXY_UPSTREAM_STREAMS));
    for (size_t i = 0; i < server_worker_count(s); i++) {
        size_t n = worker_upstreams(server_worker(s, i), told, FOLLOW_TARGETS_MAX);
        for (size_t k = 0; k < n; k++)
            add_upstream(&told[k]);
    }
    free(told);
}

static void collect_leader(const struct server *s)
{
    const struct stats *first = &server_worker(s, 0)->stats;
    metric_set(row(PROXY_EPOCH), (double)stat_get(&first->epoch));
    metric_raise(row(PROXY_LEADER_CHANGES), (double)stat_get(&first->leader_changes));
    metric_set(row(PROXY_LEADER_KNOWN),
               sum(s, offsetof(struct stats, leader_known)) == server_worker_count(s));
}

static void collect_limits(const struct server *s)
{
    const struct proxy_options *o = &server_worker(s, 0)->shared->options;
    double workers = (double)server_worker_count(s);
    metric_set(row(PROXY_WORKERS), workers);
    metric_set(row(PROXY_PARKED_LIMIT), workers * (double)o->park_calls);
    metric_set(row(PROXY_RELAY_LIMIT), workers * (double)o->relay_bytes);
    metric_set(row(PROXY_REPLAY_LIMIT), workers * (double)o->replay_bytes);
    metric_set(row(PROXY_CLIENTS_LIMIT), (double)server_max_clients(s));
    metric_set(row(PROXY_DRAINING), server_is_draining(s));
}

void admin_metrics_write(const struct server *s, struct buf *out)
{
    collect_sums(s);
    collect_rpcs(s);
    collect_times(s);
    collect_leader(s);
    collect_upstreams(s);
    collect_limits(s);
    metrics_write(out, proxy_metrics, PROXY_METRICS);
}
