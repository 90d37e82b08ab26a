/* Workers against a member that is played in this process. */
#include "client/baton_parts.h"
#include "client/convert_cluster.h"
#include "client/convert_member.h"
#include "tests/lib/rpc_fixture.h"
#include <baton/v1/cluster.pb-c.h>
#include <baton/v1/member.pb-c.h>

#define TTL 600000

static pthread_mutex_t stage = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum err_code add_script[4], beat_script[4]; /* ERR_OK ends it: all goes well */
static int adds, beats;
static struct buf add_ids; /* of the registrations that came */
static struct buf heard;   /* what the user was told */
static struct fixture member;
static struct baton_client *client;
static struct baton_worker *worker;

static void reply(struct rpc_call *call, const ProtobufCMessage *m)
{
    uint8_t bytes[512];
    rpc_reply(call, bytes_of(bytes, protobuf_c_message_pack(m, bytes)), NULL, 0);
}

static void say_leader(struct rpc_call *call, void *ctx)
{
    Baton__V1__LeaderState m = BATON__V1__LEADER_STATE__INIT;
    m.member_id = m.id = (char *)"one";
    m.cluster_id = (char *)"c";
    m.epoch = 5;
    m.known = true;
    m.addr = member.addr;
    reply(call, &m.base);
}

/* The next error of a script; OK: none is left. */
static enum err_code next_of(const enum err_code script[4], int *at)
{
    enum err_code code = *at < 4 ? script[*at] : ERR_OK;
    (*at)++;
    return code;
}

static void refuse(struct rpc_call *call, enum err_code code)
{
    struct err e = err_make(code, "as scripted");
    rpc_fail(call, &e, NULL);
}

/* Workers have the number of the registration that was answered as id. */
static void take_add(struct rpc_call *call, void *ctx)
{
    Baton__V1__AddWorkerResponse m = BATON__V1__ADD_WORKER_RESPONSE__INIT;
    Baton__V1__Worker w = BATON__V1__WORKER__INIT;
    struct bytes id = rpc_call_metadata(call, "baton-request-id");
    pthread_mutex_lock(&stage);
    enum err_code code = next_of(add_script, &adds);
    buf_printf(&add_ids, "%.*s ", (int)id.len, (const char *)id.data);
    w.id = (uint64_t)adds;
    pthread_mutex_unlock(&stage);
    m.worker = &w;
    if (code)
        refuse(call, code);
    else
        reply(call, &m.base);
}

static void take_activate(struct rpc_call *call, void *ctx)
{
    struct bytes body = rpc_call_body(call);
    Baton__V1__ActivateWorkerResponse m = BATON__V1__ACTIVATE_WORKER_RESPONSE__INIT;
    Baton__V1__Worker w = BATON__V1__WORKER__INIT;
    Baton__V1__ActivateWorkerRequest *asked =
        baton__v1__activate_worker_request__unpack(NULL, body.len, body.data);
    w.id = asked->id;
    m.worker = &w;
    baton__v1__activate_worker_request__free_unpacked(asked, NULL);
    reply(call, &m.base);
}

static void take_beat(struct rpc_call *call, void *ctx)
{
    Baton__V1__HeartbeatResponse m = BATON__V1__HEARTBEAT_RESPONSE__INIT;
    pthread_mutex_lock(&stage);
    enum err_code code = next_of(beat_script, &beats);
    pthread_mutex_unlock(&stage);
    m.ttl_ms = TTL;
    m.cordoned = true;
    if (code)
        refuse(call, code);
    else
        reply(call, &m.base);
}

static void hear(const char *format, int64_t number)
{
    pthread_mutex_lock(&stage);
    buf_printf(&heard, format, (long long)number);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&stage);
}

static void take_delete(struct rpc_call *call, void *ctx)
{
    Baton__V1__DeleteWorkerResponse m = BATON__V1__DELETE_WORKER_RESPONSE__INIT;
    Baton__V1__Worker w = BATON__V1__WORKER__INIT;
    m.worker = &w;
    hear("deleted ", 0);
    reply(call, &m.base);
}

static void on_run(void *user, const struct baton_worker_info *self)
{
    assert_true(baton_worker_may_work(worker));
    assert_true(baton_worker_until_ms(worker) <= in_ms(TTL - TTL / 10));
    hear("run%lld ", (int64_t)self->id);
}

