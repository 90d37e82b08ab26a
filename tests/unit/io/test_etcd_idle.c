/* A connection of gRPC stays, however long it lasts: curl closes what it has not used for two
 * minutes when it makes another request, and has to see that this one is used. */
#include "tests/lib/h2_script.h"
#include "tests/lib/http_script.h"
#include "tests/lib/wait_for.h"
#include "common/io/etcd.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* TxnResponse{header{cluster_id 12, member_id 7, revision 18}, succeeded}, as a frame of gRPC */
#define MESSAGE "\0\0\0\0\x0a\x0a\x06\x08\x0c\x10\x07\x18\x12\x10\x01"
#define STATUS                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Length: 63\r\n\r\n"                                                \
    "{\"header\":{\"cluster_id\":\"12\",\"member_id\":\"7\",\"revision\":\"18\"}}\n" SCRIPT_KEEP

static _Atomic int64_t passed_s;

/* The clock of curl, which goes forward here without anybody waiting. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    long failed = syscall(SYS_clock_gettime, clock, out);
    if (!failed && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW))
        out->tv_sec += passed_s;
    return (int)failed;
}

static void on_answer(void *arg, struct etcd_reply *reply)
{
    queue_push_always(arg, (void *)(intptr_t)(reply->err.code + 1));
}

static void requests_in_json_close_no_link(void **state)
{
    static const char *const ok[] = {":status", "200", "content-type", "application/grpc", NULL};
    static const char *const end[] = {"grpc-status", "0", NULL};
    static const char *const statuses[] = {STATUS, STATUS, NULL};
    struct buf greeting = {0}, answer = {0}, body = {0};
    h2_settings(&greeting);
    h2_headers(&answer, false, ok);
    h2_data(&answer, false, bytes_of(MESSAGE, sizeof MESSAGE - 1));
    h2_headers(&answer, true, end);
    struct h2_script_step step = {buf_view(&greeting), buf_view(&answer), H2_SCRIPT_HELD};
    struct h2_script *grpc = h2_script_start(&step, 1);
    struct http_script *json = http_script_start(statuses);
    char *endpoints = mem_printf("%s,%s", h2_script_url(grpc), http_script_url(json));
    struct etcd_config cfg = {.access = {.endpoints = endpoints, .transport = ETCD_GRPC},
                              .name = "etcd-test"};
    struct queue *codes = queue_new(4);
    struct etcd_client *c;
    assert_string_equal(etcd_client_new(&c, &cfg).message, "");
    etcd_encode_txn(&body, &(struct etcd_txn){0});
    etcd_call(c, ETCD_PATH_TXN, buf_view(&body), 0, 60000, on_answer, codes);
    WAIT_FOR(h2_script_requests(grpc) == 1);
    for (int i = 0; i < 2; i++) {
        struct etcd_reply reply;
        passed_s += 24 * 3600;
        assert_string_equal(
            etcd_call_wait(c, ETCD_PATH_STATUS, bytes_str("{}"), 1, 20000, &reply).message, "");
        etcd_reply_close(&reply);
    }
    h2_script_release(grpc);
    assert_int_equal((intptr_t)queue_pop(codes, 20000), ERR_OK + 1);
    assert_int_equal(h2_script_requests(grpc), 1);
    etcd_client_free(c);
    h2_script_free(grpc);
    http_script_free(json);
    queue_free(codes);
    free(endpoints);
    buf_close(&greeting), buf_close(&answer), buf_close(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_in_json_close_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
