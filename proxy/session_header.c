#include "proxy/session_h2.h"
#include <stdlib.h>

const struct header *header_list_find(const struct header_list *l, enum header_kind kind)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (l->items[i].kind == kind)
            return &l->items[i];
    return NULL;
}

void header_list_clear(struct header_list *l)
{
    for (uint32_t i = 0; i < l->count; i++)
        for (int n = 0; n < 2; n++)
            if (l->items[i].refs[n])
                nghttp2_rcbuf_decref(l->items[i].refs[n]);
    l->count = 0;
    l->size = 0;
}

void header_list_close(struct header_list *l)
{
    header_list_clear(l);
    free(l->items);
    *l = (struct header_list){0};
}

/* The library's own constants live for ever and need no reference. */
static void *keep(nghttp2_rcbuf *b)
{
    if (nghttp2_rcbuf_is_static(b))
        return NULL;
    nghttp2_rcbuf_incref(b);
    return b;
}

struct bytes header_bytes(nghttp2_rcbuf *b)
{
    nghttp2_vec v = nghttp2_rcbuf_get_buf(b);
    return bytes_of(v.base, v.len);
}

void header_list_add(struct header_list *l, enum header_kind kind, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 16;
        l->items = mem_resize(l->items, l->cap * sizeof *l->items);
    }
    l->items[l->count++] = (struct header){
        .name = header_bytes(name),
        .value = header_bytes(value),
        .refs = {keep(name), keep(value)},
        .kind = kind,
        .never_index = flags & NGHTTP2_NV_FLAG_NO_INDEX,
    };
}

void header_fill_nv(nghttp2_nv *out, const struct header *headers, size_t count)
{
    const uint8_t kept = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    for (size_t i = 0; i < count; i++)
        out[i] = (nghttp2_nv){
            .name = (uint8_t *)headers[i].name.data,
            .namelen = headers[i].name.len,
            .value = (uint8_t *)headers[i].value.data,
            .valuelen = headers[i].value.len,
            .flags = headers[i].never_index ? kept | NGHTTP2_NV_FLAG_NO_INDEX : kept,
        };
}
