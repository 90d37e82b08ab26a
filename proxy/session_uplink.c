#include "proxy/session_h2.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "proxy/worker.h"
#include <stdlib.h>

/* Stream ids are used up at 2^31; a connection is replaced before. */
#define RETIRE_AT_STREAM (3u << 29)
/* A ping without any sign of life for this long means that the connection is dead. */
#define PING_PATIENCE_MS 1500
#define UPLINK_HEADER_LIST_BYTES (64u << 10)

/* Frames of one stream come and go together: the last one found is likely the next one asked for.
 */
static struct up_stream *stream_of(struct uplink *l, int32_t stream_id)
{
    if (!l->recent || l->recent->id != stream_id) {
        struct up_stream *up = nghttp2_session_get_stream_user_data(l->session.h2, stream_id);
        if (!up)
            return NULL;
        l->recent = up;
    }
    return l->recent;
}

static struct header_list *arriving(struct up_stream *up)
{
    return up->answered ? &up->trailers : &up->headers;
}

static void unlink_stream(struct up_stream *up)
{
    *up->list = up->next;
    if (up->next)
        up->next->list = up->list;
    up->list = NULL;
    if (up->link->current == up)
        up->link->current = NULL;
    if (up->link->recent == up)
        up->link->recent = NULL;
    up->link = NULL;
}

static void end_stream(struct up_stream *up, enum up_end how, uint32_t code)
{
    unlink_stream(up);
    up->ops->on_over(up, how, code);
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct uplink *l = arg;
    l->current = stream_of(l, frame->hd.stream_id);
    if (l->current)
        header_list_clear(arriving(l->current));
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    struct uplink *l = arg;
    if (!l->current || l->current->id != frame->hd.stream_id)
        return 0;
    struct header_list *list = arriving(l->current);
    if (list->count >= HEADERS_MAX || list->size > UPLINK_HEADER_LIST_BYTES)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    struct bytes n = header_bytes(name);
    list->size += header_size(n, header_bytes(value));
    header_list_add(list, header_classify(n), name, value, flags);
    return 0;
}

static bool is_informational(const struct header_list *l)
{
    const struct header *status = header_list_find(l, HEADER_STATUS);
    return status && status->value.len && status->value.data[0] == '1';
}

static void on_headers(struct uplink *l, struct up_stream *up, bool end)
{
    l->current = NULL;
    if (!up->answered && is_informational(&up->headers))
        return;
    bool trailers = up->answered;
    up->answered = true;
    up->peer_ended = end;
    up->ops->on_headers(up, trailers, end);
}

static void retire(struct uplink *l)
{
    if (l->retired)
        return;
    l->retired = true;
    target_on_retired(l->target, l);
}

static void on_goaway(struct uplink *l, const nghttp2_goaway *goaway)
{
    static const char pings[] = "too_many_pings";
    struct follow *f = &l->session.worker->follow;
    if (goaway->error_code == H2_ENHANCE_YOUR_CALM && !f->ping_off &&
        goaway->opaque_data_len == sizeof pings - 1 &&
        !memcmp(goaway->opaque_data, pings, sizeof pings - 1)) {
        f->ping_off = true;
        log_warn("%s takes no pings; they are switched off", l->target->name);
    }
    log_debug("%s: GOAWAY %u, last stream %d", l->target->name, goaway->error_code,
              goaway->last_stream_id);
    retire(l);
}

