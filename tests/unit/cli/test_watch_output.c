/* How the changes of a watch are shown. */
#include "client/cli/watch_output.h"
#include "client/core/api_bytes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static const char *shown(const struct baton_changes *changes, bool json, size_t most)
{
    static char text[2048];
    FILE *out = fmemopen(text, sizeof text, "w");
    watch_print(out, changes, json, most);
    fclose(out);
    return text;
}

static struct baton_event event(const char *key, const char *value)
{
    return (struct baton_event){.kv = {.key = api_text(key),
                                       .value = api_text(value),
                                       .create_revision = 5,
                                       .mod_revision = 9,
                                       .version = 2},
                                .deleted = value == NULL};
}

static void a_line_for_each_event(void **state)
{
    struct baton_event events[] = {event("a", "1"), event("b", NULL)};
    struct baton_changes changes = {
        .revision = 9, .events = events, .count = 2, .token = api_text("tok")};
    assert_string_equal(shown(&changes, false, SIZE_MAX), "put\t9\ta\t1\ndelete\t9\tb\n");
    assert_string_equal(shown(&changes, true, SIZE_MAX),
                        "{\"event\":\"put\",\"key\":\"a\",\"value\":\"1\",\"revision\":9,"
                        "\"create_revision\":5,\"version\":2}\n"
                        "{\"event\":\"delete\",\"key\":\"b\",\"revision\":9,\"token\":\"dG9r\"}\n");
}

/* What was not shown whole has no token to go on behind it. */
static void no_more_than_wanted(void **state)
{
    struct baton_event events[] = {event("a", NULL), event("b", NULL)};
    struct baton_changes changes = {
        .revision = 9, .events = events, .count = 2, .token = api_text("tok")};
    assert_string_equal(shown(&changes, true, 1),
                        "{\"event\":\"delete\",\"key\":\"a\",\"revision\":9}\n");
    assert_int_equal(watch_print(stderr, &changes, true, 0), 0);
}

static void a_snapshot_says_what_exists(void **state)
{
    struct baton_event events[] = {event("a", "1")};
    struct baton_changes changes = {
        .revision = 12, .snapshot = true, .restart = true, .events = events, .count = 1};
    assert_string_equal(shown(&changes, false, SIZE_MAX), "restart\t12\nexists\t9\ta\t1\n");
    changes.more = true;
    changes.restart = false;
    assert_string_equal(shown(&changes, false, SIZE_MAX), "exists\t9\ta\t1\n");
    changes = (struct baton_changes){
        .revision = 12, .snapshot = true, .restart = true, .token = api_text("tok")};
    assert_string_equal(shown(&changes, true, SIZE_MAX),
                        "{\"event\":\"restart\",\"revision\":12,\"token\":\"dG9r\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_for_each_event),
        cmocka_unit_test(no_more_than_wanted),
        cmocka_unit_test(a_snapshot_says_what_exists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
