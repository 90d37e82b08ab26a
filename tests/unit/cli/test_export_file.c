/* Files of `batonctl export` that cannot be read, or are none. */
#include "client/cli/export_file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static enum err_code check(FILE *file)
{
    struct export_reader reader;
    struct err e = export_check(&reader, file);
    export_reader_close(&reader);
    fclose(file);
    return e.code;
}

static void what_cannot_be_read_is_not_called_damaged(void **state)
{
    FILE *directory = fopen("/", "r");
    assert_non_null(directory);
    assert_int_equal(check(directory), ERR_IO);
}

static void what_is_no_export_is_refused(void **state)
{
    for (const char **text = (const char *[]){"{\"a\":1}\n", "x\n", "\n", NULL}; *text; text++)
        assert_int_equal(check(fmemopen((char *)*text, strlen(*text), "r")), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_read_is_not_called_damaged),
        cmocka_unit_test(what_is_no_export_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