static void on_stop(void *user, enum baton_stop_reason reason)
{
    assert_false(baton_worker_may_work(worker));
    hear("stop%lld ", reason);
}

static void on_wanted(void *user, bool cordoned, bool draining)
{
    hear("wanted%lld ", cordoned * 2 + draining);
}

static void on_failed(void *user, const struct baton_error *err)
{
    hear(strcmp(err->reason, "BAD_WORKER") ? "over " : "bad ", 0);
}

/* A worker from its opening until this was told, and what its end adds. */
static void live(const char *told, const char *end)
{
    char all[128], said[128];
    struct timespec until;
    struct baton_worker_options options = {.spec = {.type = "t", .addr = "a:1"},
                                           .run = on_run,
                                           .stop = on_stop,
                                           .wanted = on_wanted,
                                           .failed = on_failed};
    assert_int_equal(baton_worker_open(&worker, client, &options, NULL), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&stage);
    while (heard.len < strlen(told) && pthread_cond_timedwait(&changed, &stage, &until) == 0)
        ;
    pthread_mutex_unlock(&stage);
    baton_worker_close(worker, 60000);
    snprintf(all, sizeof all, "%s%s", told, end);
    pthread_mutex_lock(&stage); /* the member's threads write, too */
    snprintf(said, sizeof said, "%s", (char *)heard.data);
    pthread_mutex_unlock(&stage);
    assert_string_equal(said, all);
}

static void it_runs_and_leaves(void **state)
{
    live("run1 wanted2 ", "stop3 deleted ");
}

/* Its first registration was taken, perhaps; the next one must be the same. */
static void a_registration_keeps_its_request_id(void **state)
{
    add_script[0] = ERR_OVERLOADED;
    add_script[1] = ERR_INTERNAL;
    live("run3 wanted2 ", "stop3 deleted ");
    size_t len = add_ids.len / 3;
    assert_true(len > 16);
    assert_memory_equal(add_ids.data, add_ids.data + len, len);
    assert_memory_equal(add_ids.data, add_ids.data + 2 * len, len);
}

static void the_forgotten_registers_anew(void **state)
{
    beat_script[0] = ERR_UNKNOWN_WORKER;
    live("run2 wanted2 ", "stop3 deleted ");
    size_t len = add_ids.len / 2;
    assert_memory_not_equal(add_ids.data, add_ids.data + len, len);
}

static void the_replaced_does_not(void **state)
{
    beat_script[0] = ERR_STALE_INCARNATION;
    live("over ", "");
    assert_int_equal(adds, 1);
}

static void what_is_refused_does_not(void **state)
{
    add_script[0] = ERR_BAD_WORKER;
    live("bad ", "");
    assert_int_equal(adds, 1);
}

static void options_are_looked_at(void **state)
{
    struct baton_error err;
    struct baton_worker_options options = {.run = on_run, .stop = on_stop};
    assert_int_equal(baton_worker_open(&worker, client, &options, &err), -1);
    assert_string_equal(err.reason, "USAGE");
    assert_null(worker);
    baton_worker_close(worker, 0);
}

static int setup(void **state)
{
    static const struct rpc_method methods[] = {
        {MEMBER_GET_LEADER, RPC_UNARY, say_leader, NULL},
        {CLUSTER_PATH_ADD, RPC_UNARY, take_add, NULL},
        {CLUSTER_PATH_ACTIVATE, RPC_UNARY, take_activate, NULL},
        {CLUSTER_PATH_HEARTBEAT, RPC_UNARY, take_beat, NULL},
        {CLUSTER_PATH_DELETE, RPC_UNARY, take_delete, NULL},
    };
    struct err e = fixture_serve(&member, methods, 5);
    assert_string_equal(e.message, "");
    struct baton_options options = {.addresses = member.addr};
    assert_int_equal(baton_client_new(&client, &options, NULL), 0);
    memset(add_script, 0, sizeof add_script);
    memset(beat_script, 0, sizeof beat_script);
    adds = beats = 0;
    return 0;
}

static int teardown(void **state)
{
    baton_client_free(client);
    rpc_server_free(member.server);
    buf_close(&add_ids);
    buf_close(&heard);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_runs_and_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(a_registration_keeps_its_request_id, setup, teardown),
        cmocka_unit_test_setup_teardown(the_forgotten_registers_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(the_replaced_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_refused_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(options_are_looked_at, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
