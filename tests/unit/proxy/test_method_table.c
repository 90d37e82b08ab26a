#include "proto/baton_desc.h"
#include "proxy/core/method_table.h"
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static enum method_class find(const struct method_table *t, const char *path)
{
    return method_table_find(t, bytes_str(path)).class;
}

static bool is_unary(const struct method_table *t, const char *path)
{
    return method_table_find(t, bytes_str(path)).unary;
}

static void our_own_services(void **state)
{
    struct method_table t = {0};
    struct err e = method_table_load(&t, bytes_of(baton_desc, baton_desc_len), "baton.v1");
    assert_false(err_is(&e));
    assert_int_equal(find(&t, "/baton.v1.KvService/Get"), METHOD_READ);
    assert_int_equal(find(&t, "/baton.v1.KvService/Range"), METHOD_READ);
    assert_int_equal(find(&t, "/baton.v1.KvService/Put"), METHOD_MUTATION);
    assert_int_equal(find(&t, "/baton.v1.KvService/Txn"), METHOD_MUTATION);
    assert_int_equal(find(&t, "/baton.v1.ClusterMemberService/Report"), METHOD_READ);
    assert_int_equal(find(&t, "/baton.v1.ClusterMemberService/WatchLeader"), METHOD_READ);
    assert_int_equal(find(&t, "/baton.v1.KvService/NoSuchMethod"), METHOD_OTHER);
    assert_int_equal(find(&t, ""), METHOD_OTHER);
    assert_true(is_unary(&t, "/baton.v1.KvService/Get"));
    assert_true(is_unary(&t, "/baton.v1.KvService/Put"));
    assert_false(is_unary(&t, "/baton.v1.ClusterMemberService/WatchLeader"));
    assert_false(is_unary(&t, "/baton.v1.KvService/NoSuchMethod"));
    method_table_close(&t);
}

/* file { package: "p" service { name: "S" method { name: "R" options { idempotency_level: 1 } }
 * method { name: "W" } method { name: "U" client_streaming: true } } } */
static const uint8_t own[] = "\x0a\x25\x12\x01p\x32\x20\x0a\x01S"
                             "\x12\x08\x0a\x01R\x22\x03\x90\x02\x01"
                             "\x12\x03\x0a\x01W"
                             "\x12\x05\x0a\x01U\x28\x01"
                             "\x12\x05\x0a\x01V\x30\x00";

static struct bytes own_set(void)
{
    return bytes_of(own, sizeof own - 1);
}

static void services_that_keep_ids_are_named(void **state)
{
    static const struct {
        const char *keeps;
        enum method_class w;
    } rows[] = {{"", METHOD_OTHER},
                {"p", METHOD_MUTATION},
                {"q,p.S", METHOD_MUTATION},
                {"p.T,P", METHOD_OTHER}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct method_table t = {0};
        struct err e = method_table_load(&t, own_set(), rows[i].keeps);
        assert_false(err_is(&e));
        assert_int_equal(find(&t, "/p.S/R"), METHOD_READ);
        assert_int_equal(find(&t, "/p.S/W"), rows[i].w);
        assert_int_equal(find(&t, "/p.S/U"), METHOD_OTHER);
        assert_int_equal(find(&t, "/p.S/V"), rows[i].w);
        assert_true(is_unary(&t, "/p.S/W"));
        assert_false(is_unary(&t, "/p.S/U"));
        method_table_close(&t);
    }
}

/* Cut anywhere: an error or fewer methods, nothing worse. */
static void broken_sets(void **state)
{
    for (size_t len = 1; len < own_set().len; len++) {
        struct method_table t = {0};
        uint8_t *copy = malloc(len);
        memcpy(copy, own, len);
        struct err e = method_table_load(&t, bytes_of(copy, len), "p");
        assert_true(err_is(&e));
        method_table_close(&t);
        free(copy);
    }
}

static void grows(void **state)
{
    struct method_table t = {0};
    char path[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(path, sizeof path, "/svc%d/M", i);
        struct method method = {.class = i % 2 ? METHOD_READ : METHOD_MUTATION};
        method_table_add(&t, bytes_str(path), method);
    }
    method_table_add(&t, bytes_str("/svc7/M"), (struct method){METHOD_OTHER});
    assert_int_equal(t.count, 1000);
    for (int i = 8; i < 1000; i++) {
        snprintf(path, sizeof path, "/svc%d/M", i);
        assert_int_equal(find(&t, path), i % 2 ? METHOD_READ : METHOD_MUTATION);
    }
    assert_int_equal(find(&t, "/svc7/M"), METHOD_OTHER);
    method_table_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_services),
        cmocka_unit_test(services_that_keep_ids_are_named),
        cmocka_unit_test(broken_sets),
        cmocka_unit_test(grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
