#include "proxy/core/limits.h"
#include "proxy/core/pool.h"
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void the_ramp_doubles_with_each_round(void **state)
{
    struct ramp r = {0};
    assert_true(ramp_allows(&r));
    ramp_start(&r);
    unsigned sent = 0;
    for (; ramp_allows(&r); sent++)
        ramp_sent(&r);
    assert_int_equal(sent, RAMP_START);
    for (unsigned i = 0; i < RAMP_START; i++)
        ramp_answered(&r);
    for (sent = 0; ramp_allows(&r); sent++)
        ramp_sent(&r);
    assert_int_equal(sent, 2 * RAMP_START);
    for (int i = 0; i < 100; i++) {
        ramp_widen(&r);
        assert_true(ramp_allows(&r));
    }
    ramp_stop(&r);
    ramp_answered(&r);
    assert_true(ramp_allows(&r));
}

static void hasty_clients_are_sent_away(void **state)
{
    struct reset_guard g = {.opened = 600};
    for (int i = 0; i < RESET_BURST; i++)
        assert_false(reset_guard_on_reset(&g, 5));
    assert_false(reset_guard_on_reset(&g, RESET_QUICK_MS));
    assert_true(reset_guard_on_reset(&g, 5));
    struct reset_guard busy = {.opened = 10000};
    for (int i = 0; i < 3 * RESET_BURST; i++)
        assert_false(reset_guard_on_reset(&busy, 5));
}

static void empty_frames_are_counted_by_the_second(void **state)
{
    struct frame_guard g = {0};
    for (int second = 1; second < 4; second++)
        for (int i = 0; i < IDLE_FRAMES_PER_SECOND; i++)
            assert_false(frame_guard_on_frame(&g, second * 1000 + i % 1000));
    assert_true(frame_guard_on_frame(&g, 3999));
    assert_false(frame_guard_on_frame(&g, 4000));
}

static void the_pool_hands_out_what_came_back(void **state)
{
    struct pool p = {0};
    char *a = pool_alloc(&p, 100);
    memset(a, 'a', 100);
    a = pool_resize(&p, a, 5000);
    assert_int_equal(a[99], 'a');
    memset(a, 'b', 5000);
    a = pool_resize(&p, a, 9000);
    assert_int_equal(a[4999], 'b');
    pool_free(&p, a);
    a = pool_resize(&p, NULL, 40);
    memset(a, 'c', 40);
    pool_free(&p, a);
    a = pool_zeroed(&p, 40);
    for (int i = 0; i < 40; i++)
        assert_int_equal(a[i], 0);
    pool_free(&p, a);
    pool_free(&p, NULL);
    pool_close(&p);
}

static void the_pool_keeps_a_bounded_number(void **state)
{
    static void *pieces[20000];
    struct pool p = {0};
    for (int i = 0; i < 20000; i++)
        pieces[i] = pool_alloc(&p, (size_t)(i % 50) * 40);
    for (int i = 0; i < 20000; i++)
        pool_free(&p, pieces[i]);
    for (int i = 0; i < POOL_CLASSES; i++)
        assert_true(p.kept[i] <= POOL_KEPT + POOL_CLASSES * POOL_STEP);
    pool_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ramp_doubles_with_each_round),
        cmocka_unit_test(hasty_clients_are_sent_away),
        cmocka_unit_test(empty_frames_are_counted_by_the_second),
        cmocka_unit_test(the_pool_hands_out_what_came_back),
        cmocka_unit_test(the_pool_keeps_a_bounded_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
