/* A member from its data directory to serving, and what the election tells it. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/io/etcd_login.h"
#include "common/io/rpc_server.h"
#include "meta/access.h"
#include "meta/board.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/embedded.h"
#include "meta/follow.h"
#include "meta/live.h"
#include "meta/marks.h"
#include "meta/member_parts.h"
#include "meta/metrics.h"
#include "meta/replica.h"
#include "meta/reporter.h"
#include "meta/store.h"
#include "meta/upkeep.h"
#include "meta/waiting.h"
#include "meta/workforce.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the election tells ---- */

void member_publish(void *ctx, enum role role, uint64_t epoch)
{
    struct member *m = ctx;
    if (role == ROLE_LEADER)
        log_info("leads with epoch %llu", (unsigned long long)epoch);
    board_set_role(m->board, role, epoch);
    meta_note_published(role);
}

static void on_lead(void *ctx, const struct leadership *l)
{
    struct member *m = ctx;
    struct record takeover;
    struct err e = record_decode(record_view(&l->takeover), &takeover);
    if (!err_is(&e))
        marks_see(m->marks, &takeover, l->takeover_revision);
    replica_lead(m->replica, l);
}

static void on_close_gate(void *ctx, uint64_t epoch)
{
    board_close_gate(((struct member *)ctx)->board, epoch);
}

static void on_step_down(void *ctx, uint64_t epoch, const char *why)
{
    replica_step_down(((struct member *)ctx)->replica, epoch, why);
}

static void on_drained(void *ctx)
{
    member_ended(ctx, false);
}

/* As if told by a signal, with all that watches over a shutdown. */
static void on_removed(void *ctx)
{
    const struct member *m = ctx;
    log_info("member %s was removed by an operator: leaving", m->options->id);
    kill(getpid(), SIGTERM);
}

static void on_fatal(void *ctx, const struct err *e)
{
    struct member *m = ctx;
    if (!atomic_exchange(&m->fatal_told,
                         true)) /* it may be found out again until all has stopped */
        log_error("cannot go on: %s", e->message);
    member_ended(m, true);
}

static void on_fatal_signal(void *arg)
{
    board_close_gate_now(arg);
}

static void on_members_changed(void *notifications)
{
    service_notification_changed(notifications);
}

static void on_board_changed(void *arg)
{
    struct member *m = arg;
    service_member_changed(m->members);
    waiting_on_role(m->waiting);
    fanout_on_role(m->fanout);
    service_notification_changed(m->notifications);
    service_health_changed(m->health);
}

/* What the election met does not go on from what was seen: whoever follows etcd looks into it. */
static void on_suspect(void *ctx, const struct err *e)
{
    struct member *m = ctx;
    struct follow *follow = atomic_load(&m->admin.follow);
    if (follow)
        follow_reopen(follow, false);
}

static struct err confirm_cluster(void *ctx, const struct cluster *cluster)
{
    struct member *m = ctx;
    struct err e = identity_confirm(&m->identity, cluster ? cluster->id : NULL);
    if (err_is(&e))
        on_fatal(m, &e);
    return e;
}

/* From the refusal to the acceptance this member neither leads nor serves. */
static void on_decided(void *ctx, const struct err *why, const struct cluster *cluster,
                       uint64_t etcd)
{
    struct member *m = ctx;
    bool refused = err_is(why);
    board_set_refused(m->board, why);
    if (!refused) {
        struct err e = identity_note_etcd(&m->identity, etcd);
        if (err_is(&e))
            log_warn("%s", e.message);
        candidate_post(m->candidate, &(struct election_event){.kind = ELECTION_IDENTIFIED,
                                                              .etcd_cluster_id = etcd,
                                                              .level = cluster->format,
                                                              .epoch_floor = cluster->epoch_floor});
    }
    candidate_post(m->candidate, &(struct election_event){.kind = ELECTION_HOLD, .flag = refused});
}

/* ---- putting it together ---- */

/* The leadership that a former process of this directory had is dead: its lock is ours now. Of a
 * copy that was not so, and the word is gone. */
static struct released dead_leadership(struct store *store)
{
    char word[NONCE_DIGITS + 32];
    unsigned long long epoch;
    struct released dead = {0};
    struct store_snapshot *snap = store_snapshot_open(store);
    if (store_word(snap, REPLICA_LED_WORD, word, sizeof word) &&
        sscanf(word, "%llu %32s", &epoch, dead.nonce) == 2)
        dead.epoch = epoch;
    store_snapshot_close(snap);
    return dead;
}

static void on_token(void *arg, const char *token)
{
    guardian_tell_token(((struct member *)arg)->guardian, token);
}

