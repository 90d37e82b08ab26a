#include "meta/metrics.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/base/rpc_status.h"
#include "meta/core/dedup.h"
#include "meta/metrics_rows.h"
#include <stdatomic.h>

enum { STATUSES = RPC_UNAUTHENTICATED + 1 };

static struct metric *row(enum meta_metric m)
{
    return &meta_metrics[m];
}

static void count(enum meta_metric m, const char *label)
{
    cell_add(metric_cell(row(m), label), 1);
}

/* ---- for clients ---- */

static struct {
    _Atomic uint64_t commits, writes, reads, heartbeats;
} did;

void meta_activity(struct meta_activity *out)
{
    *out = (struct meta_activity){.commits = atomic_load(&did.commits),
                                  .writes = atomic_load(&did.writes),
                                  .reads = atomic_load(&did.reads),
                                  .heartbeats = atomic_load(&did.heartbeats)};
}

/* ---- commits ---- */

static const char *const commit_kinds[] = {
    [META_BATCH] = "batch", [META_HEARTBEAT] = "heartbeat", [META_PROBE] = "probe"};
static const char *const outcomes[] = {
    [COMMIT_APPLIED] = "applied",
    [COMMIT_NEVER] = "refused",
    [COMMIT_APPLIED_DEPOSED] = "applied_deposed",
    [COMMIT_NOT_APPLIED] = "fenced",
    [COMMIT_UNKNOWN] = "unknown",
};
static const char *const txn_kinds[] = {
    [COMMIT_TXN_BATCH] = "batch", [COMMIT_TXN_SETTLE] = "settle", [COMMIT_TXN_PROBE] = "probe"};

void meta_count_outcome(enum meta_commit_kind kind, enum commit_outcome_kind outcome)
{
    cell_add(metric_cell(row(META_COMMITS), commit_kinds[kind], outcomes[outcome]), 1);
}

void meta_observe_commit(size_t requests, int64_t spent_us)
{
    metric_observe(row(META_COMMIT_TIME), (double)spent_us / 1e6);
    if (!requests)
        return;
    metric_observe(row(META_COMMIT_REQUESTS), (double)requests);
    atomic_fetch_add(&did.commits, 1);
    atomic_fetch_add(&did.writes, requests);
}

void meta_count_attempt(enum commit_txn_kind kind, size_t bytes)
{
    count(META_COMMIT_ATTEMPTS, txn_kinds[kind]);
    metric_add(row(META_COMMIT_BYTES), (double)bytes);
}

void meta_count_write_refused(enum err_code code)
{
    count(META_WRITES_REFUSED, err_word(code));
}

void meta_count_replayed(void)
{
    metric_add(row(META_REPLAYED), 1);
}

void meta_note_ids(const struct dedup_window *window, int64_t now_ms)
{
    metric_set(row(META_ID_BYTES), (double)window->bytes);
    metric_set(row(META_ID_WINDOW),
               window->count ? (double)(now_ms - dedup_window_slot(window, 0)->seen_ms) / 1e3 : 0);
}

/* ---- state ---- */

void meta_count_foreign_write(void)
{
    metric_add(row(META_FOREIGN_WRITES), 1);
}

void meta_count_store_failure(enum err_code code)
{
    count(META_STORE_FAILURES, err_word(code));
}

void meta_count_listing(void)
{
    metric_add(row(META_LISTINGS), 1);
}

/* ---- etcd ---- */

void meta_note_space(int64_t file_bytes, int64_t used_bytes, int64_t quota_bytes, bool full)
{
    metric_set(row(META_ETCD_FILE), (double)file_bytes);
    metric_set(row(META_ETCD_USED), (double)used_bytes);
    metric_set(row(META_ETCD_QUOTA), (double)quota_bytes);
    metric_set(row(META_ETCD_FULL), full);
}

void meta_note_compacted(int64_t revision)
{
    metric_add(row(META_COMPACTIONS), 1);
    metric_set(row(META_COMPACTED), (double)revision);
}

void meta_count_watch_opened(void)
{
    metric_add(row(META_WATCH_OPENS), 1);
}

void meta_count_etcd(const struct etcd_observation *o)
{
    cell_add(metric_cell(row(META_ETCD_CALLS), o->client, o->call, err_word(o->code)), 1);
    if (o->spent_us >= 0)
        cell_observe(metric_cell(row(META_ETCD_CALL_TIME), o->client, o->call),
                     (double)o->spent_us / 1e6);
    bool heard = o->code == ERR_OK || o->code == ERR_BAD_REQUEST; /* limits are found out so */
    if (!heard && o->code != ERR_CANCELLED)
        cell_add(metric_cell(row(META_ETCD_ERRORS), o->endpoint, err_word(o->code)), 1);
}

/* ---- RPCs ---- */

/* Cells by the method's row, so that counting an RPC compares no strings. */
static struct {
    const struct rpc_method *methods;
    size_t count;
    struct metric_cell **answered; /* [method][status], the last method is "other"; made on use */
    struct metric_cell **times;    /* of unary methods */
} served;

void meta_metrics_methods(const struct rpc_method *methods, size_t count)
{
    PRE(!served.methods);
    served.answered = mem_array((count + 1) * STATUSES, sizeof *served.answered);
    served.times = mem_array(count, sizeof *served.times);
    for (size_t i = 0; i < count; i++) {
        metric_cell(row(META_RPCS), methods[i].path, rpc_status_str(RPC_OK));
        if (methods[i].kind == RPC_UNARY)
            served.times[i] = metric_cell(row(META_RPC_TIME), methods[i].path);
    }
    served.methods = methods;
    served.count = count;
}

