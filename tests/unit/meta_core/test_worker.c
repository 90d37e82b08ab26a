/* Records of workers there and back, what others write into them, and what users may give. */
#include "common/base/buf.h"
#include "meta/core/worker.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define LEAST "id=3 incarnation=7 type=compute addr=h:1 ttl_ms=15000"

static enum err_code decodes(const char *line)
{
    struct arena memory = {0};
    struct worker w;
    struct err e = worker_decode(bytes_str(line), &memory, &w);
    arena_close(&memory);
    return e.code;
}

static void a_record_comes_back(void **state)
{
    const struct worker_label labels[] = {{bytes_str("rack"), bytes_str("a b=%\n\xc3\xa4")},
                                          {bytes_str("zone"), BYTES_NONE}};
    const struct worker_resource resources[] = {{bytes_str("cpu"), 64},
                                                {bytes_str("ram"), UINT64_MAX}};
    const struct worker w = {.id = 3,
                             .incarnation = 7,
                             .type = bytes_str("compute"),
                             .addr = bytes_str("[::1]:80"),
                             .running = true,
                             .draining = true,
                             .has_slot = true,
                             .slot = 2,
                             .grant = 9,
                             .ttl_ms = 15000,
                             .labels = labels,
                             .label_count = 2,
                             .resources = resources,
                             .resource_count = 2,
                             .others = bytes_str("later=1 label=x")};
    struct buf line = {0}, again = {0};
    struct arena memory = {0};
    struct worker out;
    worker_encode(&w, &line);
    struct err e = worker_decode(buf_view(&line), &memory, &out);
    assert_false(err_is(&e));
    assert_int_equal(out.id, 3);
    assert_true(out.running && out.draining && !out.cordoned && out.has_slot);
    assert_int_equal(out.grant, 9);
    assert_int_equal(out.label_count, 2);
    assert_true(bytes_equal(out.labels[0].value, labels[0].value));
    assert_int_equal(out.labels[1].value.len, 0);
    assert_true(out.resources[1].amount == UINT64_MAX);
    assert_true(bytes_equal(out.others, w.others));
    worker_encode(&out, &again);
    assert_true(bytes_equal(buf_view(&line), buf_view(&again)));
    arena_close(&memory);
    buf_close(&again);
    buf_close(&line);
}

static void what_makes_no_sense_is_corrupt(void **state)
{
    static const char *const bad[] = {
        "",
        "\xff\xfe",
        "id=0 incarnation=7 type=compute addr=h:1 ttl_ms=15000",
        "id=3 type=compute addr=h:1 ttl_ms=15000",
        "id=3 incarnation=7 type= addr=h:1 ttl_ms=15000",
        "id=3 incarnation=7 type=compute addr=h:1 ttl_ms=1",
        LEAST " running=2",
        LEAST " slot=1",
        LEAST " slot=4294967295 grant=1", /* a table of so many slots would fill the memory */
        LEAST " label.a=%zz",
        LEAST " resource.a=-1",
        "id=3 incarnation=7 addr=h:1 ttl_ms=15000 type="
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    assert_int_equal(decodes(LEAST), ERR_OK);
    assert_int_equal(decodes(LEAST "  "), ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(decodes(bad[i]), ERR_CORRUPT);
}

static void keys_sort_by_id(void **state)
{
    char key[WORKER_KEY_DIGITS + 1];
    uint64_t id;
    worker_key(key, 42);
    assert_string_equal(key, "00000000000000000042");
    assert_true(worker_key_id(bytes_str(key), &id));
    assert_int_equal(id, 42);
    assert_true(worker_key_id(bytes_str("18446744073709551615"), &id));
    assert_false(worker_key_id(bytes_str("18446744073709551616"), &id));
    assert_false(worker_key_id(bytes_str("00000000000000000000"), &id));
    assert_false(worker_key_id(bytes_str("42"), &id));
    assert_false(worker_key_id(bytes_str(WORKER_COUNTERS_KEY), &id));
}

static void counters_come_back(void **state)
{
    struct buf line = {0};
    struct worker_counters c;
    worker_counters_encode(&(struct worker_counters){1, 2, 3}, &line);
    struct err e = worker_counters_decode(buf_view(&line), &c);
    assert_false(err_is(&e));
    assert_int_equal(c.id, 1);
    assert_int_equal(c.incarnation, 2);
    assert_int_equal(c.grant, 3);
    e = worker_counters_decode(bytes_str("id=1"), &c);
    assert_int_equal(e.code, ERR_CORRUPT);
    buf_close(&line);
}

static enum err_code checks_label(const char *name, const char *value)
{
    const struct worker_label label = {bytes_str(name), bytes_str(value)};
    return worker_check_labels(&label, 1).code;
}

static void labels_are_utf8(void **state)
{
    static const char *const good[] = {"", "a b", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    static const char *const bad[] = {
        "\x80",         "\xc3",         "\xc0\xaf",         "\xe2\x82",
        "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xff"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(checks_label("a", good[i]), ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(checks_label("a", bad[i]), ERR_BAD_WORKER);
    assert_int_equal(checks_label("", "a"), ERR_BAD_WORKER);
    assert_int_equal(checks_label("a b", "a"), ERR_BAD_WORKER);
}

static void addresses_have_a_port(void **state)
{
    static const char *const good[] = {"h:1", "10.0.0.1:65535", "[::1]:80"};
    static const char *const bad[] = {"", "h", ":1", "h:", "h:0", "h:65536", "h:1x", "a b:1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(worker_check_addr(bytes_str(good[i])).code, ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(worker_check_addr(bytes_str(bad[i])).code, ERR_BAD_WORKER);
    assert_int_equal(worker_check_ttl(0).code, ERR_OK);
    assert_int_equal(worker_check_ttl(WORKER_TTL_MIN_MS).code, ERR_OK);
    assert_int_equal(worker_check_ttl(WORKER_TTL_MIN_MS - 1).code, ERR_BAD_WORKER);
    assert_int_equal(worker_check_ttl(WORKER_TTL_MAX_MS + 1).code, ERR_BAD_WORKER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back), cmocka_unit_test(what_makes_no_sense_is_corrupt),
        cmocka_unit_test(keys_sort_by_id),     cmocka_unit_test(counters_come_back),
        cmocka_unit_test(labels_are_utf8),     cmocka_unit_test(addresses_have_a_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
