/* What the client makes of HTTP/2 peers that break off, say nothing, answer nonsense, or are no
 * etcd. A request goes out once, and what may have taken effect is never said not to have. */
#include "tests/lib/h2_script.h"
#include "tests/lib/http_script.h"
#include "tests/lib/wait_for.h"
#include "tests/lib/watch_heard.h"
#include "common/io/etcd.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

/* TxnResponse{header{cluster_id 12, member_id 7, revision 18}, succeeded}, as a frame of gRPC */
#define MESSAGE "\0\0\0\0\x0a\x0a\x06\x08\x0c\x10\x07\x18\x12\x10\x01"
/* WatchResponse{header as above, watch_id 1, created} */
#define CREATED "\0\0\0\0\x0c\x0a\x06\x08\x0c\x10\x07\x18\x12\x10\x01\x18\x01"
#define LIT(text) bytes_of(text, sizeof(text) - 1)
#define OK_HEADERS ":status", "200", "content-type", "application/grpc"

static const char *const ok_headers[] = {OK_HEADERS, NULL};
static const char *const ok_trailers[] = {"grpc-status", "0", NULL};

/* An answer is made by a function of its own. */
typedef void answer_maker(struct buf *out);

static void fine(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, false, LIT(MESSAGE));
    h2_headers(out, true, ok_trailers);
}

static void fine_in_pieces(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    for (size_t i = 0; i < sizeof MESSAGE - 1; i++)
        h2_data(out, false, bytes_of(&MESSAGE[i], 1));
    h2_headers(out, true, ok_trailers);
}

static void no_space(struct buf *out)
{
    static const char *const f[] = {OK_HEADERS,
                                    "grpc-status",
                                    "8",
                                    "grpc-message",
                                    "etcdserver: mvcc: database%20space exceeded",
                                    NULL};
    h2_headers(out, true, f);
}

static void unavailable_in_trailers(struct buf *out)
{
    static const char *const f[] = {"grpc-status", "14", "grpc-message", "etcdserver: no leader",
                                    NULL};
    h2_headers(out, false, ok_headers);
    h2_headers(out, true, f);
}

static void token_refused(struct buf *out)
{
    static const char *const f[] = {
        OK_HEADERS, "grpc-status", "16", "grpc-message", "etcdserver: invalid auth token", NULL};
    h2_headers(out, true, f);
}

static void status_is_no_number(struct buf *out)
{
    static const char *const f[] = {OK_HEADERS, "grpc-status", "fine", NULL};
    h2_headers(out, true, f);
}

static void bad_gateway(struct buf *out)
{
    static const char *const f[] = {":status", "502", "content-type", "text/html", NULL};
    h2_headers(out, false, f);
    h2_data(out, true, LIT("<html>"));
}

static void not_found(struct buf *out)
{
    static const char *const f[] = {":status", "404", NULL};
    h2_headers(out, true, f);
}

static void json(struct buf *out)
{
    static const char *const f[] = {":status", "200", "content-type", "application/json", NULL};
    h2_headers(out, false, f);
    h2_data(out, true, LIT("{}"));
}

static void no_trailers(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, true, LIT(MESSAGE));
}

static void cut_message(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, false, bytes_of(MESSAGE, sizeof MESSAGE - 4));
    h2_headers(out, true, ok_trailers);
}

static void two_messages(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, false, LIT(MESSAGE MESSAGE));
    h2_headers(out, true, ok_trailers);
}

static void no_message(struct buf *out)
{
    static const char *const f[] = {OK_HEADERS, "grpc-status", "0", NULL};
    h2_headers(out, true, f);
}

static void half_an_answer(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, false, LIT(MESSAGE));
}

static void reset(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_frame(out, 3, 0, 1, LIT("\0\0\0\x02"));
}

static void refused(struct buf *out)
{
    h2_frame(out, 3, 0, 1, LIT("\0\0\0\x07"));
}

