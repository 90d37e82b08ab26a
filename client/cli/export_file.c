#include "client/cli/export_file.h"
#include "client/cli/kv_output.h"
#include "client/cli/output.h"
#include <errno.h>
#include <inttypes.h>

enum {
    FORMAT = 1,
    LINE_MAX_BYTES = 16 * 1024 * 1024, /* the largest value, escaped as JSON escapes at worst */
    KEY_MAX_BYTES = 480,
};

/* ---- writing ---- */

static bool put_line(struct export_writer *w, struct json_object *o)
{
    const char *text =
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    struct bytes line = bytes_str(text);
    digest_add(w->digest, line);
    digest_add(w->digest, bytes_str("\n"));
    bool ok = fwrite(line.data, 1, line.len, w->file) == line.len && fputc('\n', w->file) != EOF;
    json_object_put(o);
    return ok;
}

bool export_begin(struct export_writer *w, FILE *file, const struct export_head *head)
{
    *w = (struct export_writer){.file = file, .digest = digest_new()};
    struct json_object *o = json_object_new_object();
    output_add_text(o, "baton", "export");
    output_add_number(o, "format", FORMAT);
    output_add_text(o, "cluster", head->cluster);
    output_add_number(o, "epoch", (int64_t)head->epoch);
    output_add_number(o, "revision", head->revision);
    output_add_number(o, "incarnation", (int64_t)head->incarnation);
    return put_line(w, o);
}

bool export_add(struct export_writer *w, const struct baton_kv *item)
{
    w->keys++;
    return put_line(w, kv_json(item, true));
}

bool export_end(struct export_writer *w)
{
    char sum[DIGEST_HEX_MAX];
    digest_hex(w->digest, sum);
    return fprintf(w->file, "{\"end\":true,\"keys\":%" PRIu64 ",\"sha256\":\"%s\"}\n", w->keys,
                   sum) > 0 &&
           fflush(w->file) == 0;
}

void export_writer_close(struct export_writer *w)
{
    digest_free(w->digest);
    w->digest = NULL;
}

/* ---- reading ---- */

static struct err wrong(const struct export_reader *r, const char *what)
{
    return err_make(ERR_CORRUPT, "line %" PRIu64 ": %s", r->at, what);
}

/* Without its end; OK and no line at the end of the file is CORRUPT to whoever wants one. */
static struct err read_line(struct export_reader *r)
{
    int c;
    buf_clear(&r->line);
    r->at++;
    while ((c = getc(r->file)) != EOF && c != '\n' && r->line.len < LINE_MAX_BYTES)
        buf_byte(&r->line, (uint8_t)c);
    if (ferror(r->file))
        return err_make(ERR_IO, "cannot read the file: %s", strerror(errno));
    if (c == EOF)
        return wrong(r, "the file ends here: it was cut");
    return c == '\n' ? OK_ERR : wrong(r, "a line that is too long");
}

static struct json_object *parse_line(const struct export_reader *r)
{
    if (r->line.len == 0)
        return NULL;
    struct json_tokener *t = json_tokener_new();
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    struct json_object *o =
        json_tokener_parse_ex(t, (const char *)r->line.data, (int)r->line.len + 1);
    bool ok = json_tokener_get_error(t) == json_tokener_success &&
              json_object_is_type(o, json_type_object);
    json_tokener_free(t);
    if (ok)
        return o;
    json_object_put(o);
    return NULL;
}

static bool get_number(struct json_object *o, const char *name, int64_t *out)
{
    struct json_object *value;
    if (!json_object_object_get_ex(o, name, &value) || !json_object_is_type(value, json_type_int))
        return false;
    *out = json_object_get_int64(value);
    return *out >= 0;
}

static const char *get_text(struct json_object *o, const char *name)
{
    struct json_object *value;
    bool there =
        json_object_object_get_ex(o, name, &value) && json_object_is_type(value, json_type_string);
    return there ? json_object_get_string(value) : "";
}

static bool take_head(struct json_object *o, struct export_head *head)
{
    int64_t epoch, incarnation;
    bool ok = get_number(o, "epoch", &epoch) && get_number(o, "revision", &head->revision) &&
              get_number(o, "incarnation", &incarnation);
    if (!ok)
        return false;
    head->epoch = (uint64_t)epoch;
    head->incarnation = (uint64_t)incarnation;
    snprintf(head->cluster, sizeof head->cluster, "%s", get_text(o, "cluster"));
    return head->cluster[0] != 0;
}

