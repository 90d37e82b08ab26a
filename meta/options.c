#include "meta/options.h"
#include "common/io/etcd_files.h"
#include "meta/core/record.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A commit needs some operations of its own, and a Txn should fit. */
enum { TXN_OPS_MIN = 32 };

static struct meta_options parsed; /* rows need an address that is known at compile time */

static const struct option_row rows[] = {
    {.group = "Who and where",
     .name = "id",
     .kind = OPTION_STRING,
     .target = &parsed.id,
     .value = "NAME",
     .help = "Name of this member, unique in its cluster (default: the host's name)."},
    {.name = "data",
     .kind = OPTION_STRING,
     .target = &parsed.data,
     .fallback = "baton-data",
     .value = "DIR",
     .help = "Directory of this member alone; made when missing."},
    {.name = "listen",
     .kind = OPTION_STRING,
     .target = &parsed.listen,
     .fallback = "127.0.0.1:5690",
     .value = "HOST:PORT",
     .help = "Where gRPC is served."},
    {.name = "advertise",
     .kind = OPTION_STRING,
     .target = &parsed.advertise,
     .value = "HOST:PORT",
     .help = "Address that the others reach this member at (default: as --listen)."},
    {.name = "http",
     .kind = OPTION_STRING,
     .target = &parsed.http,
     .fallback = "127.0.0.1:5691",
     .value = "HOST:PORT|off",
     .help = "Where /metrics, /healthz, /readyz and /status are served."},
    {.group = "The cluster",
     .name = "etcd",
     .kind = OPTION_STRING,
     .target = &parsed.etcd,
     .value = "URL[,URL...]",
     .help = "The etcd endpoints; without them this member is alone and keeps its state itself."},
    {.name = "etcd-transport",
     .kind = OPTION_CHOICE,
     .target = &parsed.transport,
     .fallback = "auto",
     .value = "HOW",
     .choices = "auto|json|grpc",
     .needs = "etcd",
     .help = "How commits and watches go to etcd; auto: by gRPC, else to its JSON gateway."},
    {.name = "etcd-user",
     .kind = OPTION_STRING,
     .target = &parsed.login.user,
     .value = "NAME",
     .needs = "etcd-password-file",
     .help = "The user of etcd, when its authentication is on."},
    {.name = "etcd-password-file",
     .kind = OPTION_STRING,
     .target = &parsed.login.password_file,
     .value = "FILE",
     .needs = "etcd-user",
     .help = "Holds the password of that user; read again each time etcd asks for it."},
    {.name = "etcd-ca",
     .kind = OPTION_STRING,
     .target = &parsed.access.ca_file,
     .value = "FILE",
     .needs = "etcd",
     .help = "Who signs the certificates of https:// endpoints, PEM (default: the system's CAs)."},
    {.name = "etcd-cert",
     .kind = OPTION_STRING,
     .target = &parsed.access.cert_file,
     .value = "FILE",
     .needs = "etcd-key",
     .help = "Certificate that this member shows to etcd, PEM."},
    {.name = "etcd-key",
     .kind = OPTION_STRING,
     .target = &parsed.access.key_file,
     .value = "FILE",
     .needs = "etcd-cert",
     .help = "Its private key, PEM."},
    {.name = "cluster",
     .kind = OPTION_STRING,
     .target = &parsed.cluster,
     .fallback = "default",
     .value = "NAME",
     .help = "Which cluster: its keys are those below /baton/NAME/ in etcd."},
    {.name = "ttl",
     .kind = OPTION_DURATION,
     .target = &parsed.ttl_ms,
     .fallback = "5s",
     .value = "TIME",
     .min = 1000,
     .max = 600000,
     .needs = "etcd",
     .help = "How long a leader that is silent keeps its leadership."},
    {.name = "drain-timeout",
     .kind = OPTION_DURATION,
     .target = &parsed.drain_timeout_ms,
     .fallback = "10s",
     .value = "TIME",
     .min = 0,
     .max = 3600000,
     .help = "How long SIGTERM waits for calls in flight."},
    {.name = "default-consistency",
     .kind = OPTION_CHOICE,
     .target = &parsed.default_consistency,
     .fallback = "lease",
     .value = "WHICH",
     .choices = "lease|quorum",
     .help = "What a read gets that asks for nothing else; quorum: etcd confirms the leader before "
             "each read, so that no clock matters."},
    {.group = "Limits",
     .name = "max-pending",
     .kind = OPTION_INT,
     .target = &parsed.max_pending,
     .fallback = "20000",
     .value = "N",
     .min = 1,
     .max = 10000000,
     .help = "Mutations that wait for a commit; more are refused with OVERLOADED."},
    {.name = "max-pending-bytes",
     .kind = OPTION_BYTES,
     .target = &parsed.max_pending_bytes,
     .fallback = "128MiB",
     .value = "SIZE",
     .min = 2 << 20,
     .max = 1ll << 40,
     .help = "Their size in all."},
    {.name = "dedup-bytes",
     .kind = OPTION_BYTES,
     .target = &parsed.dedup_bytes,
     .fallback = "256MiB",
     .value = "SIZE",
     .min = 1 << 20,
     .max = 1ll << 40,
     .help = "Room for request ids and their answers."},
    {.name = "map-bytes",
     .kind = OPTION_BYTES,
     .target = &parsed.map_bytes,
     .fallback = "64GiB",
     .value = "SIZE",
     .min = 1 << 20,
     .max = 1ll << 46,
     .help = "Address space of the local state, its upper bound; memory is used as needed."},
    {.name = "max-txn-ops",
     .kind = OPTION_INT,
     .target = &parsed.max_txn_ops,
     .fallback = "0",
     .value = "N",
     .min = 0,
     .max = 1 << 16,
     .needs = "etcd",
     .help = "Operations in one etcd txn, at least 32; 0: ask etcd what it takes."},
    {.name = "rpc-threads",
     .kind = OPTION_INT,
     .target = &parsed.rpc_threads,
     .fallback = "2",
     .value = "N",
     .min = 1,
     .max = 64,
     .help = "Threads that serve RPCs."},
    {.name = "max-workers",
     .kind = OPTION_INT,
     .target = &parsed.max_workers,
     .fallback = "100000",
     .value = "N",
     .min = 0,
     .max = 10000000,
     .help = "Workers registered at once; more are refused with TOO_MANY_WORKERS."},
    {.name = "worker-ttl",
     .kind = OPTION_DURATION,
     .target = &parsed.worker_ttl_ms,
     .fallback = "15s",
     .value = "TIME",
     .min = 1000,
     .max = 3600000,
     .help = "How long a worker that names no ttl of its own may be silent before it expires."},
    {.name = "max-watches",
     .kind = OPTION_INT,
     .target = &parsed.max_watches,
     .fallback = "20000",
     .value = "N",
     .min = 0,
     .max = 1000000,
     .help = "Watches and subscriptions open at once; more are refused with OVERLOADED."},
    {.name = "watch-history",
     .kind = OPTION_BYTES,
     .target = &parsed.watch_history_bytes,
     .fallback = "64MiB",
     .value = "SIZE",
     .min = 0,
     .max = 1ll << 40,
     .help = "Memory for the last changes: a watch that asks for older ones is told COMPACTED, or "
             "gets a snapshot. etcd's history is kept as far back, within --compact-growth."},
    {.name = "watch-buffer-bytes",
     .kind = OPTION_BYTES,
     .target = &parsed.watch_buffer_bytes,
     .fallback = "4MiB",
     .value = "SIZE",
     .min = 1 << 16,
     .max = 1ll << 40,
     .help =
         "What may wait for one watch that does not keep up; past it, it is cut with TOO_SLOW."},
    {.name = "watch-threads",
     .kind = OPTION_INT,
     .target = &parsed.watch_threads,
     .fallback = "2",
     .value = "N",
     .min = 1,
     .max = 64,
     .help = "Threads that send to watches."},
    {.group = "Care of etcd, by the leader",
     .name = "etcd-quota-bytes",
     .kind = OPTION_BYTES,
     .target = &parsed.etcd_quota_bytes,
     .fallback = "0",
     .value = "SIZE",
     .min = 0,
     .max = 1ll << 46,
     .help = "etcd's --quota-backend-bytes; 0: ask etcd. Puts are refused with NO_SPACE when 80 % "
             "of it are in use, deletes go on."},
    {.name = "compact",
     .kind = OPTION_CHOICE,
     .target = &parsed.compact,
     .fallback = "auto",
     .value = "WHETHER",
     .choices = "auto|on|off",
     .help = "Compact etcd's history; auto: unless etcd holds keys that are not below /baton/."},
    {.name = "compact-growth",
     .kind = OPTION_BYTES,
     .target = &parsed.compact_growth_bytes,
     .fallback = "128MiB",
     .value = "SIZE",
     .min = 1 << 16,
     .max = 1ll << 40,
     .help = "After so much was written."},
    {.name = "compact-every",
     .kind = OPTION_DURATION,
     .target = &parsed.compact_every_ms,
     .fallback = "5m",
     .value = "TIME",
     .min = 1000,
     .max = 86400000,
     .help = "Or so long after the last time."},
    {.name = "compact-keep",
     .kind = OPTION_DURATION,
     .target = &parsed.compact_keep_ms,
     .fallback = "1m",
     .value = "TIME",
     .min = 0,
     .max = 86400000,
     .help = "How much history is kept, unless it is more than half of --compact-growth: a member "
             "whose watch was away for longer lists the whole state anew."},
    {.group = "Other",
     .name = "log-level",
     .kind = OPTION_CHOICE,
     .target = &parsed.log_level,
     .fallback = "info",
     .value = "LEVEL",
     .choices = "debug|info|warn|error",
     .help = "The least important lines that are logged."},
};