static void goaway(struct buf *out)
{
    h2_frame(out, 7, 0, 0, LIT("\0\0\0\0\0\0\0\0"));
}

static void garbage(struct buf *out)
{
    buf_str(out, "HTTP/1.1 400 Bad Request, or what else comes to a server's mind");
}

static void frame_cut_short(struct buf *out)
{
    buf_bytes(out, LIT("\0\0\xff\x01\x04"));
}

static void bad_headers(struct buf *out)
{
    h2_frame(out, 1, 4, 1, LIT("\xff\xff\xff\xff\xff\xff\xff\xff"));
}

static void nothing(struct buf *out)
{
}

static void too_large(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, false, LIT("\0\x7f\xff\xff\xff\x0a"));
}

static struct etcd_client *client_of(const char *endpoints, enum etcd_transport transport)
{
    struct etcd_client *c;
    struct etcd_config cfg = {.access = {.endpoints = endpoints, .transport = transport},
                              .name = "etcd-test",
                              .connect_timeout_ms = 300};
    struct err e = etcd_client_new(&c, &cfg);
    assert_string_equal(e.message, "");
    return c;
}

static struct err ask(struct etcd_client *c, int timeout_ms)
{
    struct etcd_reply reply;
    struct etcd_op op = {.kind = ETCD_OP_PUT, .key = bytes_str("k"), .value = bytes_str("v")};
    struct buf body = {0};
    etcd_encode_txn(&body, &(struct etcd_txn){.success = &op, .success_count = 1});
    struct err e = etcd_call_wait(c, ETCD_PATH_TXN, buf_view(&body), ETCD_ANY, timeout_ms, &reply);
    if (!err_is(&e)) {
        struct etcd_txn_result r;
        assert_int_equal(reply.header.cluster_id, 12);
        assert_int_equal(etcd_decode_txn(reply.body, &r).code, ERR_OK);
        assert_true(r.succeeded && r.header.revision == 18);
        etcd_txn_result_close(&r);
    }
    etcd_reply_close(&reply);
    buf_close(&body);
    return e;
}

