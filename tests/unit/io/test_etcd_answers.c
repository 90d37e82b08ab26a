/* Watch lines and errors, as etcd writes them. */
#include "common/io/etcd_codec.h"
#include "common/base/rng.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define HEADER "\"header\":{\"cluster_id\":\"12\",\"member_id\":\"7\",\"revision\":\"18\"}"

static struct etcd_watch_line line_of(const char *text)
{
    struct etcd_watch_line l;
    struct err e = etcd_decode_watch(bytes_str(text), &l);
    if (err_is(&e))
        fail_msg("%s: %s", text, e.message);
    return l;
}

static void decodes_events(void **state)
{
    struct etcd_watch_line l =
        line_of("{\"result\":{" HEADER ",\"watch_id\":\"2\",\"fragment\":true,\"events\":["
                "{\"kv\":{\"key\":\"dzE=\",\"create_revision\":\"16\",\"mod_revision\":\"16\","
                "\"version\":\"1\",\"value\":\"djE=\"}},"
                "{\"type\":\"DELETE\",\"kv\":{\"key\":\"dzE=\",\"mod_revision\":\"18\"},"
                "\"prev_kv\":{\"key\":\"dzE=\",\"value\":\"djE=\"}},"
                "{\"type\":\"PUT\",\"kv\":{\"key\":\"dzI=\",\"mod_revision\":\"18\"}}]}}");
    assert_int_equal(l.watch_id, 2);
    assert_int_equal(l.header.revision, 18);
    assert_true(l.fragment);
    assert_false(l.created || l.canceled || err_is(&l.err));
    assert_int_equal(l.event_count, 3);
    assert_false(l.events[0].deleted);
    assert_true(bytes_equal(l.events[0].kv.key, bytes_str("w1")));
    assert_true(bytes_equal(l.events[0].kv.value, bytes_str("v1")));
    assert_int_equal(l.events[0].kv.create_revision, 16);
    assert_true(l.events[1].deleted);
    assert_int_equal(l.events[1].kv.mod_revision, 18);
    assert_int_equal(l.events[1].kv.value.len, 0);
    assert_false(l.events[2].deleted);
    etcd_watch_line_close(&l);
    assert_null(l.events);
}

static void decodes_notices(void **state)
{
    struct etcd_watch_line l =
        line_of("{\"result\":{" HEADER ",\"watch_id\":\"1\",\"created\":true}}");
    assert_true(l.created && !l.canceled && l.event_count == 0);
    l = line_of("{\"result\":{" HEADER "}}");
    assert_true(!l.created && !l.canceled && l.event_count == 0 && l.watch_id == 0);
    l = line_of("{\"result\":{\"header\":{\"cluster_id\":\"12\"},\"watch_id\":\"1\","
                "\"canceled\":true,\"compact_revision\":\"3\"}}");
    assert_true(l.canceled);
    assert_int_equal(l.compact_revision, 3);
    assert_int_equal(l.err.code, ERR_COMPACTED);
    l = line_of("{\"result\":{" HEADER ",\"watch_id\":\"-1\",\"created\":true,\"canceled\":true,"
                "\"cancel_reason\":\"rpc error: code = PermissionDenied desc = etcdserver: no\"}}");
    assert_true(l.created && l.canceled);
    assert_int_equal(l.watch_id, -1);
    assert_int_equal(l.err.code, ERR_DENIED);
    l = line_of("{\"result\":{" HEADER ",\"watch_id\":\"2\",\"canceled\":true}}");
    assert_int_equal(l.err.code, ERR_PROTOCOL);
}

static void a_last_line_says_why(void **state)
{
    struct etcd_watch_line l =
        line_of("{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no "
                "leader\",\"http_status\":\"Service Unavailable\"}}");
    assert_int_equal(l.header.cluster_id, 0);
    assert_int_equal(l.err.code, ERR_LOST);
    assert_string_equal(l.err.message, "etcdserver: no leader");
    l = line_of("{\"error\":{\"code\":16,\"message\":\"etcdserver: invalid auth token\"}}");
    assert_int_equal(l.err.code, ERR_DENIED);
}

