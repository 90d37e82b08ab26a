#include "proxy/admin.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "proxy/admin_metrics.h"
#include <stdlib.h>
#include <string.h>

struct admin {
    struct http_admin *http;
    const struct server *server;
    const struct proxy_shared *shared;
};

static uint64_t sum(const struct server *s, size_t offset)
{
    uint64_t all = 0;
    for (size_t i = 0; i < server_worker_count(s); i++)
        all += stat_get((const uint64_t *)((const char *)&server_worker(s, i)->stats + offset));
    return all;
}
#define SUM(server, field) sum(server, offsetof(struct stats, field))

static void on_metrics(void *ctx, const char *query, struct http_answer *out)
{
    const struct admin *a = ctx;
    admin_metrics_write(a->server, &out->body);
    out->content_type = "text/plain; version=0.0.4; charset=utf-8";
}

static void on_health(void *ctx, const char *query, struct http_answer *out)
{
    buf_str(&out->body, "ok\n");
}

/* Every worker follows the leader by itself: ready means all of them. */
static void on_ready(void *ctx, const char *query, struct http_answer *out)
{
    const struct admin *a = ctx;
    size_t workers = server_worker_count(a->server);
    bool strict = strstr(query, "leader") != NULL;
    uint64_t knowing = strict ? SUM(a->server, leader_known) : SUM(a->server, ever_known);
    const char *why = server_is_draining(a->server) ? "draining\n"
                      : knowing < workers           ? "no leader is known\n"
                                                    : NULL;
    out->status = why ? 503 : 200;
    buf_str(&out->body, why ? why : "ready\n");
}

static void json_string(struct buf *out, const char *s)
{
    buf_byte(out, '"');
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == '"' || *s == '\\')
            buf_printf(out, "\\u%04x", (unsigned char)*s);
        else
            buf_byte(out, (uint8_t)*s);
    buf_byte(out, '"');
}

static void json_number(struct buf *out, const char *name, uint64_t n)
{
    buf_printf(out, ", \"%s\": %llu", name, (unsigned long long)n);
}

static void on_status(void *ctx, const char *query, struct http_answer *out)
{
    const struct admin *a = ctx;
    const struct server *s = a->server;
    struct leader_told told;
    worker_leader(server_worker(s, 0), &told);
    buf_str(&out->body, "{\"version\": \"" BATON_VERSION "\", \"instance\": ");
    json_string(&out->body, a->shared->instance);
    buf_str(&out->body, ", \"cluster\": ");
    json_string(&out->body, told.cluster_id);
    buf_printf(&out->body, ", \"leader_known\": %s, \"leader\": ", told.known ? "true" : "false");
    json_string(&out->body, told.known ? told.leader_id : "");
    buf_str(&out->body, ", \"leader_addr\": ");
    json_string(&out->body, told.known ? told.addr : "");
    json_number(&out->body, "epoch", told.epoch);
    json_number(&out->body, "workers", server_worker_count(s));
    json_number(&out->body, "clients", SUM(s, clients));
    json_number(&out->body, "calls", SUM(s, calls));
    json_number(&out->body, "parked", SUM(s, parked_now));
    json_number(&out->body, "replays", SUM(s, replays));
    buf_printf(&out->body, ", \"draining\": %s}\n", server_is_draining(s) ? "true" : "false");
    out->content_type = "application/json";
}

static const struct http_admin_route routes[] = {
    {"/metrics", on_metrics},
    {"/healthz", on_health},
    {"/readyz", on_ready},
    {"/status", on_status},
};

struct err admin_start(const char *addr, const struct server *server,
                       const struct proxy_shared *shared, struct admin **out)
{
    *out = NULL;
    if (!strcmp(addr, "off"))
        return OK_ERR;
    struct admin *a = mem_alloc(sizeof *a);
    a->server = server;
    a->shared = shared;
    struct err e = http_admin_start(addr, routes, sizeof routes / sizeof routes[0], a, &a->http);
    if (err_is(&e)) {
        free(a);
        return err_wrap(e, "--http");
    }
    char host[256];
    int port;
    options_split_address(addr, host, sizeof host, &port);
    log_info(strchr(host, ':') ? "http on [%s]:%d" : "http on %s:%d", host[0] ? host : "0.0.0.0",
             http_admin_port(a->http));
    *out = a;
    return OK_ERR;
}

void admin_stop(struct admin *a)
{
    if (!a)
        return;
    http_admin_stop(a->http);
    free(a);
}
