#include "common/base/protowire.h"

static bool read_varint(struct protowire *w, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && w->in.len; shift += 7) {
        uint8_t c = *w->in.data++;
        w->in.len--;
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return true;
    }
    return false;
}

static bool skip(struct protowire *w, uint64_t n)
{
    if (w->in.len < n)
        return false;
    w->in.data += n;
    w->in.len -= (size_t)n;
    return true;
}

static bool read_value(struct protowire *w, unsigned wire_type, struct protowire_field *f)
{
    uint64_t len;
    switch (wire_type) {
    case 0:
        return read_varint(w, &f->value);
    case 1:
        return skip(w, 8);
    case 2:
        if (!read_varint(w, &len))
            return false;
        f->bytes = bytes_of(w->in.data, (size_t)len);
        return skip(w, len);
    case 5:
        return skip(w, 4);
    }
    return false;
}

bool protowire_next(struct protowire *w, struct protowire_field *f)
{
    uint64_t key;
    *f = (struct protowire_field){0};
    if (w->in.len == 0 || w->broken)
        return false;
    w->broken = !read_varint(w, &key) || !read_value(w, key & 7, f);
    f->number = (uint32_t)(key >> 3);
    return !w->broken;
}
