#include "proxy/session_h2.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "proxy/worker.h"
#include <stdlib.h>
#include <unistd.h>

#define GREETING_TIMEOUT_MS 10000
#define BLOCKED_TIMEOUT_MS 30000
#define STALLED_TIMEOUT_MS 60000
#define LOOK_EVERY_MS 2000
#define COMPLAINTS 10
#define COMPLAINTS_EVERY_MS 5000
/* Header lists past this are refused; the library itself gives up at 64 KiB. */
#define HEADER_LIST_BYTES (16u << 10)

/* Frames of one stream come and go together: the last one found is likely the next one asked for.
 */
static struct call *call_of(struct client *k, int32_t stream_id)
{
    if (!k->recent || k->recent->stream_id != stream_id) {
        struct call *c = nghttp2_session_get_stream_user_data(k->session.h2, stream_id);
        if (!c)
            return NULL;
        k->recent = c;
    }
    return k->recent;
}

static void send_away(struct client *k, uint64_t *counter, const char *what)
{
    static struct log_limit limit;
    stat_add(counter, 1);
    log_limited(&limit, LOG_WARN, "client %s sent away: %s", k->peer, what);
    client_leave(k, H2_ENHANCE_YOUR_CALM);
    k->session.closing = true;
}

/* Frames that cost us and move nothing. */
static void count_frame(struct client *k)
{
    if (frame_guard_on_frame(&k->frames, worker_now_ms(k->session.worker)) && !k->session.closing)
        send_away(k, &k->session.worker->stats.limit_frames, "too many empty frames");
}

/* All calls that the client started before it knew are here by now: its confirmation came behind
 * them. */
static void on_notice_seen(struct client *k)
{
    if (k->warned && !k->leaving)
        client_leave(k, H2_NO_ERROR);
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct client *k = arg;
    k->current = NULL;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* trailers of a request: gRPC has none, they end it all the same */
    struct call *c = call_open(k, frame->hd.stream_id);
    c->next = k->calls;
    c->link = &k->calls;
    if (c->next)
        c->next->link = &c->next;
    k->calls = c;
    k->current = c;
    k->resets.opened++;
    return nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, c);
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    struct client *k = arg;
    struct call *c = k->current;
    if (!c || c->stream_id != frame->hd.stream_id || c->too_large)
        return 0;
    struct bytes n = header_bytes(name), v = header_bytes(value);
    enum header_kind kind = header_classify(n);
    c->request.size += header_size(n, v);
    if (call_keeps(c, kind, v))
        header_list_add(&c->request, kind, name, value, flags);
    c->too_large = c->request.size > HEADER_LIST_BYTES || c->request.count >= HEADERS_MAX;
    return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct client *k = arg;
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct call *c;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        k->current = NULL;
        c = call_of(k, frame->hd.stream_id);
        if (c && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            call_on_request(c, ended);
        else if (c && ended)
            call_on_request_end(c);
        return 0;
    case NGHTTP2_DATA:
        if (ended && (c = call_of(k, frame->hd.stream_id)))
            call_on_request_end(c);
        else if (!ended && frame->hd.length == 0)
            count_frame(k);
        return 0;
    case NGHTTP2_SETTINGS:
        k->greeted = true;
        count_frame(k);
        return 0;
    case NGHTTP2_PING:
        count_frame(k);
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            on_notice_seen(k);
        return 0;
    case NGHTTP2_PRIORITY:
        count_frame(k);
        return 0;
    }
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t len, void *arg)
{
    struct client *k = arg;
    struct call *c = call_of(k, stream_id);
    nghttp2_session_consume_connection(h2, len);
    if (c)
        call_on_request_data(c, bytes_of(data, len));
    else
        nghttp2_session_consume_stream(h2, stream_id, len);
    return 0;
}

/* An answer that ended before its request: the client need not send the rest. */
static int on_frame_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct client *k = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY && k->warned && !k->leaving)
        nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, NULL); /* earlier it would overtake the notice */
    bool ended = frame->hd.type <= NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    const struct call *c = ended ? call_of(k, frame->hd.stream_id) : NULL;
    if (c && !c->body.ended)
        nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, frame->hd.stream_id, H2_NO_ERROR);
    return 0;
}

static void unlink_call(struct call *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->link = NULL;
    if (c->client->recent == c)
        c->client->recent = NULL;
    c->client = NULL;
}

