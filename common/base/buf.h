/* Bytes: a borrowed slice, and a buffer that grows. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t len;
};

#define BYTES_NONE ((struct bytes){0})

static inline struct bytes bytes_of(const void *data, size_t len)
{
    return (struct bytes){.data = data, .len = len};
}
static inline struct bytes bytes_str(const char *s)
{
    return (struct bytes){.data = (const uint8_t *)s, .len = s ? strlen(s) : 0};
}
static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}
int bytes_compare(struct bytes a, struct bytes b); /* memcmp order, the shorter first */
bool bytes_starts_with(struct bytes s, struct bytes prefix);

/* All zero is an empty buffer. data[len] is always 0 once something was written. */
struct buf {
    uint8_t *data;
    size_t len, cap;
};

void buf_reserve(struct buf *b, size_t more);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_bytes(struct buf *b, struct bytes s);
void buf_str(struct buf *b, const char *s);
void buf_byte(struct buf *b, uint8_t c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t len); /* drops the first len bytes */
void buf_clear(struct buf *b);               /* keeps the memory */
void buf_close(struct buf *b);               /* frees; the buffer is empty again */
static inline struct bytes buf_view(const struct buf *b)
{
    return (struct bytes){.data = b->data, .len = b->len};
}
struct bytes bytes_dup(struct bytes s); /* owned copy, with a 0 behind it; free((void *)x.data) */

/* The first key behind all keys that start with prefix, into out; false when there is none (empty
 * prefix, or only 0xff bytes): the range is then open. */
bool bytes_prefix_end(struct bytes prefix, struct buf *out);
