/* What a member has seen, on its disk: a file that is torn or senseless is never taken for another
 * one. */
#include "meta/marks.h"
#include "tests/lib/temp_dir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int set_up(void **state)
{
    *state = temp_dir_new();
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_free(*state);
    return 0;
}

static void write_seen(const char *dir, const char *text, size_t len)
{
    char *path = mem_printf("%s/seen", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    free(path);
}

/* Into text[cap]; its length. */
static size_t read_seen(const char *dir, char *text, size_t cap)
{
    char *path = mem_printf("%s/seen", dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t len = fread(text, 1, cap, f);
    fclose(f);
    free(path);
    return len;
}

/* How it ends to open what is there; the epoch that was seen, when that went well. */
static struct err reopen(const char *dir, uint64_t *epoch)
{
    struct marks *m;
    struct restore_mark mark;
    struct err e = marks_open(&m, dir, "", "");
    if (err_is(&e))
        return e;
    marks_get(m, &mark);
    *epoch = mark.epoch;
    marks_close(m);
    return e;
}

/* Leaves the file of a member that has seen epoch 7. */
static void see_something(const char *dir)
{
    struct marks *m;
    struct record record = {.epoch = 7,
                            .seq = 3,
                            .leader = "m1",
                            .nonce = "00000000000000000000000000000001",
                            .batch = "00000000000000000000000000000002",
                            .ttl_ms = 5000};
    struct err e = marks_open(&m, dir, "00000000000000000000000000000003", "17");
    assert_string_equal(e.message, "");
    marks_see(m, &record, 40);
    marks_close(m);
}

static void it_survives_a_restart(void **state)
{
    uint64_t epoch = 99;
    struct err e = reopen(*state, &epoch); /* there is no file yet */
    assert_string_equal(e.message, "");
    assert_int_equal(epoch, 0);
    see_something(*state);
    e = reopen(*state, &epoch);
    assert_string_equal(e.message, "");
    assert_int_equal(epoch, 7);
}

static void a_torn_file_is_refused_wherever_it_was_cut(void **state)
{
    char whole[2048];
    uint64_t epoch = 0;
    see_something(*state);
    size_t len = read_seen(*state, whole, sizeof whole);
    assert_true(len > 50 && len < sizeof whole);
    for (size_t kept = 0; kept < len; kept++) {
        write_seen(*state, whole, kept);
        struct err e = reopen(*state, &epoch);
        assert_int_equal(e.code, ERR_CORRUPT);
        assert_non_null(strstr(e.message, "/seen is cut short; remove it only if"));
    }
    write_seen(*state, whole, len);
    struct err e = reopen(*state, &epoch);
    assert_string_equal(e.message, "");
    assert_int_equal(epoch, 7);
}

static void a_senseless_file_is_refused(void **state)
{
    char whole[2048], zeros[2048] = "", endless[4096];
    uint64_t epoch = 0;
    see_something(*state);
    size_t len = read_seen(*state, whole, sizeof whole);
    write_seen(*state, zeros, len); /* as some file systems leave what was not synced */
    assert_int_equal(reopen(*state, &epoch).code, ERR_CORRUPT);
    zeros[len - 1] = '\n';
    write_seen(*state, zeros, len);
    assert_int_equal(reopen(*state, &epoch).code, ERR_CORRUPT);
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\n';
    write_seen(*state, endless, sizeof endless);
    assert_int_equal(reopen(*state, &epoch).code, ERR_CORRUPT);
    write_seen(*state, "epoch=seven\n", 12);
    struct err e = reopen(*state, &epoch);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_non_null(strstr(e.message, "remove it only if etcd was not restored since"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_survives_a_restart),
        TEST(a_torn_file_is_refused_wherever_it_was_cut),
        TEST(a_senseless_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
