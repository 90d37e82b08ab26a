#include "proxy/core/replay.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void append(struct replay *r, const char *s, bool in_flight)
{
    replay_append(r, bytes_str(s), in_flight);
}

static void assert_unsent(const struct replay *r, const char *s)
{
    assert_true(bytes_equal(replay_unsent(r), bytes_str(s)));
}

static void sends_again_from_the_start(void **state)
{
    struct budget b = {.limit = 100};
    struct replay r = {0};
    replay_init(&r, 10, &b);
    append(&r, "abc", false);
    assert_int_equal(replay_room(&r), 7);
    replay_sent(&r, 2);
    assert_unsent(&r, "c");
    append(&r, "de", true);
    replay_sent(&r, 3);
    assert_unsent(&r, "");
    replay_rewind(&r);
    assert_unsent(&r, "abcde");
    assert_int_equal(b.used, 5);
    replay_close(&r, 0);
    assert_int_equal(b.used, 0);
    assert_null(r.data.data);
}

static void outgrown_it_keeps_only_what_is_unsent(void **state)
{
    struct budget b = {.limit = 100};
    struct replay r = {0};
    replay_init(&r, 4, &b);
    append(&r, "abc", true);
    replay_sent(&r, 3);
    append(&r, "def", true);
    assert_false(r.whole);
    assert_unsent(&r, "def");
    assert_int_equal(b.used, 3);
    replay_sent(&r, 1);
    assert_unsent(&r, "ef");
    replay_sent(&r, 2);
    assert_int_equal(b.used, 0);
    replay_close(&r, 100);
    assert_non_null(r.data.data); /* kept for the next use */
    replay_close(&r, 0);
    assert_null(r.data.data);
}

static void a_waiting_one_keeps_everything(void **state)
{
    struct budget b = {.limit = 100};
    struct replay r = {0};
    replay_init(&r, 4, &b);
    append(&r, "abcdef", false);
    assert_true(r.whole);
    assert_int_equal(replay_room(&r), 0);
    replay_close(&r, 0);
}

static void all_share_one_budget(void **state)
{
    struct budget b = {.limit = 8};
    struct replay one = {0}, two = {0};
    replay_init(&one, 100, &b);
    replay_init(&two, 100, &b);
    append(&one, "12345", true);
    assert_int_equal(replay_room(&two), 3);
    append(&two, "1234", true);
    assert_false(two.whole);
    assert_true(one.whole);
    replay_close(&one, 0);
    replay_close(&two, 0);
    assert_int_equal(b.used, 0);
}

static void a_long_upload_moves_in_bounded_memory(void **state)
{
    static uint8_t chunk[16384];
    struct budget b = {.limit = 1 << 20};
    struct replay r = {0};
    replay_init(&r, 0, &b);
    for (int i = 0; i < 1000; i++) {
        replay_append(&r, bytes_of(chunk, sizeof chunk), true);
        replay_sent(&r, i % 2 ? sizeof chunk + 100 : sizeof chunk - 100);
    }
    assert_false(r.whole);
    assert_true(r.data.cap <= 256 << 10);
    replay_close(&r, 4096);
    assert_null(r.data.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_again_from_the_start),
        cmocka_unit_test(outgrown_it_keeps_only_what_is_unsent),
        cmocka_unit_test(a_waiting_one_keeps_everything),
        cmocka_unit_test(all_share_one_budget),
        cmocka_unit_test(a_long_upload_moves_in_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
