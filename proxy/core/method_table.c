#include "proxy/core/method_table.h"
#include "common/base/mem.h"
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

/* A reader of protobuf's wire format, enough for descriptors: fields one after the other. */
struct reader {
    struct bytes in; /* what is left */
    bool broken;     /* it made no sense */
};

struct field {
    uint32_t number;
    uint64_t value;     /* of a varint */
    struct bytes bytes; /* of a length-delimited field */
};

static bool read_varint(struct reader *r, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && r->in.len; shift += 7) {
        uint8_t c = *r->in.data++;
        r->in.len--;
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return true;
    }
    return false;
}

static bool skip(struct reader *r, uint64_t n)
{
    if (r->in.len < n)
        return false;
    r->in.data += n;
    r->in.len -= (size_t)n;
    return true;
}

static bool read_value(struct reader *r, unsigned wire_type, struct field *f)
{
    uint64_t len;
    switch (wire_type) {
    case 0:
        return read_varint(r, &f->value);
    case 1:
        return skip(r, 8);
    case 2:
        if (!read_varint(r, &len))
            return false;
        f->bytes = bytes_of(r->in.data, (size_t)len);
        return skip(r, len);
    case 5:
        return skip(r, 4);
    }
    return false;
}

/* False at the end, and at bytes that make no sense. */
static bool next_field(struct reader *r, struct field *f)
{
    uint64_t key;
    *f = (struct field){0};
    if (r->in.len == 0 || r->broken)
        return false;
    r->broken = !read_varint(r, &key) || !read_value(r, key & 7, f);
    f->number = (uint32_t)(key >> 3);
    return !r->broken;
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
    struct reader r = {.in = options};
    struct field f;
    while (next_field(&r, &f))
        if (f.number == OPTION_IDEMPOTENCY && f.value)
            return true;
    return false;
}

static bool load_method(struct method_table *t, struct bytes in, struct bytes service,
                        bool keeps_ids)
{
    struct bytes name = BYTES_NONE;
    bool idempotent = false, streaming = false;
    struct reader r = {.in = in};
    struct field f;
    while (next_field(&r, &f)) {
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
    struct reader r = {.in = in};
    struct field f;
    bool fine = true;
    for (struct reader scan = r; next_field(&scan, &f);)
        if (f.number == SERVICE_NAME) {
            buf_clear(&full);
            buf_bytes(&full, package);
            if (package.len)
                buf_byte(&full, '.');
            buf_bytes(&full, f.bytes);
        }
    bool keeps = is_listed(keeps_ids, package) || is_listed(keeps_ids, buf_view(&full));
    while (fine && next_field(&r, &f))
        if (f.number == SERVICE_METHOD)
            fine = load_method(t, f.bytes, buf_view(&full), keeps);
    buf_close(&full);
    return fine && !r.broken;
}

static bool load_file(struct method_table *t, struct bytes in, const char *keeps_ids)
{
    struct bytes package = BYTES_NONE;
    struct reader r = {.in = in};
    struct field f;
    for (struct reader scan = r; next_field(&scan, &f);)
        if (f.number == FILE_PACKAGE)
            package = f.bytes;
    while (next_field(&r, &f))
        if (f.number == FILE_SERVICE && !load_service(t, f.bytes, package, keeps_ids))
            return false;
    return !r.broken;
}

struct err method_table_load(struct method_table *t, struct bytes descriptor_set,
                             const char *keeps_ids)
{
    struct reader r = {.in = descriptor_set};
    struct field f;
    while (next_field(&r, &f))
        if (f.number == SET_FILE && !load_file(t, f.bytes, keeps_ids))
            return err_make(ERR_USAGE, "a file in the descriptor set cannot be read");
    if (r.broken)
        return err_make(ERR_USAGE, "not a descriptor set (protoc --descriptor_set_out)");
    return OK_ERR;
}
