/* The text of what Baton writes into etcd: the same struct gives the same bytes, and what is not
 * understood is refused by name. */
#include "meta/core/fields.h"
#include "meta/core/keys.h"
#include "meta/core/record.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define NONCE "0123456789abcdef0123456789abcdef"
#define BATCH "fedcba9876543210fedcba9876543210"

static struct record sample(void)
{
    struct record r = {.epoch = 5, .seq = 12, .ttl_ms = 5000, .events = 3};
    snprintf(r.leader, sizeof r.leader, "m1");
    snprintf(r.nonce, sizeof r.nonce, NONCE);
    snprintf(r.batch, sizeof r.batch, BATCH);
    return r;
}

static void a_record_is_one_line_of_text(void **state)
{
    (void)state;
    struct record r = sample(), back;
    struct buf line = {0};
    record_encode(&r, &line);
    assert_string_equal((char *)line.data, "epoch=5 seq=12 leader=m1 nonce=" NONCE " batch=" BATCH
                                           " ttl_ms=5000 events=3");
    struct err e = record_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_memory_equal(&r, &back, sizeof r);
    buf_close(&line);
}

static void the_longest_record_fits(void **state)
{
    (void)state;
    struct record r = sample(), back;
    struct record_bytes bytes;
    memset(r.leader, '%', ID_MAX);
    r.epoch = UINT64_MAX - 1;
    r.seq = UINT64_MAX - 1;
    r.events = UINT64_MAX;
    record_bytes_encode(&bytes, &r);
    assert_true(bytes.len > 0 && bytes.len <= RECORD_BYTES_MAX);
    struct err e = record_decode(record_view(&bytes), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(back.leader, r.leader);
    assert_int_equal(back.epoch, r.epoch);
}

static void broken_records_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
    } rows[] = {
        {"", "epoch"},
        {"{}", "epoch"},
        {"epoch=0 seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "epoch"},
        {"epoch=-1 seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "epoch"},
        {"epoch=18446744073709551616 seq=1 leader=a nonce=" NONCE " batch=" BATCH
         " ttl_ms=1 events=0",
         "epoch"},
        {"epoch=1x seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "epoch"},
        {"epoch=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "seq"},
        {"epoch=1 seq= leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "seq"},
        {"epoch=1 seq=1 leader= nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "leader"},
        {"epoch=1 seq=1 leader=a%2 nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "leader"},
        {"epoch=1 seq=1 leader=a%00b nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "leader"},
        {"epoch=1 seq=1 leader=a nonce=0123 batch=" BATCH " ttl_ms=1 events=0", "nonce"},
        {"epoch=1 seq=1 leader=a nonce=" NONCE "0 batch=" BATCH " ttl_ms=1 events=0", "nonce"},
        {"epoch=1 seq=1 leader=a nonce=" NONCE " batch=FEDCBA9876543210FEDCBA9876543210 ttl_ms=1 "
         "events=0",
         "batch"},
        {"epoch=1 seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=0 events=0", "ttl_ms"},
        {"epoch=1 seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=-5 events=0", "ttl_ms"},
        {"epoch=1 seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=3600001 events=0",
         "ttl_ms"},
        {"epoch=1 seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=1", "events"},
        {"xepoch=1 seq=1 leader=a nonce=" NONCE " batch=" BATCH " ttl_ms=1 events=0", "epoch"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record r;
        struct err e = record_decode(bytes_str(rows[i].text), &r);
        char quoted[40];
        snprintf(quoted, sizeof quoted, "'%s'", rows[i].named);
        if (e.code != ERR_CORRUPT || strstr(e.message, quoted) == NULL)
            fail_msg("row %zu: %s: %s", i, rows[i].text, e.message);
    }
}

static void what_a_later_version_adds_is_skipped(void **state)
{
    (void)state;
    struct record r;
    struct err e =
        record_decode(bytes_str("zone=eu events=0 epoch=7 later=x%20y seq=2 leader=m%20x "
                                "batch=" BATCH " nonce=" NONCE " ttl_ms=20"),
                      &r);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(r.epoch, 7);
    assert_string_equal(r.leader, "m x");
}

static void too_long_a_record_is_refused(void **state)
{
    (void)state;
    struct record r = sample();
    struct record_bytes bytes;
    struct buf line = {0};
    record_encode(&r, &line);
    while (line.len <= RECORD_BYTES_MAX)
        buf_str(&line, " more=padding");
    struct err e = record_decode(buf_view(&line), &r);
    assert_int_equal(e.code, ERR_CORRUPT);
    bytes.len = 0;
    assert_false(record_bytes_set(&bytes, buf_view(&line)));
    assert_true(record_bytes_set(&bytes, BYTES_NONE));
    assert_int_equal(bytes.len, 0);
    buf_close(&line);
}

static void any_text_comes_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"plain",        "with space",   "100%", "a=b c=d",
                                        "\x01\x7f\n\t", "\xc3\xa4\xff", "%41"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct buf line = {0};
        char back[64];
        field_put_str(&line, "one", texts[i]);
        field_put_i64(&line, "two", INT64_MIN + 1);
        for (size_t k = 0; k < line.len; k++)
            assert_true(line.data[k] >= ' ' && line.data[k] < 0x7f);
        struct field_reader reader = {.text = buf_view(&line)};
        field_str(&reader, "one", back, sizeof back, 1);
        assert_string_equal(back, texts[i]);
        assert_int_equal(field_i64(&reader, "two", INT64_MIN + 1, 0), INT64_MIN + 1);
        assert_null(reader.bad);
        field_str(&reader, "one", back, strlen(texts[i]), 1);
        assert_string_equal(reader.bad, "one"); /* does not fit */
        buf_close(&line);
    }
}

static void history_comes_back(void **state)
{
    (void)state;
    struct history h = {.started_unix_ms = 1700000000123, .prev_seq = 9, .prev_revision = 44}, back;
    struct buf line = {0};
    snprintf(h.leader, sizeof h.leader, "m2");
    snprintf(h.addr, sizeof h.addr, "[::1]:7000");
    snprintf(h.nonce, sizeof h.nonce, NONCE);
    snprintf(h.reason, sizeof h.reason, "the record of m1 did not change for 5000 ms");
    history_encode(&h, &line); /* the first of all has no predecessor */
    struct err e = history_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_memory_equal(&h, &back, sizeof h);
    buf_clear(&line);
    snprintf(h.prev_nonce, sizeof h.prev_nonce, BATCH);
    snprintf(h.prev_batch, sizeof h.prev_batch, NONCE);
    history_encode(&h, &line);
    e = history_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_memory_equal(&h, &back, sizeof h);
    buf_close(&line);
    e = history_decode(bytes_str("leader=a"), &back);
    assert_int_equal(e.code, ERR_CORRUPT);
}

static void released_needs_epoch_and_nonce(void **state)
{
    (void)state;
    struct record record = sample();
    struct released released = {.epoch = record.epoch}, back;
    struct buf line = {0};
    memcpy(released.nonce, record.nonce, sizeof released.nonce);
    released_encode(&released, &line);
    struct err e = released_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_true(released_names(&back, &record));
    released.nonce[3] ^= 1;
    assert_false(released_names(&released, &record));
    released = back;
    released.epoch++;
    assert_false(released_names(&released, &record));
    assert_false(released_names(&(struct released){0}, &(struct record){0}));
    e = released_decode(bytes_str("epoch=5 nonce="), &back);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_int_equal(back.epoch, 0);
    buf_close(&line);
}

static void member_info_comes_back(void **state)
{
    (void)state;
    struct member_info m = {.format_min = 1, .format_max = 3, .started_unix_ms = 5}, back;
    struct buf line = {0};
    snprintf(m.id, sizeof m.id, "m 1");
    snprintf(m.instance, sizeof m.instance, NONCE);
    snprintf(m.start, sizeof m.start, BATCH);
    snprintf(m.addr, sizeof m.addr, "host:1");
    snprintf(m.version, sizeof m.version, "0.1.0");
    member_info_encode(&m, &line);
    struct err e = member_info_decode(buf_view(&line), &back);
    assert_int_equal(e.code, ERR_OK);
    assert_memory_equal(&m, &back, sizeof m);
    buf_close(&line);
}

static void keys_have_their_places(void **state)
{
    (void)state;
    char prefix[PREFIX_MAX], a[KEY_MAX], b[KEY_MAX];
    static const char *const bad[] = {"", "a/b", "a b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(keys_prefix(prefix, bad[i]));
    char longest[CLUSTER_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[CLUSTER_NAME_MAX + 1] = 0;
    assert_false(keys_prefix(prefix, longest));
    longest[CLUSTER_NAME_MAX] = 0;
    assert_true(keys_prefix(prefix, longest));
    assert_true(keys_prefix(prefix, "c1"));
    assert_true(bytes_equal(keys_commit(a, prefix), bytes_str("/baton/c1/state/commit")));
    assert_true(
        bytes_equal(keys_election(a, prefix, 0x1f), bytes_str("/baton/c1/live/election/1f")));
    /* numbers sort as text, and the floor stands behind all chunks */
    assert_true(bytes_compare(keys_history(a, prefix, 9), keys_history(b, prefix, 10)) < 0);
    assert_true(bytes_compare(keys_dedup(a, prefix, UINT64_MAX), keys_dedup_floor(b, prefix)) < 0);
    /* what must be fenced stands below state/, what needs no guard does not */
    char state_room[KEY_MAX];
    struct bytes below = keys_state(state_room, prefix);
    assert_true(bytes_starts_with(keys_history(a, prefix, 1), below));
    assert_true(bytes_starts_with(keys_kvs(a, prefix), below));
    assert_false(bytes_starts_with(keys_probe(a, prefix), below));
    assert_false(bytes_starts_with(keys_released(a, prefix), below));
}

static void keys_are_taken_apart(void **state)
{
    (void)state;
    char a[KEY_MAX], b[KEY_MAX];
    uint64_t n;
    int64_t lease;
    struct bytes rest, start = keys_dedups(b, "/baton/c/");
    assert_true(keys_rest_number(keys_dedup(a, "/baton/c/", UINT64_MAX), start, &n));
    assert_true(n == UINT64_MAX);
    assert_false(keys_rest_number(keys_dedup_floor(a, "/baton/c/"), start, &n));
    assert_false(
        keys_rest_number(bytes_str("/baton/c/state/dedup/99999999999999999999"), start, &n));
    assert_false(keys_rest(keys_commit(a, "/baton/c/"), start, &rest));
    start = keys_elections(b, "/baton/c/");
    assert_true(keys_rest_lease(keys_election(a, "/baton/c/", INT64_MAX), start, &lease));
    assert_true(lease == INT64_MAX);
    assert_false(keys_rest_lease(bytes_str("/baton/c/live/election/xyz"), start, &lease));
    assert_false(keys_rest_lease(start, start, &lease));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_one_line_of_text),
        cmocka_unit_test(the_longest_record_fits),
        cmocka_unit_test(broken_records_are_refused_by_name),
        cmocka_unit_test(what_a_later_version_adds_is_skipped),
        cmocka_unit_test(too_long_a_record_is_refused),
        cmocka_unit_test(any_text_comes_back),
        cmocka_unit_test(history_comes_back),
        cmocka_unit_test(released_needs_epoch_and_nonce),
        cmocka_unit_test(member_info_comes_back),
        cmocka_unit_test(keys_have_their_places),
        cmocka_unit_test(keys_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
