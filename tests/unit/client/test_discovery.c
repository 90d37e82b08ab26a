#include "client/core/discovery.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static struct discovery d;
static struct rng rng;

static int setup(void **state)
{
    discovery_init(&d);
    rng_seed(&rng, 7);
    return 0;
}

static void one_asks_for_all(void **state)
{
    assert_int_equal(discovery_begin(&d, 1000), 0);
    for (int i = 0; i < 3; i++)
        assert_true(discovery_begin(&d, 1000 + i) == INT64_MAX);
    discovery_over(&d, true, 1010, &rng);
    assert_int_equal(d.rounds, 1);
    assert_int_equal(discovery_begin(&d, 1010), 0);
}

static void rounds_without_success_come_less_and_less_often(void **state)
{
    int64_t now = 1000, waited = 0, longest = 0;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(discovery_begin(&d, now), 0);
        discovery_over(&d, false, now, &rng);
        int64_t until = discovery_begin(&d, now);
        assert_in_range(until - now, 10, 400);
        assert_int_equal(discovery_begin(&d, until - 1), until);
        waited += until - now;
        longest = until - now > longest ? until - now : longest;
        now = until;
    }
    assert_in_range(waited, 1500, 4000);
    assert_in_range(longest, 200, 400);
}

static void success_begins_anew(void **state)
{
    for (int64_t now = 1000; now < 5000; now += 500) {
        assert_int_equal(discovery_begin(&d, now), 0);
        discovery_over(&d, false, now, &rng);
    }
    assert_int_equal(discovery_begin(&d, 6000), 0);
    discovery_over(&d, true, 6000, &rng);
    assert_int_equal(discovery_begin(&d, 6000), 0);
    discovery_over(&d, false, 6000, &rng);
    assert_in_range(discovery_begin(&d, 6000) - 6000, 10, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_asks_for_all, setup),
        cmocka_unit_test_setup(rounds_without_success_come_less_and_less_often, setup),
        cmocka_unit_test_setup(success_begins_anew, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
