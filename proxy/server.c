#include "proxy/server.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096
#define ACCEPTS_PER_TURN 64
/* Descriptors that stay free for connections to members, logs and HTTP. */
#define RESERVED_FDS 64
#define ACCEPT_PAUSE_MS 100

struct server {
    struct proxy_shared *shared;
    uv_loop_t loop;
    uv_poll_t listener;
    uv_timer_t pause;
    uv_signal_t terminate, interrupt;
    uv_async_t ended;
    int fd;
    struct worker **workers;
    size_t worker_count;
    unsigned workers_over; /* counted by the workers' threads */
    size_t max_clients;
    uint64_t refused;
    bool listening, draining;
    bool hasty; /* told twice to end */
};

static size_t all_clients(const struct server *s, struct worker **fewest)
{
    size_t all = 0;
    unsigned least = UINT32_MAX;
    for (size_t i = 0; i < s->worker_count; i++) {
        unsigned load = __atomic_load_n(&s->workers[i]->load, __ATOMIC_RELAXED);
        all += load;
        if (load < least) {
            least = load;
            *fewest = s->workers[i];
        }
    }
    return all;
}

static void name_peer(const struct sockaddr_storage *a, char out[46])
{
    const void *address = a->ss_family == AF_INET
                              ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                              : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;
    if (!inet_ntop(a->ss_family, address, out, 46))
        snprintf(out, 46, "unknown");
    if (!strncmp(out, "::ffff:", 7) && strchr(out, '.'))
        memmove(out, out + 7, strlen(out + 7) + 1);
}

/* Clients that vanish without a word are found by the kernel. */
static void set_client_options(int fd)
{
    int on = 1, idle = 60, interval = 10, probes = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
    struct server *s = timer->data;
    if (!s->draining)
        uv_poll_start(&s->listener, UV_READABLE, on_acceptable);
}

static void pause_accepting(struct server *s, const char *why)
{
    static struct log_limit limit;
    log_limited(&limit, LOG_WARN, "not accepting for a moment: %s", why);
    uv_poll_stop(&s->listener);
    uv_timer_start(&s->pause, on_pause_over, ACCEPT_PAUSE_MS, 0);
}

static bool accept_one(struct server *s)
{
    static struct log_limit limit;
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    int fd = accept4(s->fd, (struct sockaddr *)&a, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            pause_accepting(s, strerror(errno));
        return false;
    }
    char peer[46];
    struct worker *fewest = NULL;
    name_peer(&a, peer);
    if (all_clients(s, &fewest) >= s->max_clients) {
        stat_add(&s->refused, 1);
        log_limited(&limit, LOG_WARN, "client %s refused: %zu connections are the limit", peer,
                    s->max_clients);
        close(fd);
        return true;
    }
    set_client_options(fd);
    worker_post(fewest, MAIL_CLIENT, fd, peer);
    return true;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct server *s = poll->data;
    for (int i = 0; i < ACCEPTS_PER_TURN && accept_one(s); i++)
        ;
}

static void post_all(struct server *s, enum mail_kind kind)
{
    for (size_t i = 0; i < s->worker_count; i++)
        worker_post(s->workers[i], kind, -1, "");
}

/* The first asks for a good end, the second for a quick one, the third waits for nobody. */
static void on_signal(uv_signal_t *handle, int number)
{
    struct server *s = handle->data;
    if (s->hasty)
        _exit(1);
    if (s->draining) {
        log_warn("ending at once");
        s->hasty = true;
        post_all(s, MAIL_STOP);
        return;
    }
    log_info("draining");
    __atomic_store_n(&s->draining, true, __ATOMIC_RELAXED);
    uv_poll_stop(&s->listener);
    close(s->fd);
    post_all(s, MAIL_DRAIN);
}

static void on_worker_end(void *arg)
{
    struct server *s = arg;
    __atomic_fetch_add(&s->workers_over, 1, __ATOMIC_RELEASE);
    uv_async_send(&s->ended);
}

static void on_ended(uv_async_t *async)
{
    struct server *s = async->data;
    if (__atomic_load_n(&s->workers_over, __ATOMIC_ACQUIRE) == s->worker_count)
        uv_stop(&s->loop);
}

