/* Unary calls between a server and clients in one process. */
#include "common/base/thread.h"
#include "tests/lib/rpc_fixture.h"
#include "tests/lib/wait_for.h"
#include <stdatomic.h>
#include <string.h>

static struct held held = HELD_INIT;

static void echo(struct rpc_call *call, void *ctx)
{
    struct rpc_metadata initial[] = {
        {"baton-epoch", bytes_str("7")},
        {"baton-cluster", bytes_str("a-cluster-id-of-32-characters-00")}};
    rpc_reply(call, rpc_call_body(call), initial, 2);
}

static void say_path(struct rpc_call *call, void *ctx)
{
    struct bytes id = rpc_call_metadata(call, "baton-request-id");
    struct buf text = {0};
    buf_printf(&text, "%s %.*s %s %s", rpc_call_path(call), (int)id.len, (const char *)id.data,
               rpc_call_metadata(call, "absent").data ? "present" : "absent",
               strncmp(rpc_call_peer(call), "ipv4:127.0.0.1:", 15) ? "?" : "local");
    rpc_reply(call, buf_view(&text), NULL, 0);
    buf_close(&text);
}

static void say_deadline(struct rpc_call *call, void *ctx)
{
    int64_t left = rpc_call_deadline_ms(call) - clock_boot_ms();
    rpc_reply(call, bytes_str(left > 8000 && left <= 10100 ? "ten seconds" : "wrong"), NULL, 0);
}

static void refuse(struct rpc_call *call, void *ctx)
{
    struct err e = err_make(ERR_NOT_LEADER, "member a leads");
    struct rpc_hints hints = {.leader = "10.0.0.1:5690",
                              .epoch = 12,
                              .cluster = "c1",
                              .pushback_ms = 40,
                              .request_id = "0123456789abcdef"};
    rpc_fail(call, &e, &hints);
}

static void refuse_unsure(struct rpc_call *call, void *ctx)
{
    struct err e = err_make(ERR_FENCED, "another leader took over");
    struct rpc_hints hints = {.outcome_unknown = true};
    rpc_fail(call, &e, &hints);
}

static void hold(struct rpc_call *call, void *ctx)
{
    held_put(&held, call);
}

/* Calls that wait together and are answered in a burst, by a thread that is none of the server's.
 */
enum { CROWD = 300 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rpc_call *calls[CROWD];
    int count, answered, wrong;
} crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void gather(struct rpc_call *call, void *ctx)
{
    pthread_mutex_lock(&crowd.lock);
    crowd.calls[crowd.count++] = call;
    pthread_cond_broadcast(&crowd.changed);
    pthread_mutex_unlock(&crowd.lock);
}

static void on_crowd(void *arg, const struct err *e, struct rpc_answer *answer)
{
    pthread_mutex_lock(&crowd.lock);
    crowd.answered++;
    crowd.wrong += err_is(e) || !bytes_equal(buf_view(&answer->message), bytes_str(arg));
    pthread_cond_broadcast(&crowd.changed);
    pthread_mutex_unlock(&crowd.lock);
}

static const struct rpc_method methods[] = {
    {"/t.T/Echo", RPC_UNARY, echo, NULL},
    {"/t.T/Path", RPC_UNARY, say_path, NULL},
    {"/t.T/Deadline", RPC_UNARY, say_deadline, NULL},
    {"/t.T/Refuse", RPC_UNARY, refuse, NULL},
    {"/t.T/RefuseUnsure", RPC_UNARY, refuse_unsure, NULL},
    {"/t.T/Hold", RPC_UNARY, hold, NULL},
    {"/t.T/Gather", RPC_UNARY, gather, NULL},
};

static int setup(void **state)
{
    *state = fixture_new(methods, sizeof methods / sizeof *methods);
    return 0;
}

static int teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

static void echo_returns_what_was_sent(void **state)
{
    struct rpc_answer a = {0};
    for (int i = 0; i < 100; i++) {
        struct err e = fixture_call(*state, "/t.T/Echo", i % 2 ? "hello" : "", &a);
        assert_string_equal(e.message, "");
        assert_int_equal(a.message.len, i % 2 ? 5 : 0);
    }
    assert_string_equal((char *)a.message.data, "hello");
    assert_int_equal(a.epoch, 7);
    assert_string_equal(a.cluster, "a-cluster-id-of-32-characters-00");
    assert_true(a.sent);
    assert_false(a.not_executed);
    rpc_answer_close(&a);
}

static void a_call_knows_where_it_comes_from(void **state)
{
    struct fixture *f = *state;
    struct rpc_answer a = {0};
    struct rpc_metadata id = {"baton-request-id", bytes_str("an-identifier-of-an-effect")};
    struct err e =
        rpc_channel_call(f->channel, "/t.T/Path", bytes_str("x"), &id, 1, in_ms(10000), &a);
    assert_string_equal(e.message, "");
    assert_string_equal((char *)a.message.data,
                        "/t.T/Path an-identifier-of-an-effect absent local");
    rpc_answer_close(&a);
}

