/* What is said on one link: requests as streams, answers with their trailers. */
#include "common/io/etcd_h2_parts.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/io/etcd_login_parts.h"
#include "common/io/etcd_pb.h"
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    WINDOW_BYTES = 16 << 20, /* of a stream and of the connection: a state that is listed anew */
    FILL_BYTES = 256 << 10,  /* written at once */
    PREVIEW_BYTES = 5,
};

static struct transfer *transfer_of(nghttp2_session *session, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(session, stream);
}

static bool is(const uint8_t *name, size_t len, const char *wanted)
{
    return len == strlen(wanted) && memcmp(name, wanted, len) == 0;
}

/* A number of at most three digits, or -1. */
static int small_number(const uint8_t *text, size_t len)
{
    int n = 0;
    if (len == 0 || len > 3)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit(text[i]))
            return -1;
        n = n * 10 + (text[i] - '0');
    }
    return n;
}

static int hex(uint8_t c)
{
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

/* gRPC writes what is no printable ASCII as %XX. */
static void read_message(struct transfer *t, const uint8_t *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n < sizeof t->detail - 1; i++) {
        bool coded =
            text[i] == '%' && i + 2 < len && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
        t->detail[n++] = (char)(coded ? hex(text[i + 1]) * 16 + hex(text[i + 2]) : text[i]);
        i += coded ? 2 : 0;
    }
    t->detail[n] = 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
    static const char grpc[] = "application/grpc";
    struct transfer *t = transfer_of(session, frame->hd.stream_id);
    if (!t || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (is(name, name_len, ":status"))
        t->http_status = small_number(value, len);
    else if (is(name, name_len, "content-type"))
        t->is_grpc = len >= sizeof grpc - 1 && memcmp(value, grpc, sizeof grpc - 1) == 0;
    else if (is(name, name_len, "grpc-status"))
        t->grpc_status = small_number(value, len);
    else if (is(name, name_len, "grpc-message"))
        read_message(t, value, len);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t len, void *arg)
{
    struct transfer *t = transfer_of(session, stream);
    if (!t || t->given_up || t->http_status != 200 || !t->is_grpc)
        return 0;
    if (!t->kind->on_data(t, data, len)) {
        t->given_up = true;
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
    struct transfer *t = transfer_of(session, stream);
    if (t) {
        t->stream_over = t->stream_closed = true;
        t->stream_error = error;
    }
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_link *link = arg;
    if (frame->hd.type == NGHTTP2_SETTINGS && link->state == H2_GREETING) {
        link->state = H2_OPEN;
        link->opened = true;
    }
    if (frame->hd.type == NGHTTP2_GOAWAY)
        link->retired = true;
    bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    struct transfer *t = ends ? transfer_of(session, frame->hd.stream_id) : NULL;
    if (t)
        t->stream_over = true; /* all is said, even if the request was not over */
    return 0;
}

static nghttp2_session_callbacks *callbacks;

static void make_callbacks(void)
{
    POST(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
}

void h2_session_begin(struct h2_link *link)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES}};
    pthread_once(&once, make_callbacks);
    POST(nghttp2_session_client_new(&link->session, callbacks, link) == 0);
    POST(nghttp2_submit_settings(link->session, NGHTTP2_FLAG_NONE, settings, 2) == 0);
    POST(nghttp2_session_set_local_window_size(link->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES) ==
         0);
}

bool h2_session_take(struct h2_link *link, const uint8_t *data, size_t len)
{
    if (link->state == H2_GREETING && len >= PREVIEW_BYTES &&
        memcmp(data, "HTTP/", PREVIEW_BYTES) == 0) {
        link->no_http2 = true;
        snprintf(link->detail, sizeof link->detail, "it speaks HTTP/1.1 only");
        return false;
    }
    ssize_t n = nghttp2_session_mem_recv(link->session, data, len);
    if (n >= 0 && nghttp2_session_want_read(link->session))
        return true;
    snprintf(link->detail, sizeof link->detail, "%s",
             n < 0 ? nghttp2_strerror((int)n) : "HTTP/2 was broken off");
    return false;
}

static ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *room, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct transfer *t = source->ptr;
    size_t n = t->request.len - t->request_at;
    if (n == 0 && t->kind->keeps_open)
        return NGHTTP2_ERR_DEFERRED;
    if (n > size)
        n = size;
    memcpy(room, t->request.data + t->request_at, n);
    t->request_at += n;
    if (t->request_at == t->request.len && !t->kind->keeps_open)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static nghttp2_nv field(const char *name, const char *value, uint8_t flags)
{
    return (nghttp2_nv){.name = (uint8_t *)name,
                        .namelen = strlen(name),
                        .value = (uint8_t *)value,
                        .valuelen = strlen(value),
                        .flags = flags};
}

bool h2_session_submit(struct h2_link *link, struct transfer *t, const char *token)
{
    const char *url = link->client->endpoints.urls[link->endpoint];
    const char *authority = strstr(url, "://") + 3;
    nghttp2_data_provider body = {.source.ptr = t, .read_callback = read_request};
    nghttp2_nv fields[9] = {
        field(":method", "POST", 0),
        field(":scheme", url[4] == 's' ? "https" : "http", 0),
        field(":path", etcd_pb_method(t->path), 0),
        field(":authority", authority, 0),
        field("content-type", "application/grpc", 0),
        field("te", "trailers", 0),
        field("user-agent", "baton/" BATON_VERSION, 0),
    };
    size_t count = 7;
    if (t->kind->keeps_open) /* etcd ends the stream when its member has lost sight of a leader */
        fields[count++] = field("hasleader", "true", 0);
    if (*token)
        fields[count++] = field("token", token, NGHTTP2_NV_FLAG_NO_INDEX);
    t->request_at = 0;
    t->http_status = 0;
    t->grpc_status = -1;
    t->is_grpc = t->given_up = t->stream_over = t->stream_closed = false;
    t->stream_error = NGHTTP2_NO_ERROR;
    t->detail[0] = 0;
    t->asked_ms = clock_boot_ms();
    t->stream = nghttp2_submit_request(link->session, NULL, fields, count, &body, t);
    if (t->stream > 0) {
        t->sends = 1; /* from here on it may take effect */
        return true;
    }
    t->stream = 0; /* their numbers are used up, or the session is ending */
    link->retired = true;
    return false;
}

void h2_session_reset(struct h2_link *link, const struct transfer *t)
{
    nghttp2_session_set_stream_user_data(link->session, t->stream, NULL);
    nghttp2_submit_rst_stream(link->session, NGHTTP2_FLAG_NONE, t->stream, NGHTTP2_CANCEL);
}

void h2_session_fill(struct h2_link *link)
{
    const uint8_t *data;
    ssize_t n = 1;
    while (link->unsent.len < FILL_BYTES &&
           (n = nghttp2_session_mem_send(link->session, &data)) > 0)
        buf_append(&link->unsent, data, (size_t)n);
    POST(n >= 0);
}

bool h2_session_is_over(const struct h2_link *link)
{
    return !nghttp2_session_want_read(link->session);
}

/* ---- what became of a request ---- */

/* HTTP/2, but not of an etcd: something in between. */
static struct err foreign(const struct transfer *t, const char *url)
{
    bool lost = t->http_status == 408 || t->http_status == 429 || t->http_status >= 500;
    return err_make(lost ? ERR_LOST : ERR_PROTOCOL,
                    "etcd at %s: HTTP %d and no gRPC; is this the client URL of an etcd?", url,
                    t->http_status);
}

struct err h2_verdict(const struct transfer *t, int *status)
{
    const char *url = t->client->endpoints.urls[t->endpoint];
    *status = 0;
    if (t->sends == 0)
        return err_make(ERR_UNREACHABLE, "etcd at %s: %s", url, t->link->detail);
    if (t->given_up)
        return err_make(ERR_LOST, "etcd at %s: the answer was not read to its end", url);
    if (t->stream_over && t->http_status == 200 && t->is_grpc && t->grpc_status >= 0) {
        *status = 200;
        return OK_ERR;
    }
    if (t->stream_over && t->http_status && (t->http_status != 200 || !t->is_grpc))
        return foreign(t, url);
    if (t->stream_over)
        return err_make(ERR_LOST, "etcd at %s: no whole answer: stream ended by %s", url,
                        nghttp2_http2_strerror(t->stream_error));
    return err_make(ERR_LOST, "etcd at %s: no whole answer: %s", url, t->link->detail);
}
