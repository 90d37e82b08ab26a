/* A member's life: it starts, waits for the signal that ends it, and stops in order. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/io/etcd_login.h"
#include "meta/board.h"
#include "meta/candidate.h"
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
#include <unistd.h>

enum { EXIT_GRACE_MS = 2000 }; /* past --drain-timeout, for joining what waits for etcd */

/* ---- signals ---- */

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

/* ---- the end ---- */

void member_ended(struct member *m, bool failed)
{
    pthread_mutex_lock(&m->lock);
    m->failed |= failed;
    m->drained |= !failed;
    pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&m->lock);
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
    member_publish(m, ROLE_STEPPING_DOWN, self.epoch);
    replica_stop(m->replica);
    m->replica_runs = false;
    member_ended(m, false);
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
 * The election has words for the other two until it has stopped, so they are freed behind it.
 * Once the replica and the election have stopped, every call is answered or about to be. */
static void stop(struct member *m, int64_t by_ms)
{
    reporter_stop(m->reporter);
    http_admin_stop(m->http);
    if (m->replica_runs)
        replica_stop(m->replica);
    follow_stop(m->follow);
    if (m->members)
        service_member_connect(m->members, NULL);
    if (m->maintenance)
        service_maintenance_connect(m->maintenance, NULL);
    candidate_stop(m->candidate);
    follow_free(m->follow);
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
    upkeep_stop(m->upkeep); /* it asks the fan-out */
    fanout_stop(m->fanout);
    service_notification_free(m->notifications);
    replica_free(m->replica);
    workforce_free(m->workforce);
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
    struct err e = member_start(&m);
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
