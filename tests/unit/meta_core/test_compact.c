/* When history is compacted, and how much of it stays. */
#include "meta/core/compact.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct compact_limits limits = {
    .growth_bytes = 1000, .every_ms = 300000, .keep_ms = 60000};

static void nothing_is_due_at_first(void **state)
{
    struct compact c;
    compact_init(&c, &limits, 5000);
    assert_int_equal(compact_due(&c, 5000, 0, INT64_MAX), 0);
    compact_note(&c, 5000, 10, 0);
    assert_int_equal(compact_due(&c, 65000, 0, INT64_MAX), 0);
}

static void time_keeps_what_is_young(void **state)
{
    struct compact c;
    compact_init(&c, &limits, 0);
    for (int64_t s = 0; s <= 400; s++)
        compact_note(&c, s * 1000, 100 + s, 0);
    int64_t revision = compact_due(&c, 400000, 0, INT64_MAX);
    assert_true(revision <= 100 + 340 && revision >= 100 + 330);
    compact_done(&c, 400000, revision, 0);
    assert_int_equal(compact_due(&c, 401000, 0, INT64_MAX), 0);
    assert_int_equal(compact_due(&c, 699999, 0, INT64_MAX), 0);
    assert_int_not_equal(compact_due(&c, 700000, 0, INT64_MAX), 0);
}

/* 10 bytes each millisecond: a minute of that would be far more than growth_bytes. */
static void growth_keeps_half_of_it(void **state)
{
    struct compact c;
    compact_init(&c, &limits, 0);
    int64_t now_ms = 0, revision = 0;
    while (!(revision = compact_due(&c, now_ms, (uint64_t)now_ms * 10, INT64_MAX))) {
        now_ms++;
        compact_note(&c, now_ms, 100 + now_ms, (uint64_t)now_ms * 10);
        assert_true(now_ms <= 100);
    }
    assert_int_equal(now_ms, 100);
    assert_true(revision <= 100 + 50 && revision >= 100 + 40);
}

static void what_was_compacted_is_not_compacted_again(void **state)
{
    struct compact c;
    compact_init(&c, &limits, 0);
    compact_note(&c, 0, 50, 0);
    assert_int_equal(compact_due(&c, 300000, 0, INT64_MAX), 50);
    compact_done(&c, 300000, 50, 0);
    compact_note(&c, 400000, 50, 0); /* nothing was written since */
    assert_int_equal(compact_due(&c, 900000, 0, INT64_MAX), 0);
}

static void a_failure_makes_a_pause(void **state)
{
    struct compact c;
    compact_init(&c, &limits, 0);
    compact_note(&c, 0, 50, 0);
    compact_failed(&c, 300000, 30000);
    assert_int_equal(compact_due(&c, 329999, 0, INT64_MAX), 0);
    assert_int_equal(compact_due(&c, 330000, 0, INT64_MAX), 50);
}

static void what_watches_ask_for_is_kept(void **state)
{
    struct compact c;
    compact_init(&c, &limits, 0);
    for (int64_t s = 0; s <= 400; s++)
        compact_note(&c, s * 1000, 100 + s, 0);
    assert_int_equal(compact_due(&c, 400000, 999, 200), 199);
    assert_int_equal(compact_due(&c, 400000, 0, 0), 0);
    int64_t revision = compact_due(&c, 400000, 0, 1000);
    assert_true(revision <= 100 + 340 && revision >= 100 + 330);
    /* but no more than may grow */
    assert_true(compact_due(&c, 400000, 1000, 200) >= 100 + 330);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_due_at_first),
        cmocka_unit_test(time_keeps_what_is_young),
        cmocka_unit_test(growth_keeps_half_of_it),
        cmocka_unit_test(what_was_compacted_is_not_compacted_again),
        cmocka_unit_test(a_failure_makes_a_pause),
        cmocka_unit_test(what_watches_ask_for_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
