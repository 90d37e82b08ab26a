/* The client against members that are played by servers in this process. */
#include "client/calls.h"
#include "client/convert_kv.h"
#include "client/core/api_bytes.h"
#include "tests/lib/rpc_fixture.h"
#include <baton/v1/kv.pb-c.h>
#include <baton/v1/member.pb-c.h>
#include <string.h>

/* How a played member answers a Put: the scripted errors first, then OK. */
struct play {
    struct fixture f;
    const char *id;          /* of this member */
    struct play *leader;     /* whom it believes to lead; NULL: nobody */
    enum err_code script[8]; /* ERR_OK ends it */
    int at;
    int puts, asked, listed;
    uint64_t epoch;
    char ids[8][80]; /* that came with the puts */
};

static struct play one = {.id = "one"}, two = {.id = "two"};

/* Handlers hold it; the tests pass through it before and after each call, and look only between
 * calls. */
static pthread_mutex_t stage = PTHREAD_MUTEX_INITIALIZER;

static void pass_stage(void)
{
    pthread_mutex_lock(&stage);
    pthread_mutex_unlock(&stage);
}

static struct client *client;

static void reply_packed(struct rpc_call *call, struct play *p, const ProtobufCMessage *m)
{
    uint8_t bytes[1024];
    char epoch[24];
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)p->epoch);
    struct rpc_metadata initial[] = {{"baton-epoch", bytes_str(epoch)},
                                     {"baton-cluster", bytes_str("c")}};
    size_t len = protobuf_c_message_pack(m, bytes);
    rpc_reply(call, bytes_of(bytes, len), initial, 2);
}

static void say_leader(struct rpc_call *call, void *ctx)
{
    struct play *p = ctx;
    Baton__V1__LeaderState m = BATON__V1__LEADER_STATE__INIT;
    pthread_mutex_lock(&stage);
    p->asked++;
    m.member_id = (char *)p->id;
    m.cluster_id = (char *)"c";
    m.epoch = p->epoch;
    m.revision = 77;
    m.known = p->leader != NULL;
    if (p->leader) {
        m.id = (char *)p->leader->id;
        m.addr = p->leader->f.addr;
    }
    reply_packed(call, p, &m.base);
    pthread_mutex_unlock(&stage);
}

/* Both members, as the leader lists them. */
static void say_members(struct rpc_call *call, void *ctx)
{
    struct play *p = ctx;
    Baton__V1__ListMembersResponse m = BATON__V1__LIST_MEMBERS_RESPONSE__INIT;
    Baton__V1__Member all[2] = {BATON__V1__MEMBER__INIT, BATON__V1__MEMBER__INIT};
    Baton__V1__Member *each[2] = {&all[0], &all[1]};
    all[0].addr = one.f.addr;
    all[1].addr = two.f.addr;
    m.members = each;
    m.n_members = 2;
    pthread_mutex_lock(&stage);
    p->listed++;
    reply_packed(call, p, &m.base);
    pthread_mutex_unlock(&stage);
}

static void refuse(struct rpc_call *call, struct play *p, enum err_code code)
{
    struct err e = err_make(code, "as scripted");
    struct rpc_hints hints = {0};
    if (code == ERR_NOT_LEADER && p->leader) {
        hints.leader = p->leader->f.addr;
        hints.epoch = 5;
    }
    rpc_fail(call, &e, &hints);
}

static void take_put(struct rpc_call *call, void *ctx)
{
    struct play *p = ctx;
    struct bytes id = rpc_call_metadata(call, "baton-request-id");
    Baton__V1__PutResponse m = BATON__V1__PUT_RESPONSE__INIT;
    m.revision = 78;
    pthread_mutex_lock(&stage);
    snprintf(p->ids[p->puts++ % 8], sizeof p->ids[0], "%.*s", (int)id.len, (const char *)id.data);
    if (p->script[p->at])
        refuse(call, p, p->script[p->at++]);
    else
        reply_packed(call, p, &m.base);
    pthread_mutex_unlock(&stage);
}

