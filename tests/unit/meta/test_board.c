#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "common/base/clock.h"
#include "meta/board.h"
#include <stdio.h>

static int set_up(void **state)
{
    *state = board_new("m1", "127.0.0.1:1");
    return 0;
}

static int tear_down(void **state)
{
    board_free(*state);
    return 0;
}

static void lead(struct board *b, uint64_t epoch, int64_t left_ms)
{
    board_open_gate(b, epoch);
    board_extend_gate(b, epoch, clock_boot_ms() + left_ms);
    board_set_role(b, ROLE_LEADER, epoch);
}

/* A reader that was stopped between its look at the gate and its snapshot must not answer from the
 * state of a later epoch: the gate was closed before the replica followed others again. */
static void a_snapshot_behind_a_closed_gate_is_not_answered(void **state)
{
    struct board *b = *state;
    lead(b, 3, 60000);
    assert_int_equal(board_read_epoch(b), 3);
    assert_true(board_still_reads(b, 3));
    board_close_gate(b, 3);
    assert_false(board_still_reads(b, 3));
    lead(b, 5, 60000); /* nor when the same member leads again */
    assert_false(board_still_reads(b, 3));
    assert_true(board_still_reads(b, 5));
}

static void a_deadline_that_passed_does_not_spoil_a_snapshot(void **state)
{
    struct board *b = *state;
    lead(b, 3, -1);
    assert_int_equal(board_read_epoch(b), 0);
    assert_true(board_still_reads(b, 3));
}

static void see(struct board *b, const char *leader, uint64_t epoch)
{
    struct record r = {.epoch = epoch, .ttl_ms = 60000};
    snprintf(r.leader, sizeof r.leader, "%s", leader);
    snprintf(r.nonce, sizeof r.nonce, "n");
    board_see_leader(b, &r, "127.0.0.1:2", clock_boot_ms());
}

/* "no leader, epoch N" from the leader of N ends N for whoever listens. */
static void an_epoch_is_not_mentioned_before_it_is_served(void **state)
{
    struct board *b = *state;
    struct board_leader leader;
    see(b, "m2", 3);
    board_leader(b, &leader);
    assert_true(leader.known);
    assert_int_equal(leader.epoch, 3);
    board_set_role(b, ROLE_ACTIVATING, 4);
    see(b, "m1", 4);
    board_leader(b, &leader);
    assert_false(leader.known);
    assert_int_equal(leader.epoch, 3);
    board_open_gate(b, 4);
    board_leader(b, &leader);
    assert_int_equal(leader.epoch, 3);
    lead(b, 4, 60000);
    board_leader(b, &leader);
    assert_true(leader.known);
    assert_int_equal(leader.epoch, 4);
    board_close_gate(b, 4);
    board_set_role(b, ROLE_STEPPING_DOWN, 0);
    board_leader(b, &leader);
    assert_false(leader.known);
    assert_int_equal(leader.epoch, 4);
}

static void a_released_leader_is_not_named(void **state)
{
    struct board *b = *state;
    struct board_leader leader;
    see(b, "m2", 3);
    board_see_released(b, 3, "another");
    board_leader(b, &leader);
    assert_true(leader.known);
    board_see_released(b, 3, "n");
    board_leader(b, &leader);
    assert_false(leader.known);
}

static int told;

static void on_change(void *arg)
{
    told++;
}

/* etcd that is out of space takes probes, but no commits. */
static void a_leader_that_is_proven_may_be_named(void **state)
{
    struct board *b = *state;
    struct board_leader leader;
    struct board_self self;
    lead(b, 3, -1);
    board_leader(b, &leader);
    assert_false(leader.known);
    board_listen(b, on_change, NULL);
    board_prove(b, 3, clock_boot_ms() + 60000);
    board_prove(b, 3, clock_boot_ms() + 70000);
    assert_int_equal(told, 1);
    board_listen(b, NULL, NULL);
    board_leader(b, &leader);
    board_self(b, &self);
    assert_true(leader.known && self.proven);
    assert_int_equal(board_read_epoch(b), 0); /* it opens no gate */
    board_close_gate(b, 3);
    board_leader(b, &leader);
    assert_false(leader.known);
    lead(b, 5, -1); /* what was proven is not this epoch */
    board_leader(b, &leader);
    assert_false(leader.known);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_snapshot_behind_a_closed_gate_is_not_answered),
        TEST(a_deadline_that_passed_does_not_spoil_a_snapshot),
        TEST(an_epoch_is_not_mentioned_before_it_is_served),
        TEST(a_released_leader_is_not_named),
        TEST(a_leader_that_is_proven_may_be_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