static void refuses_lines_without_sense(void **state)
{
    static const char *const wrong[] = {
        "",
        "{}",
        "{\"result\":{}}",
        "{\"result\":[]}",
        "{\"result\":{" HEADER ",\"events\":[{}]}}",
        "{\"result\":{" HEADER ",\"events\":[1]}}",
        "{\"result\":{" HEADER ",\"events\":[{\"type\":\"MERGE\",\"kv\":{\"key\":\"dzE=\"}}]}}",
        "{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"dzE\"}}]}}",
        "{\"result\":{" HEADER ",\"created\":1}}",
        "{\"result\":{" HEADER "}",
        "{\"error\":{}}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct etcd_watch_line l;
        struct err e = etcd_decode_watch(bytes_str(wrong[i]), &l);
        if (e.code != ERR_PROTOCOL)
            fail_msg("%s was taken for a watch line", wrong[i]);
        assert_null(l.events);
    }
    struct etcd_watch_line l;
    struct err e = etcd_decode_watch(bytes_of("{\"result\":{" HEADER "}}\0", 78), &l);
    assert_int_equal(e.code, ERR_PROTOCOL);
}

static void names_every_error(void **state)
{
    static const struct {
        int http_status;
        const char *body;
        enum err_code code;
        int grpc_code;
    } cases[] = {
#define UNARY(code, text) "{\"error\":\"" text "\",\"message\":\"" text "\",\"code\":" #code "}"
        {400, UNARY(11, "etcdserver: mvcc: required revision has been compacted"), ERR_COMPACTED,
         11},
        {400, UNARY(11, "etcdserver: mvcc: required revision is a future revision"),
         ERR_BAD_REQUEST, 11},
        {404, UNARY(5, "etcdserver: requested lease not found"), ERR_KEY_NOT_FOUND, 5},
        {412, UNARY(9, "etcdserver: lease already exists"), ERR_IN_USE, 9},
        {412, UNARY(9, "etcdserver: authentication is not enabled"), ERR_DENIED, 9},
        {400, UNARY(3, "etcdserver: request is too large"), ERR_TOO_LARGE, 3},
        {400, UNARY(3, "etcdserver: too many operations in txn request"), ERR_TOO_LARGE, 3},
        {400, UNARY(3, "etcdserver: duplicate key given in txn request"), ERR_BAD_REQUEST, 3},
        {400, UNARY(3, "etcdserver: user name is empty"), ERR_DENIED, 3},
        {400, UNARY(3, "etcdserver: authentication failed, invalid user ID or password"),
         ERR_DENIED, 3},
        {429, UNARY(8, "grpc: received message larger than max (2097162 vs. 2097152)"),
         ERR_TOO_LARGE, 8},
        {429, UNARY(8, "etcdserver: mvcc: database space exceeded"), ERR_NO_SPACE, 8},
        {429, UNARY(8, "etcdserver: too many requests"), ERR_OVERLOADED, 8},
        {503, UNARY(14, "etcdserver: no leader"), ERR_LOST, 14},
        {503, UNARY(14, "etcdserver: leader changed"), ERR_LOST, 14},
        {503, UNARY(14, "etcdserver: request timed out"), ERR_LOST, 14},
        {500, UNARY(2, "context deadline exceeded"), ERR_LOST, 2},
        {504, UNARY(4, "context deadline exceeded"), ERR_LOST, 4},
        {408, UNARY(1, "grpc: the client connection is closing"), ERR_LOST, 1},
        {401, UNARY(16, "etcdserver: invalid auth token"), ERR_DENIED, 16},
        {403, UNARY(7, "etcdserver: permission denied"), ERR_DENIED, 7},
        {400, "{\"code\":3,\"message\":\"etcdserver: request is too large\",\"details\":[]}",
         ERR_TOO_LARGE, 3},
        {503, "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"no\"}}", ERR_LOST, 14},
        {200, "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"no\"}}", ERR_LOST, 14},
        {200, "{" HEADER "}", ERR_OK, 0},
        {200, "{}", ERR_OK, 0},
        {200, "{\"alarms\":[]}", ERR_OK, 0},
        {200, "<html>", ERR_PROTOCOL, 0},
        {404, "404 page not found\n", ERR_PROTOCOL, 0},
        {405, "Method Not Allowed\n", ERR_PROTOCOL, 0},
        {408, "", ERR_LOST, 0},
        {502, "<html>bad gateway", ERR_LOST, 0},
        {503, "{}", ERR_LOST, 0},
        {500, "{\"error\":7,\"code\":99}", ERR_LOST, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int grpc_code = -1;
        struct err e =
            etcd_decode_error(cases[i].http_status, bytes_str(cases[i].body), &grpc_code);
        if (e.code != cases[i].code || grpc_code != cases[i].grpc_code)
            fail_msg("%s: %s, code %d", cases[i].body, err_word(e.code), grpc_code);
        assert_true(!err_is(&e) || e.message[0]);
    }
}

static void only_certain_refusals_settle(void **state)
{
    assert_true(etcd_err_settles(ERR_UNREACHABLE));
    assert_true(etcd_err_settles(ERR_TOO_LARGE));
    assert_true(etcd_err_settles(ERR_KEY_NOT_FOUND));
    assert_false(etcd_err_settles(ERR_LOST));
    assert_false(etcd_err_settles(ERR_PROTOCOL));
    assert_false(etcd_err_settles(ERR_NO_SPACE));
    assert_false(etcd_err_settles(ERR_CANCELLED));
    assert_false(etcd_err_settles(ERR_OK));
}

static void decode_as_everything(struct bytes body)
{
    struct etcd_txn_result txn;
    struct etcd_range_result range;
    struct etcd_watch_line line;
    struct etcd_lease_result lease;
    struct etcd_status status;
    int code;
    etcd_decode_txn(body, &txn);
    etcd_txn_result_close(&txn);
    etcd_decode_range(body, &range);
    etcd_range_result_close(&range);
    etcd_decode_watch(body, &line);
    etcd_watch_line_close(&line);
    etcd_decode_lease(body, &lease);
    etcd_decode_status(body, &status);
    etcd_decode_header(body);
    etcd_decode_error(200, body, &code);
    etcd_decode_error(400, body, &code);
}

/* Whatever a peer sends, decoders answer or refuse; the sanitizers see the rest. */
static void no_answer_does_harm(void **state)
{
    static const char *const samples[] = {
        "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{\"header\":{"
        "\"revision\":\"6\"}}},{\"response_delete_range\":{\"header\":{\"revision\":\"6\"},"
        "\"deleted\":\"3\"}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"Zm9v\",\"value\":"
        "\"YmFyMg==\",\"mod_revision\":\"3\"},{\"key\":\"Zg==\"}],\"more\":true}}]}",
        "{" HEADER ",\"kvs\":[{\"key\":\"Zm9v\",\"value\":\"YmFyMg==\"}],\"count\":\"1\"}",
        "{\"result\":{" HEADER ",\"watch_id\":\"2\",\"events\":[{\"kv\":{\"key\":\"dzE=\","
        "\"value\":\"djE=\"}},{\"type\":\"DELETE\",\"kv\":{\"key\":\"dzE=\"}}]}}",
        "{\"result\":{" HEADER ",\"ID\":\"777\",\"TTL\":\"10\"}}",
        "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"no leader\"}}",
        "{\"error\":\"too large\",\"message\":\"too large\",\"code\":3}",
    };
    static const char alphabet[] = "{}[]\",:=0123456789AZaz-\\u e.";
    struct rng rng;
    rng_seed(&rng, 42);
    for (int i = 0; i < 20000; i++) {
        const char *sample = samples[rng_below(&rng, sizeof samples / sizeof *samples)];
        struct bytes body = bytes_dup(bytes_str(sample));
        uint8_t *text = (uint8_t *)body.data;
        for (uint64_t n = rng_below(&rng, 6); n > 0; n--)
            text[rng_below(&rng, body.len)] = (uint8_t)alphabet[rng_below(&rng, sizeof alphabet)];
        if (rng_below(&rng, 4) == 0)
            body.len = rng_below(&rng, body.len);
        /* An exact copy, so that a sanitizer sees a read behind the end. */
        uint8_t *exact = malloc(body.len ? body.len : 1);
        memcpy(exact, text, body.len);
        decode_as_everything(bytes_of(exact, body.len));
        free(exact);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_events),       cmocka_unit_test(decodes_notices),
        cmocka_unit_test(a_last_line_says_why), cmocka_unit_test(refuses_lines_without_sense),
        cmocka_unit_test(names_every_error),    cmocka_unit_test(only_certain_refusals_settle),
        cmocka_unit_test(no_answer_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