static struct metric_cell *answered_cell(const struct rpc_method *method, int status)
{
    size_t i = method ? (size_t)(method - served.methods) : served.count;
    struct metric_cell **at = &served.answered[i * STATUSES + (size_t)status];
    struct metric_cell *cell = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (!cell) {
        cell = metric_cell(row(META_RPCS), method ? method->path : "other", rpc_status_str(status));
        __atomic_store_n(at, cell, __ATOMIC_RELEASE);
    }
    return cell;
}

void meta_count_rpc(const struct rpc_method *method, int status, int64_t spent_us)
{
    PRE(status >= 0 && status < STATUSES);
    cell_add(answered_cell(method, status), 1);
    if (method && served.times[method - served.methods])
        cell_observe(served.times[method - served.methods], (double)spent_us / 1e6);
}

static const char *const read_words[] = {
    [META_READ_LEADER] = "LEADER", [META_READ_QUORUM] = "QUORUM", [META_READ_STALE] = "STALE"};
static const char *const wait_words[] = {
    [META_WAIT_CONFIRMED] = "confirmation", [META_WAIT_REVISION] = "revision"};

void meta_count_read(enum meta_read how)
{
    count(META_READS, read_words[how]);
    atomic_fetch_add(&did.reads, 1);
}

void meta_count_wait(enum meta_wait what)
{
    count(META_WAITS, wait_words[what]);
}

/* ---- the fan-out ---- */

void meta_count_stream_sent(const char *service, size_t messages, size_t bytes)
{
    cell_add(metric_cell(row(META_WATCH_MESSAGES), service), (double)messages);
    cell_add(metric_cell(row(META_WATCH_BYTES), service), (double)bytes);
}

void meta_count_stream_ended(const char *service, enum err_code why)
{
    cell_add(metric_cell(row(META_WATCHES_ENDED), service, err_word(why)), 1);
}

void meta_count_stream_snapshot(void)
{
    metric_add(row(META_WATCH_SNAPSHOTS), 1);
}

/* ---- workers ---- */

static const char *const beat_words[] = {[BEAT_OK] = "OK",
                                         [BEAT_UNKNOWN] = "UNKNOWN_WORKER",
                                         [BEAT_STALE] = "STALE_INCARNATION",
                                         [BEAT_NOT_LED] = "NOT_LEADER"};

void meta_count_heartbeat(enum workforce_beat said)
{
    PRE(said != BEAT_WAITS);
    count(META_HEARTBEATS, beat_words[said]);
    atomic_fetch_add(&did.heartbeats, said == BEAT_OK);
}

void meta_count_expired(void)
{
    metric_add(row(META_WORKERS_EXPIRED), 1);
}

struct metric_cell *meta_count_subscriber(const char *kind)
{
    struct metric_cell *cell = metric_cell(row(META_SUBSCRIBERS), kind);
    cell_add(cell, 1);
    return cell;
}

void meta_count_subscriber_gone(struct metric_cell *kind)
{
    cell_add(kind, -1);
}

/* ---- what can be foreseen ---- */

static void foresee(enum meta_metric m, const char *const *values)
{
    for (; *values; values++)
        metric_cell(row(m), *values);
}

void meta_metrics_init(void)
{
    static const char *const takeovers[] = {"first",     "released", "leads-again",
                                            "restarted", "silent",   NULL};
    static const char *const phases[] = {"wait", "txn", "activation", "publish", NULL};
    for (int i = ROLE_FOLLOWER; i <= ROLE_STEPPING_DOWN; i++) {
        metric_cell(row(META_ROLE), role_str((enum role)i));
        metric_cell(row(META_ROLE_CHANGES), role_str((enum role)i));
    }
    foresee(META_TAKEOVERS, takeovers);
    foresee(META_TAKEOVER_PHASES, phases);
    for (int how = META_READ_LEADER; how <= META_READ_STALE; how++)
        metric_cell(row(META_READS), read_words[how]);
    for (int what = META_WAIT_CONFIRMED; what <= META_WAIT_REVISION; what++)
        metric_cell(row(META_WAITS), wait_words[what]);
    metric_cell(row(META_HEARTBEATS), beat_words[BEAT_OK]);
    metric_cell(row(META_HEARTBEATS), beat_words[BEAT_UNKNOWN]);
    metric_cell(row(META_HEARTBEATS), beat_words[BEAT_STALE]);
    metric_cell(row(META_STEP_DOWNS), "the member leaves");
    metric_cell(row(META_WATCH_MESSAGES), "watch");
    metric_cell(row(META_WATCH_BYTES), "watch");
    metric_cell(row(META_WATCHES_ENDED), "watch", err_word(ERR_TOO_SLOW));
    metric_cell(row(META_WRITES_REFUSED), err_word(ERR_OVERLOADED));
    metric_cell(row(META_STORE_FAILURES), err_word(ERR_CORRUPT));
    for (int kind = META_BATCH; kind <= META_PROBE; kind++)
        for (int outcome = COMMIT_APPLIED; outcome <= COMMIT_UNKNOWN; outcome++)
            metric_cell(row(META_COMMITS), commit_kinds[kind], outcomes[outcome]);
    for (int kind = COMMIT_TXN_BATCH; kind <= COMMIT_TXN_PROBE; kind++)
        metric_cell(row(META_COMMIT_ATTEMPTS), txn_kinds[kind]);
}
