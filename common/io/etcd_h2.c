#include "common/io/etcd_h2_parts.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/etcd_login_parts.h"
#include "common/io/etcd_pb.h"
#include <openssl/ssl.h>
#include <stdlib.h>
#include <utlist.h>

enum {
    READ_BYTES = 64 << 10,
    READS_MAX = 32,  /* in one turn: windows are opened and requests are sent in between */
    SILENT_MS = 250, /* a request unanswered for so long, and nothing else heard: the link may be
                        dead. Shorter than the pause before the next attempt of a commit */
    /* How long an endpoint is spoken to in JSON after it did not greet as HTTP/2 does: it answered
     * something else, was silent, or broke the connection off (which a dying etcd does, too). */
    JSON_OTHER_MS = 60000,
    JSON_SILENT_MS = 5000,
    JSON_BROKEN_MS = 1000,
};

bool h2_takes(const struct transfer *t)
{
    const struct etcd_client *c = t->client;
    if (c->access.transport == ETCD_JSON || !etcd_pb_method(t->path) ||
        !etcd_is_frame(buf_view(&t->request)))
        return false;
    return c->access.transport == ETCD_GRPC || clock_boot_ms() >= c->json_until_ms[t->endpoint];
}

/* ---- links ---- */

/* Were it curl that asks, it would take the connection for its own HTTP/2 and spoil it. */
static CURLcode ask_for_http2(CURL *easy, void *ssl_ctx, void *arg)
{
    static const uint8_t protocols[] = {2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    return SSL_CTX_set_alpn_protos(ssl_ctx, protocols, sizeof protocols) == 0 ? CURLE_OK
                                                                              : CURLE_FAILED_INIT;
}

static struct h2_link *link_new(struct etcd_client *c, int endpoint)
{
    struct h2_link *link = mem_alloc(sizeof *link);
    link->client = c;
    link->endpoint = endpoint;
    link->easy = curl_easy_init();
    POST(link->easy);
    transfer_set_connection(c, link->easy, c->connect_timeout_ms);
    curl_easy_setopt(link->easy, CURLOPT_URL, c->endpoints.urls[endpoint]);
    curl_easy_setopt(link->easy, CURLOPT_SSL_ENABLE_ALPN, 0L);
    curl_easy_setopt(link->easy, CURLOPT_SSL_CTX_FUNCTION, ask_for_http2);
    curl_easy_setopt(link->easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(link->easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(link->easy, CURLOPT_ERRORBUFFER, link->detail);
    DL_APPEND(c->links, link);
    POST(curl_multi_add_handle(c->multi, link->easy) == CURLM_OK);
    return link;
}

static void link_free(struct h2_link *link)
{
    struct etcd_client *c = link->client;
    DL_DELETE(c->links, link);
    nghttp2_session_del(link->session);
    curl_multi_remove_handle(c->multi, link->easy); /* closes the connection */
    curl_easy_cleanup(link->easy);
    buf_close(&link->unsent);
    free(link);
}

static void link_break(struct h2_link *link, const char *why)
{
    if (!link->detail[0])
        snprintf(link->detail, sizeof link->detail, "%s", why);
    link->state = H2_BROKEN;
}

/* A request waits for its answer, and nothing at all has come since it was sent. */
static bool is_silent(const struct h2_link *link, int64_t now_ms)
{
    const struct transfer *t;
    DL_FOREACH(link->client->running, t)
    if (t->link == link && t->stream && !t->kind->keeps_open && now_ms - t->asked_ms > SILENT_MS &&
        link->received_ms <= t->asked_ms)
        return true;
    return false;
}

static struct h2_link *usable_link(struct etcd_client *c, int endpoint)
{
    struct h2_link *link;
    int64_t now_ms = clock_boot_ms();
    DL_FOREACH(c->links, link)
    {
        if (link->endpoint != endpoint || link->retired || link->state == H2_BROKEN)
            continue;
        link->retired = is_silent(link, now_ms);
        if (!link->retired)
            return link;
    }
    return link_new(c, endpoint);
}

bool h2_connected(struct etcd_client *c, CURL *easy, CURLcode rc)
{
    struct h2_link *link;
    DL_FOREACH(c->links, link)
    if (link->easy == easy)
        break;
    if (!link)
        return false;
    if (rc != CURLE_OK) {
        transfer_explain(rc, link->detail);
        link_break(link, curl_easy_strerror(rc));
        return true;
    }
    link->detail[0] = 0;
    link->state = H2_GREETING;
    link->greeted_ms = link->received_ms = clock_boot_ms();
    h2_session_begin(link);
    return true;
}

/* ---- requests ---- */

static void detach(struct transfer *t)
{
    DL_DELETE(t->client->running, t);
    t->link = NULL;
    t->stream = 0;
}

static void start_anew(struct transfer *t)
{
    detach(t);
    transfer_start(t);
}

/* The link is open. */
static void submit(struct transfer *t)
{
    char token[ETCD_TOKEN_MAX] = "";
    struct etcd_login *login = t->client->access.login;
    bool has_token = !login || login_token(login, token, &t->token);
    if (t->link->retired || !has_token || !h2_session_submit(t->link, t, token))
        start_anew(t); /* on another link, or once there is a token again */
    explicit_bzero(token, sizeof token);
}

void h2_start(struct transfer *t)
{
    struct etcd_client *c = t->client;
    t->link = usable_link(c, t->endpoint);
    t->stream = 0;
    t->stream_over = t->given_up = false;
    DL_APPEND(c->running, t);
    if (t->link->state == H2_OPEN)
        submit(t);
}

void h2_drop(struct transfer *t)
{
    /* A watch that fell silent is closed to be opened anew, which must not be on a dead link. */
    if (t->kind->keeps_open && t->stream &&
        clock_boot_ms() - t->link->received_ms > t->client->connect_timeout_ms)
        t->link->retired = true;
    if (t->stream && t->link->session && !t->stream_closed)
        h2_session_reset(t->link, t);
    detach(t);
}

static void finish(struct transfer *t)
{
    int status;
    struct err why = h2_verdict(t, &status);
    struct etcd_client *c = t->client;
    if (why.code != ERR_OK && t->stream_over && t->http_status && !t->is_grpc)
        c->json_until_ms[t->endpoint] = clock_boot_ms() + JSON_OTHER_MS;
    t->answered_in_grpc = status != 0;
    h2_drop(t);
    t->kind->on_over(t, status, why);
}

static void finish_late(struct transfer *t)
{
    struct h2_link *link = t->link;
    const char *url = t->client->endpoints.urls[t->endpoint];
    struct err why = err_make(t->sends ? ERR_LOST : ERR_UNREACHABLE, "etcd at %s: %s in time", url,
                              t->sends ? "no whole answer" : "it could not be sent");
    if (t->stream && link->received_ms <= t->asked_ms)
        link->retired = true;
    t->answered_in_grpc = false;
    h2_drop(t);
    t->kind->on_over(t, 0, why);
}

/* The endpoint does not speak HTTP/2, or not now: what waits for the link goes out as JSON. */
static void fall_back(struct h2_link *link, int64_t for_ms)
{
    struct etcd_client *c = link->client;
    struct transfer *t, *next;
    c->json_until_ms[link->endpoint] = clock_boot_ms() + for_ms;
    DL_FOREACH_SAFE(c->running, t, next)
    {
        if (t->link == link && !t->stream)
            start_anew(t);
    }
}

static void greet_or_fall_back(struct h2_link *link, int64_t now_ms)
{
    bool late =
        link->state == H2_GREETING && now_ms - link->greeted_ms >= link->client->connect_timeout_ms;
    bool broken = link->state == H2_BROKEN && link->greeted_ms && !link->opened;
    if (late)
        link_break(link, "it did not greet as HTTP/2 does");
    if ((late || broken) && link->client->access.transport == ETCD_AUTO)
        fall_back(link, late ? JSON_SILENT_MS : link->no_http2 ? JSON_OTHER_MS : JSON_BROKEN_MS);
}

/* ---- input and output ---- */

static void read_link(struct h2_link *link, uint8_t *room)
{
    size_t n;
    CURLcode rc = CURLE_OK;
    int reads = 0;
    link->has_more = false;
    while ((rc = curl_easy_recv(link->easy, room, READ_BYTES, &n)) == CURLE_OK) {
        if (n == 0) {
            link_break(link, "the connection was closed");
            return;
        }
        link->received_ms = clock_boot_ms();
        if (!h2_session_take(link, room, n)) {
            link_break(link, "HTTP/2 was broken off");
            return;
        }
        link->has_more = ++reads == READS_MAX;
        if (link->has_more)
            return;
    }
    if (rc != CURLE_AGAIN)
        link_break(link, curl_easy_strerror(rc));
}

static void write_link(struct h2_link *link)
{
    for (;;) {
        if (link->unsent_at == link->unsent.len) {
            buf_clear(&link->unsent);
            link->unsent_at = 0;
            h2_session_fill(link);
        }
        size_t n = 0, left = link->unsent.len - link->unsent_at;
        if (left == 0) {
            if (h2_session_is_over(link)) /* and the other end was told why */
                link_break(link, "HTTP/2 was broken off");
            return;
        }
        CURLcode rc = curl_easy_send(link->easy, link->unsent.data + link->unsent_at, left, &n);
        link->unsent_at += rc == CURLE_OK ? n : 0;
        if (rc == CURLE_AGAIN)
            return;
        if (rc != CURLE_OK) {
            link_break(link, curl_easy_strerror(rc));
            return;
        }
    }
}

void h2_read(struct etcd_client *c)
{
    uint8_t *room = NULL;
    struct h2_link *link;
    unsigned i = 0;
    DL_FOREACH(c->links, link)
    {
        if (link->state != H2_GREETING && link->state != H2_OPEN)
            continue;
        if (c->fds[i++].revents || link->has_more) {
            room = room ? room : mem_resize(NULL, READ_BYTES);
            read_link(link, room);
        }
    }
    free(room);
}

unsigned h2_poll(struct etcd_client *c)
{
    struct h2_link *link;
    unsigned n = 0;
    DL_FOREACH(c->links, link)
    {
        curl_socket_t fd = CURL_SOCKET_BAD;
        if (link->state != H2_GREETING && link->state != H2_OPEN)
            continue;
        curl_easy_getinfo(link->easy, CURLINFO_ACTIVESOCKET, &fd);
        c->fds = mem_resize(c->fds, (n + 1) * sizeof *c->fds);
        bool writes = link->unsent_at < link->unsent.len;
        c->fds[n++] = (struct curl_waitfd){
            .fd = fd, .events = (short)(CURL_WAIT_POLLIN | (writes ? CURL_WAIT_POLLOUT : 0))};
    }
    return n;
}

/* ---- each turn of the client ---- */

static void run_transfers(struct etcd_client *c, int64_t now_ms)
{
    struct transfer *t, *next;
    DL_FOREACH_SAFE(c->running, t, next)
    {
        if (!t->link)
            continue;
        if (t->stream_over || t->given_up || t->link->state == H2_BROKEN)
            finish(t);
        else if (t->until_ms && t->until_ms <= now_ms)
            finish_late(t);
        else if (!t->stream && t->link->state == H2_OPEN)
            submit(t);
    }
}

static int64_t first_deadline_ms(const struct etcd_client *c)
{
    const struct transfer *t;
    int64_t first_ms = INT64_MAX;
    DL_FOREACH(c->running, t)
    if (t->link && t->until_ms && t->until_ms < first_ms)
        first_ms = t->until_ms;
    return first_ms;
}

static bool is_used(const struct h2_link *link)
{
    const struct transfer *t;
    DL_FOREACH(link->client->running, t)
    if (t->link == link)
        return true;
    return false;
}

int64_t h2_turn(struct etcd_client *c)
{
    struct h2_link *link, *next;
    int64_t now_ms = clock_boot_ms();
    DL_FOREACH(c->links, link)
    greet_or_fall_back(link, now_ms);
    run_transfers(c, now_ms);
    int64_t first_ms = first_deadline_ms(c);
    DL_FOREACH_SAFE(c->links, link, next)
    {
        if (link->state == H2_GREETING || link->state == H2_OPEN)
            write_link(link);
        int64_t until_ms = link->greeted_ms + c->connect_timeout_ms;
        if (link->state == H2_BROKEN || link->has_more)
            first_ms = now_ms;
        else if (link->state == H2_GREETING && until_ms < first_ms)
            first_ms = until_ms;
        if ((link->state == H2_BROKEN || link->retired) && !is_used(link))
            link_free(link);
    }
    return first_ms;
}

void h2_close(struct etcd_client *c)
{
    while (c->links)
        link_free(c->links);
    free(c->fds);
}
