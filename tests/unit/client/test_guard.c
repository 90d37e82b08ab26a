#include "client/include/baton/baton.h"
#include "client/core/guard.h"
#include "tests/lib/temp_dir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- the rule ---- */

static void epochs_of_one_cluster_only_grow(void **state)
{
    struct guard g = {0};
    assert_int_equal(guard_judge(&g, "c", 5), GUARD_HIGHER);
    guard_raise(&g, "c", 5);
    assert_int_equal(guard_judge(&g, "c", 5), GUARD_SAME);
    assert_int_equal(guard_judge(&g, "c", 4), GUARD_STALE);
    assert_int_equal(guard_judge(&g, "c", UINT64_MAX), GUARD_HIGHER);
    assert_int_equal(guard_judge(&g, "other", 6), GUARD_OTHER_CLUSTER);
}

static void every_damage_of_a_file_is_noticed(void **state)
{
    struct guard g = {0}, back;
    struct buf text = {0};
    guard_raise(&g, "0123-cluster", 18446744073709551615U);
    guard_encode(&g, &text);
    struct err e = guard_decode(buf_view(&text), &back);
    assert_string_equal(e.message, "");
    assert_string_equal(back.cluster, g.cluster);
    assert_true(back.epoch == g.epoch);
    for (size_t i = 0; i < text.len; i++) {
        e = guard_decode(bytes_of(text.data, i), &back);
        assert_int_equal(e.code, ERR_CORRUPT);
        text.data[i] ^= 1;
        e = guard_decode(buf_view(&text), &back);
        assert_int_equal(e.code, ERR_CORRUPT);
        text.data[i] ^= 1;
    }
    buf_str(&text, "more");
    e = guard_decode(buf_view(&text), &back);
    assert_int_equal(e.code, ERR_CORRUPT);
    buf_close(&text);
}

/* ---- as users call it ---- */

static char *dir, path[256];
static struct baton_guard *guard;
static struct baton_error err;

static void remove_dir(void)
{
    if (dir)
        temp_dir_free(dir);
    dir = NULL;
}

static int setup(void **state)
{
    dir = temp_dir_new();
    snprintf(path, sizeof path, "%s/guard", dir);
    return baton_guard_open(&guard, path, &err);
}

static int teardown(void **state)
{
    baton_guard_close(guard);
    guard = NULL;
    remove_dir();
    return 0;
}

static void open_again(void)
{
    baton_guard_close(guard);
    assert_int_equal(baton_guard_open(&guard, path, &err), 0);
}

static void what_was_seen_outlives_the_process(void **state)
{
    assert_int_equal(baton_guard_epoch(guard), 0);
    assert_int_equal(baton_guard_admit(guard, "c", 5, &err), 0);
    open_again();
    assert_int_equal(baton_guard_epoch(guard), 5);
    assert_int_equal(baton_guard_admit(guard, "c", 4, &err), -1);
    assert_int_equal(err.status, BATON_FAILED_PRECONDITION);
    assert_string_equal(err.reason, "STALE_EPOCH");
    assert_int_equal(err.outcome, BATON_NOT_EXECUTED);
    assert_int_equal(baton_guard_admit(guard, "d", 6, &err), -1);
    assert_string_equal(err.reason, "OTHER_CLUSTER");
    assert_true(err.hint[0]);
    assert_int_equal(baton_guard_admit(guard, "c", 5, &err), 0);
    assert_int_equal(baton_guard_epoch(guard), 5);
}

static void nonsense_is_no_cluster(void **state)
{
    assert_int_equal(baton_guard_admit(guard, "", 5, &err), -1);
    assert_int_equal(err.status, BATON_INVALID_ARGUMENT);
    assert_int_equal(baton_guard_admit(guard, NULL, 5, NULL), -1);
    assert_int_equal(baton_guard_admit(guard, "a b", 5, &err), -1);
    assert_int_equal(baton_guard_epoch(guard), 0);
}

static void a_file_is_of_one_guard(void **state)
{
    struct baton_guard *second;
    assert_int_equal(baton_guard_open(&second, path, &err), -1);
    assert_null(second);
    assert_string_equal(err.reason, "IN_USE");
    assert_non_null(strstr(err.message, path));
}

static void a_damaged_file_is_named(void **state)
{
    assert_int_equal(baton_guard_admit(guard, "c", 5, &err), 0);
    baton_guard_close(guard);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(baton_guard_open(&guard, path, &err), -1);
    assert_int_equal(err.status, BATON_DATA_LOSS);
    assert_non_null(strstr(err.message, path));
    assert_true(err.hint[0]);
}

/* The folder is gone: an epoch that cannot be kept is not admitted. */
static void what_cannot_be_kept_is_not_admitted(void **state)
{
    remove_dir();
    assert_int_equal(baton_guard_admit(guard, "c", 5, &err), -1);
    assert_string_equal(err.reason, "IO");
    assert_int_equal(baton_guard_epoch(guard), 0);
    assert_int_equal(baton_guard_open(&(struct baton_guard *){NULL}, path, &err), -1);
    assert_non_null(strstr(err.message, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs_of_one_cluster_only_grow),
        cmocka_unit_test(every_damage_of_a_file_is_noticed),
        cmocka_unit_test_setup_teardown(what_was_seen_outlives_the_process, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_no_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_is_of_one_guard, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_not_admitted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