static void on_settings(struct uplink *l, bool ack)
{
    l->session.worker->pump = true;
    if (ack || l->ready)
        return;
    l->ready = true;
    target_on_ready(l->target, l);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct uplink *l = arg;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct up_stream *up;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if ((up = stream_of(l, frame->hd.stream_id)))
            on_headers(l, up, end);
        return 0;
    case NGHTTP2_DATA:
        if (end && (up = stream_of(l, frame->hd.stream_id))) {
            up->peer_ended = true;
            up->ops->on_end(up);
        }
        return 0;
    case NGHTTP2_SETTINGS:
        on_settings(l, frame->hd.flags & NGHTTP2_FLAG_ACK);
        return 0;
    case NGHTTP2_GOAWAY:
        on_goaway(l, &frame->goaway);
        return 0;
    }
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t len, void *arg)
{
    struct uplink *l = arg;
    struct up_stream *up = stream_of(l, stream_id);
    nghttp2_session_consume_connection(h2, len);
    if (up)
        up->ops->on_data(up, bytes_of(data, len));
    else
        nghttp2_session_consume_stream(h2, stream_id, len);
    return 0;
}

/* The library closes as refused also what was above the last stream of a GOAWAY, and requests whose
 * HEADERS could not go any more. */
static enum up_end close_kind(const struct uplink *l, const struct up_stream *up, uint32_t code)
{
    if (code == H2_REFUSED_STREAM)
        return l->retired || !up->sent ? UP_NOT_SENT : UP_REFUSED;
    return code == H2_NO_ERROR ? UP_CLOSED : UP_RESET;
}

static int on_stream_close(nghttp2_session *h2, int32_t stream_id, uint32_t code, void *arg)
{
    struct uplink *l = arg;
    struct up_stream *up = stream_of(l, stream_id);
    l->active--;
    l->session.worker->pump = true;
    if (up)
        end_stream(up, close_kind(l, up, code), code);
    return 0;
}

static int on_frame_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct uplink *l = arg;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    struct up_stream *up = stream_of(l, frame->hd.stream_id);
    if (up)
        up->sent = true;
    return 0;
}

