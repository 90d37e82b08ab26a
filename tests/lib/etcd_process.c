#include "tests/lib/etcd_process.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/etcd.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGS 40

struct etcd_process {
    pid_t pid; /* 0: not running */
    int generation;
    char *dir, *url, *peer_url;
    const char *const *flags;
};

int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    POST(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
    POST(getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void run_etcd(const struct etcd_process *p, char *data_dir, char *log)
{
    char *args[MAX_ARGS] = {"etcd",
                            "--data-dir",
                            data_dir,
                            "--listen-client-urls",
                            p->url,
                            "--advertise-client-urls",
                            p->url,
                            "--listen-peer-urls",
                            p->peer_url,
                            "--initial-advertise-peer-urls",
                            p->peer_url,
                            "--initial-cluster",
                            mem_printf("default=%s", p->peer_url),
                            "--initial-cluster-token",
                            data_dir,
                            "--logger",
                            "zap",
                            "--log-level",
                            "error",
                            "--experimental-watch-progress-notify-interval",
                            "100ms"};
    int n = 0;
    while (args[n])
        n++;
    for (const char *const *flag = p->flags; flag && *flag && n < MAX_ARGS - 1; flag++)
        args[n++] = (char *)*flag;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execvp("etcd", args);
    _exit(127);
}

static void spawn(struct etcd_process *p)
{
    char *data_dir = mem_printf("%s/data-%d", p->dir, p->generation);
    char *log = mem_printf("%s/log", p->dir);
    pid_t parent = getpid();
    p->pid = fork();
    POST(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            run_etcd(p, data_dir, log);
        _exit(127);
    }
    free(data_dir);
    free(log);
}

/* It has a leader once it answers a read. */
static void wait_until_ready(struct etcd_process *p)
{
    struct etcd_client *c;
    struct etcd_config cfg = {.access.endpoints = p->url, .name = "etcd-ready"};
    struct err e = etcd_client_new(&c, &cfg);
    POST(!err_is(&e));
    struct etcd_op range = {.kind = ETCD_OP_RANGE, .key = bytes_str("a")};
    struct buf body = {0};
    etcd_encode_range(&body, &range);
    int64_t until_ms = clock_boot_ms() + 30000;
    do {
        struct etcd_reply reply;
        POST(clock_boot_ms() < until_ms);
        POST(waitpid(p->pid, NULL, WNOHANG) == 0);
        e = etcd_call_wait(c, ETCD_PATH_RANGE, buf_view(&body), 0, 1000, &reply);
        etcd_reply_close(&reply);
        usleep(err_is(&e) ? 10000 : 0);
    } while (err_is(&e));
    buf_close(&body);
    etcd_client_free(c);
}

struct etcd_process *etcd_process_start(const char *const *flags)
{
    char *url = mem_printf("http://127.0.0.1:%d", free_port());
    struct etcd_process *p = etcd_process_start_at(url, flags);
    free(url);
    return p;
}

struct etcd_process *etcd_process_start_at(const char *url, const char *const *flags)
{
    struct etcd_process *p = mem_alloc(sizeof *p);
    const char *tmp = getenv("TMPDIR");
    p->dir = mem_printf("%s/baton-etcd-XXXXXX", tmp ? tmp : P_tmpdir);
    POST(mkdtemp(p->dir));
    p->url = mem_strdup(url);
    p->peer_url = mem_printf("http://127.0.0.1:%d", free_port());
    p->flags = flags;
    spawn(p);
    wait_until_ready(p);
    return p;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

void etcd_process_free(struct etcd_process *p)
{
    if (!p)
        return;
    if (p->pid)
        etcd_process_kill(p, SIGKILL);
    nftw(p->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(p->dir), free(p->url), free(p->peer_url);
    free(p);
}

const char *etcd_process_url(const struct etcd_process *p)
{
    return p->url;
}

void etcd_process_signal(struct etcd_process *p, int number)
{
    PRE(p->pid > 0);
    kill(p->pid, number);
}

void etcd_process_kill(struct etcd_process *p, int number)
{
    etcd_process_signal(p, number);
    POST(waitpid(p->pid, NULL, 0) == p->pid);
    p->pid = 0;
}

void etcd_process_restart(struct etcd_process *p)
{
    PRE(p->pid == 0);
    spawn(p);
    wait_until_ready(p);
}

void etcd_process_wipe(struct etcd_process *p)
{
    PRE(p->pid == 0);
    p->generation++;
}
