#include "meta/service_health.h"
#include "common/base/mem.h"
#include "grpc/health/v1/health.pb-c.h"
#include "meta/board.h"
#include "meta/state_streams.h"
#include <stdlib.h>
#include <string.h>

typedef Grpc__Health__V1__HealthCheckResponse Response;
typedef Grpc__Health__V1__HealthCheckRequest Request;
#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

struct service_health {
    struct board *board;
    struct state_streams *streams;
};

static bool is_leaders(const char *service)
{
    static const char *const names[] = {"baton.v1.KvService", "baton.v1.ClusterService",
                                        "baton.v1.NotificationService",
                                        "baton.v1.MaintenanceService"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(service, names[i]))
            return true;
    return false;
}

static int status_of(struct service_health *s, const char *service)
{
    struct board_self self;
    board_self(s->board, &self);
    if (self.draining)
        return STATUS(NOT_SERVING);
    if (!*service || !strcmp(service, "baton.v1.ClusterMemberService"))
        return STATUS(SERVING);
    if (is_leaders(service))
        return board_read_epoch(s->board) ? STATUS(SERVING) : STATUS(NOT_SERVING);
    return STATUS(SERVICE_UNKNOWN);
}

static void write_status(int status, struct buf *out)
{
    Response m = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    m.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    buf_reserve(out, grpc__health__v1__health_check_response__get_packed_size(&m));
    out->len += grpc__health__v1__health_check_response__pack(&m, out->data + out->len);
}

static void write_topic(void *ctx, const char *topic, struct buf *out)
{
    write_status(status_of(ctx, topic), out);
}

static Request *request_of(struct rpc_call *call)
{
    struct bytes body = rpc_call_body(call);
    Request *m = grpc__health__v1__health_check_request__unpack(NULL, body.len, body.data);
    if (!m) {
        struct err e = err_make(ERR_BAD_REQUEST, "health: the request is no HealthCheckRequest");
        rpc_fail(call, &e, NULL);
    }
    return m;
}

static void handle_check(struct rpc_call *call, void *ctx)
{
    Request *m = request_of(call);
    if (!m)
        return;
    int status = status_of(ctx, m->service);
    if (status == STATUS(SERVICE_UNKNOWN)) {
        struct err e =
            err_make(ERR_UNKNOWN_SERVICE, "health: there is no service '%.100s'", m->service);
        rpc_fail(call, &e, NULL);
    } else {
        struct buf body = {0};
        write_status(status, &body);
        rpc_reply(call, buf_view(&body), NULL, 0);
        buf_close(&body);
    }
    grpc__health__v1__health_check_request__free_unpacked(m, NULL);
}

static void handle_watch(struct rpc_call *call, void *ctx)
{
    struct service_health *s = ctx;
    struct bytes body = rpc_call_body(call);
    Request *m = grpc__health__v1__health_check_request__unpack(NULL, body.len, body.data);
    /* a request that is no message asks for nothing that exists: SERVICE_UNKNOWN */
    state_streams_open(s->streams, call, m ? m->service : "?");
    if (m)
        grpc__health__v1__health_check_request__free_unpacked(m, NULL);
}

struct service_health *service_health_start(struct board *board)
{
    struct service_health *s = mem_alloc(sizeof *s);
    s->board = board;
    s->streams = state_streams_start(&(struct state_streams_config){
        .thread_name = "watch-health", .message = write_topic, .ctx = s});
    return s;
}

void service_health_stop(struct service_health *s)
{
    if (!s)
        return;
    state_streams_stop(s->streams);
    free(s);
}

void service_health_changed(struct service_health *s)
{
    state_streams_changed(s->streams);
}

void service_health_methods(struct service_health *s,
                            struct rpc_method methods[SERVICE_HEALTH_METHODS])
{
    methods[0] = (struct rpc_method){"/grpc.health.v1.Health/Check", RPC_UNARY, handle_check, s};
    methods[1] =
        (struct rpc_method){"/grpc.health.v1.Health/Watch", RPC_SERVER_STREAM, handle_watch, s};
}
