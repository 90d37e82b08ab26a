/* Requests as JSON, written out by hand: the fields are constants, numbers are strings as in etcd's
 * own answers, bytes are base64, so nothing ever needs escaping. etcd ignores fields that it does
 * not know: a misspelt compare would run the txn unguarded, which is why tests prove each of them
 * against etcd. */
#include "common/io/etcd_codec.h"
#include "common/base/check.h"
#include <limits.h>
#include <openssl/evp.h>

#define LIT(out, text) buf_append(out, "" text, sizeof(text) - 1)

static void put_base64(struct buf *out, struct bytes s)
{
    PRE(s.len < INT_MAX / 2);
    LIT(out, "\"");
    if (s.len) {
        buf_reserve(out, (s.len + 2) / 3 * 4);
        out->len += (size_t)EVP_EncodeBlock(out->data + out->len, s.data, (int)s.len);
    }
    LIT(out, "\"");
}

static void put_number(struct buf *out, int64_t n)
{
    char digits[24];
    char *at = digits + sizeof digits;
    uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
    *--at = '"';
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (n < 0)
        *--at = '-';
    *--at = '"';
    buf_append(out, at, (size_t)(digits + sizeof digits - at));
}

static void put_key(struct buf *out, struct bytes key, struct bytes range_end)
{
    LIT(out, "\"key\":");
    put_base64(out, key);
    if (range_end.len) {
        LIT(out, ",\"range_end\":");
        put_base64(out, range_end);
    }
}

void etcd_prefix_end(struct bytes prefix, struct buf *out)
{
    struct buf end = {0};
    if (bytes_prefix_end(prefix, &end))
        buf_bytes(out, buf_view(&end));
    else
        buf_byte(out, 0);
    buf_close(&end);
}

static void put_compare(struct buf *out, const struct etcd_compare *c)
{
    static const char *const targets[] = {
        [ETCD_VERSION] = "{\"target\":\"VERSION\",", [ETCD_CREATE] = "{\"target\":\"CREATE\",",
        [ETCD_MOD] = "{\"target\":\"MOD\",",         [ETCD_VALUE] = "{\"target\":\"VALUE\",",
        [ETCD_LEASE] = "{\"target\":\"LEASE\",",
    };
    static const char *const relations[] = {
        [ETCD_EQUAL] = "\"result\":\"EQUAL\",",
        [ETCD_NOT_EQUAL] = "\"result\":\"NOT_EQUAL\",",
        [ETCD_LESS] = "\"result\":\"LESS\",",
        [ETCD_GREATER] = "\"result\":\"GREATER\",",
    };
    static const char *const operands[] = {
        [ETCD_VERSION] = ",\"version\":",  [ETCD_CREATE] = ",\"create_revision\":",
        [ETCD_MOD] = ",\"mod_revision\":", [ETCD_VALUE] = ",\"value\":",
        [ETCD_LEASE] = ",\"lease\":",
    };
    buf_str(out, targets[c->target]);
    buf_str(out, relations[c->relation]);
    put_key(out, c->key, c->range_end);
    buf_str(out, operands[c->target]); /* even when it is zero: it is what is compared */
    if (c->target == ETCD_VALUE)
        put_base64(out, c->value);
    else
        put_number(out, c->number);
    LIT(out, "}");
}

static void put_put(struct buf *out, const struct etcd_op *op)
{
    LIT(out, "{");
    put_key(out, op->key, BYTES_NONE);
    if (op->value.len) {
        LIT(out, ",\"value\":");
        put_base64(out, op->value);
    }
    if (op->lease) {
        LIT(out, ",\"lease\":");
        put_number(out, op->lease);
    }
    LIT(out, "}");
}

