/* What the proxy may be told on the command line: one struct, filled from one table. */
#pragma once
#include "common/base/options.h"
#include <stdbool.h>

struct proxy_options {
    const char *listen, *http;
    const char *members, *cluster_id, *authority;
    const char *descriptor_set, *dedup_service, *replay_methods;
    const char *log_level;
    int64_t workers;
    int64_t park_timeout_ms, park_calls, park_bytes;
    int64_t replay_bytes, replay_attempts, replay_window_ms;
    int64_t leader_grace_ms;
    int64_t stream_window, relay_bytes;
    int64_t upstream_ping_ms, upstream_connections;
    int64_t drain_timeout_ms;
    int64_t max_connections, max_streams;
};

/* The bytes a parked call may make a client send: the window that clients see first. */
int64_t proxy_options_first_window(const struct proxy_options *o);
/* Parses and checks. *show as in options_parse; help and version are printed already. */
struct err proxy_options_parse(struct proxy_options *o, int *argc, char **argv,
                               enum option_show *show);
