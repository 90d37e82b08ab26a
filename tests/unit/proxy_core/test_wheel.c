#include "common/base/rng.h"
#include "proxy/core/wheel.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define MANY 2000

static void fires_once_and_never_early(void **state)
{
    static struct wheel w;
    static struct wheel_entry entries[MANY];
    static bool fired[MANY];
    struct rng rng;
    rng_seed(&rng, 1);
    wheel_init(&w, 1000);
    for (int i = 0; i < MANY; i++)
        wheel_set(&w, &entries[i], 1000 + (int64_t)rng_below(&rng, 40000));
    assert_int_equal(w.count, MANY);
    for (int64_t now = 1000; now < 42000; now += 1 + (int64_t)rng_below(&rng, 50)) {
        struct wheel_entry *e;
        while ((e = wheel_pop(&w, now))) {
            size_t i = (size_t)(e - entries);
            assert_false(fired[i]);
            assert_true(e->at_ms <= now);
            fired[i] = true;
        }
        for (int i = 0; i < MANY; i++)
            assert_true(fired[i] || entries[i].at_ms + 2 * WHEEL_STEP_MS > now);
    }
    assert_int_equal(w.count, 0);
}

static void cleared_ones_stay_silent(void **state)
{
    struct wheel w;
    struct wheel_entry a = {0}, b = {0}, c = {0};
    wheel_init(&w, 0);
    wheel_set(&w, &a, 100);
    wheel_set(&w, &b, 100);
    wheel_set(&w, &c, 100);
    wheel_clear(&w, &b);
    wheel_clear(&w, &b);
    wheel_set(&w, &c, 500);
    assert_ptr_equal(wheel_pop(&w, 200), &a);
    assert_null(wheel_pop(&w, 200));
    assert_ptr_equal(wheel_pop(&w, 600), &c);
    assert_int_equal(w.count, 0);
}

static void a_long_sleep_loses_nothing(void **state)
{
    struct wheel w;
    struct wheel_entry a = {0}, b = {0};
    wheel_init(&w, 0);
    wheel_set(&w, &a, 50);
    wheel_set(&w, &b, 1000000);
    assert_ptr_equal(wheel_pop(&w, 500000), &a);
    assert_null(wheel_pop(&w, 500000));
    assert_ptr_equal(wheel_pop(&w, 2000000), &b);
    wheel_set(&w, &a, 5); /* in the past: at the next step */
    assert_ptr_equal(wheel_pop(&w, 2000100), &a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_once_and_never_early),
        cmocka_unit_test(cleared_ones_stay_silent),
        cmocka_unit_test(a_long_sleep_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
