#include "meta/core/fields.h"

static bool is_plain(unsigned char c)
{
    return c > ' ' && c < 0x7f && c != '%';
}

static void put_name(struct buf *out, const char *name)
{
    if (out->len)
        buf_byte(out, ' ');
    buf_str(out, name);
    buf_byte(out, '=');
}

void field_put_str(struct buf *out, const char *name, const char *value)
{
    put_name(out, name);
    for (const char *c = value; *c; c++) {
        if (is_plain((unsigned char)*c))
            buf_byte(out, (uint8_t)*c);
        else
            buf_printf(out, "%%%02x", (unsigned char)*c);
    }
}

void field_put_u64(struct buf *out, const char *name, uint64_t value)
{
    put_name(out, name);
    buf_printf(out, "%llu", (unsigned long long)value);
}

void field_put_i64(struct buf *out, const char *name, int64_t value)
{
    put_name(out, name);
    buf_printf(out, "%lld", (long long)value);
}

bool field_next(struct bytes *rest, struct bytes *field)
{
    if (!rest->len)
        return false;
    const uint8_t *space = memchr(rest->data, ' ', rest->len);
    size_t len = space ? (size_t)(space - rest->data) : rest->len;
    size_t taken = space ? len + 1 : len;
    *field = bytes_of(rest->data, len);
    *rest = bytes_of(rest->data + taken, rest->len - taken);
    return true;
}

static bool is_named(struct bytes field, const char *name)
{
    size_t want = strlen(name);
    return field.len > want && field.data[want] == '=' && memcmp(field.data, name, want) == 0;
}

/* The escaped value of the first field with this name. */
static bool find(struct bytes text, const char *name, struct bytes *value)
{
    size_t skip = strlen(name) + 1;
    struct bytes field;
    while (field_next(&text, &field)) {
        if (!is_named(field, name))
            continue;
        *value = bytes_of(field.data + skip, field.len - skip);
        return true;
    }
    return false;
}

bool field_is_there(struct bytes text, const char *name)
{
    struct bytes value;
    return find(text, name, &value);
}

static bool is_any(struct bytes field, const char *const *known, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_named(field, known[i]))
            return true;
    return false;
}

bool field_others(struct bytes text, const char *const *known, size_t count, char *out, size_t cap)
{
    size_t used = 0;
    struct bytes field;
    out[0] = 0;
    while (field_next(&text, &field)) {
        if (!field.len || is_any(field, known, count))
            continue;
        if (used + field.len + 2 > cap || memchr(field.data, 0, field.len))
            return false;
        if (used)
            out[used++] = ' ';
        memcpy(out + used, field.data, field.len);
        used += field.len;
        out[used] = 0;
    }
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void spoil(struct field_reader *r, const char *name)
{
    if (!r->bad)
        r->bad = name;
}

/* False when it is no well-made escape or does not fit; a 0 byte cannot be part of a string. */
static bool unescape(struct bytes value, char *out, size_t cap, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < value.len; i++) {
        int c = value.data[i];
        if (c == '%') {
            int high = i + 2 < value.len ? hex_digit(value.data[i + 1]) : -1;
            int low = i + 2 < value.len ? hex_digit(value.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = high * 16 + low;
            i += 2;
        }
        if (c == 0 || n + 1 >= cap)
            return false;
        out[n++] = (char)c;
    }
    out[n] = 0;
    *len = n;
    return true;
}

void field_str(struct field_reader *r, const char *name, char *out, size_t cap, size_t min)
{
    struct bytes value = BYTES_NONE;
    size_t len = 0;
    out[0] = 0;
    if (!find(r->text, name, &value) && min == 0)
        return;
    if (!unescape(value, out, cap, &len) || len < min) {
        out[0] = 0;
        spoil(r, name);
    }
}

void field_hex(struct field_reader *r, const char *name, char *out, size_t digits)
{
    struct bytes value = BYTES_NONE;
    bool good = find(r->text, name, &value) && value.len == digits;
    for (size_t i = 0; good && i < digits; i++)
        good = hex_digit(value.data[i]) >= 0;
    if (good)
        memcpy(out, value.data, digits);
    else
        spoil(r, name);
    out[good ? digits : 0] = 0;
}

static bool digits(struct bytes text, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c < '0' || c > '9' || n > (UINT64_MAX - (uint64_t)(c - '0')) / 10)
            return false;
        n = n * 10 + (uint64_t)(c - '0');
    }
    *out = n;
    return text.len > 0;
}

uint64_t field_u64(struct field_reader *r, const char *name, uint64_t min, uint64_t max)
{
    struct bytes value = BYTES_NONE;
    uint64_t n = 0;
    if (find(r->text, name, &value) && digits(value, &n) && n >= min && n <= max)
        return n;
    spoil(r, name);
    return min;
}

int64_t field_i64(struct field_reader *r, const char *name, int64_t min, int64_t max)
{
    struct bytes value = BYTES_NONE;
    uint64_t n = 0;
    bool found = find(r->text, name, &value);
    bool negative = found && value.len && value.data[0] == '-';
    if (negative)
        value = bytes_of(value.data + 1, value.len - 1);
    if (found && digits(value, &n) && n <= INT64_MAX) {
        int64_t i = negative ? -(int64_t)n : (int64_t)n;
        if (i >= min && i <= max)
            return i;
    }
    spoil(r, name);
    return min;
}

struct err field_verdict(const struct field_reader *r, const char *what)
{
    if (r->bad)
        return err_make(ERR_CORRUPT, "the %s in etcd has no good '%s': \"%.*s\"", what, r->bad,
                        (int)(r->text.len < 120 ? r->text.len : 120),
                        r->text.len ? (const char *)r->text.data : "");
    return OK_ERR;
}
