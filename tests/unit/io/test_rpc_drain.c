/* How a server begins and ends, and what a refusal looks like on the wire. */
#include "common/base/thread.h"
#include "tests/lib/rpc_fixture.h"
#include "tests/lib/wait_for.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

static struct held unary, stream;

static void hold_unary(struct rpc_call *call, void *ctx)
{
    held_put(&unary, call);
}

static void hold_stream(struct rpc_call *call, void *ctx)
{
    rpc_stream_begin(call, held_event, &stream, NULL, 0);
    held_put(&stream, call);
}

static void refuse(struct rpc_call *call, void *ctx)
{
    struct err e = err_make(ERR_NOT_LEADER, "no");
    rpc_fail(call, &e, NULL);
}

static const struct rpc_method methods[] = {
    {"/t.T/Unary", RPC_UNARY, hold_unary, NULL},
    {"/t.T/Stream", RPC_SERVER_STREAM, hold_stream, NULL},
    {"/t.T/Refuse", RPC_UNARY, refuse, NULL},
};

static int setup(void **state)
{
    unary = stream = (struct held)HELD_INIT;
    *state = fixture_new(methods, sizeof methods / sizeof *methods);
    return 0;
}

static int teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

static void a_taken_port_is_named(void **state)
{
    struct fixture *f = *state;
    struct rpc_server *other = NULL;
    struct rpc_server_config cfg = {.listen = f->addr, .methods = methods, .method_count = 3};
    struct err e = rpc_server_start(&other, &cfg);
    assert_int_equal(e.code, ERR_IN_USE);
    assert_non_null(strstr(e.message, f->addr));
    assert_null(other);
}

static void a_bad_address_is_a_usage_error(void **state)
{
    struct rpc_server *other = NULL;
    struct rpc_server_config cfg = {.listen = "nowhere", .methods = methods, .method_count = 3};
    struct err e = rpc_server_start(&other, &cfg);
    assert_int_equal(e.code, ERR_USAGE);
}

/* The unary call in flight is answered, the stream ends with DRAINING, new calls are refused
 * meanwhile. */
struct drain {
    struct fixture *f;
    int64_t timeout_ms;
};

static void *run_drain(void *arg)
{
    struct drain *d = arg;
    rpc_server_drain(d->f->server, d->timeout_ms);
    return NULL;
}

static void *call_unary(void *arg)
{
    struct rpc_answer a = {0};
    struct err e = fixture_call(arg, "/t.T/Unary", "x", &a);
    rpc_answer_close(&a);
    return (void *)(intptr_t)e.code;
}

static enum err_code refused_code(struct fixture *f)
{
    struct rpc_answer a = {0};
    struct err e = fixture_call(f, "/t.T/Refuse", "x", &a);
    rpc_answer_close(&a);
    return e.code;
}

static void draining_finishes_what_was_begun(void **state)
{
    struct fixture *f = *state;
    struct drain d = {.f = f, .timeout_ms = 20000};
    struct buf text = {0};
    struct err e;
    struct rpc_reader *r =
        rpc_reader_open(f->channel, "/t.T/Stream", bytes_str("x"), NULL, 0, INT64_MAX);
    struct rpc_call *streaming = held_take(&stream);
    pthread_t caller = thread_start("caller", call_unary, f);
    struct rpc_call *waiting = held_take(&unary);

    pthread_t drainer = thread_start("drainer", run_drain, &d);
    int64_t deadline = in_ms(10000);
    while (refused_code(f) != ERR_DRAINING)
        assert_true(clock_boot_ms() < deadline);
    rpc_reply(waiting, bytes_str("done"), NULL, 0);
    void *code;
    pthread_join(caller, &code);
    assert_int_equal((intptr_t)code, ERR_OK);

    assert_int_equal(rpc_reader_next(r, in_ms(10000), &text, &e), RPC_NEXT_END);
    assert_int_equal(e.code, ERR_DRAINING);
    held_wait_event(&stream, RPC_STREAM_GONE);
    assert_false(rpc_stream_send(streaming, bytes_str("late")));
    rpc_stream_end(streaming, NULL, NULL);
    pthread_join(drainer, NULL);
    rpc_reader_free(r);
    buf_close(&text);
}

