/* Streams in both directions: requests are fetched one by one, as their handler asks for them. The
 * client is C core itself, because ours sends one request only. */
#include "common/io/rpc_core.h"
#include "tests/lib/rpc_fixture.h"
#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>

/* ---- the client: each operation waits for its own completion ---- */

struct client {
    grpc_channel *channel;
    grpc_call *call;
    grpc_completion_queue *cq;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice detail;
    bool has_status;
};

static int for_status; /* the tag of the operation that is under way all the time */

static struct client *client_open(struct fixture *f, const char *path, int64_t deadline_ms)
{
    struct client *c = mem_alloc(sizeof *c);
    rpc_core_open();
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    c->channel = grpc_channel_create(f->addr, plain, NULL);
    grpc_channel_credentials_release(plain);
    c->cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_slice method = grpc_slice_from_copied_string(path);
    c->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->cq, method,
                                       NULL, rpc_core_deadline(deadline_ms), NULL);
    grpc_slice_unref(method);
    grpc_metadata_array_init(&c->initial);
    grpc_metadata_array_init(&c->trailing);
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    op.data.recv_status_on_client.trailing_metadata = &c->trailing;
    op.data.recv_status_on_client.status = &c->status;
    op.data.recv_status_on_client.status_details = &c->detail;
    assert_int_equal(grpc_call_start_batch(c->call, &op, 1, &for_status, NULL), GRPC_CALL_OK);
    return c;
}

static bool client_do(struct client *c, const grpc_op *op)
{
    assert_int_equal(grpc_call_start_batch(c->call, op, 1, c, NULL), GRPC_CALL_OK);
    grpc_event e = grpc_completion_queue_pluck(c->cq, c, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    return e.success;
}

static void client_start(struct client *c)
{
    grpc_op send = {.op = GRPC_OP_SEND_INITIAL_METADATA},
            recv = {.op = GRPC_OP_RECV_INITIAL_METADATA};
    recv.data.recv_initial_metadata.recv_initial_metadata = &c->initial;
    client_do(c, &send);
    client_do(c, &recv);
}

static bool client_send(struct client *c, struct bytes message)
{
    grpc_byte_buffer b;
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    rpc_core_message_init(&b, rpc_core_slice(message));
    op.data.send_message.send_message = &b;
    bool sent = client_do(c, &op);
    rpc_core_message_close(&b);
    return sent;
}

static void client_close_writes(struct client *c)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    client_do(c, &op);
}

/* false: there is none any more. */
static bool client_receive(struct client *c, struct buf *out)
{
    grpc_byte_buffer *b = NULL;
    uint8_t *flat = NULL;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &b;
    client_do(c, &op);
    buf_clear(out);
    if (!b)
        return false;
    buf_bytes(out, rpc_core_contiguous(b, &flat));
    free(flat);
    grpc_byte_buffer_destroy(b);
    return true;
}

