#include "client/cli/output.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Well-formed UTF-8, as RFC 3629 has it. */
static bool is_utf8(struct bytes b)
{
    for (size_t i = 0; i < b.len;) {
        uint8_t c = b.data[i];
        size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : 3;
        if ((c >= 0x80 && c < 0xc2) || c > 0xf4 || i + more >= b.len)
            return false;
        uint8_t second = more ? b.data[i + 1] : 0x80;
        if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) ||
            (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f))
            return false;
        for (size_t n = 1; n <= more; n++)
            if ((b.data[i + n] & 0xc0) != 0x80)
                return false;
        i += more + 1;
    }
    return true;
}

static void base64(struct bytes b, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < b.len; i += 3) {
        size_t have = b.len - i < 3 ? b.len - i : 3;
        uint32_t group = (uint32_t)b.data[i] << 16;
        if (have > 1)
            group |= (uint32_t)b.data[i + 1] << 8;
        if (have > 2)
            group |= b.data[i + 2];
        for (size_t n = 0; n < 4; n++)
            buf_byte(out, (uint8_t)(n <= have ? digits[group >> (18 - 6 * n) & 63] : '='));
    }
}

void output_add_base64(struct json_object *to, const char *name, struct baton_bytes value)
{
    struct buf coded = {0};
    base64(api_bytes(value), &coded);
    output_add_text(to, name, coded.len ? (const char *)coded.data : "");
    buf_close(&coded);
}

void output_add_bytes(struct json_object *to, const char *name, struct baton_bytes given)
{
    struct bytes value = api_bytes(given);
    if (is_utf8(value)) {
        const char *text = value.data ? (const char *)value.data : "";
        json_object_object_add(to, name, json_object_new_string_len(text, (int)value.len));
        return;
    }
    struct buf key = {0};
    buf_printf(&key, "%s_base64", name);
    output_add_base64(to, (const char *)key.data, given);
    buf_close(&key);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool output_unbase64(struct bytes text, struct arena *memory, struct bytes *out)
{
    uint8_t *room = arena_raw(memory, text.len / 4 * 3 + 1);
    size_t len = 0, pad = 0;
    if (text.len % 4)
        return false;
    while (pad < 2 && pad < text.len && text.data[text.len - 1 - pad] == '=')
        pad++;
    for (size_t i = 0; i < text.len; i += 4) {
        uint32_t group = 0;
        for (size_t n = 0; n < 4; n++) {
            bool padded = i + n >= text.len - pad;
            int digit = padded ? 0 : base64_digit((char)text.data[i + n]);
            if (digit < 0)
                return false;
            group = group << 6 | (uint32_t)digit;
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            room[len++] = (uint8_t)(group >> shift);
    }
    *out = bytes_of(room, len - pad);
    return true;
}

bool output_get_bytes(struct json_object *from, const char *name, struct arena *memory,
                      struct baton_bytes *out)
{
    struct json_object *value;
    char coded[64];
    snprintf(coded, sizeof coded, "%s_base64", name);
    bool plain = json_object_object_get_ex(from, name, &value);
    if ((!plain && !json_object_object_get_ex(from, coded, &value)) ||
        !json_object_is_type(value, json_type_string))
        return false;
    struct bytes text =
        bytes_of(json_object_get_string(value), (size_t)json_object_get_string_len(value));
    struct bytes kept = BYTES_NONE;
    bool ok = plain || output_unbase64(text, memory, &kept);
    *out = api_shown(plain ? arena_copy(memory, text) : kept);
    return ok;
}

void output_add_text(struct json_object *to, const char *name, const char *value)
{
    json_object_object_add(to, name, json_object_new_string(value));
}

void output_add_number(struct json_object *to, const char *name, int64_t value)
{
    json_object_object_add(to, name, json_object_new_int64(value));
}

void output_add_flag(struct json_object *to, const char *name, bool value)
{
    json_object_object_add(to, name, json_object_new_boolean(value));
}

void output_json_to(FILE *out, struct json_object *value)
{
    fprintf(out, "%s\n",
            json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                      JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(value);
}

void output_json(struct json_object *value)
{
    output_json_to(stdout, value);
}

static void put_time(struct buf *out, int64_t unix_ms)
{
    char text[32];
    struct tm tm;
    time_t seconds = (time_t)(unix_ms / 1000);
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &tm);
    buf_str(out, unix_ms ? text : "-");
}

/* A cell as text; what is missing or empty shows as "-". */
static void put_cell(struct buf *out, struct json_object *row, const struct column *c)
{
    struct json_object *value = NULL;
    buf_clear(out);
    json_object_object_get_ex(row, c->key, &value);
    const char *text = value ? json_object_get_string(value) : "";
    if (c->kind == COLUMN_TIME && value)
        put_time(out, json_object_get_int64(value));
    else
        buf_str(out, *text ? text : "-");
}

#define COLUMNS_MAX 16

/* One cell, and the blanks up to the next; nothing behind the last one. */
static void put_padded(struct buf *out, const char *text, size_t len, size_t width, bool last)
{
    buf_append(out, text, len);
    for (; !last && len < width + 2; len++)
        buf_byte(out, ' ');
    if (last)
        buf_byte(out, '\n');
}

void output_table(struct json_object *list, const struct column *columns, size_t count,
                  struct buf *out)
{
    size_t rows = json_object_array_length(list), width[COLUMNS_MAX];
    struct buf cell = {0};
    count = count < COLUMNS_MAX ? count : COLUMNS_MAX;
    for (size_t c = 0; c < count; c++) {
        width[c] = strlen(columns[c].title);
        for (size_t r = 0; r < rows; r++) {
            put_cell(&cell, json_object_array_get_idx(list, r), &columns[c]);
            width[c] = cell.len > width[c] ? cell.len : width[c];
        }
    }
    for (size_t c = 0; c < count; c++)
        put_padded(out, columns[c].title, strlen(columns[c].title), width[c], c + 1 == count);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < count; c++) {
            put_cell(&cell, json_object_array_get_idx(list, r), &columns[c]);
            put_padded(out, (const char *)cell.data, cell.len, width[c], c + 1 == count);
        }
    buf_close(&cell);
}

void output_list(const struct cli *cli, struct json_object *list, const struct column *columns,
                 size_t count)
{
    if (cli_json(cli)) {
        output_json(list);
        return;
    }
    struct buf table = {0};
    output_table(list, columns, count, &table);
    fwrite(table.data, 1, table.len, stdout);
    buf_close(&table);
    json_object_put(list);
}

void output_object(const struct cli *cli, struct json_object *object, const struct column *columns,
                   size_t count)
{
    if (cli_json(cli)) {
        output_json(object);
        return;
    }
    struct buf cell = {0};
    for (size_t c = 0; c < count; c++) {
        put_cell(&cell, object, &columns[c]);
        printf("%-16s%s\n", columns[c].title, (const char *)cell.data);
    }
    buf_close(&cell);
    json_object_put(object);
}
