/* Where streams go on: by hand, and with a played member whose streams break at random. */
#include "client/core/stream_resume.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct stream_resume r;
static size_t skip[STREAM_KINDS];

static void begin(enum stream_start start)
{
    stream_resume_close(&r);
    stream_resume_init(&r, start, 0, BYTES_NONE);
    stream_resume_opened(&r);
}

static struct stream_message changes(int64_t revision, size_t items, bool more)
{
    return (struct stream_message){.kind = STREAM_CHANGES,
                                   .revision = revision,
                                   .more = more,
                                   .token = more ? BYTES_NONE : bytes_str("token"),
                                   .items = {items}};
}

static struct stream_message page(int64_t revision, bool restart, bool more)
{
    struct stream_message m = changes(revision, 1, more);
    m.kind = STREAM_SNAPSHOT;
    m.restart = restart;
    return m;
}

static struct stream_message progress(int64_t revision)
{
    struct stream_message m = changes(revision, 0, false);
    m.kind = STREAM_PROGRESS;
    return m;
}

static enum stream_verdict take(struct stream_message m)
{
    return stream_resume_take(&r, &m, skip);
}

static void end_with(enum err_code code)
{
    struct rng rng;
    int64_t wait_ms;
    struct err e = {.code = code};
    rng_seed(&rng, 1);
    assert_int_equal(stream_resume_ended(&r, &e, 0, &rng, &wait_ms), STREAM_AGAIN);
    stream_resume_opened(&r);
}

static void test_the_token_moves_with_whole_commits(void **state)
{
    begin(STREAM_FROM_NOW);
    assert_int_equal(take(progress(5)), STREAM_TELL);
    assert_int_equal(r.start, STREAM_FROM_TOKEN);
    assert_int_equal(take(changes(6, 2, false)), STREAM_TELL);
    assert_int_equal(r.revision, 6);
    assert_int_equal(take(changes(7, 2, true)), STREAM_TELL);
    assert_int_equal(r.revision, 6);
    assert_string_equal((char *)r.token.data, "token");
}

static void test_what_was_told_of_a_commit_is_skipped(void **state)
{
    begin(STREAM_FROM_NOW);
    take(progress(5));
    take(changes(6, 3, true));
    take(changes(6, 2, true));
    end_with(ERR_LOST);
    assert_int_equal(take(progress(5)), STREAM_QUIET);
    assert_int_equal(take(changes(6, 4, true)), STREAM_QUIET); /* the parts may be other ones */
    assert_int_equal(take(changes(6, 4, true)), STREAM_TELL);
    assert_int_equal(skip[0], 1);
    end_with(ERR_LOST);
    assert_int_equal(take(changes(6, 8, false)), STREAM_TELL); /* that it is whole is news */
    assert_int_equal(skip[0], 8);
    assert_int_equal(take(changes(7, 1, false)), STREAM_TELL);
    assert_int_equal(skip[0], 0);
}

static void test_a_broken_snapshot_is_asked_for_anew(void **state)
{
    begin(STREAM_FROM_NOW);
    take(progress(5));
    assert_int_equal(take(page(9, true, true)), STREAM_TELL);
    assert_int_equal(r.start, STREAM_FROM_SNAPSHOT);
    end_with(ERR_LOST);
    assert_int_equal(r.start, STREAM_FROM_SNAPSHOT);
    assert_int_equal(take(page(11, true, true)), STREAM_TELL);
    assert_int_equal(take(page(11, false, false)), STREAM_TELL);
    assert_int_equal(r.start, STREAM_FROM_TOKEN);
    assert_int_equal(take(changes(12, 1, false)), STREAM_TELL);
}

static void test_a_snapshot_drops_the_part_of_a_commit(void **state)
{
    begin(STREAM_FROM_NOW);
    take(progress(5));
    take(changes(6, 3, true));
    end_with(ERR_LOST);
    assert_int_equal(take(page(4, true, false)), STREAM_TELL); /* of a cluster that was restored */
    assert_int_equal(take(changes(6, 3, false)), STREAM_TELL);
    assert_int_equal(skip[0], 0);
}

static void test_gaps_and_repeats_break_the_stream(void **state)
{
    begin(STREAM_FROM_NOW);
    take(progress(5));
    assert_int_equal(take(changes(5, 1, false)), STREAM_BREAK);
    assert_int_equal(r.start, STREAM_FROM_SNAPSHOT);
    begin(STREAM_FROM_NOW);
    take(changes(5, 1, true));
    assert_int_equal(take(changes(6, 1, false)), STREAM_BREAK);
    begin(STREAM_FROM_NOW);
    take(changes(5, 1, true));
    assert_int_equal(take(progress(5)), STREAM_BREAK);
    begin(STREAM_FROM_NOW);
    take(changes(5, 1, true));
    end_with(ERR_LOST);
    assert_int_equal(take(progress(5)), STREAM_BREAK);
    begin(STREAM_FROM_NOW);
    assert_int_equal(take(page(5, false, false)), STREAM_BREAK);
    begin(STREAM_FROM_SNAPSHOT);
    take(page(5, true, true));
    assert_int_equal(take(changes(6, 1, false)), STREAM_BREAK);
}

