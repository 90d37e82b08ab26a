#include "common/base/arena.h"
#include "common/base/rng.h"
#include "meta/core/answer.h"
#include "meta/core/dedup_index.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

/* ---- chunks ---- */

static struct dedup_entry entry_of(const char *id, const char *answer)
{
    return (struct dedup_entry){.id = bytes_str(id),
                                .method = REQUEST_PUT,
                                .body_hash = request_hash(bytes_str(id)),
                                .answer = bytes_str(answer)};
}

static void a_chunk_gives_back_its_entries(void **state)
{
    struct buf chunk = {0};
    struct dedup_reader r;
    struct dedup_entry got, again;
    uint32_t offset;
    dedup_chunk_begin(&chunk);
    size_t empty = chunk.len;
    struct dedup_entry a = entry_of("request-id-000001", "answer one");
    struct dedup_entry b = entry_of("request-id-000002", "");
    dedup_chunk_add(&chunk, &a);
    dedup_chunk_add(&chunk, &b);
    assert_int_equal(chunk.len, empty + dedup_entry_bytes(&a) + dedup_entry_bytes(&b));
    assert_true(dedup_chunk_valid(buf_view(&chunk)));
    assert_int_equal(dedup_chunk_count(buf_view(&chunk)), 2);
    assert_true(dedup_reader_init(&r, buf_view(&chunk)));
    assert_true(dedup_reader_next(&r, &got, &offset));
    assert_true(bytes_equal(got.id, a.id) && bytes_equal(got.answer, a.answer));
    assert_true(got.method == a.method && got.body_hash == a.body_hash);
    assert_true(dedup_reader_next(&r, &got, &offset));
    assert_true(bytes_equal(got.id, b.id) && got.answer.len == 0);
    assert_true(dedup_entry_at(buf_view(&chunk), offset, &again));
    assert_true(bytes_equal(again.id, b.id));
    assert_false(dedup_reader_next(&r, &got, &offset));
    buf_close(&chunk);
}

static void a_damaged_chunk_is_seen(void **state)
{
    struct buf chunk = {0};
    struct dedup_reader r;
    struct rng rng;
    rng_seed(&rng, 7);
    dedup_chunk_begin(&chunk);
    for (int i = 0; i < 5; i++)
        dedup_chunk_add(&chunk, &(struct dedup_entry){.id = bytes_str("request-id-000001"),
                                                      .answer = bytes_str("something")});
    for (size_t len = 0; len < chunk.len; len++)
        assert_false(dedup_chunk_valid(bytes_of(chunk.data, len)));
    buf_byte(&chunk, 0);
    assert_false(dedup_chunk_valid(buf_view(&chunk)));
    assert_false(dedup_reader_init(&r, bytes_str("\x02\x01\x01\x01\x01\x01")));
    for (int i = 0; i < 2000; i++) { /* any bytes: an answer, but no crash */
        uint8_t noise[64];
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (uint8_t)rng_next(&rng);
        noise[0] = 1;
        dedup_chunk_valid(bytes_of(noise, sizeof noise));
    }
    buf_close(&chunk);
}

/* ---- answers ---- */