/* Says at once what only an operator can put right. */
static struct err open_etcd(struct member *m)
{
    struct etcd_login_config login = m->options->login;
    login.on_token = on_token;
    login.arg = m;
    m->etcd = m->options->access;
    if (login.user)
        m->etcd.login = etcd_login_new(&login);
    return access_check(&m->etcd, login.user, m->options->prefix);
}

static bool is_alone(const struct member *m)
{
    return !m->options->etcd;
}

/* The copy of the state may know more than what was synced. */
static void see_store(struct member *m)
{
    struct restore_mark mark;
    struct record record;
    struct store_snapshot *snap = store_snapshot_open(m->store);
    int64_t revision = store_revision(snap);
    struct bytes value = store_record(snap);
    struct err e = record_decode(value, &record);
    marks_get(m->marks, &mark);
    if (revision && !err_is(&e) && replica_incarnation_of(snap) == mark.cluster.incarnation)
        marks_see(m->marks, &record, revision);
    store_snapshot_close(snap);
}

/* The leadership that the store names may be that of a process which lives. */
static struct err settle_copy(struct member *m)
{
    log_info(
        "data directory %s is a copy, or the machine was started anew: not counting on the end "
        "of who used it before",
        m->identity.dir);
    struct err e = store_set_word(m->store, REPLICA_LED_WORD, "");
    return err_is(&e) ? e : identity_settle(&m->identity);
}

static struct err open_state(struct member *m)
{
    const struct meta_options *o = m->options;
    char state[KEY_MAX], dir[1024];
    struct err e =
        identity_open(&m->identity, o->data, is_alone(m) ? "embedded" : "etcd", o->cluster);
    if (err_is(&e))
        return e;
    if (!is_alone(m))
        e = marks_open(&m->marks, o->data, m->identity.cluster_id, m->identity.etcd_cluster_id);
    if (err_is(&e))
        return e;
    snprintf(dir, sizeof dir, "%s", o->data);
    keys_state(state, o->prefix);
    e = store_open(&m->store, &(struct store_config){.dir = dir,
                                                     .state_prefix = state,
                                                     .map_bytes = (size_t)o->map_bytes,
                                                     .durable = is_alone(m)});
    if (err_is(&e) || is_alone(m))
        return e;
    see_store(m);
    return m->identity.copied[0] ? settle_copy(m) : OK_ERR;
}

static struct err start_replica(struct member *m)
{
    const struct meta_options *o = m->options;
    m->board = board_new(o->id, o->advertise);
    m->live = live_new(o->prefix, m->board);
    guardian_on_fatal_signal(m->guardian, on_fatal_signal, m->board);
    struct err e = replica_start(
        &m->replica,
        &(struct replica_config){
            .board = m->board,
            .store = m->store,
            .etcd = is_alone(m) ? NULL : &m->etcd,
            .alone = {.self = &m->self, .publish = member_publish, .failed = on_fatal, .ctx = m},
            .prefix = o->prefix,
            .member_id = o->id,
            .ttl_ms = o->ttl_ms,
            .max_pending = o->max_pending,
            .max_pending_bytes = o->max_pending_bytes,
            .dedup_bytes = o->dedup_bytes,
            .max_workers = (size_t)o->max_workers,
            .worker_ttl_ms = o->worker_ttl_ms,
            .max_txn_ops = is_alone(m) ? EMBEDDED_TXN_OPS : o->max_txn_ops});
    if (err_is(&e))
        return e;
    m->workforce = workforce_new(m->store);
    m->waiting = waiting_start(m->board, m->replica);
    m->fanout =
        fanout_start(&(struct fanout_config){.board = m->board,
                                             .store = m->store,
                                             .threads = (int)o->watch_threads,
                                             .history_bytes = (size_t)o->watch_history_bytes,
                                             .buffer_bytes = (size_t)o->watch_buffer_bytes,
                                             .max_streams = (int)o->max_watches});
    return OK_ERR;
}

static void serve_workers(struct member *m)
{
    m->workers = (struct service_cluster){.lead = &m->lead,
                                          .store = m->store,
                                          .workforce = m->workforce,
                                          .fanout = m->fanout,
                                          .live = is_alone(m) ? NULL : m->live};
    service_cluster_methods(&m->workers, m->methods + METHODS - SERVICE_REFLECTION_METHODS -
                                             SERVICE_CLUSTER_METHODS);
}

static void serve_maintenance(struct member *m)
{
    m->maintenance =
        service_maintenance_start(&(struct service_maintenance_config){.lead = &m->lead,
                                                                       .board = m->board,
                                                                       .store = m->store,
                                                                       .replica = m->replica,
                                                                       .prefix = m->options->prefix,
                                                                       .alone = is_alone(m)});
    service_maintenance_methods(m->maintenance, m->methods + SERVICE_MEMBER_METHODS +
                                                    SERVICE_HEALTH_METHODS + SERVICE_KV_METHODS);
}

