#include "meta/identity.h"
#include "tests/lib/temp_dir.h"
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static struct identity open_ok(const char *dir)
{
    struct identity id;
    struct err e = identity_open(&id, dir, "etcd", "main");
    if (err_is(&e))
        print_error("%s\n", e.message);
    assert_false(err_is(&e));
    return id;
}

static void assert_refused(const char *dir, const char *mode, const char *cluster,
                           enum err_code code, const char *hint)
{
    struct identity id;
    struct err e = identity_open(&id, dir, mode, cluster);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.message, dir));
    assert_non_null(strstr(e.message, hint));
    assert_int_equal(id.lock_fd, -1);
}

static void a_directory_keeps_its_instance(void **state)
{
    char *dir = mem_printf("%s/data", (char *)*state);
    struct identity first = open_ok(dir);
    assert_string_equal(first.starts, first.start_id);
    assert_int_equal(strlen(first.instance), 32);
    assert_int_equal(strlen(first.start_id), 32);
    identity_close(&first);
    struct identity second = open_ok(dir);
    assert_string_equal(second.instance, first.instance);
    assert_non_null(strstr(second.starts, first.start_id));
    assert_string_not_equal(second.start_id, first.start_id);
    identity_close(&second);
    free(dir);
}

static void one_process_at_a_time(void **state)
{
    struct identity id = open_ok(*state);
    assert_refused(*state, "etcd", "main", ERR_IN_USE, "another process");
    identity_close(&id);
    id = open_ok(*state);
    identity_close(&id);
}

static void the_lock_ends_with_its_process(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        struct identity id;
        struct err e = identity_open(&id, *state, "etcd", "main");
        _exit(err_is(&e) ? 1 : 0);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct identity id = open_ok(*state);
    assert_int_equal(strlen(id.starts), 2 * 32 + 1);
    identity_close(&id);
}

static void former_starts_are_remembered(void **state)
{
    char first[40], last[40];
    struct identity id = open_ok(*state);
    memcpy(first, id.start_id, sizeof first);
    identity_close(&id);
    for (int i = 0; i < 7; i++) {
        id = open_ok(*state);
        assert_non_null(strstr(id.starts, first));
        assert_string_equal(id.copied, "");
        memcpy(last, id.start_id, sizeof last);
        identity_close(&id);
    }
    id = open_ok(*state);
    assert_null(strstr(id.starts, first)); /* the last eight are enough */
    assert_non_null(strstr(id.starts, last));
    assert_int_equal(strlen(id.starts), STARTS_BYTES - 1);
    identity_close(&id);
}

/* Whoever used the directory that it was copied from may live. */
static void a_copy_knows_of_no_start(void **state)
{
    char instance[40], *copy = temp_dir_new();
    struct identity id = open_ok(*state);
    memcpy(instance, id.instance, sizeof instance);
    temp_dir_copy(*state, copy);
    struct identity other = open_ok(copy);
    assert_string_equal(other.copied, "yes");
    assert_string_not_equal(other.instance, instance);
    assert_null(strstr(other.starts, id.start_id));
    assert_string_equal(other.cluster, id.cluster);
    identity_close(&other);
    other = open_ok(copy);
    assert_string_equal(other.copied, "yes"); /* until it is settled */
    struct err e = identity_settle(&other);
    assert_false(err_is(&e));
    identity_close(&other);
    other = open_ok(copy);
    assert_string_equal(other.copied, "");
    identity_close(&other);
    identity_close(&id);
    temp_dir_free(copy);
}

static void another_mode_or_cluster_is_refused(void **state)
{
    struct identity id = open_ok(*state);
    identity_close(&id);
    assert_refused(*state, "embedded", "main", ERR_USAGE, "etcd mode");
    assert_refused(*state, "etcd", "other", ERR_USAGE, "'main'");
    id = open_ok(*state); /* the refusals changed nothing */
    identity_close(&id);
}

static void ids_are_learnt_once(void **state)
{
    struct identity id = open_ok(*state);
    struct err e = identity_confirm(&id, NULL); /* the cluster begins */
    assert_false(err_is(&e));
    e = identity_confirm(&id, "c1");
    assert_false(err_is(&e));
    e = identity_note_etcd(&id, 123);
    assert_false(err_is(&e));
    identity_close(&id);
    id = open_ok(*state);
    assert_string_equal(id.cluster_id, "c1");
    assert_string_equal(id.etcd_cluster_id, "123");
    e = identity_confirm(&id, "c1");
    assert_false(err_is(&e));
    e = identity_confirm(&id, "c2");
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.message, "c2"));
    e = identity_confirm(&id, NULL); /* etcd was wiped */
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.message, "holds nothing"));
    assert_string_equal(id.cluster_id, "c1");
    e = identity_note_etcd(&id, 124); /* after a recovery */
    assert_false(err_is(&e));
    identity_close(&id);
    id = open_ok(*state);
    assert_string_equal(id.etcd_cluster_id, "124");
    identity_close(&id);
}

static void write_identity(const char *dir, const char *text)
{
    char *path = mem_printf("%s/identity", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    free(path);
}

static void a_senseless_file_is_refused(void **state)
{
    write_identity(*state, "no identity\n");
    assert_refused(*state, "etcd", "main", ERR_CORRUPT, "identity");
    write_identity(*state, "format=9\nmode=etcd\ncluster=main\ninstance=1\n");
    assert_refused(*state, "etcd", "main", ERR_CORRUPT, "no sense to this version");
    write_identity(*state, "format=1\nmode=etcd\n");
    assert_refused(*state, "etcd", "main", ERR_CORRUPT, "cut short");
    write_identity(*state, "format=1\nmode=etcd\ncluster=main\ninstance=1\nlater=x\n");
    struct identity id = open_ok(*state); /* of a later version */
    identity_close(&id);
}

/* Root may write everywhere, so the directory is one that cannot be made. */
static void a_directory_that_cannot_be_is_named(void **state)
{
    char *file = mem_printf("%s/file", (char *)*state);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    char *below = mem_printf("%s/data", file);
    assert_refused(below, "etcd", "main", ERR_IO, "cannot make it");
    free(below);
    free(file);
}

static void a_read_only_directory_is_denied(void **state)
{
    assert_int_equal(chmod(*state, 0500), 0);
    if (geteuid() != 0)
        assert_refused(*state, "etcd", "main", ERR_DENIED, "choose another");
    assert_int_equal(chmod(*state, 0700), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_directory_keeps_its_instance),
        TEST(one_process_at_a_time),
        TEST(the_lock_ends_with_its_process),
        TEST(former_starts_are_remembered),
        TEST(a_copy_knows_of_no_start),
        TEST(another_mode_or_cluster_is_refused),
        TEST(ids_are_learnt_once),
        TEST(a_senseless_file_is_refused),
        TEST(a_directory_that_cannot_be_is_named),
        TEST(a_read_only_directory_is_denied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
