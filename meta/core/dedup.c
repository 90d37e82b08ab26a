#include "meta/core/dedup.h"
#include "common/base/check.h"
#include "meta/core/wire.h"

/* A chunk: format 1, number of entries (4 bytes, lowest first), entries. An entry: id, method, hash
 * of the body (8 bytes, lowest first), answer. */
enum { FORMAT = 1, COUNT_AT = 1, HEAD_BYTES = 5, HASH_BYTES = 8 };

static uint64_t get_fixed(const uint8_t *p, int bytes)
{
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++)
        n |= (uint64_t)p[i] << (8 * i);
    return n;
}

static void put_fixed(uint8_t *p, uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(n >> (8 * i));
}

void dedup_chunk_begin(struct buf *out)
{
    buf_clear(out);
    buf_append(out, (uint8_t[HEAD_BYTES]){FORMAT}, HEAD_BYTES);
}

void dedup_chunk_add(struct buf *chunk, const struct dedup_entry *entry)
{
    PRE(chunk->len >= HEAD_BYTES);
    uint8_t hash[HASH_BYTES];
    put_fixed(hash, entry->body_hash, HASH_BYTES);
    wire_put_bytes(chunk, entry->id);
    buf_byte(chunk, entry->method);
    buf_append(chunk, hash, HASH_BYTES);
    wire_put_bytes(chunk, entry->answer);
    put_fixed(chunk->data + COUNT_AT, get_fixed(chunk->data + COUNT_AT, 4) + 1, 4);
}

size_t dedup_entry_bytes(const struct dedup_entry *entry)
{
    return wire_number_bytes(entry->id.len) + entry->id.len + 1 + HASH_BYTES +
           wire_number_bytes(entry->answer.len) + entry->answer.len;
}

static bool decode_entry(struct bytes *in, struct dedup_entry *out)
{
    if (!wire_get_bytes(in, &out->id) || in->len < 1 + HASH_BYTES)
        return false;
    out->method = in->data[0];
    out->body_hash = get_fixed(in->data + 1, HASH_BYTES);
    *in = bytes_of(in->data + 1 + HASH_BYTES, in->len - 1 - HASH_BYTES);
    return wire_get_bytes(in, &out->answer);
}

bool dedup_reader_init(struct dedup_reader *r, struct bytes chunk)
{
    if (chunk.len < HEAD_BYTES || chunk.data[0] != FORMAT)
        return false;
    *r = (struct dedup_reader){
        .chunk = chunk, .at = HEAD_BYTES, .left = (uint32_t)get_fixed(chunk.data + COUNT_AT, 4)};
    return true;
}

bool dedup_reader_next(struct dedup_reader *r, struct dedup_entry *out, uint32_t *offset)
{
    struct bytes in = bytes_of(r->chunk.data + r->at, r->chunk.len - r->at);
    if (r->left == 0 || r->at > UINT32_MAX || !decode_entry(&in, out))
        return false;
    *offset = (uint32_t)r->at;
    r->at = r->chunk.len - in.len;
    r->left--;
    return true;
}

bool dedup_chunk_valid(struct bytes chunk)
{
    struct dedup_reader r;
    struct dedup_entry entry;
    uint32_t offset;
    if (!dedup_reader_init(&r, chunk))
        return false;
    while (dedup_reader_next(&r, &entry, &offset))
        continue;
    return r.left == 0 && r.at == chunk.len;
}

uint32_t dedup_chunk_count(struct bytes chunk)
{
    PRE(chunk.len >= HEAD_BYTES);
    return (uint32_t)get_fixed(chunk.data + COUNT_AT, 4);
}

bool dedup_entry_at(struct bytes chunk, uint32_t offset, struct dedup_entry *out)
{
    if (offset < HEAD_BYTES || offset >= chunk.len)
        return false;
    struct bytes in = bytes_of(chunk.data + offset, chunk.len - offset);
    return decode_entry(&in, out);
}

bool dedup_number_decode(struct bytes text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9' || __builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, text.data[i] - '0', out))
            return false;
    return text.len > 0;
}