static struct err read_head(struct export_reader *r)
{
    int64_t format = 0;
    struct err e = read_line(r);
    if (e.code == ERR_IO)
        return e;
    struct json_object *o = err_is(&e) ? NULL : parse_line(r);
    if (!o || strcmp(get_text(o, "baton"), "export") != 0)
        e = wrong(r, "this is no file that batonctl export wrote");
    else if (!get_number(o, "format", &format) || format != FORMAT)
        e = wrong(r, "the file is of another format than this version reads");
    else if (!take_head(o, &r->head))
        e = wrong(r, "the header makes no sense");
    json_object_put(o);
    return e;
}

static struct err take_item(struct export_reader *r, struct json_object *o, struct arena *memory,
                            struct baton_kv *out)
{
    *out = (struct baton_kv){0};
    if (!output_get_bytes(o, "key", memory, &out->key) ||
        !output_get_bytes(o, "value", memory, &out->value) ||
        !get_number(o, "revision", &out->mod_revision) ||
        !get_number(o, "create_revision", &out->create_revision) ||
        !get_number(o, "version", &out->version))
        return wrong(r, "neither a key with its value nor the end");
    if (out->key.len == 0 || out->key.len > KEY_MAX_BYTES)
        return wrong(r, "a key that is empty or too long");
    return OK_ERR;
}

/* A key; or the end, which is no error of this function: *end, with what it says. */
static struct err read_item(struct export_reader *r, struct arena *memory, struct baton_kv *item,
                            bool *end, uint64_t *keys, char sum[DIGEST_HEX_MAX])
{
    struct json_object *value;
    struct err e = read_line(r);
    struct json_object *o = err_is(&e) ? NULL : parse_line(r);
    int64_t count = -1;
    if (err_is(&e))
        return e;
    if (!o)
        return wrong(r, "no JSON object");
    *end = json_object_object_get_ex(o, "end", &value);
    if (!*end) {
        e = take_item(r, o, memory, item);
    } else if (get_number(o, "keys", &count)) {
        *keys = (uint64_t)count;
        snprintf(sum, DIGEST_HEX_MAX, "%s", get_text(o, "sha256"));
    } else {
        e = wrong(r, "the end makes no sense");
    }
    json_object_put(o);
    return e;
}

static void add_line(struct digest *d, const struct export_reader *r)
{
    digest_add(d, buf_view(&r->line));
    digest_add(d, bytes_str("\n"));
}

static struct err check_order(struct export_reader *r, const struct baton_kv *item)
{
    if (r->last_key.len && bytes_compare(buf_view(&r->last_key), api_bytes(item->key)) >= 0)
        return wrong(r, "the keys are not in order");
    buf_clear(&r->last_key);
    buf_bytes(&r->last_key, api_bytes(item->key));
    return OK_ERR;
}

/* All keys up to the end; r->digest is what the lines before the end give. */
static struct err check_items(struct export_reader *r, struct digest *digest)
{
    struct arena memory = {0};
    struct baton_kv item = {0};
    struct err e = OK_ERR;
    uint64_t keys = 0;
    char said[DIGEST_HEX_MAX];
    for (bool end = false; !end && !err_is(&e);) {
        arena_clear(&memory);
        e = read_item(r, &memory, &item, &end, &keys, said);
        if (err_is(&e) || end)
            break;
        add_line(digest, r);
        r->keys++;
        e = check_order(r, &item);
    }
    arena_close(&memory);
    digest_hex(digest, r->digest);
    if (err_is(&e))
        return e;
    if (keys != r->keys)
        return wrong(r, "the end counts other keys than there are: the file was changed");
    if (strcmp(said, r->digest) != 0)
        return wrong(r, "the digest is not that of the file: it was changed");
    return getc(r->file) == EOF ? OK_ERR : wrong(r, "something follows the end");
}

struct err export_check(struct export_reader *r, FILE *file)
{
    *r = (struct export_reader){.file = file, .start = ftell(file)};
    struct err e = read_head(r);
    if (err_is(&e))
        return e;
    struct digest *digest = digest_new();
    add_line(digest, r);
    e = check_items(r, digest);
    digest_free(digest);
    return e;
}

struct err export_rewind(struct export_reader *r)
{
    if (fseek(r->file, r->start, SEEK_SET) != 0)
        return err_make(ERR_IO, "cannot read the file again: %s", strerror(errno));
    r->at = 0;
    return read_head(r);
}

struct err export_next(struct export_reader *r, struct arena *memory, struct baton_kv *out)
{
    bool end = false;
    uint64_t keys;
    char sum[DIGEST_HEX_MAX];
    struct err e = read_item(r, memory, out, &end, &keys, sum);
    if (!err_is(&e) && end)
        e = wrong(r, "the file has changed while it was read");
    return e;
}

void export_reader_close(struct export_reader *r)
{
    buf_close(&r->line);
    buf_close(&r->last_key);
}
