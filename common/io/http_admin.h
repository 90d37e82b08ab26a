/* The HTTP side of a program: metrics, health, status. GET and HEAD only, small answers, loopback
 * by default. Handlers run on the server's one thread, one after the other. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"

struct http_answer {
    int status; /* 200 unless the handler sets another */
    const char
        *content_type; /* static; "text/plain; charset=utf-8" unless the handler sets another */
    struct buf body;   /* filled by the handler, freed by the server */
};

struct http_admin_route {
    const char *path; /* "/metrics"; compared whole */
    /* query: what follows '?', still encoded, or "". Must not block. */
    void (*handle)(void *ctx, const char *query, struct http_answer *out);
};

struct http_admin;

/* Listens on "HOST:PORT" (port 0: any free one; no host: every IPv4 address) until http_admin_stop.
 * The routes and what ctx points to must live until then. IN_USE, DENIED, USAGE or IO errors name
 * the address. */
struct err http_admin_start(const char *addr, const struct http_admin_route *routes, size_t count,
                            void *ctx, struct http_admin **out);
int http_admin_port(const struct http_admin *admin); /* the port it really listens on */
void http_admin_stop(
    struct http_admin *admin); /* no handler runs any more after it; NULL is fine */
