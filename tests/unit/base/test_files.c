#include "common/base/files.h"
#include "tests/lib/temp_dir.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

static char *content_of(const char *dir, const char *name)
{
    char *path = mem_printf("%s/%s", dir, name), *text = mem_alloc(64);
    FILE *f = fopen(path, "r");
    if (f) {
        text[fread(text, 1, 63, f)] = 0;
        fclose(f);
    }
    free(path);
    return text;
}

static void a_file_is_replaced_as_a_whole(void **state)
{
    char *dir = temp_dir_new(), *path = mem_printf("%s/f", dir);
    struct stat st;
    assert_true(file_replace(dir, "f", bytes_str("a longer first content"), 0600));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(file_replace(dir, "f", bytes_str("second"), 0600));
    char *text = content_of(dir, "f"), *fresh = content_of(dir, "f.new");
    assert_string_equal(text, "second");
    assert_string_equal(fresh, ""); /* nothing is left beside it */
    free(text), free(fresh), free(path);
    temp_dir_free(dir);
}

static void what_cannot_be_written_leaves_the_old_one(void **state)
{
    char *dir = temp_dir_new(), *in_the_way = mem_printf("%s/f.new", dir);
    assert_true(file_replace(dir, "f", bytes_str("first"), 0600));
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    assert_false(file_replace(dir, "f", bytes_str("second"), 0600));
    assert_int_equal(errno, EISDIR);
    char *text = content_of(dir, "f");
    assert_string_equal(text, "first");
    free(text), free(in_the_way);
    temp_dir_free(dir);
}

static void a_folder_that_is_not_there_says_so(void **state)
{
    char *dir = temp_dir_new(), *nowhere = mem_printf("%s/nowhere", dir);
    assert_true(file_sync_folder(dir));
    assert_false(file_sync_folder(nowhere));
    assert_int_equal(errno, ENOENT);
    assert_false(file_replace(nowhere, "f", bytes_str("x"), 0600));
    assert_int_equal(errno, ENOENT);
    free(nowhere);
    temp_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_as_a_whole),
        cmocka_unit_test(what_cannot_be_written_leaves_the_old_one),
        cmocka_unit_test(a_folder_that_is_not_there_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