static int client_status(struct client *c)
{
    if (!c->has_status)
        grpc_completion_queue_pluck(c->cq, &for_status, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    c->has_status = true;
    return (int)c->status;
}

static void client_free(struct client *c)
{
    grpc_call_cancel(c->call, NULL);
    client_status(c);
    grpc_call_unref(c->call);
    grpc_channel_destroy(c->channel);
    grpc_completion_queue_shutdown(c->cq);
    grpc_completion_queue_pluck(c->cq, c, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_completion_queue_destroy(c->cq);
    grpc_metadata_array_destroy(&c->initial);
    grpc_metadata_array_destroy(&c->trailing);
    grpc_slice_unref(c->detail);
    free(c);
    rpc_core_close();
}

/* ---- the server ---- */

static struct held held;
static int requests, open_streams; /* atomic */

/* Sends each request back, and asks for the next in the same event. "end" ends the stream. */
static void on_echo(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    struct err e = OK_ERR;
    switch (event) {
    case RPC_STREAM_REQUEST:
        __atomic_fetch_add(&requests, 1, __ATOMIC_SEQ_CST);
        if (!bytes_equal(rpc_call_body(call), bytes_str("end"))) {
            rpc_stream_receive(call);
            rpc_stream_send(call, rpc_call_body(call));
            return;
        }
        e = err_make(ERR_COMPACTED, "as you wished");
        break;
    case RPC_STREAM_WRITABLE:
        return;
    case RPC_STREAM_NO_MORE:
    case RPC_STREAM_GONE:
        break;
    }
    __atomic_fetch_sub(&open_streams, 1, __ATOMIC_SEQ_CST);
    rpc_stream_end(call, &e, NULL);
}

static void echo(struct rpc_call *call, void *ctx)
{
    struct rpc_metadata initial = {"baton-epoch", bytes_str("3")};
    __atomic_fetch_add(&open_streams, 1, __ATOMIC_SEQ_CST);
    rpc_stream_begin(call, on_echo, NULL, &initial, 1);
}

/* Asks for nothing but the first request. */
static void hold(struct rpc_call *call, void *ctx)
{
    rpc_stream_begin(call, held_event, &held, NULL, 0);
    held_put(&held, call);
}

static void refuse(struct rpc_call *call, void *ctx)
{
    struct err e = err_make(ERR_NOT_LEADER, "no");
    rpc_stream_end(call, &e, NULL);
}

static const struct rpc_method methods[] = {
    {"/t.T/Echo", RPC_BIDI_STREAM, echo, NULL},
    {"/t.T/Hold", RPC_BIDI_STREAM, hold, NULL},
    {"/t.T/Refuse", RPC_BIDI_STREAM, refuse, NULL},
};

static int setup(void **state)
{
    held = (struct held)HELD_INIT;
    requests = open_streams = 0;
    *state = fixture_new(methods, sizeof methods / sizeof *methods);
    return 0;
}

static int teardown(void **state)
{
    fixture_free(*state);
    assert_int_equal(open_streams, 0);
    return 0;
}

/* ---- tests ---- */

static void each_request_is_answered_in_order(void **state)
{
    struct buf text = {0};
    struct client *c = client_open(*state, "/t.T/Echo", INT64_MAX);
    client_start(c); /* the answer begins before any request */
    assert_memory_equal(rpc_core_find(&c->initial, "baton-epoch").data, "3", 1);
    for (char i = 'a'; i <= 'z'; i++) {
        assert_true(client_send(c, bytes_of(&i, 1)));
        assert_true(client_receive(c, &text));
        assert_int_equal(text.len, 1);
        assert_int_equal(text.data[0], i);
    }
    assert_true(client_send(c, BYTES_NONE)); /* a request without a byte is a request */
    assert_true(client_receive(c, &text));
    assert_int_equal(text.len, 0);
    client_close_writes(c);
    assert_false(client_receive(c, &text));
    assert_int_equal(client_status(c), GRPC_STATUS_OK);
    client_free(c);
    buf_close(&text);
}

static void requests_sent_in_one_go_are_answered_too(void **state)
{
    struct buf text = {0};
    struct client *c = client_open(*state, "/t.T/Echo", INT64_MAX);
    client_start(c);
    for (char i = 'a'; i <= 'z'; i++)
        assert_true(client_send(c, bytes_of(&i, 1)));
    client_close_writes(c);
    for (char i = 'a'; i <= 'z'; i++) {
        assert_true(client_receive(c, &text));
        assert_int_equal(text.data[0], i);
    }
    assert_false(client_receive(c, &text));
    assert_int_equal(client_status(c), GRPC_STATUS_OK);
    client_free(c);
    buf_close(&text);
}

static void the_server_may_end_it_in_an_event(void **state)
{
    struct buf text = {0};
    struct client *c = client_open(*state, "/t.T/Echo", INT64_MAX);
    client_start(c);
    client_send(c, bytes_str("end"));
    assert_false(client_receive(c, &text));
    assert_int_equal(client_status(c), GRPC_STATUS_OUT_OF_RANGE);
    client_free(c);
    c = client_open(*state, "/t.T/Refuse", INT64_MAX);
    client_start(c);
    assert_int_equal(client_status(c), GRPC_STATUS_UNAVAILABLE);
    client_free(c);
    buf_close(&text);
}

static void a_client_without_requests_is_told_the_end(void **state)
{
    struct buf text = {0};
    struct client *c = client_open(*state, "/t.T/Echo", INT64_MAX);
    client_start(c);
    client_close_writes(c);
    assert_false(client_receive(c, &text));
    assert_int_equal(client_status(c), GRPC_STATUS_OK);
    assert_int_equal(requests, 0);
    client_free(c);
    buf_close(&text);
}

static void what_is_not_asked_for_stays_with_the_client(void **state)
{
    enum { BIG = 512 << 10, MANY = 64 };
    uint8_t *big = mem_alloc(BIG);
    struct client *c = client_open(*state, "/t.T/Hold", in_ms(3000));
    client_start(c);
    struct rpc_call *call = held_take(&held);
    int sent = 0;
    while (sent < MANY && client_send(c, bytes_of(big, BIG)))
        sent++;
    assert_true(sent < MANY); /* the rest never left, and the deadline came */
    held_wait_event(&held, RPC_STREAM_REQUEST);
    held_wait_event(&held, RPC_STREAM_GONE);
    assert_int_equal(held.events[RPC_STREAM_REQUEST], 1);
    rpc_stream_end(call, NULL, NULL);
    client_free(c);
    free(big);
}

static void a_client_that_leaves_is_told_as_gone(void **state)
{
    struct client *c = client_open(*state, "/t.T/Hold", INT64_MAX);
    client_start(c);
    struct rpc_call *call = held_take(&held);
    client_free(c);
    held_wait_event(&held, RPC_STREAM_GONE);
    rpc_stream_end(call, NULL, NULL);
}

static void a_drain_ends_it(void **state)
{
    struct fixture *f = *state;
    struct client *c = client_open(f, "/t.T/Echo", INT64_MAX);
    client_start(c);
    rpc_server_drain(f->server, 10000);
    assert_int_equal(client_status(c), GRPC_STATUS_UNAVAILABLE);
    client_free(c);
}

static void clients_that_leave_at_any_moment_do_no_harm(void **state)
{
    struct buf text = {0};
    for (int i = 0; i < 200; i++) {
        struct client *c = client_open(*state, "/t.T/Echo", INT64_MAX);
        if (i % 4)
            client_start(c);
        for (int n = 0; n < i % 4; n++)
            client_send(c, bytes_str("x"));
        if (i % 4 == 3)
            client_receive(c, &text);
        client_free(c);
    }
    buf_close(&text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_request_is_answered_in_order),
        TEST(requests_sent_in_one_go_are_answered_too),
        TEST(the_server_may_end_it_in_an_event),
        TEST(a_client_without_requests_is_told_the_end),
        TEST(what_is_not_asked_for_stays_with_the_client),
        TEST(a_client_that_leaves_is_told_as_gone),
        TEST(a_drain_ends_it),
        TEST(clients_that_leave_at_any_moment_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
