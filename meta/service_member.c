#include "common/base/clock.h"
#include "common/base/mem.h"
#include "meta/core/keys.h"
#include "meta/live.h"
#include "meta/service_member_parts.h"
#include "meta/state_streams.h"
#include "meta/store.h"
#include <stdlib.h>
#include <string.h>

enum { KEEPALIVE_MS = 1000, HISTORY_LIMIT = 100, HISTORY_MAX = 1000 };

/* ---- messages ---- */

static void leader_message(struct service_member *s, struct board_leader *leader,
                           Baton__V1__LeaderState *m)
{
    board_leader(s->cfg.board, leader);
    baton__v1__leader_state__init(m);
    m->cluster_id = leader->cluster_id;
    m->known = leader->known;
    m->id = leader->id;
    m->addr = leader->addr;
    m->epoch = leader->epoch;
    m->revision = leader->revision;
    m->age_ms = leader->age_ms > 0 ? (uint64_t)leader->age_ms : 0;
    m->member_id = (char *)s->cfg.member_id;
}

static void pack(const ProtobufCMessage *m, struct buf *out)
{
    buf_reserve(out, protobuf_c_message_get_packed_size(m));
    out->len += protobuf_c_message_pack(m, out->data + out->len);
}

void service_member_reply(struct rpc_call *call, const ProtobufCMessage *m)
{
    struct buf body = {0};
    pack(m, &body);
    rpc_reply(call, buf_view(&body), NULL, 0);
    buf_close(&body);
}

void service_member_lead_reply(struct service_member *s, struct rpc_call *call, uint64_t epoch,
                               const ProtobufCMessage *m)
{
    struct buf body = {0};
    pack(m, &body);
    lead_reply(s->cfg.lead, call, epoch, false, buf_view(&body));
    buf_close(&body);
}

void service_member_bad_request(struct rpc_call *call)
{
    struct err e =
        err_make(ERR_BAD_REQUEST, "%s: the request is no valid message", rpc_call_path(call));
    rpc_fail(call, &e, NULL);
}

/* ---- GetLeaderAddr, WatchLeader ---- */

static void handle_get_leader(struct rpc_call *call, void *ctx)
{
    struct board_leader leader;
    Baton__V1__LeaderState m;
    leader_message(ctx, &leader, &m);
    service_member_reply(call, &m.base);
}

static void write_leader(void *ctx, const char *topic, struct buf *out)
{
    struct board_leader leader;
    Baton__V1__LeaderState m;
    leader_message(ctx, &leader, &m);
    pack(&m.base, out);
}

static void handle_watch_leader(struct rpc_call *call, void *ctx)
{
    struct service_member *s = ctx;
    state_streams_open(s->leaders, call, "");
}

/* ---- ListMembers, Report ---- */

void service_member_fill(struct service_member *s, const struct member_info *info,
                         const struct board_leader *leader, Baton__V1__Member *m)
{
    baton__v1__member__init(m);
    m->id = (char *)info->id;
    m->addr = (char *)info->addr;
    m->http_addr = (char *)info->http_addr;
    m->version = (char *)info->version;
    m->instance = (char *)info->instance;
    m->started_unix_ms = info->started_unix_ms;
    m->role = BATON__V1__ROLE__ROLE_FOLLOWER;
    struct live_report report;
    if (live_reported(s->cfg.live, info->id, &report)) {
        m->applied_revision = report.applied;
        m->epoch = report.epoch;
    }
    if (strcmp(info->id, s->cfg.member_id) == 0) {
        struct board_self self;
        board_self(s->cfg.board, &self);
        m->role = (Baton__V1__Role)(self.role + 1);
        m->applied_revision = self.applied;
        m->epoch = leader->epoch;
    } else if (leader->known && strcmp(info->id, leader->id) == 0) {
        m->role = BATON__V1__ROLE__ROLE_LEADER;
        m->epoch = leader->epoch;
    }
    if (m->applied_revision && leader->revision > m->applied_revision)
        m->lag = leader->revision - m->applied_revision;
}

void service_member_list(struct service_member *s, struct service_member_list *out)
{
    board_leader(s->cfg.board, &out->leader);
    out->infos = mem_array(LIVE_MEMBERS_MAX, sizeof *out->infos);
    size_t count = live_members(s->cfg.live, out->infos, LIVE_MEMBERS_MAX);
    out->count = count < LIVE_MEMBERS_MAX ? count : LIVE_MEMBERS_MAX;
    out->items = mem_array(out->count, sizeof *out->items);
    out->list = mem_array(out->count, sizeof *out->list);
    for (size_t i = 0; i < out->count; i++) {
        service_member_fill(s, &out->infos[i], &out->leader, &out->items[i]);
        out->list[i] = &out->items[i];
    }
}

void service_member_list_close(struct service_member_list *l)
{
    free(l->list);
    free(l->items);
    free(l->infos);
}

static void handle_list_members(struct rpc_call *call, void *ctx)
{
    struct service_member_list all;
    service_member_list(ctx, &all);
    Baton__V1__ListMembersResponse m = BATON__V1__LIST_MEMBERS_RESPONSE__INIT;
    m.cluster_id = all.leader.cluster_id;
    m.n_members = all.count;
    m.members = all.list;
    service_member_reply(call, &m.base);
    service_member_list_close(&all);
}

