#include "common/io/etcd_json.h"
#include "common/base/mem.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>

struct json_object *etcd_json_parse(struct bytes body)
{
    if (body.len == 0 || body.len > INT_MAX)
        return NULL;
    struct json_tokener *tok = json_tokener_new();
    struct json_object *o = json_tokener_parse_ex(tok, (const char *)body.data, (int)body.len);
    bool whole = o && json_object_is_type(o, json_type_object);
    for (size_t i = json_tokener_get_parse_end(tok); whole && i < body.len; i++)
        whole = isspace(body.data[i]);
    json_tokener_free(tok);
    if (!whole) {
        json_object_put(o);
        return NULL;
    }
    return o;
}

static struct json_object *field(struct json_object *o, const char *name)
{
    struct json_object *found = NULL;
    return json_object_object_get_ex(o, name, &found) ? found : NULL;
}

static void *spoiled(struct reader *r, const char *name)
{
    if (!r->bad)
        r->bad = name;
    return NULL;
}

int64_t read_int(struct reader *r, struct json_object *o, const char *name)
{
    struct json_object *f = field(o, name);
    if (!f)
        return 0;
    if (json_object_is_type(f, json_type_int))
        return json_object_get_int64(f);
    if (!json_object_is_type(f, json_type_string)) {
        spoiled(r, name);
        return 0;
    }
    char *end;
    const char *s = json_object_get_string(f);
    errno = 0;
    int64_t n = strtoll(s, &end, 10);
    if (errno || end == s || *end)
        spoiled(r, name);
    return n;
}

uint64_t read_uint(struct reader *r, struct json_object *o, const char *name)
{
    struct json_object *f = field(o, name);
    if (!f)
        return 0;
    if (json_object_is_type(f, json_type_int))
        return json_object_get_uint64(f);
    if (!json_object_is_type(f, json_type_string)) {
        spoiled(r, name);
        return 0;
    }
    char *end;
    const char *s = json_object_get_string(f);
    errno = 0;
    uint64_t n = strtoull(s, &end, 10);
    if (errno || !isdigit((unsigned char)*s) || *end)
        spoiled(r, name);
    return n;
}

bool read_bool(struct reader *r, struct json_object *o, const char *name)
{
    struct json_object *f = field(o, name);
    if (!f)
        return false;
    if (!json_object_is_type(f, json_type_boolean))
        spoiled(r, name);
    return json_object_get_boolean(f);
}

const char *read_string(struct reader *r, struct json_object *o, const char *name)
{
    struct json_object *f = field(o, name);
    if (f && !json_object_is_type(f, json_type_string))
        f = spoiled(r, name);
    return f ? json_object_get_string(f) : "";
}

struct json_object *read_object(struct reader *r, struct json_object *o, const char *name)
{
    struct json_object *f = field(o, name);
    if (f && !json_object_is_type(f, json_type_object))
        return spoiled(r, name);
    return f;
}

struct json_object *read_array(struct reader *r, struct json_object *o, const char *name)
{
    struct json_object *f = field(o, name);
    if (f && !json_object_is_type(f, json_type_array))
        return spoiled(r, name);
    return f;
}

size_t read_length(struct json_object *array)
{
    return array ? json_object_array_length(array) : 0;
}

/* OpenSSL counts the padding as bytes, and takes '=' anywhere for a zero: both are put right here.
 */
struct bytes read_base64(struct reader *r, struct json_object *o, const char *name)
{
    struct json_object *f = field(o, name);
    if (!f)
        return BYTES_NONE;
    int len = json_object_is_type(f, json_type_string) ? json_object_get_string_len(f) : -1;
    if (len == 0)
        return BYTES_NONE;
    const char *s = json_object_get_string(f);
    int room = len / 4 * 3;
    int pad = len >= 4 ? (s[len - 1] == '=') + (s[len - 1] == '=' && s[len - 2] == '=') : 0;
    if (len < 0 || len % 4 || r->end - r->at < room || memchr(s, '=', (size_t)(len - pad)) ||
        EVP_DecodeBlock(r->at, (const uint8_t *)s, len) != room) {
        spoiled(r, name);
        return BYTES_NONE;
    }
    struct bytes out = bytes_of(r->at, (size_t)(room - pad));
    r->at += room;
    return out;
}

struct etcd_header read_header(struct reader *r, struct json_object *o)
{
    struct json_object *h = read_object(r, o, "header");
    if (!h)
        return (struct etcd_header){0};
    return (struct etcd_header){.cluster_id = read_uint(r, h, "cluster_id"),
                                .member_id = read_uint(r, h, "member_id"),
                                .revision = read_int(r, h, "revision"),
                                .raft_term = read_uint(r, h, "raft_term")};
}

void read_kv(struct reader *r, struct json_object *o, struct etcd_kv *out)
{
    if (!json_object_is_type(o, json_type_object)) {
        spoiled(r, "kv");
        return;
    }
    out->key = read_base64(r, o, "key");
    out->value = read_base64(r, o, "value");
    out->create_revision = read_int(r, o, "create_revision");
    out->mod_revision = read_int(r, o, "mod_revision");
    out->version = read_int(r, o, "version");
    out->lease = read_int(r, o, "lease");
}

void *reader_block(struct reader *r, size_t struct_bytes, struct bytes body)
{
    size_t room = body.len / 4 * 3;
    uint8_t *block = mem_resize(NULL, struct_bytes + room);
    memset(block, 0, struct_bytes);
    r->at = block + struct_bytes;
    r->end = r->at + room;
    return block;
}

struct err reader_error(const struct reader *r, struct bytes body, const char *what)
{
    if (r->bad)
        return err_make(ERR_PROTOCOL, "etcd's %s makes no sense: its field %s", what, r->bad);
    int shown = body.len < 80 ? (int)body.len : 80;
    return err_make(ERR_PROTOCOL, "etcd's %s makes no sense: \"%.*s\"%s", what, shown,
                    body.len ? (const char *)body.data : "", body.len > 80 ? "..." : "");
}
