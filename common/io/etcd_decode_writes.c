/* The answer to a txn of writes, the one that a leader gets all day: up to thousands of results
 * that say nothing. json-c builds a tree of three objects for each of them, some microseconds; here
 * they are only matched against the one form in which etcd writes them, and anything else is left
 * to json-c. */
#include "common/io/etcd_json.h"
#include "common/base/mem.h"
#include <ctype.h>

struct scan {
    const uint8_t *at, *end;
};

static bool skip(struct scan *s, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        return false;
    s->at += n;
    return true;
}

static bool number(struct scan *s, int64_t *out)
{
    int64_t n = 0;
    const uint8_t *start = s->at;
    while (s->at < s->end && isdigit(*s->at) && s->at - start < 18)
        n = n * 10 + (*s->at++ - '0');
    *out = n;
    return s->at > start && skip(s, "\"");
}

static bool write_result(struct scan *s, struct etcd_op_result *out)
{
    int64_t revision;
    *out = (struct etcd_op_result){.kind = ETCD_OP_PUT};
    if (skip(s, "{\"response_put\":{\"header\":{\"revision\":\""))
        return number(s, &revision) && skip(s, "}}}");
    out->kind = ETCD_OP_DELETE;
    if (!skip(s, "{\"response_delete_range\":{\"header\":{\"revision\":\"") ||
        !number(s, &revision) || !skip(s, "}"))
        return false;
    if (skip(s, ",\"deleted\":\"") && !number(s, &out->deleted))
        return false;
    return skip(s, "}}");
}

/* How many results stand from s to the end of the answer; -1 when something else does. Into out if
 * given. */
static long write_results(struct scan s, struct etcd_op_result *out)
{
    struct etcd_op_result one;
    long n = 0;
    do {
        if (!write_result(&s, out ? &out[n] : &one))
            return -1;
        n++;
    } while (skip(&s, ","));
    if (!skip(&s, "]}"))
        return -1;
    while (s.at < s.end && isspace(*s.at))
        s.at++;
    return s.at == s.end ? n : -1;
}

bool etcd_decode_writes(struct bytes body, struct etcd_txn_result *out)
{
    static const char mark[] = ",\"responses\":[";
    const uint8_t *at = body.len ? memmem(body.data, body.len, mark, sizeof mark - 1) : NULL;
    if (!at)
        return false;
    struct scan s = {.at = at + sizeof mark - 1, .end = body.data + body.len};
    long count = write_results(s, NULL);
    if (count < 0)
        return false;
    struct buf head = {0};
    buf_append(&head, body.data, (size_t)(at - body.data));
    buf_str(&head, "}");
    struct json_object *o = etcd_json_parse(buf_view(&head));
    buf_close(&head);
    struct reader r = {0};
    if (o) {
        out->header = read_header(&r, o);
        out->succeeded = read_bool(&r, o, "succeeded");
    }
    json_object_put(o);
    if (!o || r.bad)
        return false;
    out->result_count = (size_t)count;
    out->results = mem_array(out->result_count, sizeof *out->results);
    write_results(s, out->results);
    return true;
}