static void every_answer_has_its_error(void **state)
{
    static const struct {
        answer_maker *make;
        enum h2_script_end end;
        enum err_code code;
    } cases[] = {
        {fine, H2_SCRIPT_SILENT, ERR_OK},
        {fine, H2_SCRIPT_CLOSE, ERR_OK},
        {fine_in_pieces, H2_SCRIPT_SILENT, ERR_OK},
        {no_space, H2_SCRIPT_SILENT, ERR_NO_SPACE},
        {unavailable_in_trailers, H2_SCRIPT_SILENT, ERR_LOST},
        {token_refused, H2_SCRIPT_SILENT, ERR_DENIED},
        {status_is_no_number, H2_SCRIPT_SILENT, ERR_LOST},
        {bad_gateway, H2_SCRIPT_SILENT, ERR_LOST},
        {not_found, H2_SCRIPT_SILENT, ERR_PROTOCOL},
        {json, H2_SCRIPT_SILENT, ERR_PROTOCOL},
        {no_trailers, H2_SCRIPT_SILENT, ERR_LOST},
        {cut_message, H2_SCRIPT_SILENT, ERR_PROTOCOL},
        {two_messages, H2_SCRIPT_SILENT, ERR_PROTOCOL},
        {no_message, H2_SCRIPT_SILENT, ERR_PROTOCOL},
        {half_an_answer, H2_SCRIPT_CLOSE, ERR_LOST},
        {half_an_answer, H2_SCRIPT_SILENT, ERR_LOST},
        {reset, H2_SCRIPT_SILENT, ERR_LOST},
        {refused, H2_SCRIPT_SILENT, ERR_LOST},
        {goaway, H2_SCRIPT_SILENT, ERR_LOST},
        {garbage, H2_SCRIPT_SILENT, ERR_LOST},
        {garbage, H2_SCRIPT_CLOSE, ERR_LOST},
        {frame_cut_short, H2_SCRIPT_CLOSE, ERR_LOST},
        {bad_headers, H2_SCRIPT_SILENT, ERR_LOST},
        {nothing, H2_SCRIPT_CLOSE, ERR_LOST},
        {nothing, H2_SCRIPT_SILENT, ERR_LOST},
        {too_large, H2_SCRIPT_SILENT, ERR_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf greeting = {0}, answer = {0};
        h2_settings(&greeting);
        cases[i].make(&answer);
        struct h2_script_step step = {buf_view(&greeting), buf_view(&answer), cases[i].end};
        struct h2_script *s = h2_script_start(&step, 1);
        struct etcd_client *c = client_of(h2_script_url(s), ETCD_GRPC);
        bool waits = cases[i].end == H2_SCRIPT_SILENT &&
                     (cases[i].make == nothing || cases[i].make == half_an_answer);
        struct err e = ask(c, waits ? 300 : 20000);
        if (e.code != cases[i].code || (strstr(e.message, "in time") && !waits))
            fail_msg("case %d: %s: %s", (int)i, err_word(e.code), e.message);
        assert_int_equal(h2_script_requests(s), 1);
        etcd_client_free(c);
        h2_script_free(s);
        buf_close(&greeting);
        buf_close(&answer);
    }
}

static void what_never_greets_is_not_asked(void **state)
{
    static const struct {
        struct bytes greeting;
        enum h2_script_end end;
    } cases[] = {
        {{0}, H2_SCRIPT_SILENT},
        {{(const uint8_t *)"HTTP/1.1 505 No\r\n\r\n", 19}, H2_SCRIPT_SILENT},
        {{(const uint8_t *)"\0\0\4\x08\0\0\0\0\0\0\0\xff\0", 13},
         H2_SCRIPT_SILENT}, /* no SETTINGS */
        {{(const uint8_t *)"what nobody expects, of no sense at all", 39}, H2_SCRIPT_SILENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct h2_script_step step = {cases[i].greeting, BYTES_NONE, cases[i].end};
        struct h2_script *s = h2_script_start(&step, 1);
        struct etcd_client *c = client_of(h2_script_url(s), ETCD_GRPC);
        struct err e = ask(c, 20000);
        if (e.code != ERR_UNREACHABLE)
            fail_msg("case %d: %s: %s", (int)i, err_word(e.code), e.message);
        assert_int_equal(h2_script_requests(s), 0);
        etcd_client_free(c);
        h2_script_free(s);
    }
}

static void http1_is_spoken_to_in_json(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 505 No\r\nContent-Length: 0\r\n\r\n" SCRIPT_CLOSE,
        "HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n{\"header\":{\"cluster_id\":\"12\","
        "\"member_id\":\"7\",\"revision\":\"18\"},\"succeeded\":true}\n" SCRIPT_KEEP,
        "HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n{\"header\":{\"cluster_id\":\"12\","
        "\"member_id\":\"7\",\"revision\":\"18\"},\"succeeded\":true}\n" SCRIPT_KEEP,
        NULL};
    struct http_script *s = http_script_start(answers);
    struct etcd_client *c = client_of(http_script_url(s), ETCD_AUTO);
    assert_string_equal(ask(c, 20000).message, "");
    assert_string_equal(ask(c, 20000).message, ""); /* without trying HTTP/2 again */
    assert_int_equal(http_script_requests(s), 3);
    etcd_client_free(c);
    http_script_free(s);
}

static void on_answer(void *arg, struct etcd_reply *reply)
{
    queue_push_always(arg, (void *)(intptr_t)(reply->err.code + 1));
}

/* The first attempt may still be answered while a later one goes its own way. */
static void a_silent_link_gets_a_successor(void **state)
{
    struct buf greeting = {0}, answer = {0}, body = {0};
    h2_settings(&greeting);
    fine(&answer);
    struct h2_script_step steps[] = {
        {buf_view(&greeting), buf_view(&answer), H2_SCRIPT_HELD},
        {buf_view(&greeting), buf_view(&answer), H2_SCRIPT_SILENT},
    };
    struct h2_script *s = h2_script_start(steps, 2);
    struct etcd_client *c = client_of(h2_script_url(s), ETCD_GRPC);
    struct queue *codes = queue_new(4);
    etcd_encode_txn(&body, &(struct etcd_txn){0});
    etcd_call(c, ETCD_PATH_TXN, buf_view(&body), 0, 60000, on_answer, codes);
    WAIT_FOR(h2_script_requests(s) == 1);
    int64_t began_ms = clock_boot_ms();
    WAIT_FOR(clock_boot_ms() - began_ms > 300);
    assert_int_equal(ask(c, 20000).code, ERR_OK);
    assert_int_equal(queue_length(codes), 0);
    h2_script_release(s);
    assert_int_equal((intptr_t)queue_pop(codes, 20000), ERR_OK + 1);
    assert_int_equal(h2_script_requests(s), 2);
    etcd_client_free(c);
    h2_script_free(s);
    queue_free(codes);
    buf_close(&greeting), buf_close(&answer), buf_close(&body);
}

static void nobody_waits_for_what_timed_out(void **state)
{
    struct buf greeting = {0};
    h2_settings(&greeting);
    struct h2_script_step steps[] = {{buf_view(&greeting), BYTES_NONE, H2_SCRIPT_SILENT}};
    struct h2_script *s = h2_script_start(steps, 1);
    struct etcd_client *c = client_of(h2_script_url(s), ETCD_GRPC);
    assert_int_equal(ask(c, 200).code, ERR_LOST);
    assert_int_equal(ask(c, 200).code, ERR_UNREACHABLE); /* a new link, which is not greeted */
    etcd_client_free(c);
    h2_script_free(s);
    buf_close(&greeting);
}

/* ---- watches ---- */

static void watch_denied(struct buf *out)
{
    static const char *const f[] = {"grpc-status", "7", "grpc-message", "you may not", NULL};
    h2_headers(out, false, ok_headers);
    h2_data(out, false, LIT(CREATED));
    h2_headers(out, true, f);
}

static void watch_in_pieces(struct buf *out)
{
    static const char two[] = CREATED CREATED;
    h2_headers(out, false, ok_headers);
    for (size_t i = 0; i < sizeof two - 1; i += 3)
        h2_data(out, false, bytes_of(two + i, sizeof two - 1 - i < 3 ? sizeof two - 1 - i : 3));
    h2_headers(out, true, ok_trailers);
}

static void watch_of_nonsense(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, false, LIT(CREATED "\0\0\0\0\x03\xff\xff\xff"));
}