static void serve_notifications(struct member *m)
{
    m->notifications = service_notification_new(
        &(struct service_notification_config){.lead = &m->lead,
                                              .board = m->board,
                                              .fanout = m->fanout,
                                              .members = m->members,
                                              .member_id = m->options->id,
                                              .addr = m->options->advertise});
    service_notification_methods(m->notifications,
                                 m->methods + METHODS - SERVICE_REFLECTION_METHODS -
                                     SERVICE_CLUSTER_METHODS - SERVICE_NOTIFICATION_METHODS);
    live_listen(m->live, on_members_changed, m->notifications);
}

static void make_services(struct member *m)
{
    const struct meta_options *o = m->options;
    m->lead =
        (struct service_lead){.board = m->board, .replica = m->replica, .waiting = m->waiting};
    m->members = service_member_start(&(struct service_member_config){.lead = &m->lead,
                                                                      .board = m->board,
                                                                      .live = m->live,
                                                                      .store = m->store,
                                                                      .member_id = o->id,
                                                                      .alone = is_alone(m),
                                                                      .marks = m->marks,
                                                                      .ttl_ms = o->ttl_ms,
                                                                      .prefix = o->prefix});
    m->health = service_health_start(m->board);
    m->kv = (struct service_kv){.lead = &m->lead,
                                .store = m->store,
                                .watch = {.lead = &m->lead, .fanout = m->fanout},
                                .default_quorum = !strcmp(o->default_consistency, "quorum")};
    service_member_methods(m->members, m->methods);
    service_health_methods(m->health, m->methods + SERVICE_MEMBER_METHODS);
    service_kv_methods(&m->kv, m->methods + SERVICE_MEMBER_METHODS + SERVICE_HEALTH_METHODS);
    serve_maintenance(m);
    serve_workers(m);
    serve_notifications(m);
    m->reflection = service_reflection_new(m->methods, METHODS);
    service_reflection_methods(m->reflection, m->methods + METHODS - SERVICE_REFLECTION_METHODS);
    board_listen(m->board, on_board_changed, m);
    meta_metrics_methods(m->methods, METHODS);
}

static struct err start_serving(struct member *m)
{
    const struct meta_options *o = m->options;
    make_services(m);
    struct err e = rpc_server_start(&m->rpc, &(struct rpc_server_config){
                                                 .listen = o->listen,
                                                 .methods = m->methods,
                                                 .method_count = METHODS,
                                                 .threads = (int)o->rpc_threads,
                                                 .answered = meta_count_rpc,
                                             });
    if (err_is(&e))
        return e;
    log_info("listening on %s", o->listen);
    if (!strcmp(o->http, "off"))
        return OK_ERR;
    m->admin = (struct admin){.member_id = o->id,
                              .alone = is_alone(m),
                              .cluster = o->cluster,
                              .board = m->board,
                              .live = m->live,
                              .store = m->store,
                              .replica = m->replica,
                              .workforce = m->workforce,
                              .max_workers = o->max_workers,
                              .fanout = m->fanout,
                              .rpc = m->rpc};
    e = admin_start(&m->admin, o->http, &m->http);
    if (!err_is(&e))
        log_info("http on %s", o->http);
    return e;
}

/* Only tests set the variable: to play a member of another version. */
static void announce_levels(struct member_info *self)
{
    const char *played = getenv("BATON_TEST_FORMAT_LEVELS");
    self->format_min = self->format_max = FORMAT_LEVEL;
    if (played && sscanf(played, "%u-%u", &self->format_min, &self->format_max) == 2)
        log_warn("BATON_TEST_FORMAT_LEVELS is set: announcing the format levels %u to %u",
                 self->format_min, self->format_max);
}

static void describe_self(struct member *m)
{
    const struct meta_options *o = m->options;
    struct member_info *self = &m->self;
    snprintf(self->id, sizeof self->id, "%s", o->id);
    snprintf(self->instance, sizeof self->instance, "%s", m->identity.instance);
    snprintf(self->start, sizeof self->start, "%s", m->identity.start_id);
    snprintf(self->addr, sizeof self->addr, "%s", o->advertise);
    if (strcmp(o->http, "off") != 0)
        snprintf(self->http_addr, sizeof self->http_addr, "%s", o->http);
    snprintf(self->version, sizeof self->version, "%s", BATON_VERSION);
    announce_levels(self);
    self->started_unix_ms = clock_unix_ms();
}

