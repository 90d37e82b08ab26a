#include "proxy/core/leader_view.h"
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* One line of a story: who says what, and what the view makes of it. */
struct step {
    int seed;
    const char *member, *cluster;
    bool known;
    const char *leader;
    uint64_t epoch;
    enum leader_change change;
    bool then_known;
    const char *then_addr;
    uint64_t then_epoch;
};

static const char *addr_of(const char *leader)
{
    return leader[0] == 'a' ? "a:1" : leader[0] == 'b' ? "b:1" : leader[0] ? "c:1" : "";
}

static void tell(struct leader_view *v, const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct step *s = &steps[i];
        const struct leader_report r = {.seed = s->seed,
                                        .from_addr = addr_of(s->member),
                                        .member_id = s->member,
                                        .cluster_id = s->cluster,
                                        .known = s->known,
                                        .leader_id = s->leader,
                                        .addr = s->known ? addr_of(s->leader) : "",
                                        .epoch = s->epoch};
        enum leader_change change = leader_view_report(v, &r);
        if (change != s->change || v->known != s->then_known || v->epoch != s->then_epoch ||
            (v->known && strcmp(v->addr, s->then_addr)))
            fail_msg("step %zu: change %d, known %d, %s, epoch %llu", i, change, v->known, v->addr,
                     (unsigned long long)v->epoch);
    }
}
#define TELL(v, ...)                                                                               \
    do {                                                                                           \
        const struct step steps[] = {__VA_ARGS__};                                                 \
        tell(v, steps, sizeof steps / sizeof steps[0]);                                            \
    } while (0)

static struct leader_view fresh(const char *pinned)
{
    struct leader_view v;
    leader_view_init(&v, pinned);
    for (int i = 0; i < 3; i++)
        assert_int_equal(leader_view_add_seed(&v), i);
    return v;
}

static void highest_epoch_wins(void **state)
{
    struct leader_view v = fresh(NULL);
    TELL(&v, {0, "a", "X", true, "a", 3, LEADER_CHANGED, true, "a:1", 3},
         {1, "b", "X", true, "a", 3, LEADER_SAME, true, "a:1", 3},
         {1, "b", "X", true, "b", 2, LEADER_SAME, true, "a:1", 3},
         {1, "b", "X", true, "b", 5, LEADER_CHANGED, true, "b:1", 5},
         {0, "a", "X", true, "a", 3, LEADER_SAME, true, "b:1", 5},
         {2, "c", "X", true, "a", 5, LEADER_SAME, true, "b:1", 5});
}

static void only_the_leader_ends_its_epoch(void **state)
{
    struct leader_view v = fresh(NULL);
    TELL(&v, {0, "a", "X", true, "a", 3, LEADER_CHANGED, true, "a:1", 3},
         {1, "b", "X", false, "", 3, LEADER_SAME, true, "a:1", 3},
         {0, "a", "X", false, "", 3, LEADER_ENDED, false, "", 3},
         /* a follower that lags does not bring it back, its leader itself may */
         {1, "b", "X", true, "a", 3, LEADER_SAME, false, "", 3},
         {0, "a", "X", true, "a", 3, LEADER_CHANGED, true, "a:1", 3},
         {1, "b", "X", false, "", 4, LEADER_ENDED, false, "", 4},
         {2, "c", "X", true, "c", 4, LEADER_CHANGED, true, "c:1", 4});
}

static void a_leader_unknown_to_one_is_told_by_another(void **state)
{
    struct leader_view v = fresh(NULL);
    TELL(&v, {0, "a", "X", false, "", 7, LEADER_SAME, false, "", 7},
         {1, "b", "X", true, "c", 7, LEADER_CHANGED, true, "c:1", 7},
         {0, "a", "", true, "a", 9, LEADER_SAME, true, "c:1", 7});
}

static void most_seeds_move_the_view_to_another_cluster(void **state)
{
    struct leader_view v = fresh(NULL);
    TELL(&v, {0, "a", "X", true, "a", 40, LEADER_CHANGED, true, "a:1", 40},
         {0, "a", "Y", true, "a", 1, LEADER_FOREIGN, true, "a:1", 40},
         {-1, "d", "Y", true, "a", 1, LEADER_FOREIGN, true, "a:1", 40},
         {1, "b", "Y", true, "b", 2, LEADER_RESTARTED, true, "b:1", 2},
         {2, "c", "X", true, "c", 41, LEADER_FOREIGN, true, "b:1", 2});
    assert_string_equal(v.cluster_id, "Y");
}

static void a_pinned_cluster_stays(void **state)
{
    struct leader_view v = fresh("X");
    TELL(&v, {0, "a", "Y", true, "a", 4, LEADER_FOREIGN, false, "", 0},
         {1, "b", "Y", true, "a", 4, LEADER_FOREIGN, false, "", 0},
         {2, "c", "Y", true, "a", 4, LEADER_FOREIGN, false, "", 0},
         {2, "c", "X", true, "c", 1, LEADER_CHANGED, true, "c:1", 1});
}

static void hints_count_within_bounds(void **state)
{
    struct leader_view v = fresh(NULL);
    TELL(&v, {0, "a", "X", true, "a", 3, LEADER_CHANGED, true, "a:1", 3});
    assert_int_equal(leader_view_hint(&v, "b:1", 2, "X", true), LEADER_SAME);
    assert_int_equal(leader_view_hint(&v, "b:1", 3, "X", true), LEADER_SAME);
    assert_int_equal(leader_view_hint(&v, "evil:1", 9, "X", false), LEADER_SAME);
    assert_int_equal(leader_view_hint(&v, "b:1", 9, "Y", true), LEADER_FOREIGN);
    assert_int_equal(leader_view_hint(&v, "b:1", 4, "", true), LEADER_CHANGED);
    assert_string_equal(v.addr, "b:1");
    /* what the hint left open is filled in, and its leader may end it */
    TELL(&v, {1, "b", "X", true, "b", 4, LEADER_SAME, true, "b:1", 4},
         {1, "b", "X", false, "", 4, LEADER_ENDED, false, "", 4});
    assert_int_equal(leader_view_hint(&v, "b:1", 4, "X", true), LEADER_SAME);
    assert_int_equal(leader_view_hint(&v, "c:1", 5, "X", true), LEADER_CHANGED);
    TELL(&v, {2, "c", "X", false, "", 5, LEADER_ENDED, false, "", 5});
}

static void seeds_are_bounded(void **state)
{
    struct leader_view v;
    leader_view_init(&v, "");
    for (int i = 0; i < LEADER_SEEDS_MAX; i++)
        assert_int_equal(leader_view_add_seed(&v), i);
    assert_int_equal(leader_view_add_seed(&v), -1);
    leader_view_remove_seed(&v, 7);
    leader_view_remove_seed(&v, -1);
    assert_int_equal(leader_view_add_seed(&v), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(highest_epoch_wins),
        cmocka_unit_test(only_the_leader_ends_its_epoch),
        cmocka_unit_test(a_leader_unknown_to_one_is_told_by_another),
        cmocka_unit_test(most_seeds_move_the_view_to_another_cluster),
        cmocka_unit_test(a_pinned_cluster_stays),
        cmocka_unit_test(hints_count_within_bounds),
        cmocka_unit_test(seeds_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
