#include "common/io/etcd_codec.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define HEADER                                                                                     \
    "\"header\":{\"cluster_id\":\"14892425195960232940\",\"member_id\":\"9560622008986472282\","   \
    "\"revision\":\"6\",\"raft_term\":\"2\"}"

static void assert_bytes(struct bytes got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_true(bytes_equal(got, bytes_str(want)));
}

static void assert_encoded(struct buf *got, const char *want)
{
    assert_string_equal((const char *)got->data, want);
    buf_close(got);
}

static void encodes_every_compare(void **state)
{
    struct etcd_compare compares[] = {
        {.target = ETCD_CREATE, .key = bytes_str("t1")},
        {.target = ETCD_MOD, .relation = ETCD_GREATER, .key = bytes_str("t1"), .number = 7},
        {.target = ETCD_VERSION, .relation = ETCD_LESS, .key = bytes_str("t1"), .number = -3},
        {.target = ETCD_LEASE, .relation = ETCD_NOT_EQUAL, .key = bytes_str("t1"), .number = 1},
        {.target = ETCD_VALUE,
         .key = bytes_str("a"),
         .range_end = bytes_str("b"),
         .value = bytes_str("foo")},
    };
    struct etcd_txn txn = {.compares = compares, .compare_count = 5};
    struct buf out = {0};
    etcd_json_txn(&out, &txn);
    assert_encoded(
        &out,
        "{\"compare\":["
        "{\"target\":\"CREATE\",\"result\":\"EQUAL\",\"key\":\"dDE=\",\"create_revision\":\"0\"},"
        "{\"target\":\"MOD\",\"result\":\"GREATER\",\"key\":\"dDE=\",\"mod_revision\":\"7\"},"
        "{\"target\":\"VERSION\",\"result\":\"LESS\",\"key\":\"dDE=\",\"version\":\"-3\"},"
        "{\"target\":\"LEASE\",\"result\":\"NOT_EQUAL\",\"key\":\"dDE=\",\"lease\":\"1\"},"
        "{\"target\":\"VALUE\",\"result\":\"EQUAL\",\"key\":\"YQ==\",\"range_end\":\"Yg==\","
        "\"value\":\"Zm9v\"}]}");
}

static void encodes_every_operation(void **state)
{
    struct etcd_op success[] = {
        {.kind = ETCD_OP_PUT, .key = bytes_str("k"), .value = bytes_str("v")},
        {.kind = ETCD_OP_PUT, .key = bytes_str("k2"), .lease = INT64_MAX},
        {.kind = ETCD_OP_DELETE, .key = bytes_str("a"), .range_end = bytes_str("b")},
    };
    struct etcd_op failure[] = {
        {.kind = ETCD_OP_RANGE, .key = bytes_str("k")},
        {.kind = ETCD_OP_RANGE,
         .key = bytes_str("a"),
         .range_end = bytes_str("b"),
         .limit = 1,
         .revision = 9,
         .keys_only = true,
         .by_create = true},
    };
    struct etcd_txn txn = {
        .success = success, .success_count = 3, .failure = failure, .failure_count = 2};
    struct buf out = {0};
    etcd_json_txn(&out, &txn);
    assert_encoded(
        &out, "{\"compare\":[],\"success\":["
              "{\"request_put\":{\"key\":\"aw==\",\"value\":\"dg==\"}},"
              "{\"request_put\":{\"key\":\"azI=\",\"lease\":\"9223372036854775807\"}},"
              "{\"request_delete_range\":{\"key\":\"YQ==\",\"range_end\":\"Yg==\"}}],\"failure\":["
              "{\"request_range\":{\"key\":\"aw==\"}},"
              "{\"request_range\":{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"limit\":\"1\","
              "\"revision\":\"9\",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\","
              "\"keys_only\":true}}]}");
}

static void encodes_small_requests(void **state)
{
    struct buf out = {0};
    etcd_encode_lease_grant(&out, 777, 10);
    assert_encoded(&out, "{\"TTL\":\"10\",\"ID\":\"777\"}");
    etcd_encode_lease(&out, INT64_MIN);
    assert_encoded(&out, "{\"ID\":\"-9223372036854775808\"}");
    etcd_encode_compact(&out, 5);
    assert_encoded(&out, "{\"revision\":\"5\"}");
    etcd_encode_status(&out);
    assert_encoded(&out, "{}");
    struct etcd_op range = {.kind = ETCD_OP_RANGE, .key = bytes_str("foo")};
    etcd_encode_range(&out, &range);
    assert_encoded(&out, "{\"key\":\"Zm9v\"}");
    struct etcd_watch watches[] = {
        {.key = bytes_str("a"),
         .range_end = bytes_str("b"),
         .watch_id = 1,
         .start_revision = 4,
         .progress_notify = true,
         .fragment = true},
        {.key = bytes_str("c"), .watch_id = 2},
    };
    etcd_json_watches(&out, watches, 2);
    assert_encoded(&out,
                   "{\"create_request\":{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"watch_id\":"
                   "\"1\",\"start_revision\":\"4\",\"progress_notify\":true,\"fragment\":true"
                   "}}{\"create_request\":{\"key\":\"Yw==\",\"watch_id\":\"2\"}}");
}

