#include "meta/core/record.h"
#include "meta/core/bug.h"
#include "meta/core/fields.h"

void record_encode(const struct record *r, struct buf *out)
{
    struct buf line = {0};
    field_put_u64(&line, "epoch", r->epoch);
    field_put_u64(&line, "seq", r->seq);
    field_put_str(&line, "leader", r->leader);
    field_put_str(&line, "nonce", r->nonce);
    field_put_str(&line, "batch", r->batch);
    field_put_i64(&line, "ttl_ms", r->ttl_ms);
    field_put_u64(&line, "events", r->events);
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
}

struct err record_decode(struct bytes value, struct record *out)
{
    struct field_reader r = {.text = value};
    *out = (struct record){0};
    if (value.len > RECORD_BYTES_MAX)
        r.bad = "length";
    out->epoch = field_u64(&r, "epoch", 1, UINT64_MAX - 1);
    out->seq = field_u64(&r, "seq", 0, UINT64_MAX - 1);
    field_str(&r, "leader", out->leader, sizeof out->leader, 1);
    field_hex(&r, "nonce", out->nonce, NONCE_DIGITS);
    field_hex(&r, "batch", out->batch, NONCE_DIGITS);
    out->ttl_ms = field_i64(&r, "ttl_ms", 1, RECORD_TTL_MAX_MS);
    out->events = field_u64(&r, "events", 0, UINT64_MAX);
    return field_verdict(&r, "commit record");
}

bool record_bytes_set(struct record_bytes *b, struct bytes value)
{
    if (value.len > sizeof b->data)
        return false;
    if (value.len)
        memcpy(b->data, value.data, value.len);
    b->len = value.len;
    return true;
}

void record_bytes_encode(struct record_bytes *b, const struct record *r)
{
    struct buf line = {0};
    record_encode(r, &line);
    record_bytes_set(b, buf_view(&line));
    buf_close(&line);
}

void history_encode(const struct history *h, struct buf *out)
{
    struct buf line = {0};
    field_put_str(&line, "leader", h->leader);
    field_put_str(&line, "addr", h->addr);
    field_put_str(&line, "nonce", h->nonce);
    field_put_i64(&line, "started_unix_ms", h->started_unix_ms);
    field_put_str(&line, "reason", h->reason);
    field_put_str(&line, "prev_nonce", h->prev_nonce);
    field_put_u64(&line, "prev_seq", h->prev_seq);
    field_put_str(&line, "prev_batch", h->prev_batch);
    field_put_i64(&line, "prev_revision", h->prev_revision);
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
}

struct err history_decode(struct bytes value, struct history *out)
{
    struct field_reader r = {.text = value};
    *out = (struct history){0};
    field_str(&r, "leader", out->leader, sizeof out->leader, 1);
    field_str(&r, "addr", out->addr, sizeof out->addr, 0);
    field_hex(&r, "nonce", out->nonce, NONCE_DIGITS);
    out->started_unix_ms = field_i64(&r, "started_unix_ms", 0, INT64_MAX);
    field_str(&r, "reason", out->reason, sizeof out->reason, 0);
    field_str(&r, "prev_nonce", out->prev_nonce, sizeof out->prev_nonce, 0);
    out->prev_seq = field_u64(&r, "prev_seq", 0, UINT64_MAX);
    field_str(&r, "prev_batch", out->prev_batch, sizeof out->prev_batch, 0);
    out->prev_revision = field_i64(&r, "prev_revision", 0, INT64_MAX);
    return field_verdict(&r, "history entry");
}

void released_encode(const struct released *r, struct buf *out)
{
    struct buf line = {0};
    field_put_u64(&line, "epoch", r->epoch);
    field_put_str(&line, "nonce", r->nonce);
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
}

struct err released_decode(struct bytes value, struct released *out)
{
    struct field_reader r = {.text = value};
    *out = (struct released){0};
    out->epoch = field_u64(&r, "epoch", 1, UINT64_MAX);
    field_hex(&r, "nonce", out->nonce, NONCE_DIGITS);
    struct err e = field_verdict(&r, "released leadership");
    if (err_is(&e))
        *out = (struct released){0};
    return e;
}

bool released_names(const struct released *released, const struct record *record)
{
    if (!released->epoch || released->epoch != record->epoch)
        return false;
    return BUG(BUG_RELEASED_EPOCH) || strcmp(released->nonce, record->nonce) == 0;
}

void member_info_encode(const struct member_info *m, struct buf *out)
{
    struct buf line = {0};
    field_put_str(&line, "id", m->id);
    field_put_str(&line, "instance", m->instance);
    field_put_str(&line, "start", m->start);
    field_put_str(&line, "addr", m->addr);
    field_put_str(&line, "http_addr", m->http_addr);
    field_put_str(&line, "version", m->version);
    field_put_u64(&line, "format_min", m->format_min);
    field_put_u64(&line, "format_max", m->format_max);
    field_put_i64(&line, "started_unix_ms", m->started_unix_ms);
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
}

struct err member_info_decode(struct bytes value, struct member_info *out)
{
    struct field_reader r = {.text = value};
    *out = (struct member_info){0};
    field_str(&r, "id", out->id, sizeof out->id, 1);
    field_hex(&r, "instance", out->instance, NONCE_DIGITS);
    field_hex(&r, "start", out->start, NONCE_DIGITS);
    field_str(&r, "addr", out->addr, sizeof out->addr, 1);
    field_str(&r, "http_addr", out->http_addr, sizeof out->http_addr, 0);
    field_str(&r, "version", out->version, sizeof out->version, 0);
    out->format_min = (uint32_t)field_u64(&r, "format_min", 0, UINT32_MAX);
    out->format_max = (uint32_t)field_u64(&r, "format_max", 0, UINT32_MAX);
    out->started_unix_ms = field_i64(&r, "started_unix_ms", 0, INT64_MAX);
    return field_verdict(&r, "member record");
}
