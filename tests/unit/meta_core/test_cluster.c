/* The value of the `cluster` key. */
#include "meta/core/cluster.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef"

static void a_new_cluster_starts_at_the_first_of_all(void **state)
{
    (void)state;
    struct cluster c, back;
    struct buf line = {0};
    cluster_begin(&c, ID);
    cluster_encode(&c, &line);
    assert_string_equal((char *)line.data, "id=" ID " format=1 incarnation=1 epoch_floor=0");
    struct err e = cluster_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_memory_equal(&c, &back, sizeof c);
    assert_int_equal(cluster_next_epoch(&c, 0), 1);
    assert_int_equal(cluster_next_epoch(&c, 7), 8);
    buf_close(&line);
}

static void values_from_before_incarnations_are_read(void **state)
{
    (void)state;
    struct cluster c;
    struct err e = cluster_decode(bytes_str("id=" ID " format=1"), &c);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(c.id, ID);
    assert_int_equal(c.format, 1);
    assert_int_equal(c.incarnation, 1);
    assert_int_equal(c.epoch_floor, 0);
}

static void fields_of_later_versions_are_kept(void **state)
{
    (void)state;
    struct cluster c;
    struct buf line = {0};
    struct err e = cluster_decode(
        bytes_str("id=" ID " colour=dark%20red format=3 incarnation=2 epoch_floor=40 x=1"), &c);
    assert_int_equal(e.code, ERR_OK);
    c.incarnation++;
    cluster_encode(&c, &line);
    assert_string_equal((char *)line.data, "id=" ID " format=3 incarnation=3 epoch_floor=40 "
                                           "colour=dark%20red x=1");
    assert_int_equal(cluster_next_epoch(&c, 7), 41);
    assert_int_equal(cluster_next_epoch(&c, 40), 41);
    assert_int_equal(cluster_next_epoch(&c, 41), 42);
    buf_close(&line);
}

static void what_makes_no_sense_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
    } rows[] = {
        {"", "'id'"},
        {"format=1", "'id'"},
        {"id=" ID, "'format'"},
        {"id=" ID " format=0", "'format'"},
        {"id=" ID " format=1 incarnation=0", "'incarnation'"},
        {"id=" ID " format=1 incarnation=x", "'incarnation'"},
        {"id=" ID " format=1 epoch_floor=-1", "'epoch_floor'"},
        {"id=" ID " format=1 epoch_floor=18446744073709551615", "'epoch_floor'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cluster c;
        struct err e = cluster_decode(bytes_str(rows[i].text), &c);
        assert_int_equal(e.code, ERR_CORRUPT);
        if (!strstr(e.message, rows[i].named))
            fail_msg("row %zu: %s", i, e.message);
    }
}

static void more_unknown_fields_than_fit_are_refused(void **state)
{
    (void)state;
    struct cluster c;
    struct buf line = {0};
    buf_str(&line, "id=" ID " format=1");
    for (int i = 0; i < 40; i++)
        buf_printf(&line, " field%d=value", i);
    struct err e = cluster_decode(buf_view(&line), &c);
    assert_int_equal(e.code, ERR_CORRUPT);
    buf_close(&line);
}

static void raising_makes_a_new_incarnation_once(void **state)
{
    struct cluster c;
    cluster_begin(&c, "c");
    assert_true(cluster_raise(&c, 41));
    assert_int_equal(c.incarnation, CLUSTER_INCARNATION_FIRST + 1);
    assert_int_equal(cluster_next_epoch(&c, 7), 42);
    assert_false(cluster_raise(&c, 41));
    assert_false(cluster_raise(&c, 3));
    assert_int_equal(c.incarnation, CLUSTER_INCARNATION_FIRST + 1);
    assert_int_equal(c.epoch_floor, 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raising_makes_a_new_incarnation_once),
        cmocka_unit_test(a_new_cluster_starts_at_the_first_of_all),
        cmocka_unit_test(values_from_before_incarnations_are_read),
        cmocka_unit_test(fields_of_later_versions_are_kept),
        cmocka_unit_test(what_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(more_unknown_fields_than_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
