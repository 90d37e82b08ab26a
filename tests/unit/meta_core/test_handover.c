/* Whom a leader may hand over to. */
#include "meta/core/handover.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

/* m1 leads; m2 and m3 are in line in this order, both well. */
struct table {
    struct handover_member members[70];
    struct handover_view view;
};

static void add(struct table *t, const char *id, int64_t place)
{
    struct handover_member *m = &t->members[t->view.count++];
    *m = (struct handover_member){.lease = 100 + place, .place = place, .reported = true};
    snprintf(m->id, sizeof m->id, "%s", id);
}

static void fill(struct table *t)
{
    *t = (struct table){.view = {.self_id = "m1", .members = t->members}};
    add(t, "m1", 10);
    add(t, "m2", 11);
    add(t, "m3", 12);
}

static void assert_refused(struct table *t, const char *target, const char *says)
{
    struct handover to;
    struct err e = handover_plan(&t->view, target, &to);
    assert_int_equal(e.code, ERR_NO_TARGET);
    if (!strstr(e.message, says))
        fail_msg("'%s' does not say '%s'", e.message, says);
}

static void the_first_in_line_needs_no_room(void **state)
{
    struct table t;
    struct handover to;
    fill(&t);
    struct err e = handover_plan(&t.view, "", &to);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(to.target, "m2");
    assert_int_equal(to.ahead_count, 0);
}

static void those_before_the_target_go_behind(void **state)
{
    struct table t;
    struct handover to;
    fill(&t);
    struct err e = handover_plan(&t.view, "m3", &to);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(to.target, "m3");
    assert_int_equal(to.ahead_count, 1);
    assert_int_equal(to.ahead[0], 111); /* neither the leader nor the target */
}

static void a_target_is_listed_in_line_and_caught_up(void **state)
{
    struct table t;
    fill(&t);
    assert_refused(&t, "m4", "no member m4 is listed");
    t.members[1].place = 0;
    assert_refused(&t, "m2", "m2 is not in line");
    fill(&t);
    t.members[1].reported = false;
    assert_refused(&t, "m2", "m2 has not reported");
    fill(&t);
    t.members[1].report_age_ms = HANDOVER_REPORT_AGE_MS + 1;
    assert_refused(&t, "m2", "m2 has not reported");
    fill(&t);
    t.members[1].lag = HANDOVER_LAG_MAX + 1;
    assert_refused(&t, "m2", "it lacks 1001 revisions");
}

static void an_empty_target_passes_over_whoever_cannot(void **state)
{
    struct table t;
    struct handover to;
    fill(&t);
    t.members[1].reported = false;
    struct err e = handover_plan(&t.view, "", &to);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(to.target, "m3");
    assert_int_equal(to.ahead_count, 1);
    t.members[2].place = 0;
    assert_refused(&t, "", "there is nobody to hand over to: member m3 is not in line");
    t.view.count = 1;
    assert_refused(&t, "", "no other member is listed");
}

static void foreign_candidates_are_not_sent_away(void **state)
{
    struct table t;
    struct handover to;
    fill(&t);
    t.view.foreign_place = 12; /* behind m2: it does not matter */
    t.members[2].place = 13;
    struct err e = handover_plan(&t.view, "", &to);
    assert_int_equal(e.code, ERR_OK);
    assert_refused(&t, "m3", "no member of this cluster");
}

static void a_txn_has_room_for_so_many(void **state)
{
    struct table t;
    struct handover to;
    fill(&t);
    for (int i = 0; i < HANDOVER_AHEAD_MAX; i++) {
        char id[16];
        snprintf(id, sizeof id, "n%d", i);
        add(&t, id, 20 + i);
    }
    struct err e = handover_plan(&t.view, "n61", &to);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(to.ahead_count, 63);
    assert_refused(&t, "n63", "choose another");
}

static void the_leader_is_no_target(void **state)
{
    struct table t;
    fill(&t);
    assert_true(handover_is_self(&t.view, "m1"));
    assert_false(handover_is_self(&t.view, "m2"));
    assert_false(handover_is_self(&t.view, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_in_line_needs_no_room),
        cmocka_unit_test(those_before_the_target_go_behind),
        cmocka_unit_test(a_target_is_listed_in_line_and_caught_up),
        cmocka_unit_test(an_empty_target_passes_over_whoever_cannot),
        cmocka_unit_test(foreign_candidates_are_not_sent_away),
        cmocka_unit_test(a_txn_has_room_for_so_many),
        cmocka_unit_test(the_leader_is_no_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
