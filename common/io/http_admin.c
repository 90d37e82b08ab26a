#include "common/io/http_admin.h"
#include "common/base/mem.h"
#include "common/base/options.h"
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Whoever reads metrics needs few connections; more must not take descriptors from the real work.
 */
enum {
    CONNECTIONS_MAX = 64,
    CONNECTIONS_PER_ADDRESS_MAX = 32,
    IDLE_SECONDS = 30,
    REQUEST_BYTES_MAX = 16 * 1024,
    BACKLOG = 64
};

struct http_admin {
    const struct http_admin_route *routes;
    size_t count;
    void *ctx;
    struct MHD_Daemon *daemon;
    int port;
};

static struct err socket_error(const char *addr, const char *what)
{
    int code = errno;
    if (code == EADDRINUSE)
        return err_make(ERR_IN_USE, "%s: another program listens there already", addr);
    return err_make(code == EACCES ? ERR_DENIED : ERR_IO, "%s: cannot %s: %s", addr, what,
                    strerror(code));
}

static struct err resolve(const char *addr, struct addrinfo **out)
{
    char host[256], service[8];
    int port;
    struct err e = options_split_address(addr, host, sizeof host, &port);
    if (err_is(&e))
        return e;
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int failed = getaddrinfo(host[0] ? host : NULL, service, &hints, out);
    if (failed)
        return err_make(ERR_USAGE, "%s: %s", addr, gai_strerror(failed));
    return OK_ERR;
}

static int port_of(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    char service[8] = "0";
    if (getsockname(fd, (struct sockaddr *)&at, &len) == 0)
        getnameinfo((struct sockaddr *)&at, len, NULL, 0, service, sizeof service, NI_NUMERICSERV);
    return (int)strtol(service, NULL, 10);
}

/* A listening socket of our own instead of the library's: its errors say what is wrong. */
static struct err listen_on(const char *addr, int *out)
{
    struct addrinfo *found;
    struct err e = resolve(addr, &found);
    if (err_is(&e))
        return e;
    int one = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        e = socket_error(addr, "make a socket");
    else if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0)
        e = socket_error(addr, "set a socket option");
    else if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        e = socket_error(addr, "listen");
    freeaddrinfo(found);
    if (err_is(&e) && fd >= 0)
        close(fd);
    *out = fd;
    return e;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct http_answer *answer)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->body.len, answer->body.data, MHD_RESPMEM_MUST_COPY);
    buf_close(&answer->body);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", answer->content_type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result sent = MHD_queue_response(connection, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return sent;
}

static void list_routes(const struct http_admin *admin, struct http_answer *out)
{
    out->status = MHD_HTTP_NOT_FOUND;
    buf_str(&out->body, "Nothing here. There is:\n");
    for (size_t i = 0; i < admin->count; i++)
        buf_printf(&out->body, "%s\n", admin->routes[i].path);
}

static void route(const struct http_admin *admin, const char *path, const char *query,
                  struct http_answer *out)
{
    for (size_t i = 0; i < admin->count; i++) {
        if (!strcmp(admin->routes[i].path, path)) {
            admin->routes[i].handle(admin->ctx, query, out);
            return;
        }
    }
    list_routes(admin, out);
}

/* One request, from its first line until its answer was sent. */
struct request {
    char *target; /* as it was sent; a handler is only shown its path */
    bool headers_seen;
};

static void *begin_request(void *ctx, const char *target, struct MHD_Connection *connection)
{
    (void)ctx, (void)connection;
    struct request *r = mem_alloc(sizeof *r);
    r->target = mem_strdup(target);
    return r;
}

static void end_request(void *ctx, struct MHD_Connection *connection, void **request,
                        enum MHD_RequestTerminationCode why)
{
    (void)ctx, (void)connection, (void)why;
    struct request *r = *request;
    if (!r)
        return;
    free(r->target);
    free(r);
    *request = NULL;
}

/* Called with the headers, then for each piece of a body, then at the end. The library closes the
 * connection of a request that is answered before its end, which is right for a refusal only. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    (void)version, (void)upload;
    struct request *r = *request;
    struct http_answer answer = {.status = MHD_HTTP_OK,
                                 .content_type = "text/plain; charset=utf-8"};
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        answer.status = MHD_HTTP_METHOD_NOT_ALLOWED;
        buf_str(&answer.body, "Only GET and HEAD are served here.\n");
        return send_answer(connection, &answer);
    }
    if (!r->headers_seen || *upload_size) {
        r->headers_seen = true;
        *upload_size = 0;
        return MHD_YES;
    }
    const char *mark = strchr(r->target, '?');
    route(ctx, path, mark ? mark + 1 : "", &answer);
    return send_answer(connection, &answer);
}

/* The server's thread takes no signals: they are for the program's own thread. */
static struct MHD_Daemon *start_daemon(struct http_admin *admin, int fd)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, on_request, admin,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, begin_request, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, end_request, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_PER_ADDRESS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES_MAX,
        MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

struct err http_admin_start(const char *addr, const struct http_admin_route *routes, size_t count,
                            void *ctx, struct http_admin **out)
{
    int fd;
    *out = NULL;
    struct err e = listen_on(addr, &fd);
    if (err_is(&e))
        return e;
    struct http_admin *admin = mem_alloc(sizeof *admin);
    *admin = (struct http_admin){.routes = routes, .count = count, .ctx = ctx, .port = port_of(fd)};
    admin->daemon = start_daemon(admin, fd);
    if (!admin->daemon) {
        close(fd);
        free(admin);
        return err_make(ERR_IO, "%s: cannot start the HTTP server", addr);
    }
    *out = admin;
    return OK_ERR;
}

int http_admin_port(const struct http_admin *admin)
{
    return admin->port;
}

void http_admin_stop(struct http_admin *admin)
{
    if (!admin)
        return;
    MHD_stop_daemon(admin->daemon);
    free(admin);
}
