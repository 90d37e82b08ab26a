#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

bool bytes_starts_with(struct bytes s, struct bytes prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.data, prefix.data, prefix.len) == 0);
}

void buf_reserve(struct buf *b, size_t more)
{
    size_t need = b->len + more + 1;
    PRE(need > more);
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    b->data = mem_resize(b->data, cap);
    b->cap = cap;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
    buf_reserve(b, len);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
}

void buf_bytes(struct buf *b, struct bytes s)
{
    buf_append(b, s.data, s.len);
}

void buf_str(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_byte(struct buf *b, uint8_t c)
{
    buf_append(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    PRE(n >= 0);
    buf_reserve(b, (size_t)n);
    vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

void buf_consume(struct buf *b, size_t len)
{
    PRE(len <= b->len);
    if (len == 0)
        return;
    b->len -= len;
    memmove(b->data, b->data + len, b->len);
    b->data[b->len] = 0;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = 0;
}

void buf_close(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

struct bytes bytes_dup(struct bytes s)
{
    uint8_t *copy = mem_alloc(s.len + 1);
    if (s.len)
        memcpy(copy, s.data, s.len);
    return bytes_of(copy, s.len);
}

bool bytes_prefix_end(struct bytes prefix, struct buf *out)
{
    size_t n = prefix.len;
    while (n > 0 && prefix.data[n - 1] == 0xff)
        n--;
    buf_clear(out);
    if (n == 0)
        return false;
    buf_append(out, prefix.data, n);
    out->data[n - 1]++;
    return true;
}
