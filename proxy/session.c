#include "proxy/session_h2.h"
#include "common/base/check.h"
#include "proxy/worker.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* So much is read from one connection before the others get their turn. */
#define READS_PER_TURN 4

void session_touch(struct session *s)
{
    if (s->dirty || s->over)
        return;
    struct worker *w = s->worker;
    s->dirty = true;
    s->next_dirty = NULL;
    *w->dirty_last = s;
    w->dirty_last = &s->next_dirty;
}

void session_touch_if_wanted(struct session *s)
{
    if (!s->dirty && nghttp2_session_want_write(s->h2))
        session_touch(s);
}

void session_fail(struct session *s, const char *why)
{
    if (s->over)
        return;
    s->over = true;
    s->why = why;
    s->next_over = s->worker->over;
    s->worker->over = s;
}

static void feed(struct session *s, const uint8_t *data, size_t len)
{
    if (!s->seen_bytes) {
        s->seen_bytes = true;
        if (s->ops->on_first_bytes && !s->ops->on_first_bytes(s, bytes_of(data, len))) {
            s->closing = true;
            session_touch(s);
            return;
        }
    }
    ssize_t n = nghttp2_session_mem_recv(s->h2, data, len);
    if (n < 0)
        session_fail(s, nghttp2_strerror((int)n));
}

static void on_readable(struct session *s)
{
    struct worker *w = s->worker;
    s->last_in_ms = worker_now_ms(w);
    for (int i = 0; i < READS_PER_TURN && !s->over && !s->closing; i++) {
        ssize_t n = recv(s->fd, w->in, SESSION_IN_BYTES, 0);
        if (n > 0)
            feed(s, w->in, (size_t)n);
        else if (n == 0)
            session_fail(s, "closed by the peer");
        else if (errno != EAGAIN && errno != EINTR)
            session_fail(s, strerror(errno));
        if (n < (ssize_t)SESSION_IN_BYTES)
            break;
    }
    session_touch_if_wanted(s);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch_socket(struct session *s, bool writable)
{
    uv_poll_start(&s->poll, UV_READABLE | (writable ? UV_WRITABLE : 0), on_poll);
    s->blocked_since_ms = writable ? worker_now_ms(s->worker) : 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    if (status < 0) { /* an error on the socket; what came before it is read first */
        on_readable(s);
        session_fail(s, "socket error");
        return;
    }
    if (events & UV_WRITABLE) {
        watch_socket(s, false);
        session_touch(s);
    }
    if (events & UV_READABLE)
        on_readable(s);
}

void session_open(struct session *s, struct worker *w, int fd, const struct session_ops *ops)
{
    s->worker = w;
    s->fd = fd;
    s->ops = ops;
    s->last_in_ms = worker_now_ms(w);
    int failed = uv_poll_init(&w->loop, &s->poll, fd);
    POST(!failed);
    s->poll.data = s;
    watch_socket(s, false);
}

/* Sends data; what the socket does not take waits for it in s->unsent. False: it took less. */
static bool write_out(struct session *s, const uint8_t *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = send(s->fd, data + done, len - done, MSG_NOSIGNAL);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            session_fail(s, strerror(errno));
            return false;
        }
    }
    if (done == len)
        return true;
    buf_append(&s->unsent, data + done, len - done);
    watch_socket(s, true);
    return false;
}

static bool write_unsent(struct session *s)
{
    if (s->unsent.len == 0)
        return true;
    struct buf waiting = s->unsent;
    size_t at = s->unsent_at;
    s->unsent = (struct buf){0};
    s->unsent_at = 0;
    bool all = write_out(s, waiting.data + at, waiting.len - at);
    buf_close(&waiting);
    return all;
}

bool session_put(struct session *s, const uint8_t *frame_head, size_t head_len,
                 struct bytes payload)
{
    struct buf *out = &s->worker->out;
    if (out->len >= SESSION_OUT_BYTES)
        return false;
    buf_append(out, frame_head, head_len);
    buf_bytes(out, payload);
    return true;
}

/* Collects frames until there are no more, or a system call's worth. False: no more. */
static bool collect(struct session *s)
{
    struct buf *out = &s->worker->out;
    while (out->len < SESSION_OUT_BYTES) {
        const uint8_t *frame;
        ssize_t n = nghttp2_session_mem_send(s->h2, &frame);
        if (n < 0)
            session_fail(s, nghttp2_strerror((int)n));
        if (n <= 0)
            return n == 0 && out->len >= SESSION_OUT_BYTES;
        buf_append(out, frame, (size_t)n);
    }
    return true;
}

