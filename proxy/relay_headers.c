/* The header rules of the relay: what is refused, what is changed on the way to the leader, what
 * the client is told. Everything without a rule passes unchanged and in order. */
#include "proxy/worker.h"
#include <stdio.h>

static bool refuse(struct relay_verdict *v, enum relay_status status, const char *reason,
                   const char *message)
{
    *v = (struct relay_verdict){.act = RELAY_FAIL,
                                .status = status,
                                .reason = reason,
                                .message = message,
                                .not_executed = true};
    return false;
}

static bool is(struct bytes value, const char *word)
{
    return bytes_equal(value, bytes_str(word));
}

/* `via: baton <instance>` with our own instance: the call has been here before. */
static bool is_own_via(const struct call *c, struct bytes value)
{
    static const char prefix[] = "baton ";
    size_t n = sizeof prefix - 1;
    return value.len == n + 16 && !memcmp(value.data, prefix, n) &&
           !memcmp(value.data + n, c->worker->shared->instance, 16);
}

static bool take_timeout(struct call *c, struct bytes value, struct relay_verdict *refusal)
{
    int64_t left_ms;
    if (!grpc_timeout_parse(value, &left_ms))
        return refuse(refusal, RELAY_INVALID_ARGUMENT, "BAD_TIMEOUT", "malformed grpc-timeout");
    c->deadline_ms = c->arrived_ms + left_ms;
    return true;
}

static bool check_header(struct call *c, const struct header *h, struct relay_verdict *refusal)
{
    switch (h->kind) {
    case HEADER_PATH:
        c->path = h->value;
        return true;
    case HEADER_GRPC_TIMEOUT:
        return take_timeout(c, h->value, refusal);
    case HEADER_BINARY:
        return grpc_is_base64_list(h->value) ||
               refuse(refusal, RELAY_INVALID_ARGUMENT, "BAD_METADATA",
                      "a -bin header does not hold base64");
    case HEADER_VIA:
        return !is_own_via(c, h->value) ||
               refuse(refusal, RELAY_INTERNAL, "LOOP",
                      "the call came back to this proxy: a member's address leads here");
    default: /* the other kinds need no check */
        return true;
    }
}

bool relay_check_request(struct call *c, struct relay_verdict *refusal, int *http_status)
{
    const struct header_list *l = &c->request;
    const struct header *type = header_list_find(l, HEADER_CONTENT_TYPE);
    *http_status = 0;
    if (c->too_large)
        stat_add(&c->worker->stats.limit_headers, 1);
    if (c->too_large)
        return refuse(refusal, RELAY_RESOURCE_EXHAUSTED, "HEADERS_TOO_LARGE",
                      "the header list is larger than this proxy takes");
    if (!c->is_post)
        *http_status = 405;
    else if (!type || !grpc_is_content_type(type->value))
        *http_status = 415;
    if (*http_status)
        return false;
    for (uint32_t i = 0; i < l->count; i++)
        if (!check_header(c, &l->items[i], refusal))
            return false;
    struct method method = method_table_find(&c->worker->shared->methods, c->path);
    c->class = method.class;
    c->unary = method.unary;
    return true;
}

static void give_request_id(struct call *c)
{
    if (c->request_id[0])
        return;
    rng_hex(&c->worker->rng, c->request_id, 32);
    snprintf(c->request_id + 32, sizeof c->request_id - 32, "@%lld",
             (long long)c->worker->follow.revision);
}

static struct bytes request_id(const struct call *c)
{
    const struct header *h = header_list_find(&c->request, HEADER_REQUEST_ID);
    return h ? h->value : bytes_str(c->request_id);
}

static struct bytes timeout_value(struct call *c, const struct header *h)
{
    if (!c->waited && c->attempts == 0)
        return h->value;
    size_t n = grpc_timeout_format(c->deadline_ms - worker_now_ms(c->worker), c->timeout);
    return bytes_of(c->timeout, n);
}

/* Headers without a place in what goes upstream are not kept at all. */
bool call_keeps(struct call *c, enum header_kind kind, struct bytes value)
{
    switch (kind) {
    case HEADER_METHOD:
        c->is_post = is(value, "POST");
        return false;
    case HEADER_SCHEME:
    case HEADER_TE:
    case HEADER_CONTENT_LENGTH:
    case HEADER_CLIENT_CERT:
    case HEADER_GRPC_ATTEMPTS:
        return false;
    default:
        return true;
    }
}

