#include "meta/core/worker.h"
#include "meta/core/fields.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- text ---- */

static void put_flag(struct buf *out, const char *name, bool set)
{
    if (set)
        field_put_u64(out, name, 1);
}

/* Names are checked before they get here, and arenas put a 0 behind what they copy. */
static void put_named(struct buf *out, const char *prefix, struct bytes name, const char *value)
{
    char field[WORKER_TYPE_MAX + 16];
    snprintf(field, sizeof field, "%s%.*s", prefix, (int)name.len, (const char *)name.data);
    field_put_str(out, field, value);
}

static void put_text(struct buf *out, const char *prefix, struct bytes name, struct bytes value)
{
    char text[WORKER_ADDR_MAX + 1];
    snprintf(text, sizeof text, "%.*s", (int)value.len, (const char *)value.data);
    put_named(out, prefix, name, text);
}

static void put_amount(struct buf *out, const struct worker_resource *r)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)r->amount);
    put_named(out, "resource.", r->name, digits);
}

void worker_encode(const struct worker *w, struct buf *out)
{
    struct buf line = {0};
    field_put_u64(&line, "id", w->id);
    field_put_u64(&line, "incarnation", w->incarnation);
    put_text(&line, "type", BYTES_NONE, w->type);
    put_text(&line, "addr", BYTES_NONE, w->addr);
    field_put_u64(&line, "ttl_ms", w->ttl_ms);
    put_flag(&line, "running", w->running);
    put_flag(&line, "cordoned", w->cordoned);
    put_flag(&line, "draining", w->draining);
    if (w->has_slot) {
        field_put_u64(&line, "slot", w->slot);
        field_put_u64(&line, "grant", w->grant);
    }
    if (w->end != WORKER_LIVES)
        field_put_str(&line, "end", w->end == WORKER_EXPIRED ? "expired" : "deleted");
    for (size_t i = 0; i < w->label_count; i++)
        put_text(&line, "label.", w->labels[i].name, w->labels[i].value);
    for (size_t i = 0; i < w->resource_count; i++)
        put_amount(&line, &w->resources[i]);
    if (w->others.len) {
        buf_byte(&line, ' ');
        buf_bytes(&line, w->others);
    }
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
}

/* ---- back ---- */

static bool read_flag(struct field_reader *r, const char *name)
{
    return field_is_there(r->text, name) && field_u64(r, name, 0, 1);
}

static struct bytes read_text(struct field_reader *r, struct arena *memory, const char *name,
                              size_t max)
{
    char text[WORKER_ADDR_MAX + 1];
    field_str(r, name, text, max + 1, 1);
    return arena_copy(memory, bytes_str(text));
}

static enum worker_end read_end(struct field_reader *r)
{
    char word[16];
    if (!field_is_there(r->text, "end"))
        return WORKER_LIVES;
    field_str(r, "end", word, sizeof word, 1);
    return strcmp(word, "expired") == 0 ? WORKER_EXPIRED : WORKER_DELETED;
}

/* What is in a line beside the fields with a fixed name. */
struct rest {
    struct field_reader *reader;
    struct arena *memory;
    struct worker_label *labels;
    struct worker_resource *resources;
    size_t label_count, resource_count;
    struct buf others;
};