static void run_report(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_member *s = ctx;
    struct board_self self;
    if (!lead_check_epoch(s->cfg.lead, call, confirmed, run_report, s) ||
        lead_refuses(s->cfg.lead, call))
        return;
    board_self(s->cfg.board, &self);
    struct bytes body = rpc_call_body(call);
    Baton__V1__ReportRequest *m = baton__v1__report_request__unpack(NULL, body.len, body.data);
    if (!m) {
        service_member_bad_request(call);
        return;
    }
    live_report(s->cfg.live, m->member_id,
                &(struct live_report){.applied = m->applied_revision,
                                      .epoch = m->epoch,
                                      .received_ms = clock_boot_ms(),
                                      .lag = self.applied - m->applied_revision});
    baton__v1__report_request__free_unpacked(m, NULL);
    Baton__V1__ReportResponse answer = BATON__V1__REPORT_RESPONSE__INIT;
    service_member_lead_reply(s, call, self.epoch, &answer.base);
}

static void handle_report(struct rpc_call *call, void *ctx)
{
    run_report(call, ctx, 0);
}

/* ---- GetHistory ---- */

struct entry {
    uint64_t epoch;
    struct history history;
};

struct entries {
    struct entry *items;
    size_t count, limit;
};

static bool collect_entry(void *arg, struct bytes name, struct bytes value)
{
    struct entries *all = arg;
    struct entry *entry = &all->items[all->count];
    struct err e = history_decode(value, &entry->history);
    if (!err_is(&e) && keys_rest_number(name, BYTES_NONE, &entry->epoch))
        all->count++;
    return all->count < all->limit;
}

static void fill_leadership(const struct entry *entry, int64_t ended_unix_ms,
                            Baton__V1__Leadership *m)
{
    const struct history *h = &entry->history;
    baton__v1__leadership__init(m);
    m->epoch = entry->epoch;
    m->leader_id = (char *)h->leader;
    m->addr = (char *)h->addr;
    m->started_unix_ms = h->started_unix_ms;
    m->ended_unix_ms = ended_unix_ms;
    m->reason = (char *)h->reason;
}

static void reply_history(struct service_member *s, struct rpc_call *call, struct entries *all)
{
    Baton__V1__Leadership *items = mem_array(all->count, sizeof *items);
    Baton__V1__Leadership **list = mem_array(all->count, sizeof *list);
    for (size_t i = 0; i < all->count; i++) {
        /* newest first: the one before in the list is the one that followed in time */
        fill_leadership(&all->items[i], i ? all->items[i - 1].history.started_unix_ms : 0,
                        &items[i]);
        list[i] = &items[i];
    }
    struct board_leader leader;
    board_leader(s->cfg.board, &leader);
    Baton__V1__GetHistoryResponse m = BATON__V1__GET_HISTORY_RESPONSE__INIT;
    m.cluster_id = leader.cluster_id;
    m.n_leaderships = all->count;
    m.leaderships = list;
    service_member_reply(call, &m.base);
    free(list);
    free(items);
}

static void handle_get_history(struct rpc_call *call, void *ctx)
{
    struct service_member *s = ctx;
    struct bytes body = rpc_call_body(call);
    Baton__V1__GetHistoryRequest *request =
        baton__v1__get_history_request__unpack(NULL, body.len, body.data);
    if (!request) {
        service_member_bad_request(call);
        return;
    }
    struct entries all = {.limit = request->limit ? request->limit : HISTORY_LIMIT};
    if (all.limit > HISTORY_MAX)
        all.limit = HISTORY_MAX;
    baton__v1__get_history_request__free_unpacked(request, NULL);
    all.items = mem_array(all.limit, sizeof *all.items);
    struct store_snapshot *snap = store_snapshot_open(s->cfg.store);
    store_history(snap, collect_entry, &all);
    store_snapshot_close(snap);
    reply_history(s, call, &all);
    free(all.items);
}

/* ---- life ---- */

void service_member_methods(struct service_member *s,
                            struct rpc_method methods[SERVICE_MEMBER_METHODS])
{
#define SERVICE "/baton.v1.ClusterMemberService/"
    const struct rpc_method table[SERVICE_MEMBER_METHODS] = {
        {SERVICE "GetLeaderAddr", RPC_UNARY, handle_get_leader, s},
        {SERVICE "ListMembers", RPC_UNARY, handle_list_members, s},
        {SERVICE "WatchLeader", RPC_SERVER_STREAM, handle_watch_leader, s},
        {SERVICE "GetHistory", RPC_UNARY, handle_get_history, s},
        {SERVICE "Report", RPC_UNARY, handle_report, s},
        {SERVICE "TransferLeadership", RPC_UNARY, service_member_transfer, s},
        {SERVICE "RemoveMember", RPC_UNARY, service_member_remove, s},
        {SERVICE "GetRestore", RPC_UNARY, service_member_restore, s},
        {SERVICE "Recover", RPC_UNARY, service_member_recover, s},
    };
#undef SERVICE
    memcpy(methods, table, sizeof table);
}

struct service_member *service_member_start(const struct service_member_config *cfg)
{
    struct service_member *s = mem_alloc(sizeof *s);
    s->cfg = *cfg;
    pthread_mutex_init(&s->lock, NULL);
    s->leaders = state_streams_start(&(struct state_streams_config){.thread_name = "watch-leader",
                                                                    .message = write_leader,
                                                                    .ctx = s,
                                                                    .keepalive_ms = KEEPALIVE_MS});
    return s;
}

void service_member_connect(struct service_member *s, struct candidate *candidate)
{
    pthread_mutex_lock(&s->lock);
    s->candidate = candidate;
    pthread_mutex_unlock(&s->lock);
}

void service_member_changed(struct service_member *s)
{
    state_streams_changed(s->leaders);
}

void service_member_stop(struct service_member *s)
{
    if (!s)
        return;
    state_streams_stop(s->leaders);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
