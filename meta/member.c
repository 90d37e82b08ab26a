#include "meta/member.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/io/rpc_server.h"
#include "common/io/etcd_login.h"
#include "meta/access.h"
#include "meta/admin.h"
#include "meta/board.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/embedded.h"
#include "meta/follow.h"
#include "meta/guardian.h"
#include "meta/identity.h"
#include "meta/live.h"
#include "meta/marks.h"
#include "meta/metrics.h"
#include "meta/options.h"
#include "meta/replica.h"
#include "meta/reporter.h"
#include "meta/service_health.h"
#include "meta/service_kv.h"
#include "meta/service_maintenance.h"
#include "meta/service_member.h"
#include "meta/service_reflection.h"
#include "meta/store.h"
#include "meta/waiting.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FORMAT_LEVEL = 1,
    METHODS = SERVICE_MEMBER_METHODS + SERVICE_HEALTH_METHODS + SERVICE_KV_METHODS +
              SERVICE_MAINTENANCE_METHODS + SERVICE_REFLECTION_METHODS
};

struct member {
    const struct meta_options *options;
    struct guardian_link *guardian;
    struct etcd_access etcd;
    struct identity identity;
    struct member_info self;
    struct marks *marks;
    struct store *store;
    struct board *board;
    struct live *live;
    struct replica *replica;
    struct waiting *waiting;
    struct candidate *candidate;
    struct follow *follow;
    struct service_member *members;
    struct service_health *health;
    struct service_kv kv;
    struct service_maintenance *maintenance;
    struct service_reflection *reflection;
    struct rpc_method methods[METHODS];
    struct rpc_server *rpc;
    struct admin admin;
    struct http_admin *http;
    struct reporter *reporter;
    bool replica_runs;
    _Atomic bool fatal_told;

    /* of a member without etcd */
    struct cluster cluster;
    struct leadership alone;

    /* what ends the process */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool draining, drained, failed;
};

enum { EXIT_GRACE_MS = 2000 }; /* past --drain-timeout, for joining what waits for etcd */

/* ---- what the election tells ---- */

static void on_publish(void *ctx, enum role role, uint64_t epoch)
{
    struct member *m = ctx;
    if (role == ROLE_LEADER)
        log_info("leads with epoch %llu", (unsigned long long)epoch);
    board_set_role(m->board, role, epoch);
    meta_note_published(role);
}

/* Alone: of the replica, which leads from the start. */
static void on_alone(void *ctx, enum role role, uint64_t epoch)
{
    on_publish(ctx, role, epoch);
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

static void end(struct member *m, bool failed)
{
    pthread_mutex_lock(&m->lock);
    m->failed |= failed;
    m->drained |= !failed;
    pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&m->lock);
}

static void on_drained(void *ctx)
{
    end(ctx, false);
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
    end(m, true);
}

static void on_fatal_signal(void *arg)
{
    board_close_gate_now(arg);
}

static void on_board_changed(void *arg)
{
    struct member *m = arg;
    service_member_changed(m->members);
    waiting_on_role(m->waiting);
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
                                                              .level = cluster->format});
    }
    candidate_post(m->candidate, &(struct election_event){.kind = ELECTION_HOLD, .flag = refused});
}

/* ---- putting it together ---- */

/* The leadership that a former process of this directory had is dead: its lock is ours now. */
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
    if (!err_is(&e) && m->marks)
        see_store(m);
    return e;
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
            .alone = {.self = &m->self, .publish = on_alone, .failed = on_fatal, .ctx = m},
            .prefix = o->prefix,
            .member_id = o->id,
            .ttl_ms = o->ttl_ms,
            .max_pending = o->max_pending,
            .max_pending_bytes = o->max_pending_bytes,
            .dedup_bytes = o->dedup_bytes,
            .max_txn_ops = is_alone(m) ? EMBEDDED_TXN_OPS : o->max_txn_ops});
    if (!err_is(&e))
        m->waiting = waiting_start(m->board, m->replica);
    return e;
}

static struct err start_serving(struct member *m)
{
    const struct meta_options *o = m->options;
    m->members = service_member_start(&(struct service_member_config){.board = m->board,
                                                                      .live = m->live,
                                                                      .store = m->store,
                                                                      .member_id = o->id,
                                                                      .alone = is_alone(m),
                                                                      .prefix = o->prefix});
    m->health = service_health_start(m->board);
    m->kv = (struct service_kv){.board = m->board,
                                .store = m->store,
                                .replica = m->replica,
                                .waiting = m->waiting,
                                .default_quorum = !strcmp(o->default_consistency, "quorum")};
    service_member_methods(m->members, m->methods);
    service_health_methods(m->health, m->methods + SERVICE_MEMBER_METHODS);
    service_kv_methods(&m->kv, m->methods + SERVICE_MEMBER_METHODS + SERVICE_HEALTH_METHODS);
    m->maintenance =
        service_maintenance_start(&(struct service_maintenance_config){.board = m->board,
                                                                       .store = m->store,
                                                                       .replica = m->replica,
                                                                       .prefix = o->prefix,
                                                                       .alone = is_alone(m)});
    service_maintenance_methods(m->maintenance, m->methods + SERVICE_MEMBER_METHODS +
                                                    SERVICE_HEALTH_METHODS + SERVICE_KV_METHODS);
    m->reflection = service_reflection_new(m->methods, METHODS);
    service_reflection_methods(m->reflection, m->methods + METHODS - SERVICE_REFLECTION_METHODS);
    board_listen(m->board, on_board_changed, m);
    meta_metrics_methods(m->methods, METHODS);
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
                           .hooks = {.publish = on_publish,
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
    replica_connect(m->replica, m->candidate, m->follow, m->waiting);
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
    on_alone(m, ROLE_ACTIVATING, m->alone.epoch);
    replica_connect(m->replica, NULL, NULL, m->waiting);
    m->replica_runs = true;
    replica_lead(m->replica, &m->alone);
}

/* ---- signals and the end ---- */

static void ending_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

/* Waits for the signal that ends the process, on a thread of its own. A second one exits at once,
 * and so does a shutdown that hangs. */
static void *signal_run(void *arg)
{
    struct member *m = arg;
    sigset_t set;
    int signal;
    ending_signals(&set);
    sigwait(&set, &signal);
    log_info("signal %d: handing over and shutting down", signal);
    pthread_mutex_lock(&m->lock);
    m->draining = true;
    pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&m->lock);
    int64_t by_ms = clock_boot_ms() + m->options->drain_timeout_ms + EXIT_GRACE_MS;
    for (int64_t left = by_ms - clock_boot_ms(); left > 0; left = by_ms - clock_boot_ms()) {
        struct timespec wait = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
        if (sigtimedwait(&set, NULL, &wait) > 0) {
            log_warn("second signal: exiting at once");
            _exit(1);
        }
    }
    log_error("shutting down did not end within --drain-timeout: exiting at once");
    _exit(1);
}

