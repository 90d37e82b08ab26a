/* The backend of the proxy benchmarks: a gRPC C core server that echoes, counts what it echoed, and
 * answers WatchLeader like a member, naming itself or whatever --leader says. Prints its count when
 * it is ended. */
#include "baton/v1/member.pb-c.h"
#include "common/base/mem.h"
#include "common/base/options.h"
#include "common/io/rpc_server.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const char *listen_addr, *leader_addr;
static _Atomic int64_t echoed;

static const struct option_row rows[] = {
    {.group = "Backend",
     .name = "listen",
     .kind = OPTION_STRING,
     .target = &listen_addr,
     .required = true,
     .value = "HOST:PORT",
     .help = "Where gRPC is served."},
    {.name = "leader",
     .kind = OPTION_STRING,
     .target = &leader_addr,
     .value = "HOST:PORT",
     .help = "The leader that WatchLeader names (default: as --listen)."},
};
static const struct option_set set = {.program = "echo-server",
                                      .usage = "--listen HOST:PORT [options]",
                                      .about = "Backend for the benchmarks of the proxy.",
                                      .rows = rows,
                                      .count = sizeof rows / sizeof rows[0]};

static void handle_echo(struct rpc_call *call, void *ctx)
{
    atomic_fetch_add(&echoed, 1);
    rpc_reply(call, rpc_call_body(call), NULL, 0);
}

static void on_stream(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    if (event == RPC_STREAM_GONE)
        rpc_stream_end(call, NULL, NULL);
}

static void handle_watch(struct rpc_call *call, void *ctx)
{
    Baton__V1__LeaderState m = BATON__V1__LEADER_STATE__INIT;
    m.cluster_id = "benchmark";
    m.known = 1;
    m.id = m.member_id = "echo";
    m.addr = (char *)leader_addr;
    m.epoch = 1;
    m.revision = 1;
    size_t size = baton__v1__leader_state__get_packed_size(&m);
    uint8_t *body = mem_alloc(size);
    baton__v1__leader_state__pack(&m, body);
    rpc_stream_begin(call, on_stream, NULL, NULL, 0);
    rpc_stream_send(call, bytes_of(body, size));
    free(body);
}

int main(int argc, char **argv)
{
    static const struct rpc_method methods[] = {
        {"/bench.Echo/Unary.grpc", RPC_UNARY, handle_echo, NULL},
        {"/baton.v1.ClusterMemberService/WatchLeader", RPC_SERVER_STREAM, handle_watch, NULL},
    };
    enum option_show show = OPTION_SHOW_NOTHING;
    struct err e = options_parse(&set, &argc, argv, &show);
    if (err_is(&e) || show != OPTION_SHOW_NOTHING) {
        options_help(&set, stderr);
        return 2;
    }
    if (!leader_addr)
        leader_addr = listen_addr;
    sigset_t wanted;
    int which;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    pthread_sigmask(SIG_BLOCK, &wanted, NULL);
    struct rpc_server *server;
    e = rpc_server_start(
        &server, &(struct rpc_server_config){
                     .listen = listen_addr, .methods = methods, .method_count = 2, .threads = 2});
    if (err_is(&e)) {
        fprintf(stderr, "echo-server: %s\n", e.message);
        return 1;
    }
    sigwait(&wanted, &which);
    printf("%lld\n", (long long)atomic_load(&echoed));
    fflush(stdout);
    _Exit(0); /* the open WatchLeader streams need no farewell */
}