static void prefixes_end_where_etcd_says(void **state)
{
    struct buf out = {0};
    etcd_prefix_end(bytes_str("a/"), &out);
    assert_encoded(&out, "a0");
    etcd_prefix_end(bytes_str("\xff\xff"), &out);
    assert_int_equal(out.len, 1);
    assert_int_equal(out.data[0], 0);
    buf_close(&out);
}

static void decodes_a_txn(void **state)
{
    static const char body[] =
        "{" HEADER ",\"succeeded\":true,\"responses\":["
        "{\"response_put\":{\"header\":{\"revision\":\"6\"}}},"
        "{\"response_delete_range\":{\"header\":{\"revision\":\"6\"},\"deleted\":\"3\"}},"
        "{\"response_delete_range\":{\"header\":{\"revision\":\"6\"}}},"
        "{\"response_range\":{\"header\":{\"revision\":\"6\"},\"kvs\":[{\"key\":\"Zm9v\","
        "\"create_revision\":\"2\",\"mod_revision\":\"3\",\"version\":\"2\",\"value\":\"YmFyMg==\","
        "\"lease\":\"777\"},{\"key\":\"Zm9vMg==\",\"create_revision\":4,\"mod_revision\":5,"
        "\"version\":1}],\"more\":true,\"count\":\"9\"}},"
        "{\"response_range\":{\"header\":{\"revision\":\"6\"}}}]}";
    struct etcd_txn_result r;
    struct err e = etcd_decode_txn(bytes_str(body), &r);
    assert_string_equal(e.message, "");
    assert_int_equal(r.header.cluster_id, 14892425195960232940ull);
    assert_int_equal(r.header.member_id, 9560622008986472282ull);
    assert_int_equal(r.header.revision, 6);
    assert_int_equal(r.header.raft_term, 2);
    assert_true(r.succeeded);
    assert_int_equal(r.result_count, 5);
    assert_int_equal(r.results[0].kind, ETCD_OP_PUT);
    assert_int_equal(r.results[1].kind, ETCD_OP_DELETE);
    assert_int_equal(r.results[1].deleted, 3);
    assert_int_equal(r.results[2].deleted, 0);
    const struct etcd_op_result *range = &r.results[3];
    assert_int_equal(range->kind, ETCD_OP_RANGE);
    assert_int_equal(range->count, 2);
    assert_true(range->more);
    assert_bytes(range->kvs[0].key, "foo");
    assert_bytes(range->kvs[0].value, "bar2");
    assert_int_equal(range->kvs[0].create_revision, 2);
    assert_int_equal(range->kvs[0].mod_revision, 3);
    assert_int_equal(range->kvs[0].version, 2);
    assert_int_equal(range->kvs[0].lease, 777);
    assert_bytes(range->kvs[1].key, "foo2");
    assert_int_equal(range->kvs[1].value.len, 0);
    assert_int_equal(range->kvs[1].mod_revision, 5);
    assert_int_equal(r.results[4].kind, ETCD_OP_RANGE);
    assert_int_equal(r.results[4].count, 0);
    etcd_txn_result_close(&r);
    assert_null(r.results);
}

static void a_failed_txn_is_not_an_empty_answer(void **state)
{
    struct etcd_txn_result r;
    struct err e = etcd_decode_txn(bytes_str("{" HEADER "}"), &r);
    assert_int_equal(e.code, ERR_OK);
    assert_false(r.succeeded);
    assert_int_equal(r.result_count, 0);
    etcd_txn_result_close(&r);
    static const char *const wrong[] = {
        "",
        "{}",
        "{",
        "[]",
        "null",
        "true",
        "nonsense",
        "{" HEADER,
        "{" HEADER "}}",
        "{" HEADER "}{}",
        "{\"header\":{\"cluster_id\":\"1\",\"member_id\":\"1\",\"raft_term\":\"2\"}}",
        "{\"header\":{\"revision\":\"1\"}}",
        "{\"header\":[]}",
        "{\"header\":{\"cluster_id\":\"-1\",\"revision\":\"6\"}}",
        "{\"header\":{\"cluster_id\":\"99999999999999999999\",\"revision\":\"6\"}}",
        "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"6x\"}}",
        "{" HEADER ",\"succeeded\":\"true\"}",
        "{" HEADER ",\"responses\":{}}",
        "{" HEADER ",\"responses\":[{}]}",
        "{" HEADER ",\"responses\":[7]}",
        "{" HEADER ",\"responses\":[{\"response_range\":[]}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[7]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":7}]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"Zm9\"}]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"Z===\"}]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"Zm=v\"}]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"Zm-_\"}]}}]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e = etcd_decode_txn(bytes_str(wrong[i]), &r);
        if (e.code != ERR_PROTOCOL)
            fail_msg("%s was taken for an answer", wrong[i]);
        assert_null(r.results);
        assert_false(r.succeeded);
    }
}

