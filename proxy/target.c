#include "proxy/target.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "proxy/worker.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define DIAL_PAUSE_MIN_MS 50
#define DIAL_PAUSE_MAX_MS 1000
#define STEADY_MS 1000

static int64_t now_of(const struct target *t)
{
    return worker_now_ms(t->follow->worker);
}

struct target *target_new(struct follow *f, const char *name)
{
    int port;
    struct target *t = mem_alloc(sizeof *t);
    struct err e = options_split_address(name, t->host, sizeof t->host, &port);
    if (err_is(&e) || strlen(name) >= sizeof t->name) {
        log_warn("cannot use the address %.200s: %s", name, e.message);
        free(t);
        return NULL;
    }
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->port, sizeof t->port, "%d", port);
    t->follow = f;
    t->seed = -1;
    t->stale = true;
    question_init_watch(&t->watch, t);
    question_init_list(&t->list, t);
    t->backoff = (struct backoff){.min_ms = DIAL_PAUSE_MIN_MS, .max_ms = DIAL_PAUSE_MAX_MS};
    return t;
}

static void on_failure(struct target *t, const char *why)
{
    static struct log_limit limit;
    struct worker *w = t->follow->worker;
    stat_add(&w->stats.connect_failures, 1);
    t->stale = true;
    t->address_next++;
    t->dial_not_before_ms = now_of(t) + backoff_next_ms(&t->backoff, &w->rng);
    if (w->index == 0)
        log_limited(&limit, LOG_INFO, "%s: cannot connect: %s", t->name, why);
}

/* Half-open connections are found by the kernel, and writes leave at once. */
static void set_socket_options(int fd)
{
    int on = 1, seconds = 1, probes = 2, patience_ms = 2000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
}

/* The session starts on a socket that is still connecting: what it writes waits for it, and a
 * refusal is a connection that ends before it was ready. */
static void connect_next(struct target *t)
{
    const struct sockaddr_storage *a = &t->addresses[t->address_next % t->address_count];
    int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        on_failure(t, strerror(errno));
        return;
    }
    set_socket_options(fd);
    socklen_t len =
        a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (connect(fd, (const struct sockaddr *)a, len) != 0 && errno != EINPROGRESS) {
        on_failure(t, strerror(errno));
        close(fd);
        return;
    }
    stat_add(&t->follow->worker->stats.connects, 1);
    t->links[t->link_count++] = uplink_open(t, fd);
}

static void take_addresses(struct target *t, const struct addrinfo *list)
{
    t->address_count = 0;
    for (const struct addrinfo *i = list; i && t->address_count < TARGET_ADDRESSES_MAX;
         i = i->ai_next)
        if (i->ai_family == AF_INET || i->ai_family == AF_INET6)
            memcpy(&t->addresses[t->address_count++], i->ai_addr, i->ai_addrlen);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct target *t = request->data;
    t->resolving = false;
    if (status == 0 && !t->removed) {
        t->stale = false;
        take_addresses(t, list);
        follow_on_addresses(t->follow, t, list);
    }
    uv_freeaddrinfo(list);
    if (t->removed)
        return;
    if (status != 0 || t->address_count == 0)
        on_failure(t, status ? uv_strerror(status) : "no address");
    else
        connect_next(t);
}

static void resolve(struct target *t)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    t->resolve.data = t;
    int failed = uv_getaddrinfo(&t->follow->worker->loop, &t->resolve, on_resolved, t->host,
                                t->port, &hints);
    if (failed)
        on_failure(t, uv_strerror(failed));
    else
        t->resolving = true;
}

static size_t links_to_stay(const struct target *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->link_count; i++)
        n += !t->links[i]->retired;
    return n;
}

static void dial_another(struct target *t)
{
    if (t->removed || t->resolving || t->link_count == TARGET_LINKS_MAX ||
        now_of(t) < t->dial_not_before_ms)
        return;
    if (t->stale || t->address_count == 0)
        resolve(t);
    else
        connect_next(t);
}

void target_dial(struct target *t)
{
    if (links_to_stay(t) == 0)
        dial_another(t);
}

void target_hurry(struct target *t)
{
    t->dial_not_before_ms = 0;
    backoff_reset(&t->backoff);
    target_dial(t);
}

struct uplink *target_pick(struct target *t)
{
    bool coming = t->resolving;
    for (size_t i = 0; i < t->link_count; i++) {
        if (uplink_has_room(t->links[i]))
            return t->links[i];
        coming |= !t->links[i]->ready;
    }
    if (!coming &&
        links_to_stay(t) < (size_t)t->follow->worker->shared->options.upstream_connections)
        dial_another(t);
    return NULL;
}

void target_on_ready(struct target *t, struct uplink *l)
{
    follow_on_ready(t->follow, l);
}

/* A connection that was steady is dialled again at once, one that comes and goes is not. */
static void pause_after_loss(struct target *t, int64_t lived_ms)
{
    if (lived_ms >= STEADY_MS)
        backoff_reset(&t->backoff);
    else
        t->dial_not_before_ms = now_of(t) + backoff_next_ms(&t->backoff, &t->follow->worker->rng);
}

void target_on_lost(struct target *t, struct uplink *l, const char *why)
{
    static struct log_limit limit;
    for (size_t i = 0; i < t->link_count; i++)
        if (t->links[i] == l)
            t->links[i] = t->links[--t->link_count];
    if (!l->ready) {
        on_failure(t, why);
    } else if (!l->retired) {
        stat_add(&t->follow->worker->stats.connections_lost, 1);
        log_limited(&limit, LOG_INFO, "%s: connection lost: %s", t->name, why);
        pause_after_loss(t, now_of(t) - l->opened_ms);
    }
    target_dial(t);
}

void target_on_retired(struct target *t, const struct uplink *l)
{
    pause_after_loss(t, now_of(t) - l->opened_ms);
    target_dial(t);
}

bool target_is_ready(const struct target *t)
{
    for (size_t i = 0; i < t->link_count; i++)
        if (t->links[i]->ready && !t->links[i]->retired)
            return true;
    return false;
}

void target_tick(struct target *t, int64_t now_ms)
{
    for (size_t i = 0; i < t->link_count; i++)
        uplink_tick(t->links[i], now_ms);
    target_dial(t);
}

void target_remove(struct target *t)
{
    t->removed = true;
    for (size_t i = 0; i < t->link_count; i++)
        session_fail(&t->links[i]->session, "no member any more");
    if (t->resolving)
        uv_cancel((uv_req_t *)&t->resolve);
}