struct seen {
    bool id, authority;
    const struct header *host;
};

/* One header of the request as it goes upstream; false: it does not. */
static bool upstream_header(struct call *c, const struct header *h, struct header *out,
                            struct seen *seen)
{
    const char *authority = c->worker->shared->options.authority;
    *out = *h;
    switch (h->kind) {
    case HEADER_AUTHORITY:
        seen->authority = true;
        if (authority[0])
            out->value = bytes_str(authority);
        return true;
    case HEADER_HOST:
        seen->host = h;
        return false;
    case HEADER_GRPC_TIMEOUT:
        out->value = timeout_value(c, h);
        return true;
    case HEADER_REQUEST_ID:
        seen->id = true;
        out->never_index = true;
        return true;
    default:
        return true;
    }
}

static size_t add(struct header *out, size_t n, const char *name, struct bytes value)
{
    out[n] = header_of(name, value);
    return n + 1;
}

size_t relay_request_headers(struct call *c, struct header *out)
{
    const struct proxy_shared *shared = c->worker->shared;
    struct seen seen = {0};
    size_t n = 0;
    uint32_t i = 0, count = c->request.count;
    const struct header *items = c->request.items;
    n = add(out, n, ":method", bytes_str("POST"));
    n = add(out, n, ":scheme", bytes_str("http"));
    for (; i < count && items[i].name.data[0] == ':'; i++)
        n += upstream_header(c, &items[i], &out[n], &seen);
    size_t place = n++; /* of `te`, or of what has to come before it */
    for (; i < count; i++)
        n += upstream_header(c, &items[i], &out[n], &seen);
    out[place] = header_of("te", bytes_str("trailers"));
    struct bytes authority = bytes_str(shared->options.authority);
    if (!authority.len && seen.host)
        authority = seen.host->value;
    if (!seen.authority && authority.len) {
        out[n++] = out[place];
        out[place] = header_of(":authority", authority);
    }
    /* a further line of the same list, behind what the client said */
    n = add(out, n, "x-forwarded-for", bytes_str(c->client->peer));
    n = add(out, n, "via", bytes_str(shared->via));
    if (c->replays) {
        snprintf(c->attempts_text, sizeof c->attempts_text, "%u", c->replays);
        n = add(out, n, "grpc-previous-rpc-attempts", bytes_str(c->attempts_text));
    }
    if (c->class == METHOD_MUTATION && !seen.id) {
        give_request_id(c);
        n = add(out, n, "baton-request-id", bytes_str(c->request_id));
        out[n - 1].never_index = true;
    }
    return n;
}

static size_t add_unknown(const struct call *c, struct header *out, size_t n)
{
    n = add(out, n, "baton-outcome", bytes_str("unknown"));
    struct bytes id = request_id(c);
    return id.len ? add(out, n, "baton-request-id", id) : n;
}

size_t relay_answer_headers(struct call *c, const struct header_list *l, struct header *out)
{
    size_t n = 0;
    bool doubtful = false;
    for (uint32_t i = 0; i < l->count; i++) {
        const struct header *h = &l->items[i];
        if (c->unknown && h->kind == HEADER_NOT_EXECUTED)
            doubtful = true; /* this attempt did nothing, but an earlier one may have */
        else
            out[n++] = *h;
    }
    return doubtful ? add_unknown(c, out, n) : n;
}

static const char *status_word(enum relay_status status)
{
    static const char *const words[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                        "9", "10", "11", "12", "13", "14", "15", "16"};
    return words[status];
}

size_t relay_failure_headers(struct call *c, const struct relay_verdict *v, bool trailers_only,
                             struct header *out)
{
    size_t n = 0;
    if (trailers_only) {
        n = add(out, n, ":status", bytes_str("200"));
        n = add(out, n, "content-type", bytes_str("application/grpc"));
    }
    n = add(out, n, "grpc-status", bytes_str(status_word(v->status)));
    n = add(out, n, "grpc-message", bytes_str(v->message));
    n = add(out, n, "baton-reason", bytes_str(v->reason));
    if (v->not_executed)
        n = add(out, n, "baton-not-executed", bytes_str("1"));
    if (v->unknown)
        n = add_unknown(c, out, n);
    if (v->pushback)
        n = add(out, n, "grpc-retry-pushback-ms", bytes_str("1000"));
    return n;
}
