/* The index of contracts, over small sets written here by hand. */
#include "meta/core/descriptors.h"
#include "meta/core/wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* A length-delimited field. */
static void put(struct buf *out, unsigned number, struct bytes value)
{
    assert_true(number < 16);
    wire_put_number(out, number << 3 | 2);
    wire_put_number(out, value.len);
    buf_bytes(out, value);
}

static void put_str(struct buf *out, unsigned number, const char *value)
{
    put(out, number, bytes_str(value));
}

/* Moves what is in inner into a field of out. */
static void nest(struct buf *out, unsigned number, struct buf *inner)
{
    put(out, number, buf_view(inner));
    buf_close(inner);
}

static void put_named(struct buf *out, unsigned number, const char *name)
{
    struct buf inner = {0};
    put_str(&inner, 1, name);
    nest(out, number, &inner);
}

/* package p; import "base.proto"; message Outer { message Inner {} oneof o { f } enum Color { RED
 * }} service S { rpc Call } extend { x } */
static void put_main_file(struct buf *set)
{
    struct buf file = {0}, outer = {0}, color = {0}, service = {0};
    put_str(&file, 1, "main.proto");
    put_str(&file, 2, "p");
    put_str(&file, 3, "base.proto");
    put_str(&outer, 1, "Outer");
    put_named(&outer, 2, "f");
    put_named(&outer, 3, "Inner");
    put_named(&outer, 8, "o");
    put_str(&color, 1, "Color");
    put_named(&color, 2, "RED");
    nest(&outer, 4, &color);
    nest(&file, 4, &outer);
    put_str(&service, 1, "S");
    put_named(&service, 2, "Call");
    nest(&file, 6, &service);
    put_named(&file, 7, "x");
    nest(set, 1, &file);
}

/* No package; message Base. */
static void put_base_file(struct buf *set, const char *import)
{
    struct buf file = {0};
    put_str(&file, 1, "base.proto");
    if (import)
        put_str(&file, 3, import);
    put_named(&file, 4, "Base");
    put_named(&file, 5, "Kind");
    nest(set, 1, &file);
}

static const char *file_of(const struct descriptors *d, const char *symbol)
{
    static char name[32];
    const struct descriptor_symbol *s = descriptors_find_symbol(d, bytes_str(symbol));
    if (!s)
        return NULL;
    struct bytes file = d->files[s->file].name;
    assert_true(file.len < sizeof name);
    memcpy(name, file.data, file.len);
    name[file.len] = 0;
    return name;
}

static void every_name_leads_to_its_file(void **state)
{
    static const char *const names[] = {"p.Outer",     "p.Outer.f", "p.Outer.Inner",
                                        "p.Outer.o",   "p.x",       "p.Outer.Color",
                                        "p.Outer.RED", "p.S",       "p.S.Call"};
    struct descriptors d;
    struct buf set = {0};
    put_base_file(&set, NULL);
    put_main_file(&set);
    struct err e = descriptors_load(&d, buf_view(&set));
    assert_string_equal(e.message, "");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(file_of(&d, names[i]), "main.proto");
    assert_string_equal(file_of(&d, "Base"), "base.proto");
    assert_string_equal(file_of(&d, "Kind"), "base.proto");
    assert_null(file_of(&d, "p"));
    assert_null(file_of(&d, ""));
    assert_null(file_of(&d, "p.Outer.Color.RED"));
    assert_null(file_of(&d, "p.S.Cal"));
    assert_int_equal(descriptors_find_symbol(&d, bytes_str("p.Outer.Inner"))->kind,
                     DESCRIPTOR_MESSAGE);
    assert_int_equal(descriptors_find_symbol(&d, bytes_str("p.S.Call"))->kind, DESCRIPTOR_METHOD);
    descriptors_close(&d);
    buf_close(&set);
}

static void a_file_comes_with_what_it_imports(void **state)
{
    struct descriptors d;
    struct buf set = {0};
    put_main_file(&set);
    put_base_file(&set, "main.proto"); /* a circle, which protoc would not make */
    assert_int_equal(descriptors_load(&d, buf_view(&set)).code, ERR_OK);
    const struct descriptor_file *out[2];
    const struct descriptor_file *base = descriptors_find_file(&d, bytes_str("base.proto"));
    assert_int_equal(descriptors_with_imports(&d, base, out), 2);
    assert_ptr_equal(out[0], base);
    assert_ptr_equal(out[1], descriptors_find_file(&d, bytes_str("main.proto")));
    assert_null(descriptors_find_file(&d, bytes_str("other.proto")));
    descriptors_close(&d);
    buf_close(&set);
}

static void an_import_that_is_missing_is_named(void **state)
{
    struct descriptors d;
    struct buf set = {0};
    put_main_file(&set);
    struct err e = descriptors_load(&d, buf_view(&set));
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_non_null(strstr(e.message, "base.proto"));
    buf_close(&set);
}

static void every_truncation_is_refused_or_empty(void **state)
{
    struct descriptors d;
    struct buf set = {0};
    put_base_file(&set, NULL);
    put_main_file(&set);
    size_t accepted = 0;
    for (size_t len = 0; len < set.len; len++) {
        uint8_t *copy = (uint8_t *)bytes_dup(bytes_of(set.data, len)).data;
        struct err e = descriptors_load(&d, bytes_of(copy, len));
        accepted += !err_is(&e);
        descriptors_close(&d);
        free(copy);
    }
    assert_int_equal(accepted, 2); /* nothing at all, and the first file alone */
    buf_close(&set);
}

/* A file with so many messages, each in the one before. */
static void put_nested(struct buf *set, int levels)
{
    struct buf file = {0}, inner = {0};
    put_str(&inner, 1, "M");
    for (int i = 1; i < levels; i++) {
        struct buf outer = {0};
        put_str(&outer, 1, "M");
        nest(&outer, 3, &inner);
        inner = outer;
    }
    put_str(&file, 1, "deep.proto");
    nest(&file, 4, &inner);
    nest(set, 1, &file);
}

static void messages_nested_too_deeply_are_refused(void **state)
{
    struct descriptors d;
    struct buf set = {0};
    put_nested(&set, 31); /* as many as protoc takes */
    assert_int_equal(descriptors_load(&d, buf_view(&set)).code, ERR_OK);
    assert_int_equal(d.symbol_count, 31);
    descriptors_close(&d);
    buf_clear(&set);
    put_nested(&set, 1000);
    assert_int_equal(descriptors_load(&d, buf_view(&set)).code, ERR_CORRUPT);
    buf_close(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_leads_to_its_file),
        cmocka_unit_test(a_file_comes_with_what_it_imports),
        cmocka_unit_test(an_import_that_is_missing_is_named),
        cmocka_unit_test(every_truncation_is_refused_or_empty),
        cmocka_unit_test(messages_nested_too_deeply_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