static void deadlines_reach_the_server(void **state)
{
    struct rpc_answer a = {0};
    fixture_call(*state, "/t.T/Deadline", "x", &a);
    assert_string_equal((char *)a.message.data, "ten seconds");
    rpc_answer_close(&a);
}

static void a_refusal_carries_its_trailers(void **state)
{
    struct rpc_answer a = {0};
    struct err e = fixture_call(*state, "/t.T/Refuse", "x", &a);
    assert_int_equal(e.code, ERR_NOT_LEADER);
    assert_non_null(strstr(e.message, "member a leads"));
    assert_int_equal(a.status, 14);
    assert_true(a.not_executed);
    assert_string_equal(a.reason, "NOT_LEADER");
    assert_string_equal(a.leader, "10.0.0.1:5690");
    assert_string_equal(a.cluster, "c1");
    assert_int_equal(a.epoch, 12);
    assert_int_equal(a.pushback_ms, 40);
    rpc_answer_close(&a);
}

static void an_open_outcome_is_said(void **state)
{
    struct rpc_answer a = {0};
    struct err e = fixture_call(*state, "/t.T/RefuseUnsure", "x", &a);
    assert_int_equal(e.code, ERR_FENCED);
    assert_false(a.not_executed);
    rpc_answer_close(&a);
}

static void an_unknown_method_is_named(void **state)
{
    struct rpc_answer a = {0};
    struct err e = fixture_call(*state, "/t.T/Nothing", "x", &a);
    assert_int_equal(e.code, ERR_NO_METHOD);
    assert_int_equal(a.status, 12);
    assert_non_null(strstr(e.message, "/t.T/Nothing"));
    rpc_answer_close(&a);
}

static void large_messages_pass_and_larger_ones_do_not(void **state)
{
    struct fixture *f = *state;
    struct rpc_answer a = {0};
    size_t most = 1 << 20, far = 4 * most + 1;
    uint8_t *big = mem_alloc(far);
    memset(big, 'x', far);
    struct err e =
        rpc_channel_call(f->channel, "/t.T/Echo", bytes_of(big, most), NULL, 0, in_ms(10000), &a);
    assert_string_equal(e.message, "");
    assert_true(bytes_equal(buf_view(&a.message), bytes_of(big, most)));
    e = rpc_channel_call(f->channel, "/t.T/Echo", bytes_of(big, most + 1), NULL, 0, in_ms(10000),
                         &a);
    assert_int_equal(a.status, 3);
    assert_int_equal(e.code, ERR_TOO_LARGE);
    assert_true(a.not_executed);
    assert_non_null(strstr(e.message, "at most 1048576 bytes"));
    e = rpc_channel_call(f->channel, "/t.T/Echo", bytes_of(big, far), NULL, 0, in_ms(10000), &a);
    assert_int_equal(a.status, 8); /* of C core, which does not read it */
    assert_int_equal(e.code, ERR_OVERLOADED);
    e = fixture_call(f, "/t.T/Echo", "still here", &a);
    assert_string_equal(e.message, "");
    rpc_answer_close(&a);
    free(big);
}

static void a_call_without_answer_times_out(void **state)
{
    struct fixture *f = *state;
    struct rpc_answer a = {0};
    struct err e =
        rpc_channel_call(f->channel, "/t.T/Hold", bytes_str("x"), NULL, 0, in_ms(50), &a);
    assert_int_equal(e.code, ERR_TIMEOUT);
    assert_true(a.sent);
    assert_false(a.not_executed);
    rpc_reply(held_take(&held), BYTES_NONE, NULL, 0); /* too late, and harmless */
    rpc_answer_close(&a);
}

struct waited {
    struct fixture *f;
    struct rpc_answer *answer;
    bool leaves;
    struct err err;
};

static void *call_held(void *arg)
{
    struct waited *w = arg;
    w->err = rpc_channel_call(w->f->channel, "/t.T/Hold", bytes_str("x"), NULL, 0,
                              in_ms(w->leaves ? 50 : 30000), w->answer);
    return NULL;
}

static _Atomic uint64_t gone_id;

static void on_gone(void *ctx, uint64_t id)
{
    assert_ptr_equal(ctx, &held);
    atomic_store(&gone_id, id);
}

static void a_caller_that_leaves_is_noticed(void **state)
{
    struct fixture *f = *state;
    for (uint64_t id = 1; id <= 20; id++) {
        struct rpc_answer a = {0};
        atomic_store(&gone_id, 0);
        struct waited w = {.f = f, .answer = &a, .leaves = id % 2 == 0};
        pthread_t caller = thread_start("caller", call_held, &w);
        struct rpc_call *call = held_take(&held);
        assert_false(rpc_call_is_gone(call));
        rpc_call_on_gone(call, on_gone, &held, id);
        if (w.leaves)
            WAIT_FOR(atomic_load(&gone_id) == id);
        assert_int_equal(rpc_call_is_gone(call), w.leaves);
        rpc_reply(call, bytes_str("late"), NULL, 0);
        pthread_join(caller, NULL);
        assert_int_equal(w.err.code, w.leaves ? ERR_TIMEOUT : ERR_OK);
        assert_int_equal(atomic_load(&gone_id), w.leaves ? id : 0);
        rpc_answer_close(&a);
    }
}

