#include "meta/core/read_gate.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void a_gate_that_was_never_opened_is_closed(void **state)
{
    (void)state;
    struct read_gate g = {0};
    assert_int_equal(read_gate_epoch(&g, 0), 0);
    assert_int_equal(read_gate_epoch(&g, -1000), 0);
    read_gate_extend(&g, 1, 5000);
    read_gate_extend(&g, 0, 5000);
    assert_int_equal(read_gate_epoch(&g, 10), 0);
    read_gate_open(&g, 0);
    read_gate_extend(&g, 0, 5000);
    assert_int_equal(read_gate_epoch(&g, 10), 0);
}

static void it_opens_with_the_first_deadline_and_shuts_at_it(void **state)
{
    (void)state;
    struct read_gate g = {0};
    read_gate_open(&g, 3);
    assert_int_equal(read_gate_epoch(&g, 0), 0);
    read_gate_extend(&g, 3, 1000);
    assert_int_equal(read_gate_epoch(&g, 999), 3);
    assert_int_equal(read_gate_left_ms(&g, 999), 1);
    assert_int_equal(read_gate_epoch(&g, 1000), 0);
    assert_int_equal(read_gate_left_ms(&g, 1000), 0);
    assert_int_equal(read_gate_epoch(&g, 5000), 0);
}

static void the_deadline_only_grows(void **state)
{
    (void)state;
    struct read_gate g = {0};
    read_gate_open(&g, 3);
    read_gate_extend(&g, 3, 1000);
    read_gate_extend(&g, 3, 400);
    assert_int_equal(read_gate_epoch(&g, 700), 3);
    read_gate_extend(&g, 3, 2000);
    assert_int_equal(read_gate_epoch(&g, 1999), 3);
}

static void it_opens_again_after_a_deadline_but_not_after_a_close(void **state)
{
    (void)state;
    struct read_gate g = {0};
    read_gate_open(&g, 3);
    read_gate_extend(&g, 3, 1000);
    assert_int_equal(read_gate_epoch(&g, 1500), 0);
    read_gate_extend(&g, 3, 2000); /* a commit after the pause */
    assert_int_equal(read_gate_epoch(&g, 1500), 3);
    read_gate_close(&g, 3);
    read_gate_extend(&g, 3, 9000); /* a late answer */
    assert_int_equal(read_gate_epoch(&g, 1500), 0);
    read_gate_open(&g, 3);
    read_gate_extend(&g, 3, 9000);
    assert_int_equal(read_gate_epoch(&g, 1500), 0);
}

static void another_epoch_is_not_extended(void **state)
{
    (void)state;
    struct read_gate g = {0};
    read_gate_open(&g, 3);
    read_gate_extend(&g, 2, 9000);
    read_gate_extend(&g, 4, 9000);
    assert_int_equal(read_gate_epoch(&g, 0), 0);
    read_gate_extend(&g, 3, 100);
    read_gate_open(&g, 2); /* older: nothing */
    assert_int_equal(read_gate_epoch(&g, 0), 3);
}

static void a_close_counts_for_epochs_that_were_not_opened_yet(void **state)
{
    (void)state;
    struct read_gate g = {0};
    read_gate_close(&g, 5); /* stepped down while activating */
    read_gate_open(&g, 5);
    read_gate_extend(&g, 5, 9000);
    assert_int_equal(read_gate_epoch(&g, 0), 0);
    read_gate_open(&g, 4);
    read_gate_extend(&g, 4, 9000);
    assert_int_equal(read_gate_epoch(&g, 0), 0);
    read_gate_open(&g, 6);
    read_gate_extend(&g, 6, 9000);
    assert_int_equal(read_gate_epoch(&g, 0), 6);
}

static void a_late_close_of_an_old_epoch_spares_the_open_one(void **state)
{
    (void)state;
    struct read_gate g = {0};
    read_gate_open(&g, 5);
    read_gate_extend(&g, 5, 9000);
    read_gate_close(&g, 4);
    assert_int_equal(read_gate_epoch(&g, 0), 5);
    read_gate_close(&g, 6);
    assert_int_equal(read_gate_epoch(&g, 0), 0);
}

static void a_new_epoch_starts_without_the_old_deadline(void **state)
{
    (void)state;
    struct read_gate g = {0};
    read_gate_open(&g, 5);
    read_gate_extend(&g, 5, 9000);
    read_gate_open(&g, 6);
    assert_int_equal(read_gate_epoch(&g, 0), 0);
    read_gate_extend(&g, 5, 9999);
    assert_int_equal(read_gate_epoch(&g, 0), 0);
    read_gate_extend(&g, 6, 100);
    assert_int_equal(read_gate_epoch(&g, 99), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_that_was_never_opened_is_closed),
        cmocka_unit_test(it_opens_with_the_first_deadline_and_shuts_at_it),
        cmocka_unit_test(the_deadline_only_grows),
        cmocka_unit_test(it_opens_again_after_a_deadline_but_not_after_a_close),
        cmocka_unit_test(another_epoch_is_not_extended),
        cmocka_unit_test(a_close_counts_for_epochs_that_were_not_opened_yet),
        cmocka_unit_test(a_late_close_of_an_old_epoch_spares_the_open_one),
        cmocka_unit_test(a_new_epoch_starts_without_the_old_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
