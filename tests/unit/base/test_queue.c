#include "common/base/clock.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>

static void *item(uintptr_t n)
{
    return (void *)n;
}

static void first_in_first_out_over_many_growths(void **state)
{
    struct queue *q = queue_new(1000);
    uintptr_t in = 1, out = 1;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 40; i++)
            assert_true(queue_push(q, item(in++)));
        for (int i = 0; i < 15; i++)
            assert_ptr_equal(queue_pop(q, 0), item(out++));
    }
    assert_int_equal(queue_length(q), in - out);
    while (out < in)
        assert_ptr_equal(queue_pop(q, 0), item(out++));
    assert_null(queue_pop(q, 0));
    queue_free(q);
}

static void limit_holds_but_for_what_must_not_be_lost(void **state)
{
    struct queue *q = queue_new(2);
    assert_true(queue_push(q, item(1)));
    assert_true(queue_push(q, item(2)));
    assert_false(queue_push(q, item(3)));
    queue_push_always(q, item(4));
    assert_int_equal(queue_length(q), 3);
    assert_ptr_equal(queue_pop(q, 0), item(1));
    assert_ptr_equal(queue_pop(q, 0), item(2));
    assert_ptr_equal(queue_pop(q, 0), item(4));
    queue_free(q);
}

static void waiting_ends_in_time(void **state)
{
    struct queue *q = queue_new(2);
    int64_t begin_us = clock_mono_us();
    assert_null(queue_pop(q, 30));
    assert_true(clock_mono_us() - begin_us >= 29000);
    queue_free(q);
}

enum { THREADS = 4, EACH = 20000 };

static void *push_many(void *arg)
{
    for (uintptr_t i = 1; i <= EACH; i++)
        queue_push_always(arg, item(i));
    return NULL;
}

static void nothing_is_lost_between_threads(void **state)
{
    struct queue *q = queue_new(1);
    pthread_t threads[THREADS];
    uintptr_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = thread_start("push", push_many, q);
    for (int i = 0; i < THREADS * EACH; i++) {
        void *got = queue_pop(q, -1);
        assert_non_null(got);
        sum += (uintptr_t)got;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sum, (uintptr_t)THREADS * EACH * (EACH + 1) / 2);
    assert_null(queue_pop(q, 0));
    queue_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_in_first_out_over_many_growths),
        cmocka_unit_test(limit_holds_but_for_what_must_not_be_lost),
        cmocka_unit_test(waiting_ends_in_time),
        cmocka_unit_test(nothing_is_lost_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
