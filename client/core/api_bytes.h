/* The library's bytes and those of its users. */
#pragma once
#include "client/include/baton/baton.h"
#include "common/base/buf.h"

static inline struct bytes api_bytes(struct baton_bytes b)
{
    return bytes_of(b.data, b.len);
}
static inline struct baton_bytes api_shown(struct bytes b)
{
    return (struct baton_bytes){.data = b.data, .len = b.len};
}
static inline struct baton_bytes api_text(const char *s)
{
    return api_shown(bytes_str(s));
}
