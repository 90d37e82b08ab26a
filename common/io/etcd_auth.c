/* Requests that need a token wait here until there is one. One request at a time authenticates at
 * each endpoint; the token that any of them brings is good for all endpoints. */
#include "common/io/etcd_internal.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/etcd_login_parts.h"
#include <stdlib.h>
#include <utlist.h>

enum { LOGIN_TIMEOUT_MS = 5000, LOGIN_ANSWER_MAX = 16384 };

struct login_call {
    struct transfer t; /* first: a transfer of this kind is a login */
    struct buf answer;
};

static void unpark(struct transfer *t)
{
    struct etcd_client *c = t->client;
    INVARIANT(t != c->parked || t->prev == t || t->next); /* the first is the last, or has a next */
    DL_DELETE(c->parked, t);
    t->parked = false;
}

void auth_fail(struct transfer *t, struct err why)
{
    unpark(t);
    t->kind->on_over(t, 0, why);
}

/* Nothing of what waits was sent. endpoint ETCD_ANY: all of it. */
static void fail_parked(struct etcd_client *c, int endpoint, const struct err *why)
{
    struct transfer *t, *next;
    DL_FOREACH_SAFE(c->parked, t, next)
    if (endpoint == ETCD_ANY || t->endpoint == endpoint)
        auth_fail(t, *why);
}

static void start_parked(struct etcd_client *c)
{
    struct transfer *waiting = c->parked, *t, *next;
    c->parked = NULL;
    DL_FOREACH_SAFE(waiting, t, next)
    {
        DL_DELETE(waiting, t);
        t->parked = false;
        transfer_start(t);
    }
}

int64_t auth_expire(struct etcd_client *c)
{
    struct transfer *t, *next;
    int64_t first_ms = INT64_MAX, now_ms = clock_boot_ms();
    DL_FOREACH_SAFE(c->parked, t, next)
    {
        if (t->until_ms && t->until_ms <= now_ms)
            auth_fail(t, err_make(ERR_UNREACHABLE, "etcd at %s: no token came in time",
                                  c->endpoints.urls[t->endpoint]));
        else if (t->until_ms && t->until_ms < first_ms)
            first_ms = t->until_ms;
    }
    return first_ms;
}

static bool login_on_data(struct transfer *t, const uint8_t *data, size_t len)
{
    struct login_call *l = (struct login_call *)t;
    if (len > LOGIN_ANSWER_MAX - l->answer.len)
        return false;
    buf_append(&l->answer, data, len);
    return true;
}

/* What etcd said; OK: there is a token now, or none is needed. */
static struct err judge(struct login_call *l, int http_status)
{
    struct etcd_client *c = l->t.client;
    char token[ETCD_TOKEN_MAX];
    int code = 0;
    struct bytes body = buf_view(&l->answer);
    struct etcd_header header = {0};
    struct err e = etcd_decode_error(http_status, body, &code);
    if (etcd_err_means_no_auth(code, &e)) {
        login_not_asked(c->access.login);
        return OK_ERR;
    }
    if (!err_is(&e))
        e = etcd_decode_token(body, &header, token, sizeof token);
    if (!err_is(&e))
        e = client_check_cluster(c, &header);
    if (!err_is(&e))
        login_got(c->access.login, token);
    explicit_bzero(token, sizeof token);
    if (e.code == ERR_DENIED) {
        e = err_wrap(e, "etcd refuses the user or the password of --etcd-user and "
                        "--etcd-password-file");
        login_refused(c->access.login, &e);
    }
    return e;
}

static void close_login(struct login_call *l)
{
    if (l->answer.len)
        explicit_bzero(l->answer.data, l->answer.len);
    if (l->t.request.len)
        explicit_bzero(l->t.request.data, l->t.request.len);
    buf_close(&l->answer);
    transfer_close(&l->t);
    free(l);
}

static void login_on_over(struct transfer *t, int http_status, struct err why)
{
    struct login_call *l = (struct login_call *)t;
    struct etcd_client *c = t->client;
    int endpoint = t->endpoint;
    struct err e = http_status ? judge(l, http_status) : why;
    c->logging_in[endpoint] = NULL;
    close_login(l);
    if (e.code == ERR_DENIED) {
        fail_parked(c, ETCD_ANY, &e);
    } else if (err_is(&e)) {
        if (e.code != ERR_CANCELLED) {
            e.code = ERR_UNREACHABLE;
            e = err_wrap(e, "authenticating");
        }
        fail_parked(c, endpoint, &e);
    } else {
        start_parked(c);
    }
}

static const char *const login_headers[] = {"Content-Type: application/json", "Expect:", NULL};
static const struct transfer_kind login_kind = {
    .headers = login_headers, .on_data = login_on_data, .on_over = login_on_over};

/* DENIED: not now. */
static struct err start_login(struct etcd_client *c, int endpoint)
{
    if (c->logging_in[endpoint])
        return OK_ERR;
    struct login_call *l = mem_alloc(sizeof *l);
    l->t.kind = &login_kind;
    l->t.client = c;
    l->t.path = ETCD_PATH_AUTHENTICATE;
    l->t.wanted = endpoint;
    l->t.until_ms = clock_boot_ms() + LOGIN_TIMEOUT_MS;
    l->t.anonymous = true;
    struct err e = login_request(c->access.login, &l->t.request);
    if (err_is(&e)) {
        close_login(l);
        return e;
    }
    c->logging_in[endpoint] = &l->t;
    transfer_start(&l->t);
    return OK_ERR;
}

void auth_park(struct transfer *t)
{
    struct etcd_client *c = t->client;
    DL_APPEND(c->parked, t);
    t->parked = true;
    struct err e = start_login(c, t->endpoint);
    if (err_is(&e))
        auth_fail(t, e);
}
