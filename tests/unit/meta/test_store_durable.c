/* A store that is the only copy. */
#include "tests/lib/store_fixture.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct err open_durable(struct fixture *f, const char *boot_id)
{
    return store_open(&f->store, &(struct store_config){.dir = f->dir,
                                                        .state_prefix = STATE_PREFIX,
                                                        .map_bytes = MAP_BYTES,
                                                        .boot_id = boot_id,
                                                        .durable = true});
}

static int set_up_durable(void **state)
{
    struct fixture *f = mem_alloc(sizeof *f);
    f->dir = temp_dir_new();
    struct err e = open_durable(f, "boot-1");
    *state = f;
    return err_is(&e) ? -1 : 0;
}

/* In a process of its own that dies without closing; its exit status. */
static int in_a_child(struct fixture *f, int (*run)(struct fixture *f))
{
    store_close(f->store);
    f->store = NULL;
    pid_t child = fork();
    if (child == 0) {
        struct err e = open_durable(f, "boot-1");
        _exit(err_is(&e) ? 100 : run(f));
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int put_and_die(struct fixture *f)
{
    struct etcd_op op = put(STATE_PREFIX "kv/a", "1");
    struct err e = store_apply_ops(f->store, 7, &op, 1, bytes_str("r"));
    return err_is(&e) ? 1 : 0;
}

static void a_stopped_machine_loses_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(in_a_child(f, put_and_die), 0);
    assert_ok(open_durable(f, "boot-2"));
    assert_int_equal(revision_of(f), 7);
}

static void a_cache_in_the_same_place_is_another_thing(void **state)
{
    struct fixture *f = *state;
    put_key(f, 7, "a", "1");
    store_close(f->store);
    open_ok(f, "boot-1");
    assert_int_equal(revision_of(f), 0);
    store_close(f->store);
    assert_ok(open_durable(f, "boot-1"));
    assert_int_equal(revision_of(f), 7);
}

/* Files of this process may not grow past a megabyte: how many commits were acknowledged before
 * NO_SPACE; 101 and up when something else happened. */
static int fill_the_disk(struct fixture *f)
{
    static char value[100001];
    memset(value, 'x', sizeof value - 1);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit most = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &most) != 0)
        return 101;
    for (int n = 1; n < 100; n++) {
        char key[64];
        snprintf(key, sizeof key, STATE_PREFIX "kv/%d", n);
        struct etcd_op op = put(key, value);
        struct err e = store_apply_ops(f->store, n, &op, 1, bytes_str("r"));
        if (err_is(&e))
            return e.code == ERR_NO_SPACE && revision_of(f) == n - 1 ? n - 1 : 102;
    }
    return 103;
}

static void a_full_disk_is_a_clear_error_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    int acknowledged = in_a_child(f, fill_the_disk);
    assert_in_range(acknowledged, 1, 99);
    assert_ok(open_durable(f, "boot-1"));
    assert_int_equal(revision_of(f), acknowledged);
    put_key(f, acknowledged + 1, "a", "1");
}

static void damage_names_the_remedy(void **state)
{
    struct fixture *f = *state;
    store_close(f->store);
    f->store = NULL;
    char *path = mem_printf("%s/state/data.mdb", f->dir);
    int fd = open(path, O_WRONLY | O_TRUNC);
    char page[8192] = "certainly no state";
    assert_int_equal(write(fd, page, sizeof page), sizeof page);
    close(fd);
    free(path);
    struct err e = open_durable(f, "boot-1");
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_non_null(strstr(e.message, "only copy"));
    assert_non_null(strstr(e.message, "import"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_durable, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stopped_machine_loses_nothing),
        TEST(a_cache_in_the_same_place_is_another_thing),
        TEST(a_full_disk_is_a_clear_error_and_loses_nothing),
        TEST(damage_names_the_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