static const struct option_set set = {
    .program = "baton-meta",
    .usage = "[--etcd URL[,URL...]] [options]",
    .about =
        "A member of a Baton cluster: elects a leader through etcd with the others and, while it "
        "leads, serves the cluster's metadata. Without --etcd it is the whole cluster: it always "
        "leads, on the durable state in its own directory.",
    .footer = "SIGTERM hands leadership over, finishes what is in flight and exits 0.",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
};

static struct err check_name(const char *option, const char *name)
{
    if (!*name || strlen(name) > ID_MAX)
        return err_make(ERR_USAGE, "--%s '%.80s': must have 1 to %d characters", option, name,
                        ID_MAX);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            return err_make(ERR_USAGE, "--%s '%s': only letters, digits, '-', '_' and '.'", option,
                            name);
    return OK_ERR;
}

static struct err check_address(const char *option, const char *addr, bool reachable)
{
    char host[256];
    int port;
    struct err e = options_split_address(addr, host, sizeof host, &port);
    if (err_is(&e))
        return err_wrap(e, "--%s", option);
    bool any = !*host || !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
    if (reachable && (any || port == 0))
        return err_make(ERR_USAGE, "--advertise HOST:PORT is needed: others cannot reach '%s'",
                        addr);
    return OK_ERR;
}