static void decodes_writes_alone(void **state)
{
    struct etcd_txn_result r;
    struct err e = etcd_decode_txn(
        bytes_str("{" HEADER ",\"succeeded\":true,\"responses\":["
                  "{\"response_put\":{\"header\":{\"revision\":\"6\"}}},"
                  "{\"response_delete_range\":{\"header\":{\"revision\":\"6\"},\"deleted\":\"3\"}},"
                  "{\"response_delete_range\":{\"header\":{\"revision\":\"6\"}}}]}\n"),
        &r);
    assert_int_equal(e.code, ERR_OK);
    assert_true(r.succeeded);
    assert_int_equal(r.header.cluster_id, 14892425195960232940ull);
    assert_int_equal(r.header.revision, 6);
    assert_int_equal(r.result_count, 3);
    assert_int_equal(r.results[0].kind, ETCD_OP_PUT);
    assert_int_equal(r.results[1].kind, ETCD_OP_DELETE);
    assert_int_equal(r.results[1].deleted, 3);
    assert_int_equal(r.results[2].kind, ETCD_OP_DELETE);
    assert_int_equal(r.results[2].deleted, 0);
    etcd_txn_result_close(&r);
#define PUT_RESULT "{\"response_put\":{\"header\":{\"revision\":\"6\"}}}"
    static const char *const wrong[] = {
        "{" HEADER ",\"responses\":[" PUT_RESULT,
        "{" HEADER ",\"responses\":[" PUT_RESULT "]",
        "{" HEADER ",\"responses\":[" PUT_RESULT "," PUT_RESULT "}",
        "{" HEADER ",\"responses\":[" PUT_RESULT "]}}",
        "{\"succeeded\":true,\"responses\":[" PUT_RESULT "]}",
        HEADER ",\"responses\":[" PUT_RESULT "]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e = etcd_decode_txn(bytes_str(wrong[i]), &r);
        if (e.code != ERR_PROTOCOL)
            fail_msg("%s was taken for an answer", wrong[i]);
    }
}

static void decodes_a_range(void **state)
{
    struct etcd_range_result r;
    struct err e = etcd_decode_range(
        bytes_str("{" HEADER ",\"kvs\":[{\"key\":\"Zm9v\",\"create_revision\":\"2\","
                  "\"mod_revision\":\"3\",\"version\":\"2\",\"value\":\"YmFyMg==\"}],\"more\":true,"
                  "\"count\":\"2\"}"),
        &r);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.total, 2);
    assert_true(r.more);
    assert_bytes(r.kvs[0].value, "bar2");
    etcd_range_result_close(&r);
    e = etcd_decode_range(bytes_str("{" HEADER "}"), &r);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.count, 0);
    assert_false(r.more);
    etcd_range_result_close(&r);
    e = etcd_decode_range(bytes_str("{}"), &r);
    assert_int_equal(e.code, ERR_PROTOCOL);
}

static void decodes_leases(void **state)
{
    struct etcd_lease_result r;
    struct err e = etcd_decode_lease(bytes_str("{" HEADER ",\"ID\":\"777\",\"TTL\":\"10\"}"), &r);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.id, 777);
    assert_int_equal(r.ttl_s, 10);
    e = etcd_decode_lease(bytes_str("{\"result\":{" HEADER ",\"ID\":\"777\",\"TTL\":\"10\"}}\n"),
                          &r);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.ttl_s, 10);
    assert_int_equal(r.header.revision, 6);
    e = etcd_decode_lease(bytes_str("{\"result\":{" HEADER ",\"ID\":\"12345\"}}\n"), &r);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.ttl_s, 0);
    e = etcd_decode_lease(bytes_str("{\"result\":{" HEADER "}}\n"), &r);
    assert_int_equal(e.code, ERR_PROTOCOL);
    e = etcd_decode_lease(bytes_str("{\"result\":{\"ID\":\"1\",\"TTL\":\"10\"}}\n"), &r);
    assert_int_equal(e.code, ERR_PROTOCOL);
}

