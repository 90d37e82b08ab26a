/* What top shows of given data. */
#include "client/cli/top_frame.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct baton_member members[] = {
    {.id = "m1",
     .addr = "h1:5690",
     .http_addr = "h1:5691",
     .version = "0.1.0",
     .role = BATON_LEADER,
     .epoch = 7,
     .started_unix_ms = 1000000,
     .applied_revision = 120},
    {.id = "m2",
     .addr = "h22:5690",
     .http_addr = "",
     .version = "0.1.0",
     .role = BATON_FOLLOWER,
     .epoch = 7,
     .started_unix_ms = 1000000 - 7200000,
     .applied_revision = 118,
     .lag = 2},
};
static struct baton_members both = {.cluster_id = "c", .members = members, .count = 2};
static const struct baton_worker_type types[] = {
    {.type = "compute", .running = 200, .unschedulable = 3, .slots = 10},
};
static struct baton_cluster_info info = {.cluster_id = "c",
                                         .leader_id = "m1",
                                         .leader_addr = "h1:5690",
                                         .revision = 120,
                                         .epoch = 7,
                                         .keys = 40,
                                         .workers = 200,
                                         .types = types,
                                         .type_count = 1,
                                         .commits = 1000,
                                         .writes = 5000,
                                         .reads = 20000,
                                         .heartbeats = 300,
                                         .streams = 9};
static const struct top_sample nothing;
static struct buf frame, shown;

static int forget(void **state)
{
    buf_close(&frame);
    buf_close(&shown);
    return 0;
}

static const char *text_of(const struct top_view *v)
{
    top_frame(v, &frame);
    top_text(buf_view(&frame), &shown);
    return (const char *)shown.data;
}

static void a_cluster_that_is_led(void **state)
{
    struct top_sample now = {.unix_ms = 1065000, .info = &info, .members = &both};
    struct top_view v = {.now = &now,
                         .last = &nothing,
                         .rates = {.known = true,
                                   .counted = true,
                                   .revisions = 12,
                                   .commits = 10,
                                   .writes = 50.25,
                                   .reads = 1000}};
    assert_string_equal(
        text_of(&v),
        "leader m1 at h1:5690   epoch 7\n"
        "cluster c   revision 120   keys 40   workers 200   streams 9\n"
        "commits 10.0/s   writes 50.2/s   reads 1000.0/s   heartbeats 0.0/s   revisions 12.0/s\n"
        "\n"
        "MEMBER  ADDRESS   ROLE      EPOCH  LAG  APPLIED  VERSION  UP\n"
        "m1      h1:5690   leader    7      0    120      0.1.0    1m\n"
        "m2      h22:5690  follower  7      2    118      0.1.0    2h\n"
        "\n"
        "WORKERS  STARTING  RUNNING  EXPIRING  UNSCHEDULABLE  SLOTS\n"
        "compute  0         200      0         3              10\n");
}

static void a_cluster_without_a_leader(void **state)
{
    struct top_sample now = {.unix_ms = 1065000, .why = {.message = "nobody knows"}};
    struct top_sample before = {.info = &info};
    struct top_view v = {.now = &now, .last = &nothing, .unled_ms = 3400};
    assert_string_equal(text_of(&v),
                        "no leader for 3s\n"
                        "nobody knows\n"
                        "commits -   writes -   reads -   heartbeats -   revisions -\n");
    v.last = &before;
    assert_non_null(strstr(text_of(&v), "no leader for 3s; the last was m1 in epoch 7\n"
                                        "nobody knows\n"
                                        "cluster c   revision 120"));
    assert_non_null(strstr((const char *)shown.data, "compute  0         200"));
}

static void a_screen_is_cut_to_its_size(void **state)
{
    struct top_sample now = {.unix_ms = 1065000, .info = &info};
    struct top_view v = {.now = &now, .last = &nothing};
    top_frame(&v, &frame);
    top_screen(buf_view(&frame), 9, 2, false, &shown);
    assert_string_equal((const char *)shown.data, "\033[Hleader m1\033[K\ncluster c\033[K\033[J");
    top_screen(buf_view(&frame), 9, 1, true, &shown);
    assert_string_equal((const char *)shown.data, "\033[H\033[1mleader m1\033[0m\033[K\033[J");
    top_screen(buf_view(&frame), 500, 100, true, &shown);
    assert_non_null(strstr((const char *)shown.data, "\n\033[7mWORKERS"));
    assert_non_null(strstr((const char *)shown.data, "  10\033[K\033[J"));
}

