#include "common/base/arena.h"
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void pieces_are_aligned_and_apart(void **state)
{
    struct arena a = {0};
    uint8_t *pieces[200];
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = arena_alloc(&a, i * 7);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        memset(pieces[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i * 7; k++)
            assert_int_equal(pieces[i][k], (uint8_t)i);
    arena_close(&a);
    assert_null(a.newest);
}

static void cleared_memory_is_used_again_and_zeroed(void **state)
{
    struct arena a = {0};
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 20; i++) {
            uint8_t *piece = arena_array(&a, 10, 30);
            for (int k = 0; k < 300; k++)
                assert_int_equal(piece[k], 0);
            memset(piece, 0xff, 300);
        }
        arena_clear(&a);
    }
    arena_close(&a);
}

static void copies_are_strings(void **state)
{
    struct arena a = {0};
    struct bytes copy = arena_copy(&a, bytes_str("text"));
    assert_string_equal((const char *)copy.data, "text");
    assert_string_equal((const char *)arena_copy(&a, BYTES_NONE).data, "");
    arena_close(&a);
}

static void a_buffer_is_used_first_and_not_freed(void **state)
{
    alignas(max_align_t) uint8_t room[512];
    struct arena a = {0};
    arena_use(&a, room, sizeof room);
    uint8_t *inside = arena_alloc(&a, 100);
    assert_true(inside > room && inside < room + sizeof room);
    uint8_t *outside = arena_alloc(&a, 1000);
    assert_true(outside < room || outside >= room + sizeof room);
    arena_clear(&a);
    arena_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(cleared_memory_is_used_again_and_zeroed),
        cmocka_unit_test(copies_are_strings),
        cmocka_unit_test(a_buffer_is_used_first_and_not_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