static void nobody_listening_is_unreachable(void **state)
{
    struct fixture *f = *state;
    struct rpc_answer a = {0};
    rpc_server_free(f->server);
    f->server = NULL;
    struct rpc_channel *ch = rpc_channel_new(f->addr);
    struct err e = rpc_channel_call(ch, "/t.T/Echo", bytes_str("x"), NULL, 0, in_ms(10000), &a);
    assert_int_equal(e.code, ERR_UNREACHABLE);
    assert_non_null(strstr(e.message, ": cannot connect: Connection refused"));
    assert_false(a.sent);
    assert_true(a.not_executed);
    rpc_channel_free(ch);
    rpc_answer_close(&a);
}

static void a_channel_finds_a_server_that_came_back(void **state)
{
    struct fixture *f = *state;
    struct rpc_answer a = {0};
    struct err e = fixture_call(f, "/t.T/Echo", "x", &a);
    assert_string_equal(e.message, "");
    rpc_server_free(f->server);
    e = fixture_call(f, "/t.T/Echo", "x", &a);
    assert_true(e.code == ERR_UNREACHABLE || e.code == ERR_LOST);
    struct rpc_server_config cfg = {
        .listen = f->addr, .methods = methods, .method_count = sizeof methods / sizeof *methods};
    e = rpc_server_start(&f->server, &cfg);
    assert_string_equal(e.message, "");
    int64_t deadline = in_ms(10000);
    do
        e = fixture_call(f, "/t.T/Echo", "x", &a);
    while (err_is(&e) && clock_boot_ms() < deadline);
    assert_string_equal(e.message, "");
    rpc_answer_close(&a);
}

static void *call_often(void *arg)
{
    struct rpc_answer a = {0};
    intptr_t failures = 0;
    for (int i = 0; i < 200; i++) {
        struct err e = fixture_call(arg, "/t.T/Echo", "abc", &a);
        failures += err_is(&e) || a.message.len != 3;
    }
    rpc_answer_close(&a);
    return (void *)failures;
}

static void many_threads_call_at_once(void **state)
{
    pthread_t threads[10];
    for (int i = 0; i < 10; i++)
        threads[i] = thread_start("caller", call_often, *state);
    for (int i = 0; i < 10; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        assert_int_equal((intptr_t)failures, 0);
    }
}

/* Calls from the callback, until enough came back. */
struct loop {
    struct fixture *f;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int left, flying, failed;
};

static void loop_step(struct loop *l);

static void on_looped(void *arg, const struct err *e, struct rpc_answer *answer)
{
    struct loop *l = arg;
    pthread_mutex_lock(&l->lock);
    l->failed += err_is(e) || answer->message.len != 1;
    l->flying--;
    bool more = l->left > 0;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (more)
        loop_step(l);
}

static void loop_step(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    bool go = l->left > 0;
    l->left -= go;
    l->flying += go;
    pthread_mutex_unlock(&l->lock);
    if (go)
        rpc_channel_start(l->f->channel, "/t.T/Echo", bytes_str("x"), NULL, 0, in_ms(20000),
                          on_looped, l);
}

static void calls_without_waiting(void **state)
{
    struct loop l = {.f = *state,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER,
                     .left = 3000};
    for (int i = 0; i < 32; i++)
        loop_step(&l);
    pthread_mutex_lock(&l.lock);
    while (l.left > 0 || l.flying > 0)
        pthread_cond_wait(&l.changed, &l.lock);
    pthread_mutex_unlock(&l.lock);
    assert_int_equal(l.failed, 0);
}

static void answers_in_a_burst(void **state)
{
    struct fixture *f = *state;
    char names[CROWD][8];
    for (int i = 0; i < CROWD; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        rpc_channel_start(f->channel, "/t.T/Gather", bytes_str(names[i]), NULL, 0, in_ms(20000),
                          on_crowd, names[i]);
    }
    pthread_mutex_lock(&crowd.lock);
    while (crowd.count < CROWD)
        pthread_cond_wait(&crowd.changed, &crowd.lock);
    pthread_mutex_unlock(&crowd.lock);
    for (int i = 0; i < CROWD; i++)
        rpc_reply(crowd.calls[i], rpc_call_body(crowd.calls[i]), NULL, 0);
    pthread_mutex_lock(&crowd.lock);
    while (crowd.answered < CROWD)
        pthread_cond_wait(&crowd.changed, &crowd.lock);
    pthread_mutex_unlock(&crowd.lock);
    assert_int_equal(crowd.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(echo_returns_what_was_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_knows_where_it_comes_from, setup, teardown),
        cmocka_unit_test_setup_teardown(deadlines_reach_the_server, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_carries_its_trailers, setup, teardown),
        cmocka_unit_test_setup_teardown(an_open_outcome_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_method_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(large_messages_pass_and_larger_ones_do_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_call_without_answer_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_caller_that_leaves_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_listening_is_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(a_channel_finds_a_server_that_came_back, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_call_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_without_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_in_a_burst, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
