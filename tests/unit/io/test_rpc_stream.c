/* Server streams between a server and clients in one process. */
#include "common/base/thread.h"
#include "tests/lib/rpc_fixture.h"
#include <string.h>

static struct held held;

static void count_to_ten(struct rpc_call *call, void *ctx)
{
    struct rpc_metadata initial = {"baton-epoch", bytes_str("3")};
    rpc_stream_begin(call, NULL, NULL, &initial, 1);
    for (char c = '0'; c <= '9'; c++)
        assert_true(rpc_stream_send(call, bytes_of(&c, 1)));
    rpc_stream_end(call, NULL, NULL);
}

static void fail_midway(struct rpc_call *call, void *ctx)
{
    struct err e = err_make(ERR_COMPACTED, "the oldest kept is 17");
    rpc_stream_begin(call, NULL, NULL, NULL, 0);
    rpc_stream_send(call, bytes_str("first"));
    rpc_stream_end(call, &e, NULL);
}

static void refuse(struct rpc_call *call, void *ctx)
{
    struct err e = err_make(ERR_NOT_LEADER, "no");
    rpc_stream_end(call, &e, NULL);
}

static void hold(struct rpc_call *call, void *ctx)
{
    rpc_stream_begin(call, held_event, &held, NULL, 0);
    held_put(&held, call);
}

static const struct rpc_method methods[] = {
    {"/t.T/Count", RPC_SERVER_STREAM, count_to_ten, NULL},
    {"/t.T/Midway", RPC_SERVER_STREAM, fail_midway, NULL},
    {"/t.T/Refuse", RPC_SERVER_STREAM, refuse, NULL},
    {"/t.T/Hold", RPC_SERVER_STREAM, hold, NULL},
};

static int setup(void **state)
{
    held = (struct held)HELD_INIT;
    *state = fixture_new(methods, sizeof methods / sizeof *methods);
    return 0;
}

static int teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

static struct rpc_reader *open_stream(struct fixture *f, const char *path)
{
    return rpc_reader_open(f->channel, path, bytes_str("x"), NULL, 0, INT64_MAX);
}

static void messages_come_in_order_and_then_the_end(void **state)
{
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r = open_stream(*state, "/t.T/Count");
    for (char c = '0'; c <= '9'; c++) {
        assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_MESSAGE);
        assert_int_equal(text.data[0], c);
    }
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(rpc_reader_answer(r)->epoch, 3);
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    rpc_reader_free(r);
    buf_close(&text);
}

static void an_error_comes_behind_the_messages(void **state)
{
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r = open_stream(*state, "/t.T/Midway");
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_MESSAGE);
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    assert_int_equal(e.code, ERR_COMPACTED);
    assert_non_null(strstr(e.message, "the oldest kept is 17"));
    assert_true(rpc_reader_answer(r)->not_executed);
    rpc_reader_free(r);
    buf_close(&text);
}

static void a_stream_may_be_refused(void **state)
{
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r = open_stream(*state, "/t.T/Refuse");
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    assert_int_equal(e.code, ERR_NOT_LEADER);
    rpc_reader_free(r);
    buf_close(&text);
}

static void the_owner_learns_that_the_reader_left(void **state)
{
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r = open_stream(*state, "/t.T/Hold");
    struct rpc_call *call = held_take(&held);
    rpc_reader_cancel(r);
    held_wait_event(&held, RPC_STREAM_GONE);
    assert_false(rpc_stream_send(call, bytes_str("nobody hears")));
    assert_int_equal(rpc_stream_pending(call), 0);
    rpc_stream_end(call, NULL, NULL);
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    assert_int_equal(e.code, ERR_CANCELLED);
    rpc_reader_free(r);
    buf_close(&text);
}

static void a_broken_connection_ends_the_stream(void **state)
{
    struct fixture *f = *state;
    struct rpc_channel *other = rpc_channel_new(f->addr);
    struct rpc_reader *r = rpc_reader_open(other, "/t.T/Hold", bytes_str("x"), NULL, 0, INT64_MAX);
    struct rpc_call *call = held_take(&held);
    rpc_reader_free(r);
    rpc_channel_free(other);
    held_wait_event(&held, RPC_STREAM_GONE);
    rpc_stream_end(call, NULL, NULL);
}

static void waiting_for_a_message_has_an_end(void **state)
{
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r = open_stream(*state, "/t.T/Hold");
    struct rpc_call *call = held_take(&held);
    assert_int_equal(rpc_reader_next(r, in_ms(20), &text, &e), RPC_NEXT_NOTHING);
    rpc_stream_send(call, bytes_str("now"));
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_MESSAGE);
    assert_string_equal((char *)text.data, "now");
    rpc_stream_end(call, NULL, NULL);
    rpc_reader_free(r);
    buf_close(&text);
}

static void a_deadline_ends_the_stream(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r =
        rpc_reader_open(f->channel, "/t.T/Hold", bytes_str("x"), NULL, 0, in_ms(100));
    struct rpc_call *call = held_take(&held);
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    assert_int_equal(e.code, ERR_TIMEOUT);
    held_wait_event(&held, RPC_STREAM_GONE);
    rpc_stream_end(call, NULL, NULL);
    rpc_reader_free(r);
    buf_close(&text);
}

/* A reader that does not read: flow control stops the writes, and the bound of the queue the
 * sender. */
static void a_slow_reader_fills_its_own_queue_only(void **state)
{
    static char piece[8192];
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r = open_stream(*state, "/t.T/Hold");
    struct rpc_call *call = held_take(&held);
    size_t sent = 0, received = 0;
    while (rpc_stream_send(call, bytes_of(piece, sizeof piece)))
        sent++;
    assert_in_range(rpc_stream_pending(call), 1, (1 << 16) / sizeof piece);
    while (received < sent) {
        assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_MESSAGE);
        received++;
    }
    held_wait_event(&held, RPC_STREAM_WRITABLE);
    rpc_stream_end(call, NULL, NULL);
    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    rpc_reader_free(r);
    buf_close(&text);
}

static void *leave_at_once(void *arg)
{
    struct fixture *f = arg;
    for (int i = 0; i < 50; i++) {
        struct buf text = {0};
        struct err e;
        struct rpc_channel *ch = rpc_channel_new(f->addr);
        struct rpc_reader *r =
            rpc_reader_open(ch, "/t.T/Count", bytes_str("x"), NULL, 0, in_ms(20000));
        for (int n = 0; n < i % 12; n++)
            rpc_reader_next(r, in_ms(20000), &text, &e);
        rpc_reader_free(r);
        rpc_channel_free(ch);
        buf_close(&text);
    }
    return NULL;
}

static void readers_that_leave_at_any_moment_do_no_harm(void **state)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start("leaver", leave_at_once, *state);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    messages_come_in_order_and_then_the_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_come_in_order_and_then_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_comes_behind_the_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_may_be_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_owner_learns_that_the_reader_left, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broken_connection_ends_the_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_for_a_message_has_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deadline_ends_the_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_fills_its_own_queue_only, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_that_leave_at_any_moment_do_no_harm, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