static void test_without_a_token_nothing_is_whole(void **state)
{
    struct stream_message m = changes(5, 1, false);
    m.token = BYTES_NONE;
    begin(STREAM_FROM_NOW);
    assert_int_equal(take(m), STREAM_BREAK);
}

static void test_silence(void **state)
{
    begin(STREAM_FROM_NOW);
    assert_int_equal(stream_resume_patience_ms(&r), STREAM_FIRST_MS);
    take(progress(5));
    assert_int_equal(stream_resume_patience_ms(&r), STREAM_SILENCE_MS);
}

static void test_what_ends_it(void **state)
{
    struct rng rng;
    int64_t ms;
    struct err bad = {.code = ERR_BAD_REQUEST}, lost = {.code = ERR_LOST};
    rng_seed(&rng, 7);
    begin(STREAM_FROM_TOKEN);
    assert_int_equal(stream_resume_ended(&r, &bad, 0, &rng, &ms), STREAM_OVER);
    for (int i = 0; i < 20; i++)
        assert_int_equal(stream_resume_ended(&r, &lost, 0, &rng, &ms), STREAM_AGAIN);
    assert_in_range(ms, 1000, 2000);
    stream_resume_ended(&r, &lost, 9000, &rng, &ms);
    assert_int_equal(ms, 9000);
    take(progress(5));
    stream_resume_ended(&r, &lost, 0, &rng, &ms);
    assert_in_range(ms, 10, 20);
    end_with(ERR_COMPACTED);
    assert_int_equal(r.start, STREAM_FROM_SNAPSHOT);
}

/* ---- a played member ---- */

#define COMMITS 40

/* Commit c (from 1) has sizes[c] items; a token is the number of the commit it stands behind. */
struct play {
    struct rng rng;
    size_t sizes[COMMITS + 1];
    int told;         /* commits, whole */
    size_t told_part; /* items of the next one */
    size_t items;
};

static void hear(struct play *p, struct stream_message m)
{
    enum stream_verdict v = take(m);
    assert_int_not_equal(v, STREAM_BREAK);
    if (v != STREAM_TELL || m.kind != STREAM_CHANGES)
        return;
    assert_int_equal(m.revision, p->told + 1);
    p->told_part += m.items[0] - skip[0];
    p->items += m.items[0] - skip[0];
    if (m.more)
        return;
    assert_int_equal(p->told_part, p->sizes[m.revision]);
    p->told++;
    p->told_part = 0;
}

/* One stream from the token on, in parts of random sizes, up to a random end. */
static void play_stream(struct play *p)
{
    char token[8];
    int at = r.token.len ? atoi((char *)r.token.data) : 0;
    struct stream_message m = progress(at);
    snprintf(token, sizeof token, "%d", at);
    m.token = bytes_str(token);
    hear(p, m);
    for (int c = at + 1; c <= COMMITS; c++) {
        for (size_t left = p->sizes[c]; left;) {
            if (rng_below(&p->rng, 6) == 0)
                return;
            size_t n = 1 + rng_below(&p->rng, left);
            left -= n;
            m = changes(c, n, left > 0);
            snprintf(token, sizeof token, "%d", c);
            if (!m.more)
                m.token = bytes_str(token);
            hear(p, m);
        }
    }
}

static void test_nothing_is_missing_and_nothing_comes_twice(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct play p = {0};
        size_t items = 0;
        rng_seed(&p.rng, seed);
        for (int c = 1; c <= COMMITS; c++)
            items += p.sizes[c] = 1 + rng_below(&p.rng, 9);
        begin(STREAM_FROM_NOW);
        while (p.told < COMMITS) {
            play_stream(&p);
            end_with(ERR_LOST);
        }
        assert_int_equal(p.items, items);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_token_moves_with_whole_commits),
        cmocka_unit_test(test_what_was_told_of_a_commit_is_skipped),
        cmocka_unit_test(test_a_broken_snapshot_is_asked_for_anew),
        cmocka_unit_test(test_a_snapshot_drops_the_part_of_a_commit),
        cmocka_unit_test(test_gaps_and_repeats_break_the_stream),
        cmocka_unit_test(test_without_a_token_nothing_is_whole),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_what_ends_it),
        cmocka_unit_test(test_nothing_is_missing_and_nothing_comes_twice),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stream_resume_close(&r);
    return failed;
}
