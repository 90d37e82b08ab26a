/* When puts are refused, so that etcd does not fill up. */
#include "meta/core/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define MIB(n) ((int64_t)(n) << 20)

static void see(struct space *s, int64_t file_mib, int64_t used_mib)
{
    struct space_sample one = {
        .quota_bytes = MIB(1000), .file_bytes = MIB(file_mib), .used_bytes = MIB(used_mib)};
    space_on_samples(s, &one, 1);
}

static void nothing_is_refused_without_a_quota(void **state)
{
    struct space s = {0};
    struct space_sample one = {.file_bytes = MIB(5000), .used_bytes = MIB(5000)};
    assert_int_equal(space_room_bytes(&s), INT64_MAX);
    space_on_samples(&s, &one, 1);
    assert_false(s.full);
    assert_int_equal(space_room_bytes(&s), INT64_MAX);
}

static void it_does_not_flap(void **state)
{
    struct space s = {0};
    see(&s, 790, 790);
    assert_false(s.full);
    see(&s, 801, 801);
    assert_true(s.full);
    see(&s, 801, 770); /* a little was deleted and compacted */
    assert_true(s.full);
    see(&s, 801, 740);
    assert_false(s.full);
    see(&s, 801, 790);
    assert_false(s.full);
}

/* Pages that were freed are used again, so a file that is larger than what is in use does no harm
 * until it comes near the quota itself. */
static void a_file_with_free_pages_may_be_larger(void **state)
{
    struct space s = {0};
    see(&s, 890, 100);
    assert_false(s.full);
    see(&s, 905, 100);
    assert_true(s.full);
    see(&s, 880, 100);
    assert_true(s.full);
    see(&s, 200, 100); /* defragmented */
    assert_false(s.full);
}

static void the_fullest_endpoint_counts(void **state)
{
    struct space s = {0};
    struct space_sample all[] = {
        {.file_bytes = MIB(9000), .used_bytes = MIB(9000)}, /* does not tell its quota */
        {.quota_bytes = MIB(1000), .file_bytes = MIB(500), .used_bytes = MIB(100)},
        {.quota_bytes = MIB(1000), .file_bytes = MIB(850), .used_bytes = MIB(810)},
        {.quota_bytes = MIB(2000), .file_bytes = MIB(900), .used_bytes = MIB(900)},
    };
    space_on_samples(&s, all, 4);
    assert_true(s.full);
    assert_int_equal(s.worst.used_bytes, MIB(810));
    space_on_samples(&s, NULL, 0); /* nobody answered: nothing changes */
    assert_true(s.full);
    space_on_samples(&s, all, 2);
    assert_false(s.full);
}

static void room_ends_before_the_quota(void **state)
{
    struct space s = {0};
    see(&s, 100, 100);
    int64_t room = space_room_bytes(&s);
    assert_true(room > MIB(400) && 2 * room + MIB(100) < MIB(1000));
    see(&s, 960, 100); /* never nothing: somebody would wait for ever */
    assert_true(space_room_bytes(&s) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_refused_without_a_quota),
        cmocka_unit_test(it_does_not_flap),
        cmocka_unit_test(a_file_with_free_pages_may_be_larger),
        cmocka_unit_test(the_fullest_endpoint_counts),
        cmocka_unit_test(room_ends_before_the_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
