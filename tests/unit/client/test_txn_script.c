#include "client/core/api_bytes.h"
#include "client/core/txn_script.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static struct txn_script txn;
static struct arena memory;

static int setup(void **state)
{
    txn = (struct txn_script){0};
    return 0;
}

static int teardown(void **state)
{
    arena_close(&memory);
    return 0;
}

static void add(const char *clause)
{
    struct err e = txn_script_add(&txn, &memory, clause);
    assert_string_equal(e.message, "");
}

static void assert_bytes(struct baton_bytes b, const char *text)
{
    assert_true(bytes_equal(api_bytes(b), bytes_str(text)));
}

static void comparisons(void **state)
{
    add("if lock version = 0");
    add("  if\tlock value != me  ");
    add("if lock mod < 9223372036854775807");
    add("if lock create > 3");
    assert_int_equal(txn.compare_count, 4);
    assert_bytes(txn.compares[0].key, "lock");
    assert_int_equal(txn.compares[0].target, BATON_TARGET_VERSION);
    assert_int_equal(txn.compares[0].relation, BATON_EQUAL);
    assert_bytes(txn.compares[1].value, "me");
    assert_int_equal(txn.compares[1].relation, BATON_NOT_EQUAL);
    assert_int_equal(txn.compares[2].target, BATON_TARGET_MOD_REVISION);
    assert_true(txn.compares[2].number == INT64_MAX);
    assert_int_equal(txn.compares[3].relation, BATON_GREATER);
}

static void operations_of_both_branches(void **state)
{
    add("put lock me");
    add("then get lock");
    add("else del lock");
    add("else del-prefix locks/");
    add("");
    add("# a remark");
    assert_int_equal(txn.then_count, 2);
    assert_int_equal(txn.else_count, 2);
    assert_bytes(txn.then_ops[0].value, "me");
    assert_int_equal(txn.then_ops[1].kind, BATON_OP_GET);
    assert_int_equal(txn.else_ops[0].kind, BATON_OP_DELETE);
    assert_int_equal(txn.else_ops[1].kind, BATON_OP_DELETE_PREFIX);
}

static void quoted_words(void **state)
{
    add("put \"a key\" \"say \\\"hi\\\" \\\\ \\n\\x00\\xfF\"");
    add("put empty \"\"");
    assert_bytes(txn.then_ops[0].key, "a key");
    assert_true(
        bytes_equal(api_bytes(txn.then_ops[0].value), bytes_of("say \"hi\" \\ \n\0\xff", 14)));
    assert_int_equal(txn.then_ops[1].value.len, 0);
}

static void nonsense_is_refused(void **state)
{
    const char *bad[] = {
        "if lock",
        "if lock colour = 1",
        "if lock version is 1",
        "if lock version = one",
        "if lock version = -1",
        "if lock version = 99999999999999999999",
        "if lock version = 1 2",
        "put lock",
        "put lock a b",
        "get",
        "then",
        "else",
        "frobnicate x",
        "put \"open",
        "put \"a\"b c",
        "put \"\\q\" c",
        "put \"\\x1\" c",
        "one two three four five six seven",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = txn_script_add(&txn, &memory, bad[i]);
        if (e.code != ERR_USAGE)
            fail_msg("'%s' was taken", bad[i]);
    }
    assert_int_equal(txn.compare_count + txn.then_count + txn.else_count, 0);
}

static void there_is_a_bound(void **state)
{
    for (int i = 0; i < TXN_CLAUSES_MAX; i++)
        add("get k");
    struct err e = txn_script_add(&txn, &memory, "get k");
    assert_int_equal(e.code, ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comparisons, setup, teardown),
        cmocka_unit_test_setup_teardown(operations_of_both_branches, setup, teardown),
        cmocka_unit_test_setup_teardown(quoted_words, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(there_is_a_bound, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
