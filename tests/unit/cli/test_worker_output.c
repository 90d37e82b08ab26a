/* How workers are shown, and how people write their labels. */
#include "client/cli/worker_output.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <string.h>

static struct arena memory;

static int forget(void **state)
{
    arena_close(&memory);
    return 0;
}

static void labels_are_pairs(void **state)
{
    struct baton_label *labels;
    size_t count;
    struct err e = worker_parse_labels("zone=b,empty=,sum=1=1", &memory, &labels, &count);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(count, 3);
    assert_string_equal(labels[0].name, "zone");
    assert_string_equal(labels[0].value, "b");
    assert_string_equal(labels[1].value, "");
    assert_string_equal(labels[2].value, "1=1");
    assert_int_equal(worker_parse_labels("", &memory, &labels, &count).code, ERR_OK);
    assert_int_equal(count, 0);
    for (const char **wrong = (const char *[]){"zone", "=b", "a=1,,b=2", "a=1,", NULL}; *wrong;
         wrong++)
        assert_int_equal(worker_parse_labels(*wrong, &memory, &labels, &count).code, ERR_USAGE);
}

static void resources_are_amounts(void **state)
{
    struct baton_resource *all;
    size_t count;
    struct err e =
        worker_parse_resources("cores=16,bytes=18446744073709551615", &memory, &all, &count);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(count, 2);
    assert_string_equal(all[0].name, "cores");
    assert_int_equal(all[0].amount, 16);
    assert_true(all[1].amount == UINT64_MAX);
    for (const char **wrong =
             (const char *[]){"cores=", "cores=-1", "cores=1x", "b=18446744073709551616", NULL};
         *wrong; wrong++) {
        e = worker_parse_resources(*wrong, &memory, &all, &count);
        assert_int_equal(e.code, ERR_USAGE);
        assert_non_null(strstr(e.message, "is no number"));
    }
}

static void numbers_begin_at_one(void **state)
{
    uint64_t n;
    assert_int_equal(worker_parse_number("id", "42", &n).code, ERR_OK);
    assert_int_equal(n, 42);
    for (const char **wrong = (const char *[]){"", "0", "-1", " 1", "1 ", "x", NULL}; *wrong;
         wrong++)
        assert_int_equal(worker_parse_number("id", *wrong, &n).code, ERR_USAGE);
}

static void a_worker_as_json_and_as_a_line(void **state)
{
    const struct baton_label labels[] = {{"disk", "nvme"}, {"zone", "b"}};
    const struct baton_resource cores[] = {{"cores", 16}};
    struct baton_worker_info w = {.id = 7,
                                  .incarnation = 12,
                                  .type = "compute",
                                  .addr = "h1:7",
                                  .state = BATON_WORKER_RUNNING,
                                  .cordoned = true,
                                  .ttl_ms = 15000,
                                  .silent_ms = 2345,
                                  .mod_revision = 9,
                                  .labels = labels,
                                  .label_count = 2,
                                  .resources = cores,
                                  .resource_count = 1};
    struct cli json = {.output = "json"}, table = {.output = "table"};
    struct json_object *o = worker_entry(&json, &w);
    assert_string_equal(
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
        "{\"id\":7,\"incarnation\":12,\"type\":\"compute\",\"addr\":\"h1:7\",\"state\":\"running\","
        "\"cordoned\":true,\"draining\":false,\"slot\":null,\"slot_grant\":null,\"ttl_ms\":15000,"
        "\"silent_ms\":2345,\"labels\":{\"disk\":\"nvme\",\"zone\":\"b\"},\"resources\":{"
        "\"cores\":16},\"create_revision\":0,\"mod_revision\":9}");
    json_object_put(o);
    o = worker_entry(&table, &w);
    struct json_object *cell;
    json_object_object_get_ex(o, "state", &cell);
    assert_string_equal(json_object_get_string(cell), "running, cordoned");
    json_object_object_get_ex(o, "labels", &cell);
    assert_string_equal(json_object_get_string(cell), "disk=nvme,zone=b");
    json_object_object_get_ex(o, "silent", &cell);
    assert_string_equal(json_object_get_string(cell), "2.3 s");
    json_object_put(o);
}

static void states_have_words(void **state)
{
    assert_int_equal(worker_state_of("expiring"), BATON_WORKER_EXPIRING);
    assert_int_equal(worker_state_of("all"), BATON_WORKER_UNKNOWN);
    assert_string_equal(worker_state_word(BATON_WORKER_STARTING), "starting");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(labels_are_pairs, forget),
        cmocka_unit_test_teardown(resources_are_amounts, forget),
        cmocka_unit_test(numbers_begin_at_one),
        cmocka_unit_test(a_worker_as_json_and_as_a_line),
        cmocka_unit_test(states_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
