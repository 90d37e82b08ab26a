#include "client/core/leader_view.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct leader_view view;

static int setup(void **state)
{
    struct err e = leader_view_init(&view, "a:1,b:2,[::1]:3");
    return err_is(&e);
}

static bool learn(const char *cluster, uint64_t epoch, const char *addr)
{
    return leader_view_learn(
        &view, &(struct leader_claim){.cluster = cluster, .epoch = epoch, .addr = addr});
}

static void seeds_take_turns(void **state)
{
    const char *order[] = {"a:1", "b:2", "[::1]:3", "a:1"};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(leader_view_pick(&view), order[i]);
        leader_view_failed(&view, order[i]);
    }
}

static void bad_addresses_are_named(void **state)
{
    const char *bad[] = {"", "nonsense", "a:1,", "a:1,,b:2", ":5", "a:port", "a:123456", "a:"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = leader_view_init(&view, bad[i]);
        if (e.code != ERR_USAGE)
            fail_msg("'%s' was taken", bad[i]);
    }
    struct err e = leader_view_init(&view, "a:1,oh no");
    assert_non_null(strstr(e.message, "'oh no'"));
}

static void the_leader_is_preferred_until_it_fails(void **state)
{
    assert_true(learn("c", 4, "x:9"));
    assert_string_equal(leader_view_pick(&view), "x:9");
    assert_false(learn("c", 4, "x:9"));
    leader_view_failed(&view, "a:1"); /* a late answer of somebody else */
    assert_string_equal(leader_view_pick(&view), "x:9");
    leader_view_failed(&view, "x:9");
    assert_string_equal(leader_view_pick(&view), "b:2");
}

static void an_older_epoch_is_not_believed(void **state)
{
    learn("c", 4, "x:9");
    assert_false(learn("c", 3, "y:9"));
    assert_string_equal(leader_view_pick(&view), "x:9");
    assert_true(learn("c", 5, "y:9"));
    assert_string_equal(leader_view_pick(&view), "y:9");
    assert_int_equal(view.epoch, 5);
}

static void another_cluster_starts_anew(void **state)
{
    learn("c", 40, "x:9");
    assert_true(learn("other", 1, "y:9"));
    assert_string_equal(leader_view_pick(&view), "y:9");
    assert_int_equal(view.epoch, 1);
}

static void claims_without_an_address_raise_the_epoch_only(void **state)
{
    learn("c", 4, "x:9");
    assert_false(learn(NULL, 6, NULL));
    assert_string_equal(leader_view_pick(&view), "x:9");
    assert_int_equal(view.epoch, 6);
    assert_false(learn(NULL, 7, "no address"));
    leader_view_learn(&view, &(struct leader_claim){.epoch = 7, .revision = 12});
    leader_view_learn(&view, &(struct leader_claim){.epoch = 7, .revision = 11});
    assert_int_equal(view.revision, 12);
}

static void turn(const char *expected)
{
    assert_string_equal(leader_view_seed(&view), expected);
    leader_view_failed(&view, expected);
}

static void members_are_asked_behind_the_addresses_that_were_given(void **state)
{
    const char *members[] = {"b:2", "m:1", "nonsense", "m:2"};
    leader_view_members(&view, members, 4);
    assert_int_equal(leader_view_seeds(&view), 5);
    const char *order[] = {"a:1", "b:2", "[::1]:3", "m:1", "m:2", "a:1"};
    for (size_t i = 0; i < 6; i++)
        turn(order[i]);
    leader_view_members(&view, members, 1); /* the others have left */
    assert_int_equal(leader_view_seeds(&view), 3);
    turn("b:2");
}

static void a_leader_is_a_seed_from_then_on(void **state)
{
    char addr[16];
    learn("c", 4, "x:9");
    learn("c", 4, "a:1");
    assert_int_equal(leader_view_seeds(&view), 4);
    for (int i = 0; i < LEADER_LEARNT_MAX; i++) {
        snprintf(addr, sizeof addr, "y:%d", i);
        learn("c", 5 + (uint64_t)i, addr);
    }
    assert_int_equal(leader_view_seeds(&view), 3 + LEADER_LEARNT_MAX);
    assert_string_equal(view.seeds[3], "y:0"); /* x:9 was learnt first */
    learn("d", 1, "z:1");
    assert_int_equal(leader_view_seeds(&view), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(seeds_take_turns, setup),
        cmocka_unit_test_setup(bad_addresses_are_named, setup),
        cmocka_unit_test_setup(the_leader_is_preferred_until_it_fails, setup),
        cmocka_unit_test_setup(an_older_epoch_is_not_believed, setup),
        cmocka_unit_test_setup(another_cluster_starts_anew, setup),
        cmocka_unit_test_setup(claims_without_an_address_raise_the_epoch_only, setup),
        cmocka_unit_test_setup(members_are_asked_behind_the_addresses_that_were_given, setup),
        cmocka_unit_test_setup(a_leader_is_a_seed_from_then_on, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