static void put_range(struct buf *out, const struct etcd_op *op)
{
    LIT(out, "{");
    put_key(out, op->key, op->range_end);
    if (op->limit) {
        LIT(out, ",\"limit\":");
        put_number(out, op->limit);
    }
    if (op->revision) {
        LIT(out, ",\"revision\":");
        put_number(out, op->revision);
    }
    if (op->by_create)
        LIT(out, ",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"");
    if (op->keys_only)
        LIT(out, ",\"keys_only\":true");
    LIT(out, "}");
}

static void put_op(struct buf *out, const struct etcd_op *op)
{
    switch (op->kind) {
    case ETCD_OP_PUT:
        LIT(out, "{\"request_put\":");
        put_put(out, op);
        break;
    case ETCD_OP_DELETE:
        LIT(out, "{\"request_delete_range\":{");
        put_key(out, op->key, op->range_end);
        LIT(out, "}");
        break;
    case ETCD_OP_RANGE:
        LIT(out, "{\"request_range\":");
        put_range(out, op);
        break;
    }
    LIT(out, "}");
}

static void put_ops(struct buf *out, const char *name, const struct etcd_op *ops, size_t count)
{
    buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        if (i)
            LIT(out, ",");
        put_op(out, &ops[i]);
    }
    LIT(out, "]");
}

void etcd_json_txn(struct buf *out, const struct etcd_txn *txn)
{
    LIT(out, "{\"compare\":[");
    for (size_t i = 0; i < txn->compare_count; i++) {
        if (i)
            LIT(out, ",");
        put_compare(out, &txn->compares[i]);
    }
    LIT(out, "]");
    if (txn->success_count)
        put_ops(out, "success", txn->success, txn->success_count);
    if (txn->failure_count)
        put_ops(out, "failure", txn->failure, txn->failure_count);
    LIT(out, "}");
}

void etcd_encode_range(struct buf *out, const struct etcd_op *range)
{
    PRE(range->kind == ETCD_OP_RANGE);
    put_range(out, range);
}

void etcd_encode_compact(struct buf *out, int64_t revision)
{
    LIT(out, "{\"revision\":");
    put_number(out, revision);
    LIT(out, "}");
}

void etcd_encode_lease_grant(struct buf *out, int64_t id, int64_t ttl_s)
{
    LIT(out, "{\"TTL\":");
    put_number(out, ttl_s);
    LIT(out, ",\"ID\":");
    put_number(out, id);
    LIT(out, "}");
}

void etcd_encode_lease(struct buf *out, int64_t id)
{
    LIT(out, "{\"ID\":");
    put_number(out, id);
    LIT(out, "}");
}

void etcd_encode_status(struct buf *out)
{
    LIT(out, "{}");
}

/* The one request with text that people choose. */
static void put_text(struct buf *out, const char *text)
{
    LIT(out, "\"");
    for (; *text; text++) {
        uint8_t c = (uint8_t)*text;
        if (c < 0x20)
            buf_printf(out, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            buf_byte(out, '\\'), buf_byte(out, c);
        else
            buf_byte(out, c);
    }
    LIT(out, "\"");
}

void etcd_encode_authenticate(struct buf *out, const char *user, const char *password)
{
    /* room for all of it first: a buffer that grows leaves copies behind */
    buf_reserve(out, 64 + 6 * (strlen(user) + strlen(password)));
    LIT(out, "{\"name\":");
    put_text(out, user);
    LIT(out, ",\"password\":");
    put_text(out, password);
    LIT(out, "}");
}

void etcd_json_watches(struct buf *out, const struct etcd_watch *watches, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct etcd_watch *w = &watches[i];
        PRE(w->watch_id > 0);
        LIT(out, "{\"create_request\":{");
        put_key(out, w->key, w->range_end);
        LIT(out, ",\"watch_id\":");
        put_number(out, w->watch_id);
        if (w->start_revision) {
            LIT(out, ",\"start_revision\":");
            put_number(out, w->start_revision);
        }
        if (w->progress_notify)
            LIT(out, ",\"progress_notify\":true");
        if (w->fragment)
            LIT(out, ",\"fragment\":true");
        LIT(out, "}}");
    }
}
