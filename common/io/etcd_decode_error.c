/* What has gone wrong, and whether the request can still take effect. etcd's gRPC codes are too
 * coarse for that (code 3 is a bad password as well as a txn that is too long), so its text is
 * looked at here, and nowhere else. What is not certain is LOST. */
#include "common/io/etcd_json.h"
#include "common/io/etcd_codec.h"
#include "common/io/etcd_pb.h"
#include <ctype.h>

static const struct {
    int grpc_code;
    const char *text; /* part of the message; NULL: any */
    enum err_code code;
} meanings[] = {
    {1, NULL, ERR_LOST},
    {2, NULL, ERR_LOST}, /* also "context deadline exceeded" of a proposal under way */
    {3, "too many operations", ERR_TOO_LARGE},
    {3, "too large", ERR_TOO_LARGE},
    {3, "authentication failed", ERR_DENIED},
    {3, "user name is empty", ERR_DENIED},
    {3, "revision of auth store is old", ERR_DENIED},
    {3, NULL, ERR_BAD_REQUEST},
    {4, NULL, ERR_LOST},
    {5, NULL, ERR_KEY_NOT_FOUND},
    {7, NULL, ERR_DENIED},
    {8, "database space exceeded", ERR_NO_SPACE},
    {8, "larger than max", ERR_TOO_LARGE},
    {8, "too many requests", ERR_OVERLOADED},
    {8, NULL, ERR_LOST},
    {9, "lease already exists", ERR_IN_USE},
    {9, "authentication is not enabled", ERR_DENIED},
    {11, "compacted", ERR_COMPACTED},
    {11, NULL, ERR_BAD_REQUEST},
    {13, NULL, ERR_LOST},
    {14, NULL, ERR_LOST},
    {15, NULL, ERR_CORRUPT},
    {16, NULL, ERR_DENIED},
};

static enum err_code meaning(int grpc_code, const char *text)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].grpc_code == grpc_code &&
            (!meanings[i].text || strstr(text, meanings[i].text)))
            return meanings[i].code;
    return ERR_PROTOCOL;
}

bool etcd_err_settles(enum err_code code)
{
    switch ((int)code) {
    case ERR_UNREACHABLE:
    case ERR_TOO_LARGE:
    case ERR_DENIED:
    case ERR_BAD_REQUEST:
    case ERR_KEY_NOT_FOUND:
    case ERR_COMPACTED:
    case ERR_IN_USE:
    case ERR_OVERLOADED:
        return true;
    default: /* NO_SPACE too: the write that fills the quota is applied and still answered with it
              */
        return false;
    }
}

struct err etcd_grpc_error(int grpc_code, const char *message)
{
    if (grpc_code == 0)
        return OK_ERR;
    return err_make(meaning(grpc_code, message), "%s", *message ? message : "etcd gave no message");
}

bool etcd_err_wants_token(int grpc_code, const struct err *e)
{
    return grpc_code == 16 || (grpc_code == 3 && (strstr(e->message, "user name is empty") ||
                                                  strstr(e->message, "auth store is old")));
}

bool etcd_err_means_no_auth(int grpc_code, const struct err *e)
{
    return grpc_code == 9 && strstr(e->message, "authentication is not enabled");
}

/* Not etcd itself, or not its gateway: something in between, or another server. */
static struct err foreign_answer(int http_status, struct bytes body)
{
    static const char named[] = "CommonName of client";
    if (http_status == 400 && body.len && memmem(body.data, body.len, named, sizeof named - 1))
        return err_make(ERR_DENIED, "while its authentication is on, etcd's JSON gateway takes no "
                                    "client certificate with a common name: make --etcd-cert "
                                    "without one");
    bool lost = http_status == 408 || http_status == 429 || http_status >= 500 ||
                (http_status == 200 && body.len == 0);
    int shown = body.len < 80 ? (int)body.len : 80;
    while (shown > 0 && isspace(body.data[shown - 1]))
        shown--;
    return err_make(lost ? ERR_LOST : ERR_PROTOCOL,
                    "HTTP %d and no JSON of etcd: \"%.*s\"; is this the client URL of an etcd?",
                    http_status, shown, shown ? (const char *)body.data : "");
}

/* Three shapes: {"error":"text","code":3}, {"code":3,"message":"text"}, and in streams
 * {"error":{"grpc_code":14,"message":"text"}}, where newer gateways say "code". */
static struct err read_error(struct json_object *o, int *grpc_code)
{
    struct reader r = {0};
    struct json_object *inner = NULL, *e = o;
    bool nested = json_object_object_get_ex(o, "error", &inner) &&
                  json_object_is_type(inner, json_type_object);
    if (nested)
        e = inner;
    int64_t code = read_int(&r, e, "grpc_code");
    if (!code)
        code = read_int(&r, e, "code");
    const char *text = read_string(&r, e, "message");
    if (!*text && !nested)
        text = read_string(&r, e, "error");
    if (r.bad || code < 0 || code > 16 || (!code && !*text))
        return OK_ERR;
    *grpc_code = (int)code;
    return err_make(meaning((int)code, text), "%s", *text ? text : "etcd gave no message");
}

/* The part of body that is its header object; empty when something else stands in front. */
static struct bytes front_header(struct bytes body)
{
    static const char *const lead[] = {"{", "\"header\"", ":"};
    static const char *const wrapped[] = {"{", "\"result\"", ":", "{", "\"header\"", ":"};
    for (int pass = 0; pass < 2; pass++) {
        const char *const *words = pass ? wrapped : lead;
        size_t count = pass ? 6 : 3, at = 0, i = 0;
        for (; i < count; i++) {
            while (at < body.len && isspace(body.data[at]))
                at++;
            size_t n = strlen(words[i]);
            if (body.len - at < n || memcmp(body.data + at, words[i], n) != 0)
                break;
            at += n;
        }
        const uint8_t *end = i == count ? memchr(body.data + at, '}', body.len - at) : NULL;
        if (end)
            return bytes_of(body.data + at, (size_t)(end + 1 - body.data) - at);
    }
    return BYTES_NONE;
}

struct etcd_header etcd_decode_header(struct bytes body)
{
    if (etcd_is_frame(body))
        return etcd_pb_decode_header(body);
    struct reader r = {0};
    struct bytes front = front_header(body);
    struct json_object *o = front.len ? etcd_json_parse(front) : NULL;
    struct json_object *outer = NULL;
    if (o) {
        outer = json_object_new_object();
        json_object_object_add(outer, "header", o);
    } else {
        outer = etcd_json_parse(body);
    }
    if (!outer)
        return (struct etcd_header){0};
    struct json_object *in = read_object(&r, outer, "result");
    struct etcd_header h = read_header(&r, in ? in : outer), none = {0};
    json_object_put(outer);
    return r.bad ? none : h;
}

struct err etcd_decode_error(int http_status, struct bytes body, int *grpc_code)
{
    *grpc_code = 0;
    if (http_status == 200 && front_header(body).len)
        return OK_ERR;
    struct json_object *o = etcd_json_parse(body);
    if (!o)
        return foreign_answer(http_status, body);
    struct err e = read_error(o, grpc_code);
    json_object_put(o);
    if (http_status != 200 && !err_is(&e))
        return foreign_answer(http_status, body);
    return e;
}
