/* What the client makes of servers that break off, say nothing, or are no etcd; and of endpoint
 * lists. */
#include "tests/lib/etcd_process.h"
#include "tests/lib/http_script.h"
#include "tests/lib/watch_heard.h"
#include "common/io/etcd.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define HEADER "\"header\":{\"cluster_id\":\"12\",\"member_id\":\"7\",\"revision\":\"18\"}"
#define JSON "Content-Type: application/json\r\n"
#define FINE "HTTP/1.1 200 OK\r\n" JSON "Content-Length: 63\r\n\r\n{" HEADER "}\n"
#define CHUNKED "HTTP/1.1 200 OK\r\n" JSON "Transfer-Encoding: chunked\r\n\r\n"

static struct etcd_client *client_of(const char *endpoints, int connect_timeout_ms)
{
    struct etcd_client *c;
    struct etcd_config cfg = {.access.endpoints = endpoints,
                              .name = "etcd-test",
                              .connect_timeout_ms = connect_timeout_ms};
    struct err e = etcd_client_new(&c, &cfg);
    assert_string_equal(e.message, "");
    return c;
}

static struct err ask(struct etcd_client *c, int timeout_ms)
{
    struct etcd_reply reply;
    struct err e = etcd_call_wait(c, ETCD_PATH_TXN, bytes_str("{}"), ETCD_ANY, timeout_ms, &reply);
    etcd_reply_close(&reply);
    return e;
}

/* curl itself would send the second request again on a new connection. */
static void nothing_is_sent_twice(void **state)
{
    static const char *const answers[] = {FINE SCRIPT_KEEP, SCRIPT_CLOSE, FINE SCRIPT_KEEP, NULL};
    struct http_script *s = http_script_start(answers);
    struct etcd_client *c = client_of(http_script_url(s), 0);
    assert_int_equal(ask(c, 5000).code, ERR_OK);
    assert_int_equal(ask(c, 5000).code, ERR_LOST);
    assert_int_equal(http_script_requests(s), 2);
    assert_int_equal(ask(c, 5000).code, ERR_OK);
    assert_int_equal(http_script_requests(s), 3);
    etcd_client_free(c);
    http_script_free(s);
}