/* Characters of more than one byte count once and are never cut apart. */
static void a_character_is_cut_whole(void **state)
{
    struct bytes line = bytes_str(" \xc3\xa4\xe2\x82\xac"
                                  "x\n");
    top_screen(line, 2, 5, false, &shown);
    assert_string_equal((const char *)shown.data, "\033[H\xc3\xa4\xe2\x82\xac\033[K\033[J");
}

static void rates_are_of_one_leadership(void **state)
{
    struct baton_cluster_info then = info, later = info;
    struct top_sample before = {.at_ms = 10000, .info = &then};
    struct top_sample now = {.at_ms = 12000, .info = &later};
    later.commits += 30;
    later.revision += 31;
    struct top_rates r = top_rates_of(&before, &now);
    assert_true(r.known && r.counted);
    assert_true(r.commits == 15 && r.revisions == 15.5 && r.reads == 0);
    later.epoch++;
    assert_false(top_rates_of(&before, &now).known);
    later = info;
    later.reads = 0;
    assert_true(top_rates_of(&before, &now).known);
    assert_false(top_rates_of(&before, &now).counted);
    later = info;
    now.at_ms = before.at_ms;
    assert_false(top_rates_of(&before, &now).known);
    now.info = NULL;
    assert_false(top_rates_of(&before, &now).known);
}

/* Their list is all there is. */
static void members_of_an_older_version(void **state)
{
    struct top_sample now = {
        .unix_ms = 1065000, .members = &both, .why = {.status = BATON_UNIMPLEMENTED}};
    struct top_sample before = now;
    struct top_view v = {.now = &now, .last = &nothing};
    before.at_ms = -1000;
    v.rates = top_rates_of(&before, &now);
    assert_true(v.rates.known && !v.rates.counted);
    assert_string_equal(text_of(&v),
                        "leader m1 at h1:5690   epoch 7\n"
                        "commits -   writes -   reads -   heartbeats -   revisions 0.0/s\n"
                        "\n"
                        "MEMBER  ADDRESS   ROLE      EPOCH  LAG  APPLIED  VERSION  UP\n"
                        "m1      h1:5690   leader    7      0    120      0.1.0    1m\n"
                        "m2      h22:5690  follower  7      2    118      0.1.0    2h\n");
    now.why.status = BATON_UNAVAILABLE;
    assert_null(top_leader_of(&now).id);
}

static void json_says_what_is_known(void **state)
{
    struct top_sample now = {.unix_ms = 5, .why = {.message = "nobody knows"}};
    struct top_view v = {.now = &now, .last = &nothing};
    struct json_object *o = top_json(&v);
    assert_string_equal(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
                        "{\"unix_ms\":5,\"leader\":null,\"error\":\"nobody knows\",\"members\":[],"
                        "\"info\":null,\"per_second\":null}");
    json_object_put(o);
    now.info = &info;
    v.rates = (struct top_rates){.known = true, .counted = true, .commits = 0.1};
    o = top_json(&v);
    const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
    assert_non_null(strstr(text, "\"leader\":{\"id\":\"m1\",\"addr\":\"h1:5690\",\"epoch\":7,"
                                 "\"revision\":120},\"error\":\"\""));
    assert_non_null(strstr(text, "\"per_second\":{\"commits\":0.1,\"writes\":0.0,"));
    json_object_put(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_cluster_that_is_led, forget),
        cmocka_unit_test_teardown(a_cluster_without_a_leader, forget),
        cmocka_unit_test_teardown(members_of_an_older_version, forget),
        cmocka_unit_test_teardown(a_screen_is_cut_to_its_size, forget),
        cmocka_unit_test_teardown(a_character_is_cut_whole, forget),
        cmocka_unit_test(rates_are_of_one_leadership),
        cmocka_unit_test(json_says_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
