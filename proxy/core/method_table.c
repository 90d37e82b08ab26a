#include "proxy/core/method_table.h"
#include "common/base/mem.h"
#include "common/base/protowire.h"
#include <stdlib.h>

static uint64_t hash(struct bytes s)
{
    uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a over words: paths are short */
    size_t i = 0;
    for (; i + 8 <= s.len; i += 8) {
        uint64_t word;
        memcpy(&word, s.data + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
        h ^= h >> 32;
    }
    for (; i < s.len; i++)
        h = (h ^ s.data[i]) * 0x100000001b3ULL;
    return h ^ (h >> 29);
}

static struct method_row *slot(const struct method_table *t, struct bytes path)
{
    size_t at = hash(path) & (t->cap - 1);
    while (t->rows[at].path.len && !bytes_equal(t->rows[at].path, path))
        at = (at + 1) & (t->cap - 1);
    return &t->rows[at];
}

static void grow(struct method_table *t)
{
    struct method_table old = *t;
    t->cap = old.cap ? old.cap * 2 : 64;
    t->rows = mem_array(t->cap, sizeof *t->rows);
    for (size_t i = 0; i < old.cap; i++)
        if (old.rows[i].path.len)
            *slot(t, old.rows[i].path) = old.rows[i];
    free(old.rows);
}

void method_table_add(struct method_table *t, struct bytes path, struct method method)
{
    if (path.len == 0)
        return;
    if (t->count * 2 >= t->cap)
        grow(t);
    struct method_row *row = slot(t, path);
    if (!row->path.len) {
        row->path = bytes_dup(path);
        t->count++;
    }
    row->method = method;
}

struct method method_table_find(const struct method_table *t, struct bytes path)
{
    if (!t->cap || path.len == 0)
        return (struct method){METHOD_OTHER};
    return slot(t, path)->method;
}

void method_table_close(struct method_table *t)
{
    for (size_t i = 0; i < t->cap; i++)
        free((void *)t->rows[i].path.data);
    free(t->rows);
    *t = (struct method_table){0};
}

/* Field numbers of descriptor.proto. */
enum {
    SET_FILE = 1,
    FILE_PACKAGE = 2,
    FILE_SERVICE = 6,
    SERVICE_NAME = 1,
    SERVICE_METHOD = 2,
    METHOD_NAME = 1,
    METHOD_OPTIONS = 4,
    METHOD_CLIENT_STREAMING = 5,
    METHOD_SERVER_STREAMING = 6,
    OPTION_IDEMPOTENCY = 34,
};

static bool is_listed(const char *list, struct bytes name)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        if (bytes_equal(bytes_of(list, n), name))
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

static bool has_idempotency(struct bytes options)
{
    struct protowire r = {.in = options};
    struct protowire_field f;
    while (protowire_next(&r, &f))
        if (f.number == OPTION_IDEMPOTENCY && f.value)
            return true;
    return false;
}

static bool load_method(struct method_table *t, struct bytes in, struct bytes service,
                        bool keeps_ids)
{
    struct bytes name = BYTES_NONE;
    bool idempotent = false, streaming = false;
    struct protowire r = {.in = in};
    struct protowire_field f;
    while (protowire_next(&r, &f)) {
        if (f.number == METHOD_NAME)
            name = f.bytes;
        else if (f.number == METHOD_OPTIONS)
            idempotent = has_idempotency(f.bytes);
        else if (f.number == METHOD_CLIENT_STREAMING || f.number == METHOD_SERVER_STREAMING)
            streaming |= f.value != 0;
    }
    struct buf path = {0};
    buf_byte(&path, '/');
    buf_bytes(&path, service);
    buf_byte(&path, '/');
    buf_bytes(&path, name);
    struct method method = {.class = idempotent                ? METHOD_READ
                                     : keeps_ids && !streaming ? METHOD_MUTATION
                                                               : METHOD_OTHER,
                            .unary = !streaming};
    method_table_add(t, buf_view(&path), method);
    buf_close(&path);
    return !r.broken;
}

static bool load_service(struct method_table *t, struct bytes in, struct bytes package,
                         const char *keeps_ids)
{
    struct buf full = {0};
    struct protowire r = {.in = in};
    struct protowire_field f;
    bool fine = true;
    for (struct protowire scan = r; protowire_next(&scan, &f);)
        if (f.number == SERVICE_NAME) {
            buf_clear(&full);
            buf_bytes(&full, package);
            if (package.len)
                buf_byte(&full, '.');
            buf_bytes(&full, f.bytes);
        }
    bool keeps = is_listed(keeps_ids, package) || is_listed(keeps_ids, buf_view(&full));
    while (fine && protowire_next(&r, &f))
        if (f.number == SERVICE_METHOD)
            fine = load_method(t, f.bytes, buf_view(&full), keeps);
    buf_close(&full);
    return fine && !r.broken;
}

static bool load_file(struct method_table *t, struct bytes in, const char *keeps_ids)
{
    struct bytes package = BYTES_NONE;
    struct protowire r = {.in = in};
    struct protowire_field f;
    for (struct protowire scan = r; protowire_next(&scan, &f);)
        if (f.number == FILE_PACKAGE)
            package = f.bytes;
    while (protowire_next(&r, &f))
        if (f.number == FILE_SERVICE && !load_service(t, f.bytes, package, keeps_ids))
            return false;
    return !r.broken;
}

struct err method_table_load(struct method_table *t, struct bytes descriptor_set,
                             const char *keeps_ids)
{
    struct protowire r = {.in = descriptor_set};
    struct protowire_field f;
    while (protowire_next(&r, &f))
        if (f.number == SET_FILE && !load_file(t, f.bytes, keeps_ids))
            return err_make(ERR_USAGE, "a file in the descriptor set cannot be read");
    if (r.broken)
        return err_make(ERR_USAGE, "not a descriptor set (protoc --descriptor_set_out)");
    return OK_ERR;
}
