#include "proxy/admin_metrics.h"
#include "common/base/rpc_status.h"
#include "common/base/metrics.h"
#include <stddef.h>

static struct metric rpcs = {
    .name = "baton_proxy_calls_total",
    .help = "Calls that ended, by what is known of the method and by gRPC status.",
    .kind = METRIC_COUNTER,
    .labels = {"class", "status"}};

/* Numbers that are the sum of one field over all workers. */
static struct row {
    struct metric metric;
    size_t offset;
    uint64_t published;
} rows[] = {
#define COUNTER(field, text)                                                                       \
    {                                                                                              \
        {.name = "baton_proxy_" #field "_total", .help = text, .kind = METRIC_COUNTER},            \
            offsetof(struct stats, field), 0                                                       \
    }
#define GAUGE(title, field, text)                                                                  \
    {                                                                                              \
        {.name = "baton_proxy_" title, .help = text, .kind = METRIC_GAUGE},                        \
            offsetof(struct stats, field), 0                                                       \
    }
    COUNTER(cancelled, "Calls that their clients gave up."),
    COUNTER(attempts, "Requests sent to a member; more than calls when some were sent again."),
    COUNTER(replays, "Calls sent again although an earlier attempt has an unknown outcome."),
    COUNTER(parked, "Calls that had to wait for a leader."),
    COUNTER(connects, "Connections to members that were tried."),
    COUNTER(connect_failures, "Connections to members that could not be made."),
    COUNTER(bytes_in, "Request bytes received from clients."),
    COUNTER(bytes_out, "Answer bytes received from members."),
    COUNTER(clients_accepted, "Client connections accepted."),
    GAUGE("parked_calls", parked_now, "Calls that wait for a leader now."),
    GAUGE("clients", clients, "Client connections now."),
    GAUGE("calls", calls, "Calls in progress now."),
    GAUGE("relay_bytes", relay_bytes, "Answer bytes that clients have not taken yet."),
    GAUGE("replay_bytes", replay_bytes, "Request bytes kept to send them again."),
};
#define ROWS (sizeof rows / sizeof rows[0])

static struct metric limits = {.name = "baton_proxy_limit_hits_total",
                               .help = "Calls or clients refused because of a limit.",
                               .kind = METRIC_COUNTER,
                               .labels = {"limit"}};
static struct metric epoch = {
    .name = "baton_proxy_leader_epoch", .help = "The highest epoch known.", .kind = METRIC_GAUGE};
static struct metric known = {.name = "baton_proxy_leader_known",
                              .help = "1 while every worker knows a leader.",
                              .kind = METRIC_GAUGE};

static const struct {
    const char *name;
    size_t offset;
} limit_rows[] = {
    {"park", offsetof(struct stats, limit_park)},
    {"headers", offsetof(struct stats, limit_headers)},
    {"relay", offsetof(struct stats, limit_relay)},
    {"resets", offsetof(struct stats, limit_reset)},
    {"frames", offsetof(struct stats, limit_frames)},
    {"idle", offsetof(struct stats, limit_idle)},
};

static uint64_t sum(const struct server *s, size_t offset)
{
    uint64_t all = 0;
    for (size_t i = 0; i < server_worker_count(s); i++)
        all += stat_get((const uint64_t *)((const char *)&server_worker(s, i)->stats + offset));
    return all;
}

static void raise_to(struct metric_cell *cell, uint64_t total)
{
    double missing = (double)total - cell_value(cell);
    if (missing > 0)
        cell_add(cell, missing);
}

static void collect_rpcs(const struct server *s)
{
    static const char *const classes[METHOD_CLASSES] = {"other", "read", "mutation"};
    for (int c = 0; c < METHOD_CLASSES; c++)
        for (int i = 0; i < STATS_STATUSES; i++) {
            uint64_t n = sum(s, offsetof(struct stats, rpcs) +
                                    sizeof(uint64_t) * (size_t)(c * STATS_STATUSES + i));
            if (n)
                raise_to(metric_cell(&rpcs, classes[c],
                                     i <= RPC_UNAUTHENTICATED ? rpc_status_str(i) : "none"),
                         n);
        }
}

/* The histogram of parking times: counted by the workers, written here. */
static void write_park_times(const struct server *s, struct buf *out)
{
    static const char name[] = "baton_proxy_parked_seconds";
    uint64_t below = 0;
    buf_printf(out, "# HELP %s How long calls waited for a leader.\n# TYPE %s histogram\n", name,
               name);
    for (size_t i = 0; i <= STATS_PARK_BUCKETS; i++) {
        below += sum(s, offsetof(struct stats, park_buckets) + i * sizeof(uint64_t));
        if (i < STATS_PARK_BUCKETS)
            buf_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name,
                       (double)stats_park_bounds_ms[i] / 1000, (unsigned long long)below);
    }
    buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %g\n%s_count %llu\n", name,
               (unsigned long long)below, name,
               (double)sum(s, offsetof(struct stats, park_ms)) / 1000, name,
               (unsigned long long)below);
}

void admin_metrics_write(const struct server *s, struct buf *out)
{
    struct metric *table[ROWS + 4];
    size_t n = 0;
    collect_rpcs(s);
    table[n++] = &rpcs;
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t now = sum(s, rows[i].offset);
        if (rows[i].metric.kind == METRIC_GAUGE)
            metric_set(&rows[i].metric, (double)now);
        else
            raise_to(metric_cell(&rows[i].metric), now);
        table[n++] = &rows[i].metric;
    }
    for (size_t i = 0; i < sizeof limit_rows / sizeof limit_rows[0]; i++)
        raise_to(metric_cell(&limits, limit_rows[i].name), sum(s, limit_rows[i].offset));
    table[n++] = &limits;
    metric_set(&epoch, (double)stat_get(&server_worker(s, 0)->stats.epoch));
    metric_set(&known, sum(s, offsetof(struct stats, leader_known)) == server_worker_count(s));
    table[n++] = &epoch;
    table[n++] = &known;
    write_park_times(s, out);
    metrics_write(out, table, n);
}
