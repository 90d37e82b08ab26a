/* The ring of recent commits against a list that keeps everything; tokens. */
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "meta/core/resume.h"
#include "meta/core/ring.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { ROUNDS = 300, STEPS = 300 };

/* Everything that was ever added since the last restart. */
struct model {
    struct {
        int64_t revision;
        uint64_t place;
        size_t changes, bytes;
    } commits[STEPS];
    size_t count;
    int64_t start, last;
};

static struct ring_commit *some_commit(struct rng *rng, struct ring_draft *d, int64_t revision,
                                       size_t *changes)
{
    char name[16], value[300];
    *changes = rng_next(rng) % 4;
    memset(value, 'v', sizeof value);
    for (size_t i = 0; i < *changes; i++) {
        snprintf(name, sizeof name, "k%zu", i);
        const struct etcd_kv kv = {.value = bytes_of(value, rng_next(rng) % sizeof value),
                                   .create_revision = revision - 1,
                                   .version = 2};
        ring_draft_add(d, "kv/", bytes_str(name), rng_next(rng) % 3 ? &kv : NULL);
    }
    return ring_draft_take(d, revision, (uint64_t)revision / 7);
}

static void check_commit(const struct ring_commit *c, int64_t revision, size_t changes)
{
    assert_int_equal(c->revision, revision);
    assert_int_equal(c->epoch, revision / 7);
    assert_int_equal(c->count, changes);
    for (size_t i = 0; i < changes; i++) {
        char name[16];
        snprintf(name, sizeof name, "kv/k%zu", i);
        assert_true(bytes_equal(c->events[i].kv.key, bytes_str(name)));
        assert_int_equal(c->events[i].kv.mod_revision, revision);
        assert_int_equal(c->events[i].kv.version, c->events[i].deleted ? 0 : 2);
        for (size_t b = 0; b < c->events[i].kv.value.len; b++)
            assert_int_equal(c->events[i].kv.value.data[b], 'v');
    }
}

/* What is kept is the newest part, as large as it may be, and is found from any revision. */
static void check_ring(const struct ring *r, const struct model *m)
{
    size_t bytes = 0, kept = 0;
    while (kept < m->count &&
           (kept == 0 || bytes + m->commits[m->count - 1 - kept].bytes <= r->max_bytes))
        bytes += m->commits[m->count - 1 - kept++].bytes;
    size_t first = m->count - kept;
    assert_int_equal(r->bytes, bytes);
    assert_int_equal(r->end - r->first, kept);
    assert_int_equal(r->floor, first ? m->commits[first - 1].revision : m->start);
    assert_int_equal(r->last, m->last);
    for (size_t i = first; i < m->count; i++)
        check_commit(ring_at(r, m->commits[i].place), m->commits[i].revision,
                     m->commits[i].changes);
    for (int64_t revision = r->floor; revision <= r->last + 1; revision++) {
        size_t i = first;
        while (i < m->count && m->commits[i].revision <= revision)
            i++;
        uint64_t place = i < m->count ? m->commits[i].place : r->end;
        assert_int_equal(ring_place_after(r, revision), place);
    }
}

static void test_as_the_model(void **state)
{
    struct rng rng;
    rng_seed(&rng, 20);
    for (int round = 0; round < ROUNDS; round++) {
        struct ring r;
        struct ring_draft d = {0};
        struct model *m = mem_alloc(sizeof *m);
        ring_init(&r, rng_next(&rng) % 20000);
        m->start = m->last = (int64_t)(rng_next(&rng) % 100);
        ring_restart(&r, m->start);
        for (int step = 0; step < STEPS; step++) {
            size_t changes;
            if (rng_next(&rng) % 100 == 0) {
                uint64_t end = r.end;
                m->count = 0;
                m->start = m->last = (int64_t)(rng_next(&rng) % 100);
                ring_restart(&r, m->start);
                assert_int_equal(r.end, end);
                continue;
            }
            m->last += 1 + (int64_t)(rng_next(&rng) % 2);
            struct ring_commit *c = some_commit(&rng, &d, m->last, &changes);
            assert_int_equal(c != NULL, changes > 0);
            if (c) {
                m->commits[m->count].revision = m->last;
                m->commits[m->count].place = r.end;
                m->commits[m->count].changes = changes;
                m->commits[m->count++].bytes = c->bytes;
            }
            ring_add(&r, m->last, c);
            if (step % 20 == 0)
                check_ring(&r, m);
        }
        check_ring(&r, m);
        ring_close(&r);
        ring_draft_close(&d);
        free(m);
    }
}

static void test_a_commit_outlives_the_ring(void **state)
{
    struct ring r;
    struct ring_draft d = {0};
    ring_init(&r, 1);
    ring_draft_add(&d, "kv/", bytes_str("gone"), NULL);
    ring_draft_clear(&d);
    assert_null(ring_draft_take(&d, 1, 0));
    ring_draft_add(&d, "kv/", bytes_str("k0"), NULL);
    ring_add(&r, 8, ring_draft_take(&d, 8, 1));
    struct ring_commit *held = ring_commit_hold(ring_at(&r, 0));
    ring_draft_add(&d, "kv/", bytes_str("k0"), NULL);
    ring_add(&r, 9, ring_draft_take(&d, 9, 1));
    assert_int_equal(r.first, 1);
    assert_int_equal(r.floor, 8);
    ring_close(&r);
    check_commit(held, 8, 1);
    ring_commit_drop(held);
    ring_draft_close(&d);
}

static void test_tokens(void **state)
{
    const struct resume all[] = {
        {.cluster_id = "0123456789abcdef0123456789abcdef", .incarnation = 3, .revision = 77},
        {.cluster_id = "", .incarnation = UINT64_MAX, .revision = INT64_MAX},
        {.cluster_id = "x", .revision = 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct buf token = {0};
        struct resume back;
        resume_encode(&all[i], &token);
        assert_true(token.len <= 128);
        struct err e = resume_decode(buf_view(&token), &back);
        assert_false(err_is(&e));
        assert_string_equal(back.cluster_id, all[i].cluster_id);
        assert_int_equal(back.incarnation, all[i].incarnation);
        assert_int_equal(back.revision, all[i].revision);
        for (size_t len = 0; len < token.len; len++) {
            e = resume_decode(bytes_of(token.data, len), &back);
            assert_int_equal(e.code, ERR_BAD_REQUEST);
        }
        buf_byte(&token, 0);
        e = resume_decode(buf_view(&token), &back);
        assert_int_equal(e.code, ERR_BAD_REQUEST);
        buf_close(&token);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_model),
        cmocka_unit_test(test_a_commit_outlives_the_ring),
        cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