static int on_stream_close(nghttp2_session *h2, int32_t stream_id, uint32_t code, void *arg)
{
    struct client *k = arg;
    struct call *c = call_of(k, stream_id);
    if (k->current && k->current->stream_id == stream_id)
        k->current = NULL;
    if (!c)
        return 0;
    int64_t age_ms = worker_now_ms(c->worker) - c->arrived_ms;
    bool excused = c->waited || worker_now_ms(c->worker) >= c->deadline_ms;
    bool hasty = c->state != CALL_DONE && code != H2_NO_ERROR && !excused;
    nghttp2_session_set_stream_user_data(h2, stream_id, NULL);
    unlink_call(c);
    call_on_client_gone(c);
    if (hasty && reset_guard_on_reset(&k->resets, age_ms) && !k->session.closing)
        send_away(k, &k->session.worker->stats.limit_reset, "too many streams reset at once");
    return 0;
}

static void submit_trailers(void *arg, const struct header *headers, size_t count)
{
    struct call *c = arg;
    nghttp2_nv nv[HEADERS_MAX + HEADERS_ADDED_MAX];
    header_fill_nv(nv, headers, count);
    nghttp2_submit_trailer(c->client->session.h2, c->stream_id, nv, count);
}

static ssize_t read_answer(nghttp2_session *h2, int32_t stream_id, uint8_t *buf, size_t length,
                           uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct call *c = call_of(arg, stream_id);
    if (!c)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t have = call_answer(c).len;
    if (have == 0 && c->answer_reset)
        nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, stream_id, c->reset_code);
    if (have == 0 && !c->answer_ended) {
        c->answer_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (have && length)
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (have > length)
        return (ssize_t)length;
    if (!c->answer_ended)
        return (ssize_t)have;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (c->answer_has_trailers) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        call_with_trailers(c, submit_trailers, c);
    }
    return (ssize_t)have;
}

static int send_answer(nghttp2_session *h2, nghttp2_frame *frame, const uint8_t *head,
                       size_t length, nghttp2_data_source *source, void *arg)
{
    struct client *k = arg;
    struct call *c = call_of(k, frame->hd.stream_id);
    INVARIANT(frame->data.padlen == 0);
    if (!c) /* reset by us while this frame waited for room */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (!session_put(&k->session, head, 9, bytes_of(call_answer(c).data, length)))
        return NGHTTP2_ERR_WOULDBLOCK;
    call_answer_sent(c, length);
    return 0;
}

void client_answer(struct call *c, const struct header *headers, size_t count, bool end)
{
    struct session *s = &c->client->session;
    nghttp2_nv nv[HEADERS_MAX + HEADERS_ADDED_MAX];
    header_fill_nv(nv, headers, count);
    nghttp2_data_provider body = {.read_callback = read_answer};
    int failed = nghttp2_submit_response(s->h2, c->stream_id, nv, count, end ? NULL : &body);
    if (failed)
        session_fail(s, nghttp2_strerror(failed));
    session_touch(s);
}

void client_more(struct call *c)
{
    if (!c->answer_deferred)
        return;
    c->answer_deferred = false;
    nghttp2_session_resume_data(c->client->session.h2, c->stream_id);
    session_touch(&c->client->session);
}

void client_reset(struct call *c, enum h2_code code)
{
    struct client *k = c->client;
    nghttp2_submit_rst_stream(k->session.h2, NGHTTP2_FLAG_NONE, c->stream_id, code);
    nghttp2_session_set_stream_user_data(k->session.h2, c->stream_id, NULL);
    session_touch(&k->session);
    if (k->current == c)
        k->current = NULL;
    unlink_call(c);
}

void client_credit(struct call *c, size_t bytes)
{
    struct session *s = &c->client->session;
    nghttp2_session_consume_stream(s->h2, c->stream_id, bytes);
    session_touch_if_wanted(s);
}

void client_widen(struct call *c)
{
    struct session *s = &c->client->session;
    nghttp2_session_set_local_window_size(s->h2, NGHTTP2_FLAG_NONE, c->stream_id,
                                          (int32_t)s->worker->shared->options.stream_window);
    session_touch(s);
}

void client_warn(struct client *k)
{
    nghttp2_submit_shutdown_notice(k->session.h2);
    k->warned = true;
    session_touch(&k->session);
}

void client_leave(struct client *k, enum h2_code code)
{
    nghttp2_submit_goaway(k->session.h2, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(k->session.h2), code, NULL, 0);
    k->leaving = true;
    session_touch(&k->session);
}

static bool is_slow(const struct client *k, int64_t now_ms)
{
    if (!k->greeted)
        return now_ms - k->opened_ms > GREETING_TIMEOUT_MS;
    return k->current && now_ms - k->current->arrived_ms > GREETING_TIMEOUT_MS;
}

/* Calls whose clients do not read, though data waits. Looked for only now and then: they may be
 * many. */
