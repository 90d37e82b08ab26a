/* The command line of baton-meta. */
#pragma once
#include "common/base/err.h"
#include "common/base/options.h"
#include "common/io/etcd.h"
#include "common/io/etcd_login.h"
#include <stdint.h>

struct meta_options {
    const char *id, *data, *cluster;
    const char *listen, *advertise, *http, *etcd;
    int64_t ttl_ms, drain_timeout_ms;
    int64_t max_pending, max_pending_bytes, dedup_bytes, map_bytes, max_txn_ops, rpc_threads;
    int64_t max_watches, max_workers, worker_ttl_ms, watch_history_bytes, watch_buffer_bytes,
        watch_threads;
    const char *log_level, *default_consistency, *compact, *transport;
    int64_t etcd_quota_bytes, compact_growth_bytes, compact_every_ms, compact_keep_ms;
    char prefix[160];               /* "/baton/<cluster>/" */
    struct etcd_access access;      /* of --etcd; its login is to be made */
    struct etcd_login_config login; /* user NULL: none */
};

/* USAGE errors name the option. */
struct err meta_options_parse(struct meta_options *o, int argc, char **argv,
                              enum option_show *show);
void meta_options_help(void);