static struct err listen_at(struct server *s, const char *addr)
{
    char host[256], service[8];
    int port, on = 1;
    struct err e = options_split_address(addr, host, sizeof host, &port);
    if (err_is(&e))
        return err_wrap(e, "--listen");
    snprintf(service, sizeof service, "%d", port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    int failed = getaddrinfo(host[0] ? host : NULL, service, &hints, &list);
    if (failed || !list)
        return err_make(ERR_USAGE, "--listen %s: %s", addr, gai_strerror(failed));
    s->fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    failed = s->fd < 0 || bind(s->fd, list->ai_addr, list->ai_addrlen) || listen(s->fd, BACKLOG);
    int number = errno;
    freeaddrinfo(list);
    if (failed)
        return err_make(number == EADDRINUSE ? ERR_IN_USE
                        : number == EACCES   ? ERR_DENIED
                                             : ERR_IO,
                        "--listen %s: %s", addr, strerror(number));
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    if (getsockname(s->fd, (struct sockaddr *)&a, &len) ||
        getnameinfo((struct sockaddr *)&a, len, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return err_make(ERR_IO, "--listen %s: the address in use is not known", addr);
    log_info(strchr(host, ':') ? "listening on [%s]:%s" : "listening on %s:%s", host, service);
    return OK_ERR;
}

/* As many descriptors as the system lets us have, and so many clients that some stay free. */
static void limit_clients(struct server *s)
{
    struct rlimit files;
    s->max_clients = (size_t)s->shared->options.max_connections;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    size_t others = RESERVED_FDS + s->worker_count * 16;
    if (files.rlim_cur != RLIM_INFINITY && files.rlim_cur < s->max_clients + others) {
        s->max_clients = files.rlim_cur > others ? files.rlim_cur - others : 1;
        log_warn("only %zu client connections: the limit of open files is %llu", s->max_clients,
                 (unsigned long long)files.rlim_cur);
    }
}

struct err server_start(struct proxy_shared *shared, struct server **out)
{
    struct server *s = mem_alloc(sizeof *s);
    s->shared = shared;
    *out = s;
    int failed = uv_loop_init(&s->loop);
    POST(!failed);
    signal(SIGPIPE, SIG_IGN);
    uv_signal_init(&s->loop, &s->terminate);
    uv_signal_init(&s->loop, &s->interrupt);
    uv_timer_init(&s->loop, &s->pause);
    uv_async_init(&s->loop, &s->ended, on_ended);
    s->terminate.data = s->interrupt.data = s->pause.data = s->ended.data = s;
    s->worker_count = (size_t)shared->options.workers;
    s->workers = mem_array(s->worker_count, sizeof *s->workers);
    limit_clients(s);
    struct err e = listen_at(s, shared->options.listen);
    if (err_is(&e)) {
        s->worker_count = 0;
        server_free(s);
        return e;
    }
    for (size_t i = 0; i < s->worker_count; i++)
        s->workers[i] = worker_start(shared, (int)i, on_worker_end, s);
    failed = uv_poll_init(&s->loop, &s->listener, s->fd);
    POST(!failed);
    s->listener.data = s;
    s->listening = true;
    return OK_ERR;
}

size_t server_worker_count(const struct server *s)
{
    return s->worker_count;
}

struct worker *server_worker(const struct server *s, size_t i)
{
    return s->workers[i];
}

size_t server_max_clients(const struct server *s)
{
    return s->max_clients;
}

uint64_t server_refused_clients(const struct server *s)
{
    return stat_get(&s->refused);
}

bool server_is_draining(const struct server *s)
{
    return __atomic_load_n(&s->draining, __ATOMIC_RELAXED);
}

bool server_run(struct server *s)
{
    uv_poll_start(&s->listener, UV_READABLE, on_acceptable);
    uv_signal_start(&s->terminate, on_signal, SIGTERM);
    uv_signal_start(&s->interrupt, on_signal, SIGINT);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return !s->hasty;
}

void server_stop(struct server *s)
{
    close(s->fd);
    post_all(s, MAIL_STOP);
}

void server_free(struct server *s)
{
    for (size_t i = 0; i < s->worker_count; i++)
        worker_join(s->workers[i]);
    if (s->listening)
        uv_close((uv_handle_t *)&s->listener, NULL);
    uv_close((uv_handle_t *)&s->pause, NULL);
    uv_close((uv_handle_t *)&s->terminate, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
    uv_close((uv_handle_t *)&s->ended, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    free(s->workers);
    free(s);
}
