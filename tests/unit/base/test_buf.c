#include "common/base/buf.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

static void grows_and_stays_a_string(void **state)
{
    struct buf b = {0};
    for (int i = 0; i < 1000; i++)
        buf_byte(&b, 'x');
    assert_int_equal(b.len, 1000);
    assert_int_equal(strlen((const char *)b.data), 1000);
    buf_clear(&b);
    assert_string_equal((const char *)b.data, "");
    buf_str(&b, "key=");
    buf_printf(&b, "%d/%s", 42, "a");
    buf_bytes(&b, bytes_str("!"));
    buf_bytes(&b, BYTES_NONE);
    assert_string_equal((const char *)b.data, "key=42/a!");
    assert_true(bytes_equal(buf_view(&b), bytes_str("key=42/a!")));
    buf_close(&b);
    assert_null(b.data);
    assert_int_equal(b.len, 0);
}

static void long_prints_fit(void **state)
{
    struct buf b = {0};
    buf_str(&b, "<");
    buf_printf(&b, "%*d", 500, 7);
    assert_int_equal(b.len, 501);
    assert_int_equal(b.data[500], '7');
    buf_close(&b);
}

static void consume_drops_the_front(void **state)
{
    struct buf b = {0};
    buf_consume(&b, 0);
    buf_str(&b, "abcdef");
    buf_consume(&b, 2);
    assert_string_equal((const char *)b.data, "cdef");
    buf_consume(&b, 4);
    assert_int_equal(b.len, 0);
    buf_close(&b);
}

static void order_is_that_of_bytes(void **state)
{
    assert_true(bytes_compare(bytes_str("a"), bytes_str("b")) < 0);
    assert_true(bytes_compare(bytes_str("a"), bytes_str("aa")) < 0);
    assert_true(bytes_compare(bytes_str("\xff"), bytes_str("a")) > 0);
    assert_int_equal(bytes_compare(BYTES_NONE, BYTES_NONE), 0);
    assert_true(bytes_compare(BYTES_NONE, bytes_of("", 1)) < 0);
    assert_true(bytes_equal(BYTES_NONE, bytes_str("")));
    assert_false(bytes_equal(bytes_str("a"), bytes_str("b")));
    assert_true(bytes_starts_with(bytes_str("abc"), bytes_str("ab")));
    assert_true(bytes_starts_with(bytes_str("abc"), BYTES_NONE));
    assert_false(bytes_starts_with(bytes_str("a"), bytes_str("ab")));
}

static void copies_own_their_bytes(void **state)
{
    char text[] = "some";
    struct bytes copy = bytes_dup(bytes_str(text));
    text[0] = 'S';
    assert_string_equal((const char *)copy.data, "some");
    free((void *)copy.data);
    copy = bytes_dup(BYTES_NONE);
    assert_int_equal(copy.len, 0);
    assert_string_equal((const char *)copy.data, "");
    free((void *)copy.data);
}

static void end_of_a_prefix(void **state)
{
    struct buf b = {0};
    assert_true(bytes_prefix_end(bytes_str("ab"), &b));
    assert_string_equal((const char *)b.data, "ac");
    assert_true(bytes_prefix_end(bytes_of("a\xff\xff", 3), &b));
    assert_string_equal((const char *)b.data, "b");
    assert_false(bytes_prefix_end(bytes_of("\xff\xff", 2), &b));
    assert_int_equal(b.len, 0);
    assert_false(bytes_prefix_end(BYTES_NONE, &b));
    buf_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_stays_a_string), cmocka_unit_test(long_prints_fit),
        cmocka_unit_test(consume_drops_the_front),  cmocka_unit_test(order_is_that_of_bytes),
        cmocka_unit_test(copies_own_their_bytes),   cmocka_unit_test(end_of_a_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