static void watch_compressed(struct buf *out)
{
    h2_headers(out, false, ok_headers);
    h2_data(out, false, LIT("\x01\0\0\0\x02\x1f\x8b"));
}

static void every_end_of_a_watch_has_its_error(void **state)
{
    static const struct {
        answer_maker *make;
        enum h2_script_end end;
        int lines;
        enum err_code code;
    } cases[] = {
        {watch_in_pieces, H2_SCRIPT_SILENT, 2, ERR_LOST},
        {watch_denied, H2_SCRIPT_SILENT, 1, ERR_DENIED},
        {watch_of_nonsense, H2_SCRIPT_SILENT, 1, ERR_PROTOCOL},
        {watch_compressed, H2_SCRIPT_SILENT, 0, ERR_PROTOCOL},
        {too_large, H2_SCRIPT_SILENT, 0, ERR_PROTOCOL},
        {not_found, H2_SCRIPT_SILENT, 0, ERR_PROTOCOL},
        {reset, H2_SCRIPT_SILENT, 0, ERR_LOST},
        {nothing, H2_SCRIPT_CLOSE, 0, ERR_LOST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf greeting = {0}, answer = {0}, body = {0};
        h2_settings(&greeting);
        cases[i].make(&answer);
        struct h2_script_step step = {buf_view(&greeting), buf_view(&answer), cases[i].end};
        struct h2_script *s = h2_script_start(&step, 1);
        struct etcd_client *c = client_of(h2_script_url(s), ETCD_GRPC);
        struct heard h = {.end = queue_new(1)};
        etcd_encode_watches(&body, &(struct etcd_watch){.key = bytes_str("k"), .watch_id = 1}, 1);
        struct etcd_stream *w =
            etcd_watch_open(c, buf_view(&body), ETCD_ANY, heard_line, heard_end, &h);
        assert_non_null(queue_pop(h.end, 20000));
        if (h.why.code != cases[i].code || h.lines != cases[i].lines)
            fail_msg("case %d: %d lines, %s: %s", (int)i, h.lines, err_word(h.why.code),
                     h.why.message);
        etcd_watch_close(w);
        etcd_client_free(c);
        queue_free(h.end);
        h2_script_free(s);
        buf_close(&greeting), buf_close(&answer), buf_close(&body);
    }
}

static void a_closed_watch_is_reset(void **state)
{
    struct buf greeting = {0}, body = {0};
    h2_settings(&greeting);
    struct h2_script_step step = {buf_view(&greeting), BYTES_NONE, H2_SCRIPT_SILENT};
    struct h2_script *s = h2_script_start(&step, 1);
    struct etcd_client *c = client_of(h2_script_url(s), ETCD_GRPC);
    struct heard h = {.end = queue_new(1)};
    etcd_encode_watches(&body, &(struct etcd_watch){.key = bytes_str("k"), .watch_id = 1}, 1);
    struct etcd_stream *w =
        etcd_watch_open(c, buf_view(&body), ETCD_ANY, heard_line, heard_end, &h);
    WAIT_FOR(h2_script_requests(s) == 1);
    etcd_watch_close(w);
    assert_non_null(queue_pop(h.end, 20000));
    assert_int_equal(h.why.code, ERR_CANCELLED);
    WAIT_FOR(h2_script_resets(s) == 1);
    etcd_client_free(c);
    queue_free(h.end);
    h2_script_free(s);
    buf_close(&greeting), buf_close(&body);
}

static void a_watch_after_a_silent_one_gets_its_own_link(void **state)
{
    struct buf greeting = {0}, answer = {0}, body = {0};
    h2_settings(&greeting);
    h2_headers(&answer, false, ok_headers);
    struct h2_script_step step = {buf_view(&greeting), buf_view(&answer), H2_SCRIPT_SILENT};
    struct h2_script_step steps[] = {step, step};
    struct h2_script *s = h2_script_start(steps, 2);
    struct etcd_client *c = client_of(h2_script_url(s), ETCD_GRPC);
    etcd_encode_watches(&body, &(struct etcd_watch){.key = bytes_str("k"), .watch_id = 1}, 1);
    for (int i = 0; i < 2; i++) {
        struct heard h = {.end = queue_new(1)};
        struct etcd_stream *w = etcd_watch_open(c, buf_view(&body), 0, heard_line, heard_end, &h);
        WAIT_FOR(h2_script_requests(s) == i + 1);
        int64_t asked_ms = clock_boot_ms();
        WAIT_FOR(clock_boot_ms() - asked_ms > 1000); /* more than the client takes to connect */
        etcd_watch_close(w);
        assert_non_null(queue_pop(h.end, 20000));
        queue_free(h.end);
    }
    etcd_client_free(c);
    h2_script_free(s);
    buf_close(&greeting), buf_close(&answer), buf_close(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_has_its_error),
        cmocka_unit_test(what_never_greets_is_not_asked),
        cmocka_unit_test(http1_is_spoken_to_in_json),
        cmocka_unit_test(a_silent_link_gets_a_successor),
        cmocka_unit_test(nobody_waits_for_what_timed_out),
        cmocka_unit_test(every_end_of_a_watch_has_its_error),
        cmocka_unit_test(a_closed_watch_is_reset),
        cmocka_unit_test(a_watch_after_a_silent_one_gets_its_own_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
