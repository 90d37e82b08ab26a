/* Which reads etcd's answer confirms, and whose turn it is. */
#include "meta/core/confirm.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void an_attempt_confirms_what_came_before_it(void **state)
{
    struct confirm c = {0};
    confirm_on_sent(&c, 1, 3);
    confirm_on_sent(&c, 2, 5);
    confirm_on_proof(&c, 1, 8);
    assert_int_equal(c.done, 3);
    confirm_on_proof(&c, 2, 8);
    assert_int_equal(c.done, 5);
    confirm_on_proof(&c, 1, 8); /* late: takes nothing back */
    assert_int_equal(c.done, 5);
}

static void an_attempt_that_is_forgotten_confirms_nothing(void **state)
{
    struct confirm c = {0};
    confirm_on_sent(&c, 1, 3);
    confirm_on_sent(&c, 1 + CONFIRM_ATTEMPTS, 5);
    confirm_on_proof(&c, 1, 8);
    assert_int_equal(c.done, 0);
    confirm_on_proof(&c, 1 + CONFIRM_ATTEMPTS, 8);
    assert_int_equal(c.done, 5);
    confirm_on_proof(&c, 99999, 8);
    assert_int_equal(c.done, 5);
}

/* Each leadership numbers its attempts from 1. */
static void the_next_leadership_goes_on_with_the_tickets(void **state)
{
    struct confirm c = {0};
    confirm_on_sent(&c, 1, 3);
    confirm_on_sent(&c, 1, 6);
    confirm_on_proof(&c, 1, 6);
    assert_int_equal(c.done, 6);
}

static void reads_ride_on_a_commit_when_there_is_one(void **state)
{
    struct confirm c = {0};
    assert_int_equal(confirm_turn(&c, 0, false, false), CONFIRM_NOTHING);
    assert_int_equal(confirm_turn(&c, 1, true, false), CONFIRM_BATCH);
    assert_int_equal(confirm_turn(&c, 1, false, true), CONFIRM_BATCH);
    assert_int_equal(confirm_turn(&c, 1, false, false), CONFIRM_PROBE);
    c.done = 1;
    assert_int_equal(confirm_turn(&c, 1, false, false), CONFIRM_NOTHING);
    assert_int_equal(confirm_turn(&c, 1, true, false), CONFIRM_BATCH);
}

/* Reads come all the time: each write waits for one probe, not for all of them. */
static void writes_go_before_reads(void **state)
{
    struct confirm c = {0};
    uint64_t asked = 0;
    for (uint64_t attempt = 1; attempt <= 10; attempt++) {
        asked += 100;
        enum confirm_turn turn = confirm_turn(&c, asked, attempt % 2 == 0, false);
        assert_int_equal(turn, attempt % 2 == 0 ? CONFIRM_BATCH : CONFIRM_PROBE);
        confirm_on_sent(&c, attempt, asked);
        confirm_on_proof(&c, attempt, asked + 50);
        confirm_on_over(&c, true);
        assert_int_equal(c.done, asked);
    }
}

/* etcd refuses every commit: the reads do not wait for ever. */
static void a_refused_commit_gives_the_turn_to_a_probe(void **state)
{
    struct confirm c = {0};
    assert_int_equal(confirm_turn(&c, 1, true, true), CONFIRM_BATCH);
    confirm_on_over(&c, false);
    assert_int_equal(confirm_turn(&c, 1, true, true), CONFIRM_PROBE);
    confirm_on_sent(&c, 2, 1);
    confirm_on_proof(&c, 2, 1);
    confirm_on_over(&c, true);
    assert_int_equal(confirm_turn(&c, 1, true, true), CONFIRM_BATCH);
    confirm_on_over(&c, false);
    assert_int_equal(confirm_turn(&c, 1, true, true), CONFIRM_BATCH); /* nobody waits for it */
    /* a probe that is refused too: the writes get their turn again */
    assert_int_equal(confirm_turn(&c, 2, true, false), CONFIRM_PROBE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_confirms_what_came_before_it),
        cmocka_unit_test(an_attempt_that_is_forgotten_confirms_nothing),
        cmocka_unit_test(the_next_leadership_goes_on_with_the_tickets),
        cmocka_unit_test(reads_ride_on_a_commit_when_there_is_one),
        cmocka_unit_test(writes_go_before_reads),
        cmocka_unit_test(a_refused_commit_gives_the_turn_to_a_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