static void every_broken_answer_has_its_error(void **state)
{
    static const struct {
        const char *answer;
        enum err_code code;
    } cases[] = {
        {FINE SCRIPT_KEEP, ERR_OK},
        {SCRIPT_CLOSE, ERR_LOST},
        {SCRIPT_SILENT, ERR_LOST},
        {"HTTP/1.1 200 OK\r\n" SCRIPT_CLOSE, ERR_LOST},
        {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{" HEADER "}" SCRIPT_CLOSE, ERR_LOST},
        {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{" HEADER "}" SCRIPT_SILENT, ERR_LOST},
        {"nothing like HTTP\r\n\r\n" SCRIPT_CLOSE, ERR_LOST},
        {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>" SCRIPT_KEEP, ERR_PROTOCOL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" SCRIPT_KEEP, ERR_LOST},
        {"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nnot found" SCRIPT_KEEP, ERR_PROTOCOL},
        {"HTTP/1.1 502 No\r\nContent-Length: 6\r\n\r\n<html>" SCRIPT_KEEP, ERR_LOST},
        {"HTTP/1.1 307 No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: "
         "0\r\n\r\n" SCRIPT_KEEP,
         ERR_PROTOCOL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99000000\r\n\r\n" SCRIPT_ENDLESS, ERR_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const answers[] = {cases[i].answer, NULL};
        struct http_script *s = http_script_start(answers);
        struct etcd_client *c = client_of(http_script_url(s), 0);
        bool slow = strstr(cases[i].answer, SCRIPT_SILENT) != NULL;
        struct err e = ask(c, slow ? 150 : 20000);
        if (e.code != cases[i].code)
            fail_msg("case %d: %s: %s", (int)i, err_word(e.code), e.message);
        assert_int_equal(http_script_requests(s), 1);
        etcd_client_free(c);
        http_script_free(s);
    }
}

/* A listener whose queue is full drops further SYNs: the connection never comes to be. */
static void what_never_connected_was_not_sent(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fillers[4];
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&a, sizeof a);
    }
    char *url = mem_printf("127.0.0.1:%d", ntohs(a.sin_port));
    struct etcd_client *c = client_of(url, 100);
    int64_t start_ms = clock_boot_ms();
    assert_int_equal(ask(c, 20000).code, ERR_UNREACHABLE); /* by the time to connect */
    assert_true(clock_boot_ms() - start_ms < 10000);
    etcd_client_free(c);
    c = client_of(url, 20000);
    assert_int_equal(ask(c, 100).code, ERR_UNREACHABLE); /* by the time of the call */
    etcd_client_free(c);
    c = client_of("name.invalid:1", 0);
    assert_int_equal(ask(c, 20000).code, ERR_UNREACHABLE);
    etcd_client_free(c);
    free(url);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(listener);
}

static void every_end_of_a_stream_has_its_error(void **state)
{
    static const struct {
        const char *answer;
        int lines;
        enum err_code code;
    } cases[] = {
        {CHUNKED "1\r\n\n\r\n0\r\n\r\n" SCRIPT_KEEP, 0, ERR_LOST},
        {CHUNKED "1\r\n{\r\n4a\r\n\"result\":{" HEADER "}}\n{\r\n"
                 "4b\r\n\"result\":{" HEADER "}}\n{}\r\n" SCRIPT_CLOSE,
         2, ERR_LOST},
        {CHUNKED "1\r\n{\r\n4a\r\n\"result\":{" HEADER "}}\n{\r\n"
                 "4b\r\n\"result\":{" HEADER "}}\n{}\r\n0\r\n\r\n" SCRIPT_KEEP,
         2, ERR_PROTOCOL},
        {CHUNKED "1\r\n{\r\n48\r\n\"result\":{" HEADER "}}\r\n0\r\n\r\n" SCRIPT_KEEP, 1, ERR_LOST},
        {CHUNKED
         "30\r\n{\"error\":{\"grpc_code\":16,\"message\":\"bad token\"}}\r\n0\r\n\r\n" SCRIPT_KEEP,
         0, ERR_DENIED},
        {CHUNKED
         "31\r\n{\"error\":{\"grpc_code\":16,\"message\":\"bad token\"}}\n\r\n" SCRIPT_SILENT,
         0, ERR_DENIED},
        {CHUNKED "9\r\nnonsense\n\r\n" SCRIPT_SILENT, 0, ERR_PROTOCOL},
        {"HTTP/1.1 200 OK\r\n" JSON "\r\n" SCRIPT_ENDLESS, 0, ERR_PROTOCOL},
        {"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nnot found" SCRIPT_KEEP, 0, ERR_PROTOCOL},
        {"HTTP/1.1 500 No\r\nContent-Length: 50\r\n\r\n"
         "{\"error\":{\"grpc_code\":7,\"message\":\"you may not\"}}\n" SCRIPT_KEEP,
         0, ERR_DENIED},
        {SCRIPT_CLOSE, 0, ERR_LOST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const answers[] = {cases[i].answer, NULL};
        struct http_script *s = http_script_start(answers);
        struct etcd_client *c = client_of(http_script_url(s), 0);
        struct heard h = {.end = queue_new(1)};
        struct etcd_stream *w =
            etcd_watch_open(c, bytes_str("{}"), ETCD_ANY, heard_line, heard_end, &h);
        assert_non_null(queue_pop(h.end, 20000));
        if (h.why.code != cases[i].code || h.lines != cases[i].lines)
            fail_msg("case %d: %d lines, %s: %s", (int)i, h.lines, err_word(h.why.code),
                     h.why.message);
        etcd_watch_close(w);
        etcd_client_free(c);
        queue_free(h.end);
        http_script_free(s);
    }
}

static void endpoints_are_checked(void **state)
{
    static const char *const wrong[] = {
        "",
        "a:1,",
        "ftp://a:1",
        "http://",
        "http://a:1/v3",
        "a:99999",
        "http://u@a:1",
        "a:1,,b:1",
        "http://a b:1",
        "http://a:1?x",
        "http://a:x",
        "http://a:1#frag",
    };
    struct etcd_client *c;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct etcd_config cfg = {.access.endpoints = wrong[i], .name = "etcd-test"};
        struct err e = etcd_client_new(&c, &cfg);
        if (e.code != ERR_USAGE)
            fail_msg("\"%s\" was taken for endpoints", wrong[i]);
        assert_null(c);
    }
    struct etcd_config cfg = {.access.endpoints = "good:1,http://bad:1/v3", .name = "etcd-test"};
    struct err e = etcd_client_new(&c, &cfg);
    assert_non_null(strstr(e.message, "\"http://bad:1/v3\""));
    c = client_of("a, http://b:1/,https://c:2 ,[::1]:2379", 0);
    assert_int_equal(etcd_endpoint_count(c), 4);
    assert_string_equal(etcd_endpoint_url(c, 0), "http://a:2379");
    assert_string_equal(etcd_endpoint_url(c, 1), "http://b:1");
    assert_string_equal(etcd_endpoint_url(c, 2), "https://c:2");
    assert_string_equal(etcd_endpoint_url(c, 3), "http://[::1]:2379");
    etcd_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_sent_twice),
        cmocka_unit_test(every_broken_answer_has_its_error),
        cmocka_unit_test(what_never_connected_was_not_sent),
        cmocka_unit_test(every_end_of_a_stream_has_its_error),
        cmocka_unit_test(endpoints_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