void session_write_raw(struct session *s, struct bytes data)
{
    write_out(s, data.data, data.len);
}

void session_flush(struct session *s)
{
    s->dirty = false;
    struct buf *out = &s->worker->out;
    bool more = true;
    while (more && !s->over && write_unsent(s)) {
        buf_clear(out);
        more = collect(s);
        if (out->len && !write_out(s, out->data, out->len))
            break;
    }
    bool idle =
        s->unsent.len == 0 &&
        (s->closing || (!nghttp2_session_want_read(s->h2) && !nghttp2_session_want_write(s->h2)));
    if (idle && !s->over)
        session_fail(s, "closed by us");
}

static void on_closed(uv_handle_t *handle)
{
    struct session *s = handle->data;
    s->ops->release(s);
}

void session_close(struct session *s)
{
    nghttp2_session_del(s->h2);
    s->h2 = NULL;
    buf_close(&s->unsent);
    uv_close((uv_handle_t *)&s->poll, on_closed);
    close(s->fd);
}

static void *h2_alloc(size_t size, void *pool)
{
    return pool_alloc(pool, size);
}

static void h2_free(void *piece, void *pool)
{
    pool_free(pool, piece);
}

static void *h2_zeroed(size_t count, size_t size, void *pool)
{
    return pool_zeroed(pool, count * size);
}

static void *h2_resize(void *old, size_t size, void *pool)
{
    return pool_resize(pool, old, size);
}

/* A frame never larger than the windows and the peer allow. */
static ssize_t frame_length(nghttp2_session *h2, uint8_t type, int32_t stream_id,
                            int32_t session_window, int32_t stream_window, uint32_t max_frame,
                            void *arg)
{
    ssize_t n = SESSION_FRAME_BYTES;
    if (n > session_window)
        n = session_window;
    if (n > stream_window)
        n = stream_window;
    return n > (ssize_t)max_frame ? (ssize_t)max_frame : n;
}

static void set_options(nghttp2_option *o)
{
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    nghttp2_option_set_max_send_header_block_length(o, HEADER_BLOCK_BYTES);
    /* Rapid resets are judged by limits.h, which knows which calls had a reason to be given up. */
    nghttp2_option_set_stream_reset_rate_limit(o, UINT32_MAX, UINT32_MAX);
}

static void set_callbacks(nghttp2_session_callbacks *cb, const struct session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, callbacks->begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(cb, callbacks->header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, callbacks->frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, callbacks->data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, callbacks->stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, callbacks->frame_send);
    nghttp2_session_callbacks_set_send_data_callback(cb, callbacks->send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(cb, frame_length);
}

nghttp2_session *session_new_h2(struct worker *w, enum session_side side,
                                const struct session_callbacks *callbacks, void *arg)
{
    nghttp2_session_callbacks *cb;
    nghttp2_option *options;
    nghttp2_session *h2;
    nghttp2_mem mem = {.mem_user_data = &w->pool,
                       .malloc = h2_alloc,
                       .free = h2_free,
                       .calloc = h2_zeroed,
                       .realloc = h2_resize};
    int failed = nghttp2_session_callbacks_new(&cb) || nghttp2_option_new(&options);
    POST(!failed);
    set_callbacks(cb, callbacks);
    set_options(options);
    failed = side == SESSION_SERVER ? nghttp2_session_server_new3(&h2, cb, arg, options, &mem)
                                    : nghttp2_session_client_new3(&h2, cb, arg, options, &mem);
    POST(!failed);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(cb);
    return h2;
}

void session_hello(struct session *s, const nghttp2_settings_entry *settings, size_t count)
{
    int failed = nghttp2_submit_settings(s->h2, NGHTTP2_FLAG_NONE, settings, count);
    if (!failed)
        failed = nghttp2_session_set_local_window_size(s->h2, NGHTTP2_FLAG_NONE, 0,
                                                       SESSION_CONNECTION_WINDOW);
    if (failed)
        session_fail(s, nghttp2_strerror(failed));
    session_touch(s);
}
