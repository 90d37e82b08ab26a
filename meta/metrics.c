#include "meta/metrics.h"
#include "common/base/metrics.h"
#include "common/base/rpc_status.h"
#include "meta/board.h"
#include "meta/store.h"

static const double seconds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                 0.2,   0.5,   1,     2,    5,    10,   0};
static const double sizes[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 0};

static struct metric role = {.name = "baton_meta_role",
                             .help = "1 for the role this member has, 0 for the others.",
                             .kind = METRIC_GAUGE,
                             .labels = {"role"}};
static struct metric epoch = {.name = "baton_meta_epoch",
                              .help = "Highest epoch this member has seen.",
                              .kind = METRIC_GAUGE};
static struct metric deadline = {
    .name = "baton_meta_read_deadline_left_seconds",
    .help = "How long the leader may still answer reads without another commit; 0 on others.",
    .kind = METRIC_GAUGE};
static struct metric applied = {.name = "baton_meta_applied_revision",
                                .help = "Revision of etcd that the local state holds.",
                                .kind = METRIC_GAUGE};
static struct metric keys = {
    .name = "baton_meta_keys", .help = "Keys in the key-value store.", .kind = METRIC_GAUGE};
static struct metric ids = {.name = "baton_meta_request_ids",
                            .help = "Request ids whose answers are kept.",
                            .kind = METRIC_GAUGE};
static struct metric role_changes = {.name = "baton_meta_role_changes_total",
                                     .help = "Changes of role, by the role that began.",
                                     .kind = METRIC_COUNTER,
                                     .labels = {"role"}};
static struct metric activation = {.name = "baton_meta_activation_seconds",
                                   .help = "From a won takeover to serving.",
                                   .kind = METRIC_HISTOGRAM,
                                   .bounds = seconds};
static struct metric commits = {.name = "baton_meta_commits_total",
                                .help = "Commits, heartbeats among them, by outcome.",
                                .kind = METRIC_COUNTER,
                                .labels = {"outcome"}};
static struct metric commit_time = {.name = "baton_meta_commit_seconds",
                                    .help = "From the first attempt of a commit to its outcome.",
                                    .kind = METRIC_HISTOGRAM,
                                    .bounds = seconds};
static struct metric batch = {.name = "baton_meta_commit_requests",
                              .help = "Mutations in a commit that had any.",
                              .kind = METRIC_HISTOGRAM,
                              .bounds = sizes};
static struct metric replayed = {.name = "baton_meta_replayed_total",
                                 .help = "Mutations answered from the table of request ids.",
                                 .kind = METRIC_COUNTER};
static struct metric rpcs = {.name = "baton_meta_rpcs_total",
                             .help = "Answered RPCs by method and status.",
                             .kind = METRIC_COUNTER,
                             .labels = {"method", "status"}};
static struct metric etcd_errors = {.name = "baton_meta_etcd_errors_total",
                                    .help =
                                        "Commit attempts that etcd did not answer well, by reason.",
                                    .kind = METRIC_COUNTER,
                                    .labels = {"reason"}};
static struct metric foreign = {.name = "baton_meta_foreign_writes_total",
                                .help = "Writes below state/ in etcd that no member made.",
                                .kind = METRIC_COUNTER};

static struct metric *const table[] = {
    &role,    &epoch,       &deadline, &applied,  &keys, &ids,         &role_changes, &activation,
    &commits, &commit_time, &batch,    &replayed, &rpcs, &etcd_errors, &foreign,
};

void meta_count_commit(size_t requests, int64_t spent_us)
{
    metric_observe(&commit_time, (double)spent_us / 1e6);
    if (requests)
        metric_observe(&batch, (double)requests);
}

void meta_count_outcome(enum commit_outcome_kind kind)
{
    static const char *const words[] = {
        [COMMIT_APPLIED] = "applied",
        [COMMIT_NEVER] = "refused",
        [COMMIT_APPLIED_DEPOSED] = "applied_deposed",
        [COMMIT_NOT_APPLIED] = "fenced",
        [COMMIT_UNKNOWN] = "unknown",
    };
    cell_add(metric_cell(&commits, words[kind]), 1);
}

void meta_count_etcd_error(enum err_code code)
{
    cell_add(metric_cell(&etcd_errors, err_word(code)), 1);
}

void meta_count_foreign_write(void)
{
    metric_add(&foreign, 1);
}

void meta_count_replayed(void)
{
    metric_add(&replayed, 1);
}

void meta_count_role(const char *word)
{
    cell_add(metric_cell(&role_changes, word), 1);
}

void meta_observe_activation(int64_t spent_ms)
{
    metric_observe(&activation, (double)spent_ms / 1e3);
}

void meta_count_rpc(const char *method, int status)
{
    cell_add(metric_cell(&rpcs, method, rpc_status_str(status)), 1);
}

void meta_metrics_write(struct buf *out, struct board *board, struct store *store)
{
    struct board_self self;
    struct board_leader leader;
    struct store_size size;
    board_self(board, &self);
    board_leader(board, &leader);
    store_size(store, &size);
    for (int i = ROLE_FOLLOWER; i <= ROLE_STEPPING_DOWN; i++)
        cell_set(metric_cell(&role, role_str((enum role)i)), (int)self.role == i);
    metric_set(&epoch, (double)leader.epoch);
    metric_set(&deadline, (double)self.deadline_left_ms / 1e3);
    metric_set(&applied, (double)self.applied);
    metric_set(&keys, (double)size.keys);
    metric_set(&ids, (double)size.ids);
    metrics_write(out, table, sizeof table / sizeof table[0]);
}
