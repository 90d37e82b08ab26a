#include "client/core/latency.h"
#include "client/core/request_id.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void quantiles_are_close(void **state)
{
    struct latency l = {0};
    assert_int_equal(latency_quantile(&l, 0.5), 0);
    for (int64_t us = 1; us <= 100000; us++)
        latency_add(&l, us);
    assert_in_range(latency_quantile(&l, 0.5), 50000, 51700);
    assert_in_range(latency_quantile(&l, 0.99), 99000, 100000);
    assert_int_equal(latency_quantile(&l, 1), 100000);
    assert_int_equal(l.max_us, 100000);
}

static void extremes_have_a_cell(void **state)
{
    struct latency l = {0};
    latency_add(&l, -5);
    latency_add(&l, 0);
    latency_add(&l, 31);
    latency_add(&l, 32);
    latency_add(&l, INT64_MAX);
    assert_int_equal(latency_quantile(&l, 0.4), 0);
    assert_int_equal(latency_quantile(&l, 0.8), 32);
    assert_true(latency_quantile(&l, 1) == INT64_MAX);
}

static void request_ids_name_the_revision(void **state)
{
    struct rng r;
    char a[REQUEST_ID_MAX], b[REQUEST_ID_MAX];
    rng_seed(&r, 7);
    request_id_make(&r, 4711, a);
    request_id_make(&r, 0, b);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_equal(a + 32, "@4711");
    assert_int_equal(strlen(b), 32);
    assert_memory_not_equal(a, b, 32);
    request_id_make(&r, INT64_MAX, a);
    assert_in_range(strlen(a), 16, REQUEST_ID_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_close),
        cmocka_unit_test(extremes_have_a_cell),
        cmocka_unit_test(request_ids_name_the_revision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
