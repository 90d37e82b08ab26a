#include "meta/core/descriptors.h"
#include "common/base/mem.h"
#include "common/base/protowire.h"
#include <stdlib.h>

/* Field numbers of descriptor.proto; every declaration has its name as field 1. */
enum { SET_FILE = 1, NAME = 1, FILE_PACKAGE = 2, FILE_IMPORT = 3 };

/* Which fields of which declaration hold further declarations. */
static const struct {
    enum descriptor_kind outer;
    uint32_t field;
    enum descriptor_kind inner;
} parts[] = {
    {DESCRIPTOR_FILE, 4, DESCRIPTOR_MESSAGE},   {DESCRIPTOR_FILE, 5, DESCRIPTOR_ENUM},
    {DESCRIPTOR_FILE, 6, DESCRIPTOR_SERVICE},   {DESCRIPTOR_FILE, 7, DESCRIPTOR_FIELD},
    {DESCRIPTOR_MESSAGE, 2, DESCRIPTOR_FIELD},  {DESCRIPTOR_MESSAGE, 3, DESCRIPTOR_MESSAGE},
    {DESCRIPTOR_MESSAGE, 4, DESCRIPTOR_ENUM},   {DESCRIPTOR_MESSAGE, 6, DESCRIPTOR_FIELD},
    {DESCRIPTOR_MESSAGE, 8, DESCRIPTOR_FIELD},  {DESCRIPTOR_ENUM, 2, DESCRIPTOR_VALUE},
    {DESCRIPTOR_SERVICE, 2, DESCRIPTOR_METHOD},
};

/* Messages within messages; protoc itself allows 31. */
enum { DEPTH_MAX = 32 };

struct loading {
    struct descriptors *d;
    size_t symbol_cap;
    bool broken;
};

/* The last value of a field, as parsers of protobuf take it. */
static struct bytes value_of(struct bytes message, uint32_t number)
{
    struct bytes value = BYTES_NONE;
    struct protowire w = {.in = message};
    for (struct protowire_field f; protowire_next(&w, &f);)
        if (f.number == number)
            value = f.bytes;
    return value;
}

static void add_symbol(struct loading *l, struct bytes name, enum descriptor_kind kind)
{
    struct descriptors *d = l->d;
    if (d->symbol_count == l->symbol_cap) {
        l->symbol_cap = l->symbol_cap ? l->symbol_cap * 2 : 256;
        d->symbols = mem_resize(d->symbols, l->symbol_cap * sizeof *d->symbols);
    }
    d->symbols[d->symbol_count++] = (struct descriptor_symbol){name, d->file_count, kind};
}

static struct bytes joined(struct arena *a, struct bytes scope, struct bytes name)
{
    if (!scope.len)
        return arena_copy(a, name);
    uint8_t *out = arena_raw(a, scope.len + 1 + name.len);
    memcpy(out, scope.data, scope.len);
    out[scope.len] = '.';
    memcpy(out + scope.len + 1, name.data, name.len);
    return bytes_of(out, scope.len + 1 + name.len);
}

static void add_parts(struct loading *l, struct bytes outer, enum descriptor_kind kind,
                      struct bytes scope, int depth);

static void add_declaration(struct loading *l, struct bytes content, enum descriptor_kind kind,
                            struct bytes scope, int depth)
{
    struct bytes name = value_of(content, NAME);
    if (!name.len || depth == DEPTH_MAX) {
        l->broken = true;
        return;
    }
    struct bytes full = joined(&l->d->memory, scope, name);
    add_symbol(l, full, kind);
    /* the values of an enum are declared beside it, not in it */
    add_parts(l, content, kind, kind == DESCRIPTOR_ENUM ? scope : full, depth);
}

static void add_parts(struct loading *l, struct bytes outer, enum descriptor_kind kind,
                      struct bytes scope, int depth)
{
    struct protowire w = {.in = outer};
    for (struct protowire_field f; !l->broken && protowire_next(&w, &f);)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (parts[i].outer == kind && parts[i].field == f.number)
                add_declaration(l, f.bytes, parts[i].inner, scope, depth + 1);
    l->broken |= w.broken;
}

static void add_file(struct loading *l, struct bytes content)
{
    struct descriptors *d = l->d;
    add_parts(l, content, DESCRIPTOR_FILE, value_of(content, FILE_PACKAGE), 0);
    d->files = mem_resize(d->files, (d->file_count + 1) * sizeof *d->files);
    d->files[d->file_count++] =
        (struct descriptor_file){.name = value_of(content, NAME), .content = content};
}

static int compare_symbols(const void *a, const void *b)
{
    return bytes_compare(((const struct descriptor_symbol *)a)->name,
                         ((const struct descriptor_symbol *)b)->name);
}

static struct err check_imports(const struct descriptors *d)
{
    for (size_t i = 0; i < d->file_count; i++) {
        struct protowire w = {.in = d->files[i].content};
        for (struct protowire_field f; protowire_next(&w, &f);)
            if (f.number == FILE_IMPORT && !descriptors_find_file(d, f.bytes))
                return err_make(ERR_CORRUPT, "the descriptor set lacks %.*s, which %.*s imports",
                                (int)f.bytes.len, (const char *)f.bytes.data,
                                (int)d->files[i].name.len, (const char *)d->files[i].name.data);
    }
    return OK_ERR;
}

struct err descriptors_load(struct descriptors *d, struct bytes set)
{
    struct loading l = {.d = d};
    struct protowire w = {.in = set};
    *d = (struct descriptors){0};
    for (struct protowire_field f; !l.broken && protowire_next(&w, &f);)
        if (f.number == SET_FILE)
            add_file(&l, f.bytes);
    struct err e = l.broken || w.broken ? err_make(ERR_CORRUPT, "the descriptor set cannot be read")
                                        : check_imports(d);
    if (err_is(&e))
        descriptors_close(d);
    else if (d->symbol_count)
        qsort(d->symbols, d->symbol_count, sizeof *d->symbols, compare_symbols);
    return e;
}

void descriptors_close(struct descriptors *d)
{
    arena_close(&d->memory);
    free(d->files);
    free(d->symbols);
    *d = (struct descriptors){0};
}

const struct descriptor_file *descriptors_find_file(const struct descriptors *d, struct bytes name)
{
    for (size_t i = 0; i < d->file_count; i++)
        if (bytes_equal(d->files[i].name, name))
            return &d->files[i];
    return NULL;
}

const struct descriptor_symbol *descriptors_find_symbol(const struct descriptors *d,
                                                        struct bytes name)
{
    struct descriptor_symbol wanted = {.name = name};
    if (!d->symbol_count)
        return NULL;
    return bsearch(&wanted, d->symbols, d->symbol_count, sizeof *d->symbols, compare_symbols);
}

size_t descriptors_with_imports(const struct descriptors *d, const struct descriptor_file *file,
                                const struct descriptor_file **out)
{
    size_t n = 0;
    out[n++] = file;
    for (size_t i = 0; i < n; i++) {
        struct protowire w = {.in = out[i]->content};
        for (struct protowire_field f; protowire_next(&w, &f);) {
            if (f.number != FILE_IMPORT)
                continue;
            const struct descriptor_file *import = descriptors_find_file(d, f.bytes);
            bool seen = false;
            for (size_t k = 0; k < n; k++)
                seen |= out[k] == import;
            if (!seen)
                out[n++] = import;
        }
    }
    return n;
}