static void play_start(struct play *p)
{
    static struct rpc_method methods[2][3];
    struct rpc_method *mine = methods[p == &two];
    mine[0] = (struct rpc_method){MEMBER_GET_LEADER, RPC_UNARY, say_leader, p};
    mine[1] = (struct rpc_method){KV_PATH_PUT, RPC_UNARY, take_put, p};
    mine[2] = (struct rpc_method){MEMBER_LIST, RPC_UNARY, say_members, p};
    const char *id = p->id;
    *p = (struct play){.id = id, .epoch = 5};
    struct err e = fixture_serve(&p->f, mine, 3);
    assert_string_equal(e.message, "");
}

static int setup(void **state)
{
    play_start(&one);
    play_start(&two);
    one.leader = two.leader = &two;
    return 0;
}

static int teardown(void **state)
{
    client_free(client);
    client = NULL;
    rpc_server_free(one.f.server);
    rpc_server_free(two.f.server);
    return 0;
}

static void connect_to(const char *addresses, int attempts_max)
{
    struct client_config cfg = {.addresses = addresses, .attempts_max = attempts_max};
    struct err e = client_new(&client, &cfg);
    assert_string_equal(e.message, "");
}

static struct err put_within(int64_t ms)
{
    struct rpc_answer a = {0};
    struct buf body = {0};
    kv_encode_put(api_text("k"), api_text("v"), &body);
    struct client_request put = {.path = KV_PATH_PUT, .body = buf_view(&body), .keeps_ids = true};
    pass_stage();
    struct err e = client_call(client, &put, in_ms(ms), &a);
    if (!err_is(&e))
        client_saw_revision(client, 78);
    pass_stage();
    rpc_answer_close(&a);
    buf_close(&body);
    return e;
}

static void a_follower_names_the_leader(void **state)
{
    connect_to(one.f.addr, 0);
    struct err e = put_within(10000);
    assert_string_equal(e.message, "");
    assert_int_equal(one.puts, 0);
    assert_int_equal(two.puts, 1);
    e = put_within(10000);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(one.asked, 1);
    assert_int_equal(two.puts, 2);
}

static void a_refusal_names_the_new_leader(void **state)
{
    connect_to(two.f.addr, 0);
    struct err e = put_within(10000);
    assert_int_equal(e.code, ERR_OK);
    two.leader = one.leader = &one;
    two.script[0] = ERR_NOT_LEADER;
    e = put_within(10000);
    assert_string_equal(e.message, "");
    assert_int_equal(one.puts, 1);
}

static void a_request_id_is_kept_over_all_attempts(void **state)
{
    connect_to(two.f.addr, 0);
    two.script[0] = ERR_OUTCOME_UNKNOWN;
    two.script[1] = ERR_ACTIVATING;
    two.script[2] = ERR_FENCED;
    struct err e = put_within(10000);
    assert_string_equal(e.message, "");
    assert_int_equal(two.puts, 4);
    assert_string_equal(two.ids[0] + 32, "@77"); /* the revision that was seen before */
    for (int i = 1; i < 4; i++)
        assert_string_equal(two.ids[i], two.ids[0]);
    e = put_within(10000);
    assert_int_equal(e.code, ERR_OK);
    assert_string_not_equal(two.ids[4], two.ids[0]);
    assert_string_equal(two.ids[4] + 32, "@78");
}

static void an_answer_is_not_asked_for_again(void **state)
{
    connect_to(two.f.addr, 0);
    two.script[0] = ERR_BAD_KEY;
    struct err e = put_within(10000);
    assert_int_equal(e.code, ERR_BAD_KEY);
    two.script[1] = ERR_OVERLOADED;
    e = put_within(10000);
    assert_int_equal(e.code, ERR_OVERLOADED);
    assert_int_equal(two.puts, 2);
}

static void attempts_have_a_limit(void **state)
{
    connect_to(two.f.addr, 2);
    for (int i = 0; i < 4; i++)
        two.script[i] = ERR_ACTIVATING;
    struct err e = put_within(10000);
    assert_int_equal(e.code, ERR_ACTIVATING);
    assert_int_equal(two.puts, 2);
}

static void the_deadline_ends_it_with_the_last_error(void **state)
{
    connect_to(one.f.addr, 0);
    one.leader = NULL;
    struct err e = put_within(1000);
    assert_int_equal(e.code, ERR_NO_LEADER);
    assert_non_null(strstr(e.message, one.f.addr));
    assert_int_equal(one.puts + two.puts, 0);
}