static ssize_t read_body(nghttp2_session *h2, int32_t stream_id, uint8_t *buf, size_t length,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct uplink *l = arg;
    struct up_stream *up = stream_of(l, stream_id);
    if (!up)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    bool ended;
    size_t have = up->ops->body(up, &ended).len;
    if (have == 0 && !ended) {
        up->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (have)
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (have > length)
        return (ssize_t)length;
    if (ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        up->body_ended = true;
    }
    return (ssize_t)have;
}

static int send_body(nghttp2_session *h2, nghttp2_frame *frame, const uint8_t *head, size_t length,
                     nghttp2_data_source *source, void *arg)
{
    struct uplink *l = arg;
    bool ended;
    struct up_stream *up = stream_of(l, frame->hd.stream_id);
    INVARIANT(frame->data.padlen == 0);
    if (!up) /* dropped while this frame waited for room */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    struct bytes body = up->ops->body(up, &ended);
    if (!session_put(&l->session, head, 9, bytes_of(body.data, length)))
        return NGHTTP2_ERR_WOULDBLOCK;
    up->ops->on_body_sent(up, length);
    return 0;
}

bool uplink_has_room(const struct uplink *l)
{
    return l->ready && !l->retired && !l->session.over &&
           l->active < nghttp2_session_get_remote_settings(l->session.h2,
                                                           NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

size_t uplink_header_limit(const struct uplink *l)
{
    return nghttp2_session_get_remote_settings(l->session.h2,
                                               NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
}

bool uplink_send(struct uplink *l, struct up_stream *up, const struct header *headers, size_t count)
{
    nghttp2_nv nv[HEADERS_MAX + HEADERS_ADDED_MAX];
    header_fill_nv(nv, headers, count);
    nghttp2_data_provider body = {.read_callback = read_body};
    up->sent = up->answered = up->deferred = false;
    up->body_ended = up->peer_ended = false;
    int32_t id = nghttp2_submit_request(l->session.h2, NULL, nv, count, &body, up);
    if (id < 0)
        return false;
    up->id = id;
    up->link = l;
    up->next = l->streams;
    up->list = &l->streams;
    if (up->next)
        up->next->list = &up->next;
    l->streams = up;
    l->active++;
    session_touch(&l->session);
    if ((uint32_t)id > RETIRE_AT_STREAM)
        retire(l);
    return true;
}

void up_stream_more(struct up_stream *up)
{
    if (!up->link || !up->deferred)
        return;
    up->deferred = false;
    nghttp2_session_resume_data(up->link->session.h2, up->id);
    session_touch(&up->link->session);
}

void up_stream_credit(struct up_stream *up, size_t bytes)
{
    if (!up->link)
        return;
    nghttp2_session_consume_stream(up->link->session.h2, up->id, bytes);
    session_touch_if_wanted(&up->link->session);
}

void up_stream_widen(struct up_stream *up)
{
    struct session *s = &up->link->session;
    nghttp2_session_set_local_window_size(s->h2, NGHTTP2_FLAG_NONE, up->id,
                                          (int32_t)s->worker->shared->options.stream_window);
    session_touch(s);
}

void up_stream_drop(struct up_stream *up, enum h2_code code)
{
    if (!up->link)
        return;
    struct session *s = &up->link->session;
    if (!s->over) {
        if (!up->body_ended || !up->peer_ended)
            nghttp2_submit_rst_stream(s->h2, NGHTTP2_FLAG_NONE, up->id, code);
        nghttp2_session_set_stream_user_data(s->h2, up->id, NULL);
        session_touch(s);
    }
    unlink_stream(up);
}

static bool calls_wait(const struct uplink *l)
{
    return l->streams != NULL;
}

void uplink_tick(struct uplink *l, int64_t now_ms)
{
    struct session *s = &l->session;
    struct worker *w = s->worker;
    int64_t every_ms = w->shared->options.upstream_ping_ms;
    if (!l->ready && now_ms - l->opened_ms > TARGET_DIAL_TIMEOUT_MS)
        session_fail(s, "no SETTINGS in time");
    if (s->last_in_ms >= l->ping_sent_ms)
        l->ping_sent_ms = 0;
    if (l->ping_sent_ms && now_ms - l->ping_sent_ms > PING_PATIENCE_MS)
        session_fail(s, "answers no ping");
    if (l->retired && !l->streams) {
        s->closing = true;
        session_touch(s);
    }
    if (s->over || !every_ms || w->follow.ping_off || l->ping_sent_ms || !l->ready ||
        !calls_wait(l) || now_ms - s->last_in_ms < every_ms)
        return;
    nghttp2_submit_ping(s->h2, NGHTTP2_FLAG_NONE, NULL);
    l->ping_sent_ms = now_ms;
    session_touch(s);
}

static void on_over(struct session *s)
{
    struct uplink *l = (struct uplink *)s;
    target_on_lost(l->target, l, s->why);
    while (l->streams)
        end_stream(l->streams, l->streams->sent ? UP_LOST : UP_NOT_SENT, 0);
}

static void release(struct session *s)
{
    free(s);
}

uint32_t uplink_first_window(const struct worker *w)
{
    int64_t most = w->shared->options.stream_window;
    return most < UPLINK_FIRST_WINDOW ? (uint32_t)most : UPLINK_FIRST_WINDOW;
}

struct uplink *uplink_open(struct target *t, int fd)
{
    static const struct session_callbacks callbacks = {.begin_headers = on_begin_headers,
                                                       .header = on_header,
                                                       .frame_recv = on_frame,
                                                       .data_chunk = on_data,
                                                       .stream_close = on_stream_close,
                                                       .frame_send = on_frame_sent,
                                                       .send_data = send_body};
    static const struct session_ops ops = {.on_over = on_over, .release = release};
    struct worker *w = t->follow->worker;
    struct uplink *l = mem_alloc(sizeof *l);
    l->target = t;
    l->opened_ms = worker_now_ms(w);
    l->session.h2 = session_new_h2(w, SESSION_CLIENT, &callbacks, l);
    session_open(&l->session, w, fd, &ops);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, uplink_first_window(w)},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, SESSION_FRAME_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, UPLINK_HEADER_LIST_BYTES},
    };
    session_hello(&l->session, settings, sizeof settings / sizeof settings[0]);
    return l;
}