static void cut_stalled(struct client *k, int64_t now_ms)
{
    struct call *next;
    if (now_ms - k->looked_ms < LOOK_EVERY_MS)
        return;
    k->looked_ms = now_ms;
    for (struct call *c = k->calls; c; c = next) {
        next = c->next;
        if (c->state != CALL_SENT && call_answer(c).len &&
            now_ms - c->moved_ms > STALLED_TIMEOUT_MS) {
            stat_add(&k->session.worker->stats.limit_idle, 1);
            relay_cut(c);
        }
    }
}

void client_tick(struct client *k, int64_t now_ms)
{
    struct session *s = &k->session;
    if (is_slow(k, now_ms)) {
        stat_add(&s->worker->stats.limit_idle, 1);
        session_fail(s, "no greeting, or no complete headers, in time");
    } else if (s->blocked_since_ms && now_ms - s->blocked_since_ms > BLOCKED_TIMEOUT_MS) {
        stat_add(&s->worker->stats.limit_idle, 1);
        session_fail(s, "takes nothing");
    } else if (k->leaving && !k->calls) {
        s->closing = true;
        session_touch(s);
    } else {
        cut_stalled(k, now_ms);
    }
}

/* Our SETTINGS wait for the client's first bytes: other protocols shall get only their own answer.
 */
static void greet(struct client *k)
{
    const struct proxy_shared *shared = k->session.worker->shared;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)shared->options.max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)shared->first_window},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, SESSION_FRAME_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    session_hello(&k->session, settings, sizeof settings / sizeof settings[0]);
}

/* A scanner shall not fill the log, a few misconfigured clients shall all be seen. */
static bool may_complain(struct worker *w)
{
    int64_t slot = worker_now_ms(w) / COMPLAINTS_EVERY_MS;
    if (w->complaint_slot != slot)
        w->complaints = 0;
    w->complaint_slot = slot;
    return w->complaints++ < COMPLAINTS;
}

/* A fixed answer for what is not HTTP/2, so that whoever asks sees why. */
static bool on_first_bytes(struct session *s, struct bytes data)
{
    struct client *k = (struct client *)s;
    size_t n = data.len < NGHTTP2_CLIENT_MAGIC_LEN ? data.len : NGHTTP2_CLIENT_MAGIC_LEN;
    if (memcmp(data.data, NGHTTP2_CLIENT_MAGIC, n) == 0) {
        greet(k);
        return true;
    }
    bool tls = data.data[0] == 0x16;
    if (may_complain(s->worker))
        log_warn("client %s speaks %s; this port takes HTTP/2 in plain text", k->peer,
                 tls ? "TLS" : "no HTTP/2");
    if (tls) /* alert: fatal, protocol_version */
        session_write_raw(s, bytes_of("\x15\x03\x01\x00\x02\x02\x46", 7));
    else
        session_write_raw(s, bytes_str("HTTP/1.1 400 Bad Request\r\n"
                                       "Content-Type: text/plain\r\nContent-Length: 37\r\n"
                                       "Connection: close\r\n\r\n"
                                       "This port speaks gRPC (HTTP/2) only.\n"));
    return false;
}

static void on_over(struct session *s)
{
    struct client *k = (struct client *)s;
    log_debug("client %s: %s", k->peer, s->why);
    k->current = NULL;
    while (k->calls) {
        struct call *c = k->calls;
        unlink_call(c);
        call_on_client_gone(c);
    }
    *k->link = k->next;
    if (k->next)
        k->next->link = k->link;
}

static void release(struct session *s)
{
    __atomic_fetch_sub(&s->worker->load, 1, __ATOMIC_RELAXED);
    free(s);
}

void client_open(struct worker *w, int fd, const char *peer)
{
    static const struct session_callbacks callbacks = {.begin_headers = on_begin_headers,
                                                       .header = on_header,
                                                       .frame_recv = on_frame,
                                                       .data_chunk = on_data,
                                                       .stream_close = on_stream_close,
                                                       .frame_send = on_frame_sent,
                                                       .send_data = send_answer};
    static const struct session_ops ops = {
        .on_over = on_over, .release = release, .on_first_bytes = on_first_bytes};
    struct client *k = mem_alloc(sizeof *k);
    k->opened_ms = worker_now_ms(w);
    memcpy(k->peer, peer, sizeof k->peer);
    k->next = w->clients;
    k->link = &w->clients;
    if (k->next)
        k->next->link = &k->next;
    w->clients = k;
    stat_add(&w->stats.clients_accepted, 1);
    k->session.h2 = session_new_h2(w, SESSION_SERVER, &callbacks, k);
    session_open(&k->session, w, fd, &ops);
}
