#include "bench/h2_load.h"
#include "common/base/mem.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = 5, WINDOW_BYTES = 1 << 30, READ_BYTES = 1 << 18, CONNECTIONS_MAX = 256 };

struct h2_load_conn {
    int fd;
    nghttp2_session *session;
    char authority[300];
    struct buf out; /* what the socket did not take */
};

void h2_load_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void h2_load_options(const struct option_set *set, int argc, char **argv)
{
    enum option_show show = OPTION_SHOW_NOTHING;
    struct err e = options_parse(set, &argc, argv, &show);
    if (err_is(&e))
        h2_load_fail("%s: %s", set->program, e.message);
    if (show == OPTION_SHOW_NOTHING)
        return;
    options_help(set, stdout);
    exit(0);
}

static void varint(struct buf *b, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        buf_byte(b, (uint8_t)(n | 0x80));
    buf_byte(b, (uint8_t)n);
}

void h2_load_number(struct buf *b, int field, uint64_t value)
{
    varint(b, (uint64_t)field << 3);
    varint(b, value);
}

void h2_load_field(struct buf *b, int field, struct bytes data)
{
    varint(b, (uint64_t)field << 3 | 2);
    varint(b, data.len);
    buf_bytes(b, data);
}

static uint32_t length_of(const uint8_t *head)
{
    return (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
}

/* Every whole message that has come. */
static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t len, void *user)
{
    struct h2_load_call *call = nghttp2_session_get_stream_user_data(session, stream);
    buf_append(&call->in, data, len);
    size_t at = 0;
    while (call->in.len - at >= HEAD_BYTES) {
        size_t bytes = length_of(call->in.data + at);
        if (call->in.len - at - HEAD_BYTES < bytes)
            break;
        call->answered(call, bytes_of(call->in.data + at + HEAD_BYTES, bytes));
        at += HEAD_BYTES + bytes;
    }
    buf_consume(&call->in, at);
    return 0;
}

static bool is_name(const uint8_t *name, size_t len, const char *wanted)
{
    return bytes_equal(bytes_of(name, len), bytes_str(wanted));
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct h2_load_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (is_name(name, name_len, "grpc-status"))
        call->status = (int)strtol((const char *)value, NULL, 10); /* nghttp2 ends it with a 0 */
    if (is_name(name, name_len, "grpc-message"))
        snprintf(call->told, sizeof call->told, "%s", (const char *)value);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    struct h2_load_call *call = nghttp2_session_get_stream_user_data(session, stream);
    buf_close(&call->in);
    buf_close(&call->out);
    call->stream = 0;
    call->ended(call);
    return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *room, size_t cap,
                       uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct h2_load_call *call = source->ptr;
    size_t n = call->out.len < cap ? call->out.len : cap;
    if (n)
        memcpy(room, call->out.data, n);
    buf_consume(&call->out, n);
    if (!call->out.len && !call->more)
        *flags = NGHTTP2_DATA_FLAG_EOF;
    else if (!n)
        return NGHTTP2_ERR_DEFERRED;
    return (ssize_t)n;
}

static int connect_to(const char *addr)
{
    char host[64];
    int port, one = 1;
    struct err e = options_split_address(addr, host, sizeof host, &port);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (err_is(&e) || inet_pton(AF_INET, host, &to.sin_addr) != 1)
        h2_load_fail("%s is no address", addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        h2_load_fail("%s: %s", addr, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

struct h2_load_conn *h2_load_open(const char *addr)
{
    struct h2_load_conn *conn = mem_alloc(sizeof *conn);
    conn->fd = connect_to(addr);
    snprintf(conn->authority, sizeof conn->authority, "%s", addr);
    nghttp2_session_callbacks *on;
    nghttp2_session_callbacks_new(&on);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(on, on_data);
    nghttp2_session_callbacks_set_on_header_callback(on, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(on, on_close);
    nghttp2_session_client_new(&conn->session, on, conn);
    nghttp2_session_callbacks_del(on);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20},
    };
    nghttp2_submit_settings(conn->session, 0, settings, 2);
    nghttp2_session_set_local_window_size(conn->session, 0, 0, WINDOW_BYTES);
    return conn;
}

void h2_load_close(struct h2_load_conn *conn)
{
    nghttp2_session_del(conn->session);
    close(conn->fd);
    buf_close(&conn->out);
    free(conn);
}

static void queue_message(struct h2_load_call *call, struct bytes request)
{
    const uint8_t head[HEAD_BYTES] = {0, (uint8_t)(request.len >> 24), (uint8_t)(request.len >> 16),
                                      (uint8_t)(request.len >> 8), (uint8_t)request.len};
    buf_append(&call->out, head, sizeof head);
    buf_bytes(&call->out, request);
}

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

void h2_load_start(struct h2_load_conn *conn, struct h2_load_call *call, const char *path,
                   struct bytes request, bool more)
{
    const nghttp2_nv headers[] = {pair(":method", "POST"),
                                  pair(":scheme", "http"),
                                  pair(":path", path),
                                  pair(":authority", conn->authority),
                                  pair("content-type", "application/grpc"),
                                  pair("te", "trailers")};
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = on_read};
    call->conn = conn;
    call->status = -1;
    call->more = more;
    queue_message(call, request);
    call->stream = nghttp2_submit_request(conn->session, NULL, headers,
                                          sizeof headers / sizeof headers[0], &body, call);
    if (call->stream < 0)
        h2_load_fail("no further call: %s", nghttp2_strerror(call->stream));
}

void h2_load_send(struct h2_load_call *call, struct bytes request)
{
    queue_message(call, request);
    nghttp2_session_resume_data(call->conn->session, call->stream);
}

static void write_all(struct h2_load_conn *conn)
{
    const uint8_t *data;
    ssize_t n;
    while (conn->out.len < READ_BYTES && (n = nghttp2_session_mem_send(conn->session, &data)) > 0)
        buf_append(&conn->out, data, (size_t)n);
    n = conn->out.len ? send(conn->fd, conn->out.data, conn->out.len, MSG_NOSIGNAL) : 0;
    if (n < 0 && errno != EAGAIN)
        h2_load_fail("%s: %s", conn->authority, strerror(errno));
    if (n > 0)
        buf_consume(&conn->out, (size_t)n);
}

static void read_some(struct h2_load_conn *conn)
{
    static uint8_t room[READ_BYTES];
    ssize_t n = recv(conn->fd, room, sizeof room, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        h2_load_fail("%s ended the connection", conn->authority);
    ssize_t taken = nghttp2_session_mem_recv(conn->session, room, (size_t)n);
    if (taken < 0)
        h2_load_fail("%s: %s", conn->authority, nghttp2_strerror((int)taken));
}

void h2_load_run(struct h2_load_conn **conns, size_t count, int timeout_ms)
{
    struct pollfd polled[CONNECTIONS_MAX];
    for (size_t i = 0; i < count; i++) {
        write_all(conns[i]);
        bool waits = conns[i]->out.len > 0 || nghttp2_session_want_write(conns[i]->session);
        polled[i] =
            (struct pollfd){.fd = conns[i]->fd, .events = (short)(POLLIN | (waits ? POLLOUT : 0))};
    }
    poll(polled, count, timeout_ms);
    for (size_t i = 0; i < count; i++) {
        if (polled[i].revents & (POLLIN | POLLERR | POLLHUP))
            read_some(conns[i]);
    }
}