static void an_answer_is_the_same_after_coding(void **state)
{
    struct etcd_kv kvs[] = {
        {.key = bytes_str("k"), .value = bytes_str("v"), .create_revision = 5, .version = 2},
        {.key = bytes_str("l"), .mod_revision = 9, .create_revision = 8, .version = 1}};
    struct answer_result results[] = {
        {.kind = REQUEST_OP_GET, .kvs = kvs, .kv_count = 2},
        {.kind = REQUEST_OP_DELETE, .deleted = 3},
    };
    struct plan_answer answer = {
        .method = REQUEST_TXN, .succeeded = true, .results = results, .result_count = 2};
    struct buf bytes = {0};
    struct arena arena = {0};
    answer_encode(&bytes, &answer);
    struct plan_answer *got = answer_decode(&arena, buf_view(&bytes));
    assert_non_null(got);
    answer_settle(got, 70);
    assert_true(got->succeeded && got->code == ERR_OK && got->revision == 70);
    assert_int_equal(got->result_count, 2);
    assert_int_equal(got->results[0].kvs[0].create_revision, 5);
    assert_int_equal(got->results[0].kvs[0].mod_revision, 70); /* 0 stood for the commit's */
    assert_int_equal(got->results[0].kvs[1].mod_revision, 9);
    assert_true(bytes_equal(got->results[0].kvs[0].value, bytes_str("v")));
    assert_int_equal(got->results[1].deleted, 3);
    for (size_t len = 0; len < bytes.len; len++)
        assert_null(answer_decode(&arena, bytes_of(bytes.data, len)));
    arena_close(&arena);
    buf_close(&bytes);
}

static void a_recorded_refusal_stays_one(void **state)
{
    struct answer_result none = {.kind = REQUEST_OP_DELETE};
    struct plan_answer answer = {
        .method = REQUEST_DELETE, .code = ERR_KEY_NOT_FOUND, .results = &none, .result_count = 1};
    struct buf bytes = {0};
    struct arena arena = {0};
    answer_encode(&bytes, &answer);
    assert_int_equal(answer_decode(&arena, buf_view(&bytes))->code, ERR_KEY_NOT_FOUND);
    arena_close(&arena);
    buf_close(&bytes);
}

/* ---- the window ---- */

static const struct dedup_limits limits = {
    .min_age_ms = 120000, .max_age_ms = 600000, .max_ids = 100, .max_bytes = 8000};

static void add(struct dedup_window *w, int64_t seen_ms, uint32_t ids, uint32_t bytes)
{
    dedup_window_add(w, &(struct dedup_slot){.n = w->next_n,
                                             .revision = (int64_t)w->next_n * 10,
                                             .seen_ms = seen_ms,
                                             .ids = ids,
                                             .bytes = bytes});
}

static void old_chunks_go_and_raise_the_floor(void **state)
{
    struct dedup_window w;
    dedup_window_init(&w, &limits);
    for (int i = 0; i < 70; i++)
        add(&w, i * 1000, 1, 10);
    assert_int_equal(dedup_window_evictable(&w, 600000), 0);
    assert_int_equal(dedup_window_evictable(&w, 601500), 2);
    assert_int_equal(dedup_window_evictable(&w, 660000), DEDUP_EVICT_MAX);
    assert_int_equal(dedup_window_floor_after(&w, 2), 20);
    dedup_window_evict(&w, 2);
    assert_int_equal(w.floor, 20);
    assert_int_equal(w.ids, 68);
    assert_int_equal(dedup_window_slot(&w, 0)->n, 3);
    dedup_window_close(&w);
}

static void the_newest_chunk_stays_so_that_n_grows(void **state)
{
    struct dedup_window w;
    dedup_window_init(&w, &limits);
    add(&w, 0, 1, 10);
    assert_int_equal(dedup_window_evictable(&w, 1000000), 0);
    add(&w, 0, 1, 10);
    assert_int_equal(dedup_window_evictable(&w, 1000000), 1);
    assert_int_equal(w.next_n, 3);
    dedup_window_close(&w);
}

static void many_ids_go_early_but_never_young_ones(void **state)
{
    struct dedup_window w;
    dedup_window_init(&w, &limits);
    add(&w, 0, 60, 10);
    add(&w, 50000, 60, 10);
    add(&w, 50000, 1, 10);
    assert_int_equal(dedup_window_evictable(&w, 119999), 0);
    assert_int_equal(dedup_window_evictable(&w, 120000), 1);
    dedup_window_close(&w);
}