/* Pairs of options name each other as what they need, so their first one is looked at here. */
static struct err check_alone(const struct meta_options *o)
{
    if (!o->etcd && (o->login.user || o->access.cert_file))
        return err_make(ERR_USAGE, "--etcd-%s: means nothing without --etcd",
                        o->login.user ? "user" : "cert");
    return OK_ERR;
}

static struct err check(struct meta_options *o)
{
    struct err e = check_name("id", o->id);
    if (!err_is(&e))
        e = check_name("cluster", o->cluster);
    if (!err_is(&e))
        e = check_alone(o);
    if (!err_is(&e))
        e = check_address("listen", o->listen, false);
    if (!err_is(&e))
        e = check_address("advertise", o->advertise, true);
    if (!err_is(&e) && strcmp(o->http, "off") != 0)
        e = check_address("http", o->http, false);
    if (!err_is(&e) && o->max_txn_ops && o->max_txn_ops < TXN_OPS_MIN)
        e = err_make(ERR_USAGE, "--max-txn-ops %lld: must be 0 (ask etcd) or at least %d",
                     (long long)o->max_txn_ops, TXN_OPS_MIN);
    if (!err_is(&e) && o->login.user)
        e = etcd_login_check(&o->login);
    if (!err_is(&e))
        e = etcd_files_check(&o->access);
    return e;
}

struct err meta_options_parse(struct meta_options *o, int argc, char **argv, enum option_show *show)
{
    static char host[ID_MAX + 1];
    struct err e = options_parse(&set, &argc, argv, show);
    if (err_is(&e) || *show != OPTION_SHOW_NOTHING)
        return e;
    if (argc > 1)
        return err_make(ERR_USAGE, "'%s' is no option: see --help", argv[1]);
    if (!parsed.id) {
        gethostname(host, sizeof host - 1);
        parsed.id = host;
    }
    if (!parsed.advertise)
        parsed.advertise = parsed.listen;
    parsed.access.endpoints = parsed.etcd;
    parsed.access.transport = !strcmp(parsed.transport, "json")   ? ETCD_JSON
                              : !strcmp(parsed.transport, "grpc") ? ETCD_GRPC
                                                                  : ETCD_AUTO;
    *o = parsed;
    snprintf(o->prefix, sizeof o->prefix, "/baton/%s/", o->cluster);
    return check(o);
}

void meta_options_help(void)
{
    options_help(&set, stdout);
}