static void a_call_without_answer_does_not_hold_up_a_drain(void **state)
{
    struct fixture *f = *state;
    pthread_t caller = thread_start("caller", call_unary, f);
    struct rpc_call *waiting = held_take(&unary);
    int64_t before = clock_boot_ms();
    rpc_server_drain(f->server, 100);
    assert_true(clock_boot_ms() - before < 10000);
    void *code;
    pthread_join(caller, &code);
    assert_int_not_equal((intptr_t)code, ERR_OK);
    rpc_reply(waiting, BYTES_NONE, NULL, 0);
}

/* --- on the wire --- */

static void put_header(struct buf *block, const char *name, const char *value)
{
    buf_byte(block, 0); /* literal, never in the table */
    buf_byte(block, (uint8_t)strlen(name));
    buf_str(block, name);
    buf_byte(block, (uint8_t)strlen(value));
    buf_str(block, value);
}

static void put_frame(struct buf *out, uint8_t type, uint8_t flags, uint8_t stream_id,
                      struct bytes payload)
{
    uint8_t head[9] = {
        0, (uint8_t)(payload.len >> 8), (uint8_t)payload.len, type, flags, 0, 0, 0, stream_id};
    buf_append(out, head, sizeof head);
    buf_bytes(out, payload);
}

static void put_request(struct buf *out)
{
    struct buf block = {0};
    buf_str(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    put_frame(out, 4, 0, 0, BYTES_NONE);
    put_header(&block, ":method", "POST");
    put_header(&block, ":scheme", "http");
    put_header(&block, ":path", "/t.T/Refuse");
    put_header(&block, ":authority", "t");
    put_header(&block, "te", "trailers");
    put_header(&block, "content-type", "application/grpc");
    put_frame(out, 1, 0x4, 1, buf_view(&block));
    put_frame(out, 0, 0x1, 1, bytes_of("\0\0\0\0\0", 5));
    buf_close(&block);
}

static void read_fully(int fd, void *out, size_t n)
{
    uint8_t *at = out;
    while (n > 0) {
        ssize_t got = recv(fd, at, n, 0);
        assert_true(got > 0);
        at += got;
        n -= (size_t)got;
    }
}

/* Flags of the first HEADERS frame on stream 1. */
static uint8_t first_headers_flags(int fd)
{
    for (;;) {
        uint8_t head[9], payload[65536];
        read_fully(fd, head, sizeof head);
        size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        assert_in_range(len, 0, sizeof payload);
        read_fully(fd, payload, len);
        if (head[3] == 1 && head[8] == 1)
            return head[4];
    }
}

static int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Callers that ask again and again until they are told to go elsewhere. */
enum { CALLERS = 64 };
static _Atomic int answered, ended, ended_well;

static void ask_again(void *arg, const struct err *e, struct rpc_answer *answer)
{
    struct fixture *f = arg;
    (void)answer;
    if (e->code == ERR_NOT_LEADER) {
        atomic_fetch_add(&answered, 1);
        rpc_channel_start(f->channel, "/t.T/Refuse", bytes_str("x"), NULL, 0, in_ms(10000),
                          ask_again, f);
        return;
    }
    atomic_fetch_add(&ended_well, e->code == ERR_DRAINING);
    atomic_fetch_add(&ended, 1);
}

static void nobody_is_dropped_while_a_server_leaves(void **state)
{
    struct fixture *f = *state;
    struct err first = err_make(ERR_NOT_LEADER, "begin");
    answered = ended = ended_well = 0;
    for (int i = 0; i < CALLERS; i++)
        ask_again(f, &first, NULL);
    WAIT_FOR(answered > 20 * CALLERS);
    rpc_server_drain(f->server, 10000);
    WAIT_FOR(ended == CALLERS);
    assert_int_equal(ended_well, CALLERS);
}

static void a_refusal_is_trailers_only(void **state)
{
    struct fixture *f = *state;
    struct buf out = {0};
    int fd = dial(rpc_server_port(f->server));
    put_request(&out);
    assert_int_equal(send(fd, out.data, out.len, MSG_NOSIGNAL), (ssize_t)out.len);
    assert_true(first_headers_flags(fd) & 0x1); /* END_STREAM */
    close(fd);
    buf_close(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_taken_port_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_address_is_a_usage_error, setup, teardown),
        cmocka_unit_test_setup_teardown(draining_finishes_what_was_begun, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_without_answer_does_not_hold_up_a_drain, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nobody_is_dropped_while_a_server_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_is_trailers_only, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
