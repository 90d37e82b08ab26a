#include "meta/guardian.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/io/etcd.h"
#include "meta/core/fence.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_TIMEOUT_MS = 150, TIMEOUT_MAX_MS = 500, LET_GO_MS = 3000 };

/* What goes through the pipe: at most PIPE_BUF bytes, so whole or not at all. */
struct message {
    enum { WILL, TOKEN, DYING } kind; /* DYING: a fatal signal was caught */
    union {
        struct {
            int64_t lease;
            struct released release;
        };
        char token[ETCD_TOKEN_MAX];
    };
};
_Static_assert(sizeof(struct message) <= PIPE_BUF, "messages of several threads must not mix");

struct guardian_link {
    int fd;
    struct message will; /* the last one; it may not be in the pipe yet */
    bool heard;
    void (*close_gate)(void *arg);
    void *arg;
};

struct guardian {
    const struct guardian_config *cfg;
    struct etcd_client *etcd; /* NULL: there is nothing to let go */
    struct etcd_login *login;
    int pipe, signals;
    pid_t child;
    struct message will;
    bool ended;
    int status;
    struct log_limit limit;
};

/* ---- in the child ---- */

/* False when the pipe is full. A guardian that is gone takes its child with it. */
static bool write_message(struct guardian_link *link, const struct message *m)
{
    ssize_t n;
    while ((n = write(link->fd, m, sizeof *m)) < 0 && errno == EINTR)
        ;
    return n >= 0 || errno != EAGAIN;
}

bool guardian_heard(struct guardian_link *link)
{
    if (!link->heard)
        link->heard = write_message(link, &link->will);
    return link->heard;
}

void guardian_tell(struct guardian_link *link, int64_t lease, const struct released *release)
{
    link->will = (struct message){.kind = WILL, .lease = lease, .release = *release};
    link->heard = false;
    guardian_heard(link);
}

void guardian_tell_token(struct guardian_link *link, const char *token)
{
    struct message m = {.kind = TOKEN};
    PRE(strlen(token) < sizeof m.token);
    memcpy(m.token, token, strlen(token) + 1);
    write_message(link, &m);
}

/* A signal handler has no argument of its own. */
static struct guardian_link *fatal_link;

static void on_fatal_signal(int sig)
{
    struct guardian_link *link = fatal_link;
    static const struct message dying = {.kind = DYING};
    link->close_gate(link->arg);
    write_message(link, &dying);
    raise(sig); /* the handler is gone by now: the default action ends the process */
}

void guardian_on_fatal_signal(struct guardian_link *link, void (*close_gate)(void *arg), void *arg)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    struct sigaction action = {.sa_handler = on_fatal_signal,
                               .sa_flags = SA_RESETHAND | SA_NODEFER | SA_ONSTACK};
    link->close_gate = close_gate;
    link->arg = arg;
    fatal_link = link;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigaction(fatal[i], &action, NULL);
}

/* ---- letting go ---- */

/* Until etcd has answered, or time is up. What is sent may be sent twice, so a slow endpoint is not
 * waited for at first: others wait for this. */
static bool call_until(struct guardian *g, const char *path, struct bytes body, int64_t until_ms)
{
    for (int i = 0; clock_boot_ms() < until_ms; i++) {
        struct etcd_reply reply = {0};
        int endpoint = i % etcd_endpoint_count(g->etcd);
        int timeout_ms = FIRST_TIMEOUT_MS * (i + 1);
        if (timeout_ms > TIMEOUT_MAX_MS)
            timeout_ms = TIMEOUT_MAX_MS;
        struct err e = etcd_call_wait(g->etcd, path, body, endpoint, timeout_ms, &reply);
        etcd_reply_close(&reply);
        if (!err_is(&e) || e.code == ERR_KEY_NOT_FOUND)
            return true;
        log_limited(&g->limit, LOG_WARN, "guardian: %s: %s", path, e.message);
        if (e.code != ERR_LOST)
            poll(NULL, 0, 50); /* every endpoint may refuse at once */
    }
    return false;
}