static bool is_fixed(struct bytes name)
{
    static const char *const fixed[] = {"id",     "incarnation", "type",     "addr",
                                        "ttl_ms", "running",     "cordoned", "draining",
                                        "slot",   "grant",       "end"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (bytes_equal(name, bytes_str(fixed[i])))
            return true;
    return false;
}

static bool has_prefix(struct bytes name, const char *prefix)
{
    return name.len > strlen(prefix) && bytes_starts_with(name, bytes_str(prefix));
}

static struct bytes behind(struct bytes name, size_t prefix)
{
    return bytes_of(name.data + prefix, name.len - prefix);
}

static void read_label(struct rest *rest, const char *field, struct bytes name)
{
    char value[WORKER_LABEL_MAX + 1];
    if (rest->label_count == WORKER_LABELS_MAX) {
        rest->reader->bad = "label";
        return;
    }
    field_str(rest->reader, field, value, sizeof value, 0);
    rest->labels[rest->label_count++] = (struct worker_label){
        .name = arena_copy(rest->memory, behind(name, 6)),
        .value = arena_copy(rest->memory, bytes_str(value)),
    };
}

static void read_resource(struct rest *rest, const char *field, struct bytes name)
{
    if (rest->resource_count == WORKER_RESOURCES_MAX) {
        rest->reader->bad = "resource";
        return;
    }
    rest->resources[rest->resource_count++] = (struct worker_resource){
        .name = arena_copy(rest->memory, behind(name, 9)),
        .amount = field_u64(rest->reader, field, 0, UINT64_MAX),
    };
}

/* The reader keeps the name of what is bad, which must not be one that is about to go. */
static void name_lasting(struct field_reader *r, const char *going, const char *lasting)
{
    if (r->bad == going)
        r->bad = lasting;
}

static void read_field(struct rest *rest, struct bytes field)
{
    const uint8_t *equals = memchr(field.data, '=', field.len);
    struct bytes name = bytes_of(field.data, equals ? (size_t)(equals - field.data) : field.len);
    char text[WORKER_TYPE_MAX + 16];
    if (!field.len || is_fixed(name))
        return;
    bool fits = equals && name.len < sizeof text;
    if (fits) {
        memcpy(text, name.data, name.len);
        text[name.len] = 0;
    }
    if (fits && has_prefix(name, "label.")) {
        read_label(rest, text, name);
        name_lasting(rest->reader, text, "label");
    } else if (fits && has_prefix(name, "resource.")) {
        read_resource(rest, text, name);
        name_lasting(rest->reader, text, "resource");
    } else {
        if (rest->others.len)
            buf_byte(&rest->others, ' ');
        buf_bytes(&rest->others, field);
    }
}

static void read_rest(struct rest *rest, struct bytes line)
{
    rest->labels = arena_array(rest->memory, WORKER_LABELS_MAX, sizeof *rest->labels);
    rest->resources = arena_array(rest->memory, WORKER_RESOURCES_MAX, sizeof *rest->resources);
    struct bytes field;
    while (field_next(&line, &field))
        read_field(rest, field);
}

struct err worker_decode(struct bytes line, struct arena *memory, struct worker *out)
{
    struct field_reader r = {.text = line};
    struct rest rest = {.reader = &r, .memory = memory};
    *out = (struct worker){
        .id = field_u64(&r, "id", 1, UINT64_MAX),
        .incarnation = field_u64(&r, "incarnation", 1, UINT64_MAX),
        .ttl_ms = field_u64(&r, "ttl_ms", WORKER_TTL_MIN_MS, WORKER_TTL_MAX_MS),
    };
    out->type = read_text(&r, memory, "type", WORKER_TYPE_MAX);
    out->addr = read_text(&r, memory, "addr", WORKER_ADDR_MAX);
    out->running = read_flag(&r, "running");
    out->cordoned = read_flag(&r, "cordoned");
    out->draining = read_flag(&r, "draining");
    out->has_slot = field_is_there(line, "slot");
    if (out->has_slot) {
        out->slot = (uint32_t)field_u64(&r, "slot", 0, WORKER_SLOT_MAX);
        out->grant = field_u64(&r, "grant", 1, UINT64_MAX);
    }
    out->end = read_end(&r);
    read_rest(&rest, line);
    out->labels = rest.labels;
    out->label_count = rest.label_count;
    out->resources = rest.resources;
    out->resource_count = rest.resource_count;
    out->others = arena_copy(memory, buf_view(&rest.others));
    buf_close(&rest.others);
    return field_verdict(&r, "worker");
}

bool worker_gone_next(struct bytes *rest, struct bytes *line)
{
    if (!rest->len)
        return false;
    const uint8_t *end = memchr(rest->data, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    *line = bytes_of(rest->data, len);
    *rest = end ? behind(*rest, len + 1) : BYTES_NONE;
    return true;
}

/* ---- keys and counters ---- */

void worker_key(char out[WORKER_KEY_DIGITS + 1], uint64_t id)
{
    snprintf(out, WORKER_KEY_DIGITS + 1, "%020llu", (unsigned long long)id);
}

bool worker_key_id(struct bytes key, uint64_t *id)
{
    *id = 0;
    if (key.len != WORKER_KEY_DIGITS)
        return false;
    for (size_t i = 0; i < key.len; i++)
        if (key.data[i] < '0' || key.data[i] > '9' || __builtin_mul_overflow(*id, 10, id) ||
            __builtin_add_overflow(*id, (uint64_t)(key.data[i] - '0'), id))
            return false;
    return *id > 0;
}

void worker_counters_encode(const struct worker_counters *c, struct buf *out)
{
    field_put_u64(out, "id", c->id);
    field_put_u64(out, "incarnation", c->incarnation);
    field_put_u64(out, "grant", c->grant);
}

struct err worker_counters_decode(struct bytes line, struct worker_counters *out)
{
    struct field_reader r = {.text = line};
    *out = (struct worker_counters){
        .id = field_u64(&r, "id", 0, UINT64_MAX),
        .incarnation = field_u64(&r, "incarnation", 0, UINT64_MAX),
        .grant = field_u64(&r, "grant", 0, UINT64_MAX),
    };
    return field_verdict(&r, "counters of workers");
}

/* ---- checks ---- */

static bool is_name_char(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

struct err worker_check_name(struct bytes name, const char *what)
{
    bool good = name.len > 0 && name.len <= WORKER_TYPE_MAX;
    for (size_t i = 0; good && i < name.len; i++)
        good = is_name_char(name.data[i]);
    if (good)
        return OK_ERR;
    return err_make(ERR_BAD_WORKER, "%s '%.*s': 1 to %d characters of A-Z a-z 0-9 . _ -", what,
                    (int)(name.len < 80 ? name.len : 80), (const char *)name.data, WORKER_TYPE_MAX);
}

struct err worker_check_addr(struct bytes addr)
{
    size_t colon = addr.len;
    while (colon > 0 && addr.data[colon - 1] != ':')
        colon--;
    size_t port = 0;
    bool good = colon > 1 && colon < addr.len && addr.len <= WORKER_ADDR_MAX;
    for (size_t i = 0; good && i < colon; i++)
        good = addr.data[i] > ' ' && addr.data[i] < 0x7f;
    for (size_t i = colon; good && i < addr.len; i++) {
        good = addr.data[i] >= '0' && addr.data[i] <= '9' && port <= 65535;
        port = port * 10 + (size_t)(addr.data[i] - '0');
    }
    if (good && port > 0 && port <= 65535)
        return OK_ERR;
    return err_make(ERR_BAD_WORKER, "addr '%.*s' is no host:port of at most %d characters",
                    (int)(addr.len < 80 ? addr.len : 80), (const char *)addr.data, WORKER_ADDR_MAX);
}

/* How many bytes the character at the front takes; 0: it is none. */
static size_t utf8_len(struct bytes text)
{
    uint8_t first = text.data[0];
    size_t len = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first > 0xf4 || len > text.len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((text.data[i] & 0xc0) != 0x80)
            return 0;
    if (len < 3)
        return len;
    /* shorter ones exist, surrogates, past the last */
    uint8_t second = text.data[1];
    bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
               (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return bad ? 0 : len;
}

/* Clients refuse a whole list for the one string in it that is no UTF-8. */
static bool is_label_value(struct bytes value)
{
    if (value.len > WORKER_LABEL_MAX)
        return false;
    while (value.len) {
        size_t len = value.data[0] ? utf8_len(value) : 0;
        if (!len)
            return false;
        value = behind(value, len);
    }
    return true;
}

struct err worker_check_labels(const struct worker_label *labels, size_t count)
{
    if (count > WORKER_LABELS_MAX)
        return err_make(ERR_BAD_WORKER, "%zu labels: at most %d", count, WORKER_LABELS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct err e = worker_check_name(labels[i].name, "label");
        if (err_is(&e))
            return e;
        if (!is_label_value(labels[i].value))
            return err_make(
                ERR_BAD_WORKER, "label %.*s: values are at most %d bytes of UTF-8, none of them 0",
                (int)labels[i].name.len, (const char *)labels[i].name.data, WORKER_LABEL_MAX);
    }
    return OK_ERR;
}

struct err worker_check_resources(const struct worker_resource *resources, size_t count)
{
    if (count > WORKER_RESOURCES_MAX)
        return err_make(ERR_BAD_WORKER, "%zu resources: at most %d", count, WORKER_RESOURCES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct err e = worker_check_name(resources[i].name, "resource");
        if (err_is(&e))
            return e;
    }
    return OK_ERR;
}

struct err worker_check_ttl(uint64_t ttl_ms)
{
    if (ttl_ms == 0 || (ttl_ms >= WORKER_TTL_MIN_MS && ttl_ms <= WORKER_TTL_MAX_MS))
        return OK_ERR;
    return err_make(ERR_BAD_WORKER, "ttl_ms is %llu: from %d to %d, or 0 for the default",
                    (unsigned long long)ttl_ms, WORKER_TTL_MIN_MS, WORKER_TTL_MAX_MS);
}
