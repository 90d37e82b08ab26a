/* What a store is after a stop of the process or the machine, after damage, and at its limits. */
#include "tests/lib/store_fixture.h"
#include "meta/store_boot.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- stops ---- */

/* What a process leaves behind that was killed: a child dies without closing. */
static void commit_and_die(struct fixture *f, const char *boot_id, int64_t revision)
{
    store_close(f->store);
    f->store = NULL;
    pid_t child = fork();
    if (child == 0) {
        struct err e = open_as(f, boot_id, MAP_BYTES);
        struct etcd_op op = put(STATE_PREFIX "kv/a", "1");
        if (!err_is(&e))
            e = store_apply_ops(f->store, revision, &op, 1, bytes_str("r"));
        _exit(err_is(&e) ? 1 : 0);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void a_killed_process_loses_nothing(void **state)
{
    struct fixture *f = *state;
    commit_and_die(f, "boot-1", 7);
    open_ok(f, "boot-1");
    assert_int_equal(revision_of(f), 7);
}

static void a_stopped_machine_loses_the_cache(void **state)
{
    struct fixture *f = *state;
    commit_and_die(f, "boot-1", 7);
    open_ok(f, "boot-2");
    assert_int_equal(revision_of(f), 0);
}

static void a_clean_close_outlives_the_machine(void **state)
{
    struct fixture *f = *state;
    put_key(f, 7, "a", "1");
    store_close(f->store);
    open_ok(f, "boot-2");
    assert_int_equal(revision_of(f), 7);
}

static void without_a_boot_id_only_a_clean_close_counts(void **state)
{
    struct fixture *f = *state;
    commit_and_die(f, "", 7);
    open_ok(f, "");
    assert_int_equal(revision_of(f), 0);
    put_key(f, 8, "a", "1");
    store_close(f->store);
    open_ok(f, "");
    assert_int_equal(revision_of(f), 8);
}

static void a_distrusted_cache_is_thrown_away(void **state)
{
    struct fixture *f = *state;
    put_key(f, 7, "a", "1");
    store_close(f->store);
    store_boot_distrust(f->dir);
    open_ok(f, "boot-1");
    assert_int_equal(revision_of(f), 0);
}

/* ---- damage and limits ---- */

static char *data_file(const struct fixture *f)
{
    return mem_printf("%s/cache/data.mdb", f->dir);
}

static void overwrite(const char *path, off_t at, const char *text)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
    close(fd);
}

static void refuses_to_open(struct fixture *f, const char *hint)
{
    f->store = NULL;
    struct err e = open_as(f, "boot-1", MAP_BYTES);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_null(f->store);
    assert_non_null(strstr(e.message, f->dir));
    assert_non_null(strstr(e.message, hint));
}

static void a_file_that_is_no_state_is_refused(void **state)
{
    struct fixture *f = *state;
    char *path = data_file(f);
    store_close(f->store);
    int fd = open(path, O_WRONLY | O_TRUNC);
    char page[8192] = "certainly no state";
    assert_int_equal(write(fd, page, sizeof page), sizeof page);
    close(fd);
    refuses_to_open(f, "remove it");
    free(path);
}

static void a_file_cut_short_is_refused(void **state)
{
    struct fixture *f = *state;
    char *path = data_file(f);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        put_key(f, i + 1, key, "some value");
    }
    store_close(f->store);
    assert_int_equal(truncate(path, 3 * 4096), 0);
    refuses_to_open(f, "cut short");
    free(path);
}

/* The format word is found in the file and changed. */
static void another_format_is_refused(void **state)
{
    struct fixture *f = *state;
    char *path = data_file(f);
    store_close(f->store);
    FILE *file = fopen(path, "r");
    static char all[1 << 20];
    size_t len = fread(all, 1, sizeof all, file);
    fclose(file);
    int found = 0;
    for (size_t i = 0; i + 7 < len; i++)
        if (memcmp(all + i, "format1", 7) == 0) {
            overwrite(path, (off_t)i + 6, "7");
            found++;
        }
    assert_true(found > 0);
    refuses_to_open(f, "format 7");
    free(path);
}

static void a_full_map_is_a_clear_error(void **state)
{
    struct fixture *f = *state;
    store_close(f->store);
    assert_ok(open_as(f, "boot-1", 1 << 20));
    char *value = mem_alloc(100001);
    memset(value, 'x', 100000);
    struct err e = OK_ERR;
    int64_t revision = 1;
    for (; revision < 30 && !err_is(&e); revision++) {
        char key[64];
        snprintf(key, sizeof key, STATE_PREFIX "kv/%lld", (long long)revision);
        struct etcd_op op = put(key, value);
        e = store_apply_ops(f->store, revision, &op, 1, bytes_str("r"));
    }
    assert_int_equal(e.code, ERR_NO_SPACE);
    assert_non_null(strstr(e.message, "--map-bytes"));
    assert_int_equal(revision_of(f), revision - 2); /* as before the commit that failed */
    store_close(f->store);
    open_ok(f, "boot-1");
    put_key(f, revision, "a", value);
    free(value);
}

static void the_default_map_opens(void **state)
{
    struct fixture *f = *state;
    struct store_size size;
    store_close(f->store);
    assert_ok(open_as(f, "boot-1", 0));
    put_key(f, 1, "a", "1");
    store_size(f->store, &size);
    assert_true(size.map_bytes == 64ull << 30);
    assert_int_equal(size.keys, 1);
    struct stat st;
    char *path = data_file(f);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 1 << 20); /* no file as long as the map */
    free(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_killed_process_loses_nothing),     TEST(a_stopped_machine_loses_the_cache),
        TEST(a_clean_close_outlives_the_machine), TEST(without_a_boot_id_only_a_clean_close_counts),
        TEST(a_distrusted_cache_is_thrown_away),  TEST(a_file_that_is_no_state_is_refused),
        TEST(a_file_cut_short_is_refused),        TEST(another_format_is_refused),
        TEST(a_full_map_is_a_clear_error),        TEST(the_default_map_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
