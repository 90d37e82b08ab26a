#include "meta/admin.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/follow.h"
#include "meta/live.h"
#include "meta/metrics_collect.h"
#include <stdatomic.h>
#include <stdlib.h>

static void handle_metrics(void *ctx, const char *query, struct http_answer *out)
{
    struct admin *a = ctx;
    out->content_type = "text/plain; version=0.0.4; charset=utf-8";
    meta_metrics_write(&out->body, &(struct meta_metrics_of){.member_id = a->member_id,
                                                             .cluster = a->cluster,
                                                             .alone = a->alone,
                                                             .board = a->board,
                                                             .live = a->live,
                                                             .store = a->store,
                                                             .replica = a->replica,
                                                             .workforce = a->workforce,
                                                             .max_workers = a->max_workers,
                                                             .fanout = a->fanout,
                                                             .follow = atomic_load(&a->follow),
                                                             .rpc = a->rpc});
}

static void handle_healthz(void *ctx, const char *query, struct http_answer *out)
{
    buf_str(&out->body, "ok\n");
}

/* Ready is a member that could answer what its role asks of it. */
static void handle_readyz(void *ctx, const char *query, struct http_answer *out)
{
    struct admin *a = ctx;
    struct board_self self;
    struct follow *follow = atomic_load(&a->follow);
    board_self(a->board, &self);
    const char *why = NULL;
    struct err refused = board_refused(a->board);
    if (self.draining)
        why = "shutting down";
    else if (err_is(&refused))
        why = refused.message;
    else if (self.role == ROLE_LEADER && !self.proven)
        why = "leads, but etcd has not confirmed it lately";
    else if (!a->alone && (!follow || !follow_healthy(follow)))
        why = "the watch on etcd is not open";
    else if (self.applied == 0)
        why = "the state is not loaded yet";
    out->status = why ? 503 : 200;
    buf_printf(&out->body, "%s\n", why ? why : "ready");
}

static void handle_status(void *ctx, const char *query, struct http_answer *out)
{
    struct admin *a = ctx;
    struct board_self self;
    struct board_leader leader;
    board_self(a->board, &self);
    board_leader(a->board, &leader);
    out->content_type = "application/json";
    /* ids and addresses hold no characters that JSON would escape: options.c sees to it */
    buf_printf(&out->body,
               "{\"version\":\"%s\",\"mode\":\"%s\",\"id\":\"%s\",\"cluster\":\"%s\",\"cluster_"
               "id\":\"%s\","
               "\"role\":\"%s\",\"draining\":%s,\"applied_revision\":%lld,"
               "\"read_deadline_left_ms\":%lld,\"leader\":{\"known\":%s,\"id\":\"%s\","
               "\"addr\":\"%s\",\"epoch\":%llu,\"age_ms\":%lld},\"members\":[",
               BATON_VERSION, a->alone ? "embedded" : "etcd", a->member_id, a->cluster,
               leader.cluster_id, role_str(self.role), self.draining ? "true" : "false",
               (long long)self.applied, (long long)self.deadline_left_ms,
               leader.known ? "true" : "false", leader.id, leader.addr,
               (unsigned long long)leader.epoch, (long long)leader.age_ms);
    struct member_info *members = mem_array(LIVE_MEMBERS_MAX, sizeof *members);
    size_t count = live_members(a->live, members, LIVE_MEMBERS_MAX);
    for (size_t i = 0; i < count && i < LIVE_MEMBERS_MAX; i++)
        buf_printf(&out->body, "%s{\"id\":\"%s\",\"addr\":\"%s\",\"http_addr\":\"%s\"}",
                   i ? "," : "", members[i].id, members[i].addr, members[i].http_addr);
    free(members);
    buf_str(&out->body, "]}\n");
}

struct err admin_start(struct admin *a, const char *addr, struct http_admin **out)
{
    static const struct http_admin_route routes[] = {
        {"/metrics", handle_metrics},
        {"/healthz", handle_healthz},
        {"/readyz", handle_readyz},
        {"/status", handle_status},
    };
    return http_admin_start(addr, routes, sizeof routes / sizeof routes[0], a, out);
}