static void let_go(struct guardian *g)
{
    struct fence_txn txn = {0};
    struct buf body = {0}, revoke = {0};
    int64_t until_ms = clock_boot_ms() + LET_GO_MS;
    if (!g->will.lease || !g->etcd)
        return;
    fence_make_release(&txn, g->cfg->prefix, g->will.lease, 0, &g->will.release);
    etcd_encode_txn(&body, &txn.txn);
    etcd_encode_lease(&revoke, g->will.lease);
    bool gone = call_until(g, ETCD_PATH_TXN, buf_view(&body), until_ms);
    if (gone && g->will.release.epoch)
        log_info("guardian: released the leadership of epoch %llu",
                 (unsigned long long)g->will.release.epoch);
    call_until(g, ETCD_PATH_LEASE_REVOKE, buf_view(&revoke), until_ms);
    g->will = (struct message){0};
    fence_txn_close(&txn);
    buf_close(&body);
    buf_close(&revoke);
}

/* ---- in the parent ---- */

/* All that is in the pipe. At its end the child has closed it, most likely by dying. */
static void read_will(struct guardian *g)
{
    struct message m;
    while (g->pipe >= 0) {
        ssize_t n = read(g->pipe, &m, sizeof m);
        if (n == (ssize_t)sizeof m) {
            if (m.kind == DYING)
                let_go(g);
            else if (m.kind == WILL)
                g->will = m;
            else if (g->login)
                etcd_login_hand_over(g->login, m.token);
        } else if (n == 0) {
            close(g->pipe);
            g->pipe = -1;
        } else if (errno != EINTR) {
            break;
        }
    }
}

/* As process 1 of a container the guardian inherits orphans, and reaps them too. */
static void reap(struct guardian *g)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != g->child || (!WIFEXITED(status) && !WIFSIGNALED(status)))
            continue;
        g->ended = true;
        g->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static void read_signals(struct guardian *g)
{
    struct signalfd_siginfo info;
    while (read(g->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            reap(g);
        else
            kill(g->child, (int)info.ssi_signo);
    }
}

static int watch_child(struct guardian *g)
{
    while (!g->ended) {
        struct pollfd fds[] = {{.fd = g->signals, .events = POLLIN},
                               {.fd = g->pipe, .events = POLLIN}};
        poll(fds, 2, -1); /* also when it fails: nothing is let go while the child lives */
        read_will(g);     /* first: what it said before it died */
        read_signals(g);
    }
    read_will(g);
    if (g->status > 128)
        log_error("guardian: the member was ended by signal %d (%s)", g->status - 128,
                  strsignal(g->status - 128));
    let_go(g);
    return g->status;
}

static void guarded_signals(sigset_t *set)
{
    static const int guarded[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof guarded / sizeof *guarded; i++)
        sigaddset(set, guarded[i]);
}

static int run_parent(const struct guardian_config *cfg, pid_t child, int pipe_end)
{
    struct guardian g = {.cfg = cfg, .pipe = pipe_end, .child = child, .status = 1};
    sigset_t set;
    guarded_signals(&set);
    prctl(PR_SET_NAME, "baton-guardian");
    g.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    PRE(g.signals >= 0);
    if (cfg->etcd) {
        struct etcd_config etcd = {.access = *cfg->etcd, .name = "guardian"};
        etcd.access.transport = ETCD_JSON; /* both its requests on one connection made for them */
        if (cfg->login->user)
            etcd.access.login = g.login = etcd_login_new(cfg->login);
        struct err e = etcd_client_new(&g.etcd, &etcd);
        if (err_is(&e))
            log_warn("guardian: %s", e.message); /* the member says the same, and exits */
    }
    int status = watch_child(&g);
    etcd_client_free(g.etcd);
    etcd_login_free(g.login);
    if (g.pipe >= 0)
        close(g.pipe);
    close(g.signals);
    return status;
}

static int run_child(int pipe_end, pid_t parent, const sigset_t *mask,
                     int (*child_main)(struct guardian_link *, void *), void *arg)
{
    struct guardian_link link = {.fd = pipe_end, .heard = true};
    fcntl(pipe_end, F_SETFL, O_NONBLOCK);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);  /* it died before it could be watched */
    setpgid(0, 0); /* a terminal's signals reach the guardian only, and come on from there once */
    sigprocmask(SIG_SETMASK, mask, NULL);
    return child_main(&link, arg);
}

int guardian_run(const struct guardian_config *cfg,
                 int (*child_main)(struct guardian_link *link, void *arg), void *arg)
{
    int ends[2];
    sigset_t set, before;
    guarded_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &before);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_error("guardian: pipe: %s", strerror(errno));
        return 1;
    }
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        log_error("guardian: fork: %s", strerror(errno));
        return 1;
    }
    if (child == 0) {
        close(ends[0]);
        return run_child(ends[1], parent, &before, child_main, arg);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return run_parent(cfg, child, ends[0]);
}