static void dead_addresses_are_passed_over(void **state)
{
    char both[80];
    snprintf(both, sizeof both, "%s,%s", one.f.addr, two.f.addr);
    rpc_server_free(one.f.server);
    one.f.server = NULL;
    connect_to(both, 0);
    struct err e = put_within(10000);
    assert_string_equal(e.message, "");
    assert_int_equal(two.puts, 1);
}

static void nobody_there_is_unreachable(void **state)
{
    rpc_server_free(one.f.server);
    one.f.server = NULL;
    connect_to(one.f.addr, 0);
    struct err e = put_within(200);
    assert_int_equal(e.code, ERR_UNREACHABLE);
    struct member_leader said;
    e = client_leader(client, in_ms(200), &said);
    assert_int_equal(e.code, ERR_UNREACHABLE);
}

/* It learns of both from the one that it reached first, who then dies. */
static void members_stand_in_for_an_address_that_is_gone(void **state)
{
    connect_to(one.f.addr, 0);
    struct err e = put_within(10000);
    assert_int_equal(e.code, ERR_OK);
    int listed = 0;
    for (int64_t until = in_ms(10000); !listed && clock_boot_ms() < until;) {
        pthread_mutex_lock(&stage);
        listed = two.listed;
        pthread_mutex_unlock(&stage);
        clock_pause(1, until);
    }
    assert_int_equal(listed, 1);
    rpc_server_free(one.f.server);
    one.f.server = NULL;
    two.script[0] = ERR_DRAINING;
    e = put_within(10000);
    assert_string_equal(e.message, "");
    assert_int_equal(two.puts, 3);
}

static void a_deposed_leader_is_not_heard(void **state)
{
    struct baton_guard *guard;
    struct err e = guard_open(&guard, NULL);
    assert_int_equal(e.code, ERR_OK);
    e = guard_admit(guard, "c", 6);
    assert_int_equal(e.code, ERR_OK);
    struct client_config cfg = {.addresses = two.f.addr, .guard = guard, .attempts_max = 1};
    e = client_new(&client, &cfg);
    assert_int_equal(e.code, ERR_OK);
    e = put_within(10000); /* nobody who leads in an epoch that counts */
    assert_int_equal(e.code, ERR_NO_LEADER);
    assert_int_equal(two.puts, 0);
    two.epoch = 7;
    e = put_within(10000);
    assert_string_equal(e.message, "");
    assert_int_equal(guard_seen(guard).epoch, 7);
    two.epoch = 6; /* known as the leader, it answers with less than was seen */
    e = put_within(10000);
    assert_int_equal(e.code, ERR_STALE_EPOCH);
    client_free(client);
    client = NULL;
    guard_close(guard);
}

static void another_cluster_is_refused(void **state)
{
    struct baton_guard *guard;
    struct err e = guard_open(&guard, NULL);
    assert_int_equal(e.code, ERR_OK);
    e = guard_admit(guard, "another", 6);
    assert_int_equal(e.code, ERR_OK);
    struct client_config cfg = {.addresses = two.f.addr, .guard = guard};
    e = client_new(&client, &cfg);
    assert_int_equal(e.code, ERR_OK);
    e = put_within(10000);
    assert_int_equal(e.code, ERR_OTHER_CLUSTER);
    assert_non_null(strstr(e.message, two.f.addr));
    client_free(client);
    client = NULL;
    guard_close(guard);
}

enum { THREADS = 24 };

static void *put_once(void *arg)
{
    struct err *e = arg;
    *e = put_within(20000);
    return NULL;
}

static void many_threads_ask_once_for_the_leader(void **state)
{
    pthread_t threads[THREADS];
    struct err all[THREADS];
    connect_to(one.f.addr, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_once, &all[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_string_equal(all[i].message, "");
    pass_stage();
    assert_int_equal(one.asked, 1);
    assert_int_equal(two.puts, THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_follower_names_the_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_names_the_new_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_id_is_kept_over_all_attempts, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_is_not_asked_for_again, setup, teardown),
        cmocka_unit_test_setup_teardown(attempts_have_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(the_deadline_ends_it_with_the_last_error, setup, teardown),
        cmocka_unit_test_setup_teardown(dead_addresses_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_there_is_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(members_stand_in_for_an_address_that_is_gone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_deposed_leader_is_not_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(another_cluster_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_ask_once_for_the_leader, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
