/* How the cores write numbers and bytes one behind the other: varints (7 bits a byte, lowest first)
 * and slices with their length in front. Reading checks every bound. */
#pragma once
#include "common/base/buf.h"

static inline void wire_put_number(struct buf *out, uint64_t n)
{
    uint8_t bytes[10];
    size_t len = 0;
    while (n >= 0x80) {
        bytes[len++] = (uint8_t)(n | 0x80);
        n >>= 7;
    }
    bytes[len++] = (uint8_t)n;
    buf_append(out, bytes, len);
}

static inline void wire_put_bytes(struct buf *out, struct bytes s)
{
    wire_put_number(out, s.len);
    buf_bytes(out, s);
}

static inline size_t wire_number_bytes(uint64_t n)
{
    size_t len = 1;
    while (n >= 0x80) {
        n >>= 7;
        len++;
    }
    return len;
}

/* Takes from the front of *in; false leaves it anywhere. */
static inline bool wire_get_number(struct bytes *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->len > 0; shift += 7) {
        uint8_t byte = in->data[0];
        *in = bytes_of(in->data + 1, in->len - 1);
        if (shift == 63 && byte > 1)
            return false;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static inline bool wire_get_bytes(struct bytes *in, struct bytes *out)
{
    uint64_t len;
    if (!wire_get_number(in, &len) || len > in->len)
        return false;
    *out = bytes_of(in->data, len);
    *in = bytes_of(in->data + len, in->len - len);
    return true;
}