static struct err start_upkeep(struct member *m)
{
    const struct meta_options *o = m->options;
    bool is_auto = !strcmp(o->compact, "auto"), on = !strcmp(o->compact, "on");
    return upkeep_start(&m->upkeep, &(struct upkeep_config){
                                        .etcd = &m->etcd,
                                        .board = m->board,
                                        .replica = m->replica,
                                        .fanout = m->fanout,
                                        .quota_bytes = o->etcd_quota_bytes,
                                        .compact = is_auto ? UPKEEP_COMPACT_AUTO
                                                   : on    ? UPKEEP_COMPACT_ON
                                                           : UPKEEP_COMPACT_OFF,
                                        .compact_growth_bytes = o->compact_growth_bytes,
                                        .compact_every_ms = o->compact_every_ms,
                                        .compact_keep_ms = o->compact_keep_ms,
                                    });
}

static struct err start_election(struct member *m)
{
    const struct meta_options *o = m->options;
    describe_self(m);
    struct err e = candidate_start(
        &m->candidate, &(struct candidate_config){
                           .etcd = &m->etcd,
                           .prefix = o->prefix,
                           .self = m->self,
                           .ttl_ms = o->ttl_ms,
                           .etcd_cluster_id = strtoull(m->identity.etcd_cluster_id, NULL, 10),
                           .dead = dead_leadership(m->store),
                           .former_starts = m->identity.starts,
                           .hooks = {.publish = member_publish,
                                     .lead = on_lead,
                                     .close_gate = on_close_gate,
                                     .step_down = on_step_down,
                                     .drained = on_drained,
                                     .removed = on_removed,
                                     .suspect = on_suspect,
                                     .fatal = on_fatal},
                           .ctx = m,
                           .guardian = m->guardian,
                       });
    if (err_is(&e))
        return e;
    live_connect(m->live, o->id, m->candidate);
    service_member_connect(m->members, m->candidate);
    service_maintenance_connect(m->maintenance, m->candidate);
    e = follow_start(&m->follow, &(struct follow_config){.etcd = &m->etcd,
                                                         .prefix = o->prefix,
                                                         .ttl_ms = o->ttl_ms,
                                                         .live = m->live,
                                                         .replica = m->replica,
                                                         .candidate = m->candidate,
                                                         .marks = m->marks,
                                                         .confirm = confirm_cluster,
                                                         .decided = on_decided,
                                                         .board = m->board,
                                                         .ctx = m});
    if (err_is(&e))
        return e;
    e = start_upkeep(m);
    if (err_is(&e))
        return e;
    replica_connect(m->replica, &(struct replica_links){.candidate = m->candidate,
                                                        .follow = m->follow,
                                                        .waiting = m->waiting,
                                                        .upkeep = m->upkeep,
                                                        .workforce = m->workforce,
                                                        .fanout = m->fanout});
    m->replica_runs = true;
    m->admin.follow = m->follow;
    m->reporter = reporter_start(m->board, o->id);
    return OK_ERR;
}

/* ---- without etcd ---- */

/* The state names its cluster, and nothing is served before the new epoch is durable. */
static struct err take_over_alone(struct member *m)
{
    const struct meta_options *o = m->options;
    describe_self(m);
    struct err e = embedded_cluster(m->store, m->identity.cluster_id, &m->cluster);
    if (!err_is(&e))
        e = identity_confirm(&m->identity, m->cluster.id);
    if (!err_is(&e))
        e = embedded_take_over(m->store, o->prefix, &m->self, &m->cluster, "restarted", &m->alone);
    if (!err_is(&e))
        log_info("embedded: alone and without etcd, on the durable state in %s/state; cluster %s",
                 o->data, m->cluster.id);
    return e;
}

/* In place of an election: the list of members is this one, and it leads. */
static void start_leading(struct member *m)
{
    char key[KEY_MAX];
    struct buf value = {0};
    member_info_encode(&m->self, &value);
    live_reset(m->live,
               &(struct etcd_kv){.key = keys_member(key, m->options->prefix, m->self.id),
                                 .value = buf_view(&value)},
               1, 1);
    buf_close(&value);
    board_set_cluster(m->board, &m->cluster);
    member_publish(m, ROLE_ACTIVATING, m->alone.epoch);
    replica_connect(m->replica, &(struct replica_links){.waiting = m->waiting,
                                                        .workforce = m->workforce,
                                                        .fanout = m->fanout});
    m->replica_runs = true;
    replica_lead(m->replica, &m->alone);
}

struct err member_start(struct member *m)
{
    struct err e = open_state(m);
    if (!err_is(&e))
        e = is_alone(m) ? take_over_alone(m) : open_etcd(m);
    if (!err_is(&e))
        e = start_replica(m);
    if (!err_is(&e))
        e = start_serving(m);
    if (!err_is(&e) && is_alone(m))
        start_leading(m);
    else if (!err_is(&e))
        e = start_election(m);
    return e;
}