/* Begins to hand over; `drained` follows. Alone there is nobody: what flies is finished, that is
 * all.
 */
static void leave(struct member *m)
{
    board_set_draining(m->board);
    if (m->candidate) {
        candidate_post(m->candidate, &(struct election_event){.kind = ELECTION_DRAIN});
        return;
    }
    struct board_self self;
    board_self(m->board, &self);
    on_alone(m, ROLE_STEPPING_DOWN, self.epoch);
    replica_stop(m->replica);
    m->replica_runs = false;
    on_drained(m);
}

/* Until it is told to end, has then resigned, or failed, or --drain-timeout has passed since the
 * signal; *by_ms is when everything should have ended. */
static bool wait_for_end(struct member *m, int64_t *by_ms)
{
    bool late = false;
    pthread_mutex_lock(&m->lock);
    while (!m->draining && !m->failed)
        pthread_cond_wait(&m->ended, &m->lock);
    struct timespec until = clock_mono_after(m->options->drain_timeout_ms);
    *by_ms = clock_boot_ms() + m->options->drain_timeout_ms;
    pthread_mutex_unlock(&m->lock);
    leave(m);
    pthread_mutex_lock(&m->lock);
    while (!m->drained && !m->failed && !late)
        late = pthread_cond_timedwait(&m->ended, &m->lock, &until) != 0;
    bool failed = m->failed || !m->drained;
    pthread_mutex_unlock(&m->lock);
    if (late)
        log_error("the resignation was not confirmed by etcd within --drain-timeout: exiting "
                  "without it");
    return failed;
}

/* In the order in which they speak to each other: follower of etcd -> election -> replica's inbox.
 * Once the replica and the election have stopped, every call is answered or about to be. */
static void stop(struct member *m, int64_t by_ms)
{
    reporter_stop(m->reporter);
    http_admin_stop(m->http);
    if (m->replica_runs)
        replica_stop(m->replica);
    follow_stop(m->follow);
    candidate_stop(m->candidate);
    if (m->board)
        board_set_role(m->board, ROLE_FOLLOWER, 0);
    waiting_drain(m->waiting);
    int64_t left_ms = by_ms - clock_boot_ms();
    if (m->rpc)
        rpc_server_drain(m->rpc, left_ms > 0 ? left_ms : 0);
    rpc_server_free(m->rpc);
    if (m->board)
        board_listen(m->board, NULL, NULL);
    service_member_stop(m->members);
    service_health_stop(m->health);
    service_maintenance_stop(m->maintenance);
    service_reflection_free(m->reflection);
    waiting_stop(m->waiting);
    replica_free(m->replica);
    live_free(m->live);
    board_free(m->board);
    store_close(m->store);
    marks_close(m->marks);
    etcd_login_free(m->etcd.login);
    identity_close(&m->identity);
}

int member_run(const struct meta_options *options, struct guardian_link *guardian)
{
    /* static: the thread that waits for signals outlives this function */
    static struct member m = {.identity = {.lock_fd = -1}};
    pthread_t signals;
    sigset_t set;
    int64_t by_ms = clock_boot_ms();
    m.options = options;
    m.guardian = guardian;
    pthread_mutex_init(&m.lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m.ended, &attr);
    pthread_condattr_destroy(&attr);
    ending_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write */
    meta_metrics_init();
    etcd_observe(meta_count_etcd);
    struct err e = open_state(&m);
    if (!err_is(&e))
        e = is_alone(&m) ? take_over_alone(&m) : open_etcd(&m);
    if (!err_is(&e))
        e = start_replica(&m);
    if (!err_is(&e))
        e = start_serving(&m);
    if (!err_is(&e) && is_alone(&m))
        start_leading(&m);
    else if (!err_is(&e))
        e = start_election(&m);
    bool failed = true;
    if (err_is(&e)) {
        log_error("%s", e.message);
    } else {
        pthread_create(&signals, NULL, signal_run, &m);
        pthread_detach(signals);
        failed = wait_for_end(&m, &by_ms);
    }
    stop(&m, by_ms);
    return failed ? 1 : 0;
}