static void decodes_a_status(void **state)
{
    struct etcd_status s;
    struct err e = etcd_decode_status(
        bytes_str("{" HEADER ",\"version\":\"3.4.23\",\"dbSize\":\"20480\",\"leader\":"
                  "\"9560622008986472282\",\"raftIndex\":\"5\",\"dbSizeInUse\":\"16384\"}"),
        &s);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(s.version, "3.4.23");
    assert_int_equal(s.leader, 9560622008986472282ull);
    assert_int_equal(s.db_bytes, 20480);
    assert_int_equal(s.db_in_use_bytes, 16384);
}

static void finds_the_header_of_any_answer(void **state)
{
    static const char *const answers[] = {
        "{" HEADER ",\"more\":true}",
        "{\"result\":{" HEADER ",\"ID\":\"1\"}}\n",
        " { \"header\" : {\"cluster_id\": \"14892425195960232940\", \"revision\":\"6\"}, \"a\": 1}",
        "{\"more\":true," HEADER "}",
        "{\"result\":{\"ID\":\"1\"," HEADER "}}",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct etcd_header h = etcd_decode_header(bytes_str(answers[i]));
        assert_int_equal(h.cluster_id, 14892425195960232940ull);
        assert_int_equal(h.revision, 6);
    }
    assert_int_equal(etcd_decode_header(bytes_str("{}")).cluster_id, 0);
    assert_int_equal(etcd_decode_header(bytes_str("<html>")).cluster_id, 0);
    assert_int_equal(etcd_decode_header(bytes_str("{\"header\":{\"cluster_id\"")).cluster_id, 0);
}

static void all_bytes_survive(void **state)
{
    uint8_t raw[256];
    for (int i = 0; i < 256; i++)
        raw[i] = (uint8_t)(i * 7);
    for (size_t len = 1; len <= sizeof raw; len++) {
        struct etcd_op op = {.kind = ETCD_OP_RANGE, .key = bytes_of(raw, len)};
        struct buf out = {0};
        buf_str(&out, "{" HEADER ",\"kvs\":[");
        etcd_encode_range(&out, &op);
        buf_str(&out, "]}");
        struct etcd_range_result r;
        struct err e = etcd_decode_range(buf_view(&out), &r);
        assert_int_equal(e.code, ERR_OK);
        assert_true(bytes_equal(r.kvs[0].key, op.key));
        etcd_range_result_close(&r);
        buf_close(&out);
    }
}

/* A bound that only a quadratic or a careless codec would miss, on any machine and under any
 * sanitizer. */
static void a_large_txn_is_no_work(void **state)
{
    enum { PUTS = 1000, VALUE = 65536 };
    struct etcd_op *ops = mem_array(PUTS, sizeof *ops);
    uint8_t *value = mem_alloc(VALUE);
    for (int i = 0; i < PUTS; i++)
        ops[i] = (struct etcd_op){.kind = ETCD_OP_PUT,
                                  .key = bytes_str("/baton/test/state/kv/some/key/of/usual/length"),
                                  .value = bytes_of(value, i ? 100 : VALUE)};
    struct etcd_txn txn = {.success = ops, .success_count = PUTS};
    struct buf request = {0}, answer = {0};
    int64_t start_us = clock_mono_us();
    etcd_encode_txn(&request, &txn);
    int64_t encoded_us = clock_mono_us();
    buf_str(&answer, "{" HEADER ",\"succeeded\":true,\"responses\":[");
    for (int i = 0; i < PUTS; i++)
        buf_printf(&answer, "%s{\"response_put\":{\"header\":{\"revision\":\"6\"}}}", i ? "," : "");
    buf_str(&answer, "]}");
    struct etcd_txn_result r;
    int64_t answered_us = clock_mono_us();
    struct err e = etcd_decode_txn(buf_view(&answer), &r);
    int64_t decoded_us = clock_mono_us();
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.result_count, PUTS);
    print_message("encoded in %d us, decoded in %d us\n", (int)(encoded_us - start_us),
                  (int)(decoded_us - answered_us));
    assert_true(encoded_us - start_us < 200000);
    assert_true(decoded_us - answered_us < 200000);
    etcd_txn_result_close(&r);
    buf_close(&request);
    buf_close(&answer);
    free(ops);
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_compare),
        cmocka_unit_test(encodes_every_operation),
        cmocka_unit_test(encodes_small_requests),
        cmocka_unit_test(prefixes_end_where_etcd_says),
        cmocka_unit_test(decodes_a_txn),
        cmocka_unit_test(a_failed_txn_is_not_an_empty_answer),
        cmocka_unit_test(decodes_writes_alone),
        cmocka_unit_test(decodes_a_range),
        cmocka_unit_test(decodes_leases),
        cmocka_unit_test(decodes_a_status),
        cmocka_unit_test(finds_the_header_of_any_answer),
        cmocka_unit_test(all_bytes_survive),
        cmocka_unit_test(a_large_txn_is_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
