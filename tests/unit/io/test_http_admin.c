#include "common/io/http_admin.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static void say_query(void *ctx, const char *query, struct http_answer *out)
{
    buf_printf(&out->body, "%s/%s", (const char *)ctx, query);
}

static void say_not_ready(void *ctx, const char *query, struct http_answer *out)
{
    out->status = 503;
    out->content_type = "application/json";
    buf_str(&out->body, "{}");
}

static void say_nothing(void *ctx, const char *query, struct http_answer *out)
{
}

static const struct http_admin_route routes[] = {
    {"/query", say_query}, {"/readyz", say_not_ready}, {"/empty", say_nothing}};

static struct http_admin *start(const char *addr)
{
    struct http_admin *admin;
    struct err e = http_admin_start(addr, routes, 3, (void *)"ctx", &admin);
    assert_string_equal(e.message, "");
    return admin;
}

static int dial(const struct http_admin *admin)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)http_admin_port(admin))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Sends a request on a connection of its own, and reads until the server closes it. */
static const char *ask(const struct http_admin *admin, const char *request)
{
    static char answer[8192];
    size_t n = 0;
    int fd = dial(admin);
    ssize_t sent = send(fd, request, strlen(request), MSG_NOSIGNAL);
    assert_int_equal(sent, strlen(request));
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (n < sizeof answer - 1 && poll(&wait, 1, 10000) == 1) {
        ssize_t got = recv(fd, answer + n, sizeof answer - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    answer[n] = 0;
    return answer;
}

static void assert_answer(const char *answer, const char *status, const char *body)
{
    char start[64];
    snprintf(start, sizeof start, "HTTP/1.1 %s", status);
    assert_memory_equal(answer, start, strlen(start));
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    if (body)
        assert_string_equal(end + 4, body);
}

#define CLOSE " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static void routes_are_served(void **state)
{
    struct http_admin *admin = start("127.0.0.1:0");
    assert_answer(ask(admin, "GET /query" CLOSE), "200", "ctx/");
    assert_answer(ask(admin, "GET /query?leader&x=%20" CLOSE), "200", "ctx/leader&x=%20");
    const char *answer = ask(admin, "GET /readyz" CLOSE);
    assert_answer(answer, "503", "{}");
    assert_non_null(strstr(answer, "Content-Type: application/json\r\n"));
    assert_answer(ask(admin, "GET /empty" CLOSE), "200", "");
    answer = ask(admin, "HEAD /query" CLOSE);
    assert_answer(answer, "200", "");
    assert_non_null(strstr(answer, "Content-Length: 4\r\n"));
    http_admin_stop(admin);
}

static void other_requests_get_a_clear_no(void **state)
{
    struct http_admin *admin = start("127.0.0.1:0");
    assert_answer(ask(admin, "GET /nothing" CLOSE), "404",
                  "Nothing here. There is:\n/query\n/readyz\n/empty\n");
    const char *answer = ask(admin, "POST /query HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                    "Content-Length: 3\r\n\r\nabc");
    assert_answer(answer, "405", NULL);
    assert_non_null(strstr(answer, "Allow: GET, HEAD\r\n"));
    ask(admin, "\x16\x03\x01\x02 no http at all\r\n\r\n");
    ask(admin, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_answer(ask(admin, "GET /query" CLOSE), "200", "ctx/");
    http_admin_stop(admin);
}

static void one_connection_serves_many(void **state)
{
    struct http_admin *admin = start("127.0.0.1:0");
    const char *answer = ask(admin, "GET /query?1 HTTP/1.1\r\nHost: x\r\n\r\nGET /query?2" CLOSE);
    assert_non_null(strstr(answer, "ctx/1HTTP/1.1 200"));
    assert_non_null(strstr(answer, "ctx/2"));
    http_admin_stop(admin);
}

static void too_many_connections_are_closed(void **state)
{
    struct http_admin *admin = start("127.0.0.1:0");
    int fds[40], closed = 0;
    for (int i = 0; i < 40; i++)
        fds[i] = dial(admin);
    for (int i = 0; i < 40; i++) {
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        closed += poll(&p, 1, i < 32 ? 0 : 5000) == 1;
    }
    assert_int_equal(closed, 8);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    http_admin_stop(admin);
}

static void assert_refused(const char *addr, enum err_code code, const char *part)
{
    struct http_admin *admin;
    struct err e = http_admin_start(addr, routes, 3, NULL, &admin);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.message, addr));
    assert_non_null(strstr(e.message, part));
    assert_null(admin);
}

static void bad_addresses_are_named(void **state)
{
    struct http_admin *admin = start("127.0.0.1:0");
    char addr[32];
    snprintf(addr, sizeof addr, "127.0.0.1:%d", http_admin_port(admin));
    assert_refused(addr, ERR_IN_USE, "another program");
    assert_refused("127.0.0.1", ERR_USAGE, "no address");
    assert_refused("192.0.2.1:0", ERR_IO, "cannot listen");
    http_admin_stop(admin);
    admin = start(addr); /* free again at once */
    http_admin_stop(admin);
    http_admin_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_served),
        cmocka_unit_test(other_requests_get_a_clear_no),
        cmocka_unit_test(one_connection_serves_many),
        cmocka_unit_test(too_many_connections_are_closed),
        cmocka_unit_test(bad_addresses_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
