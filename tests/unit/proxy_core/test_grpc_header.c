#include "proxy/core/grpc_header.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void names_are_classified(void **state)
{
    static const struct {
        const char *name;
        enum header_kind kind;
    } rows[] = {
        {":method", HEADER_METHOD},
        {":scheme", HEADER_SCHEME},
        {":path", HEADER_PATH},
        {":authority", HEADER_AUTHORITY},
        {":status", HEADER_STATUS},
        {"host", HEADER_HOST},
        {"te", HEADER_TE},
        {"via", HEADER_VIA},
        {"content-type", HEADER_CONTENT_TYPE},
        {"content-length", HEADER_CONTENT_LENGTH},
        {"grpc-timeout", HEADER_GRPC_TIMEOUT},
        {"grpc-previous-rpc-attempts", HEADER_GRPC_ATTEMPTS},
        {"grpc-status", HEADER_GRPC_STATUS},
        {"grpc-retry-pushback-ms", HEADER_GRPC_PUSHBACK},
        {"x-forwarded-for", HEADER_FORWARDED_FOR},
        {"x-forwarded-client-cert", HEADER_CLIENT_CERT},
        {"baton-request-id", HEADER_REQUEST_ID},
        {"baton-not-executed", HEADER_NOT_EXECUTED},
        {"baton-outcome", HEADER_OUTCOME},
        {"baton-leader", HEADER_LEADER},
        {"baton-epoch", HEADER_EPOCH},
        {"baton-cluster", HEADER_CLUSTER},
        {"trace-bin", HEADER_BINARY},
        {"grpc-previous-attempts-bin", HEADER_BINARY},
        {"-bin", HEADER_PLAIN},
        {"grpc-encoding", HEADER_PLAIN},
        {"x", HEADER_PLAIN},
        {"", HEADER_PLAIN},
        {"a-name-that-is-longer-than-any-with-a-rule", HEADER_PLAIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (header_classify(bytes_str(rows[i].name)) != rows[i].kind)
            fail_msg("%s", rows[i].name);
}

static void content_types(void **state)
{
    assert_true(grpc_is_content_type(bytes_str("application/grpc")));
    assert_true(grpc_is_content_type(bytes_str("application/grpc+proto")));
    assert_true(grpc_is_content_type(bytes_str("application/grpc;x=y")));
    assert_false(grpc_is_content_type(bytes_str("application/grpc-web")));
    assert_false(grpc_is_content_type(bytes_str("application/grp")));
    assert_false(grpc_is_content_type(bytes_str("")));
}

static void timeouts(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: malformed */
    } rows[] = {
        {"1H", 3600000}, {"2M", 120000},     {"3S", 3000}, {"250m", 250}, {"1u", 1},
        {"1000001n", 2}, {"0n", 0},          {"0S", 0},    {"", -1},      {"S", -1},
        {"1", -1},       {"1s", -1},         {"-1S", -1},  {"+1S", -1},   {" 1S", -1},
        {"1.5S", -1},    {"123456789m", -1}, {"1 S", -1},  {"0x10m", -1}, {"99999999m", 99999999},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ms = -1;
        bool fine = grpc_timeout_parse(bytes_str(rows[i].text), &ms);
        if (fine != (rows[i].ms >= 0) || (fine && ms != rows[i].ms))
            fail_msg("%s: %lld", rows[i].text, (long long)ms);
    }
    int64_t ms;
    assert_true(grpc_timeout_parse(bytes_str("99999999H"), &ms));
    assert_true(ms <= 366LL * 24 * 3600 * 1000);
}

static void what_is_left_never_grows(void **state)
{
    static const int64_t left[] = {0, 1, 999, 1000, 99999999, 100000000, 31622400000};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        char text[16];
        int64_t ms;
        size_t n = grpc_timeout_format(left[i], text);
        assert_true(n <= 9);
        assert_true(grpc_timeout_parse(bytes_of(text, n), &ms));
        assert_true(ms <= left[i] && ms > left[i] - 1000);
    }
    char text[16];
    assert_int_equal(grpc_timeout_format(-5, text), 2);
    assert_string_equal(text, "0m");
}

static void base64(void **state)
{
    static const char *const good[] = {"",     "AA==", "AA",   "AAA",
                                       "AAA=", "AAAA", "a+/9", "AAAA,AA==, AAA"};
    static const char *const bad[] = {"A",   "AAAAA", "A===",   "=AAA", "AA=A",
                                      "AA=", "A*AA",  "AAAA,A", "a_-9"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!grpc_is_base64_list(bytes_str(good[i])))
            fail_msg("good: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (grpc_is_base64_list(bytes_str(bad[i])))
            fail_msg("bad: %s", bad[i]);
}

static void numbers(void **state)
{
    uint64_t n;
    assert_true(grpc_number_parse(bytes_str("18446744073709551615"), &n));
    assert_true(n == UINT64_MAX);
    assert_false(grpc_number_parse(bytes_str("18446744073709551616"), &n));
    assert_false(grpc_number_parse(bytes_str(""), &n));
    assert_false(grpc_number_parse(bytes_str("-1"), &n));
    assert_false(grpc_number_parse(bytes_str("1x"), &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_classified),
        cmocka_unit_test(content_types),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(what_is_left_never_grows),
        cmocka_unit_test(base64),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
