#include "proxy/options.h"
#include "common/base/log.h"
#include "proxy/core/leader_view.h"
#include <stdio.h>
#include <string.h>

#define KIB 1024LL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define DAY_MS (24LL * 3600 * 1000)
#define FIRST_WINDOW_MIN (4 * KIB)
#define FIRST_WINDOW_MAX 65535

int64_t proxy_options_first_window(const struct proxy_options *o)
{
    int64_t window = o->park_bytes / o->park_calls;
    if (window > o->stream_window)
        window = o->stream_window;
    return window < FIRST_WINDOW_MAX ? window : FIRST_WINDOW_MAX;
}

static struct err check_members(const char *members)
{
    char name[256], host[256];
    size_t count = 0;
    int port;
    while (*members) {
        size_t n = strcspn(members, ",");
        if (n >= sizeof name)
            return err_make(ERR_USAGE, "--members: an address is too long");
        snprintf(name, sizeof name, "%.*s", (int)n, members);
        struct err e = n ? options_split_address(name, host, sizeof host, &port) : OK_ERR;
        if (err_is(&e))
            return err_wrap(e, "--members");
        count += n > 0;
        members += n + (members[n] == ',');
    }
    if (count == 0 || count > LEADER_SEEDS_MAX)
        return err_make(ERR_USAGE, "--members: name 1 to %d addresses", LEADER_SEEDS_MAX);
    return OK_ERR;
}

static struct err check(const struct proxy_options *o)
{
    enum log_level level;
    if (!log_level_parse(o->log_level, &level))
        return err_make(ERR_USAGE, "--log-level: one of debug, info, warn, error");
    if (o->park_bytes / o->park_calls < FIRST_WINDOW_MIN)
        return err_make(ERR_USAGE, "--park-bytes must be at least 4KiB for each of --park-calls");
    return check_members(o->members);
}

/* Where the table points; copied out when all is parsed. */
static struct proxy_options parsed;

static const struct option_row rows[] = {
    {"Addresses", "listen", OPTION_STRING, &parsed.listen, "127.0.0.1:5680", "HOST:PORT",
     "Where gRPC clients connect; port 0 takes any free one.", 0, 0, NULL, false},
    {NULL, "http", OPTION_STRING, &parsed.http, "127.0.0.1:5681", "HOST:PORT",
     "Metrics, health and status over HTTP; off for none.", 0, 0, NULL, false},
    {"Leader", "members", OPTION_STRING, &parsed.members, NULL, "HOST:PORT,...",
     "Some members of the cluster; the others are found through them.", 0, 0, NULL, true},
    {NULL, "cluster-id", OPTION_STRING, &parsed.cluster_id, "", "ID",
     "Follow only this cluster; by default the one that most members name.", 0, 0, NULL, false},
    {NULL, "authority", OPTION_STRING, &parsed.authority, "", "NAME",
     "Send this :authority upstream instead of the client's.", 0, 0, NULL, false},
    {NULL, "leader-grace", OPTION_DURATION, &parsed.leader_grace_ms, "100ms", "TIME",
     "How long calls that may be repeated stay with a leader that was replaced.", 0, DAY_MS, NULL,
     false},
    {NULL, "upstream-ping", OPTION_DURATION, &parsed.upstream_ping_ms, "1s", "TIME",
     "Ask a silent member for a sign of life while calls wait for it; 0 for never.", 0, DAY_MS,
     NULL, false},
    {NULL, "upstream-connections", OPTION_INT, &parsed.upstream_connections, "4", "N",
     "Connections of one worker to the leader at most.", 1, 16, NULL, false},
    {"Waiting for a leader", "park-timeout", OPTION_DURATION, &parsed.park_timeout_ms, "30s",
     "TIME", "How long a call waits for a leader at most.", 1, DAY_MS, NULL, false},
    {NULL, "park-calls", OPTION_INT, &parsed.park_calls, "8192", "N",
     "Calls of one worker that may wait at once.", 1, 10000000, NULL, false},
    {NULL, "park-bytes", OPTION_BYTES, &parsed.park_bytes, "256MiB", "BYTES",
     "Request bytes that waiting calls of one worker may hold.", 64 * KIB, 1024 * GIB, NULL, false},
    {"Sending again", "replay-bytes", OPTION_BYTES, &parsed.replay_bytes, "64MiB", "BYTES",
     "Request bytes that one worker keeps to send them again.", 0, 1024 * GIB, NULL, false},
    {NULL, "replay-attempts", OPTION_INT, &parsed.replay_attempts, "2", "N",
     "How often a call is sent again after it was sent and its connection lost.", 0, 100, NULL,
     false},
    {NULL, "replay-window", OPTION_DURATION, &parsed.replay_window_ms, "60s", "TIME",
     "No such repetition later than this after the first sending.", 0, DAY_MS, NULL, false},
    {NULL, "descriptor-set", OPTION_STRING, &parsed.descriptor_set, "", "FILE",
     "Idempotency levels of further services (protoc --descriptor_set_out).", 0, 0, NULL, false},
    {NULL, "dedup-service", OPTION_STRING, &parsed.dedup_service, "", "PKG[.SVC],...",
     "Services of that set whose unary mutations keep request ids, besides baton.v1.", 0, 0, NULL,
     false},
    {NULL, "replay-methods", OPTION_STRING, &parsed.replay_methods, "", "PKG.SVC/METHOD,...",
     "Methods that may be sent again although no descriptor says so.", 0, 0, NULL, false},
    {"Limits", "workers", OPTION_INT, &parsed.workers, "1", "N",
     "Threads that relay, each with connections of its own.", 1, 256, NULL, false},
    {NULL, "stream-window", OPTION_BYTES, &parsed.stream_window, "256KiB", "BYTES",
     "Bytes of one call that may be under way in each direction.", 16 * KIB, GIB, NULL, false},
    {NULL, "relay-bytes", OPTION_BYTES, &parsed.relay_bytes, "256MiB", "BYTES",
     "Answer bytes that one worker buffers before it refuses new calls.", MIB, 1024 * GIB, NULL,
     false},
    {NULL, "max-connections", OPTION_INT, &parsed.max_connections, "10000", "N",
     "Client connections in all.", 1, 1000000, NULL, false},
    {NULL, "max-streams", OPTION_INT, &parsed.max_streams, "1000", "N",
     "Calls at once on one client connection.", 1, 1000000, NULL, false},
    {NULL, "drain-timeout", OPTION_DURATION, &parsed.drain_timeout_ms, "30s", "TIME",
     "After SIGTERM, how long calls may go on.", 0, DAY_MS, NULL, false},
    {"Logging", "log-level", OPTION_STRING, &parsed.log_level, "info", "LEVEL",
     "The lowest level that is logged: debug, info, warn or error.", 0, 0, NULL, false},
};

static const struct option_set set = {
    .program = "baton-proxy",
    .usage = "--members HOST:PORT[,HOST:PORT...] [options]",
    .about = "One address for a Baton cluster: every gRPC call reaches the current leader.",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
};

struct err proxy_options_parse(struct proxy_options *o, int *argc, char **argv,
                               enum option_show *show)
{
    struct err e = options_parse(&set, argc, argv, show);
    if (err_is(&e))
        return e;
    if (*show == OPTION_SHOW_HELP)
        options_help(&set, stdout);
    if (*show == OPTION_SHOW_VERSION)
        printf("baton-proxy %s\n", BATON_VERSION);
    if (*show != OPTION_SHOW_NOTHING)
        return OK_ERR;
    if (*argc > 1)
        return err_make(ERR_USAGE, "%s: not an option", argv[1]);
    *o = parsed;
    return check(o);
}