static void a_table_full_of_young_ids_has_no_room(void **state)
{
    struct dedup_window w;
    dedup_window_init(&w, &limits);
    add(&w, 0, 1, 4000);
    add(&w, 0, 1, 3900);
    assert_true(dedup_window_has_room(&w, 0, 100));
    assert_false(dedup_window_has_room(&w, 0, 101));
    assert_int_equal(dedup_window_evictable(&w, 119000), 0);
    assert_int_equal(dedup_window_evictable(&w, 120000), 1);
    assert_true(dedup_window_has_room(&w, 1, 4000));
    dedup_window_close(&w);
}

static void inherited_chunks_are_as_told(void **state)
{
    struct dedup_window w;
    dedup_window_init(&w, &limits);
    add(&w, 0, 1, 10);
    dedup_window_clear(&w, 500);
    dedup_window_add(&w, &(struct dedup_slot){.n = 41, .revision = 600, .seen_ms = 9, .ids = 2});
    assert_int_equal(w.floor, 500);
    assert_int_equal(w.next_n, 42);
    assert_int_equal(w.ids, 2);
    dedup_window_close(&w);
}

/* ---- the index ---- */

static void id_of(char out[32], unsigned n)
{
    snprintf(out, 32, "request-id-%08u", n);
}

static void chunk_of(struct buf *chunk, unsigned first, unsigned count)
{
    char id[32];
    dedup_chunk_begin(chunk);
    for (unsigned i = 0; i < count; i++) {
        id_of(id, first + i);
        dedup_chunk_add(chunk, &(struct dedup_entry){.id = bytes_str(id)});
    }
}

static bool indexed(const struct dedup_index *x, unsigned id, uint64_t n, struct bytes chunk)
{
    char text[32];
    size_t at = 0;
    const struct dedup_place *place;
    struct dedup_entry entry;
    id_of(text, id);
    while ((place = dedup_index_next(x, bytes_str(text), &at)))
        if (place->n == n && dedup_entry_at(chunk, place->offset, &entry) &&
            bytes_equal(entry.id, bytes_str(text)))
            return true;
    return false;
}

static void the_index_finds_exactly_what_is_in_it(void **state)
{
    enum { CHUNKS = 60, IDS = 97 };
    struct dedup_index x = {0};
    struct buf chunks[CHUNKS] = {0};
    bool in[CHUNKS] = {0};
    struct rng rng;
    rng_seed(&rng, 11);
    for (unsigned c = 0; c < CHUNKS; c++)
        chunk_of(&chunks[c], c * IDS, IDS);
    for (int round = 0; round < 400; round++) {
        size_t c = rng_below(&rng, CHUNKS);
        if (in[c])
            dedup_index_remove(&x, c, buf_view(&chunks[c]));
        else
            dedup_index_add(&x, c, buf_view(&chunks[c]));
        in[c] = !in[c];
        size_t looked = rng_below(&rng, CHUNKS);
        for (unsigned i = 0; i < IDS; i++)
            assert_true(indexed(&x, (unsigned)looked * IDS + i, looked,
                                buf_view(&chunks[looked])) == in[looked]);
    }
    size_t expected = 0;
    for (unsigned c = 0; c < CHUNKS; c++) {
        expected += in[c] ? IDS : 0;
        buf_close(&chunks[c]);
    }
    assert_int_equal(x.count, expected);
    dedup_index_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_gives_back_its_entries),
        cmocka_unit_test(a_damaged_chunk_is_seen),
        cmocka_unit_test(an_answer_is_the_same_after_coding),
        cmocka_unit_test(a_recorded_refusal_stays_one),
        cmocka_unit_test(old_chunks_go_and_raise_the_floor),
        cmocka_unit_test(the_newest_chunk_stays_so_that_n_grows),
        cmocka_unit_test(many_ids_go_early_but_never_young_ones),
        cmocka_unit_test(a_table_full_of_young_ids_has_no_room),
        cmocka_unit_test(inherited_chunks_are_as_told),
        cmocka_unit_test(the_index_finds_exactly_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
