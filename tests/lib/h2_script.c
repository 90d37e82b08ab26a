#include "tests/lib/h2_script.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/lib/loopback.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PREFACE_BYTES = 24, HEAD_BYTES = 9, CONNECTIONS_MAX = 16 };
enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, END_STREAM = 1, END_HEADERS = 4 };

struct connection {
    struct h2_script *script;
    const struct h2_script_step *step;
    int fd;
    pthread_t thread;
};

struct h2_script {
    int listener;
    char *url;
    pthread_t thread;
    const struct h2_script_step *steps;
    size_t step_count;
    struct connection connections[CONNECTIONS_MAX];
    size_t connection_count; /* of the accepting thread, until it is joined */
    _Atomic int requests, resets;
    _Atomic bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool released;
};

void h2_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream, struct bytes payload)
{
    const uint8_t head[HEAD_BYTES] = {(uint8_t)(payload.len >> 16),
                                      (uint8_t)(payload.len >> 8),
                                      (uint8_t)payload.len,
                                      type,
                                      flags,
                                      (uint8_t)(stream >> 24),
                                      (uint8_t)(stream >> 16),
                                      (uint8_t)(stream >> 8),
                                      (uint8_t)stream};
    buf_append(out, head, sizeof head);
    buf_bytes(out, payload);
}

void h2_settings(struct buf *out)
{
    h2_frame(out, SETTINGS, 0, 0, BYTES_NONE);
    h2_frame(out, SETTINGS, 1, 0, BYTES_NONE);
}

/* Literal fields without an index, as plain as HPACK can be. */
void h2_headers(struct buf *out, bool end_stream, const char *const *fields)
{
    struct buf block = {0};
    for (; *fields; fields += 2) {
        buf_byte(&block, 0);
        for (int i = 0; i < 2; i++) {
            POST(strlen(fields[i]) < 127);
            buf_byte(&block, (uint8_t)strlen(fields[i]));
            buf_str(&block, fields[i]);
        }
    }
    h2_frame(out, HEADERS, END_HEADERS | (end_stream ? END_STREAM : 0), 1, buf_view(&block));
    buf_close(&block);
}

void h2_data(struct buf *out, bool end_stream, struct bytes payload)
{
    h2_frame(out, DATA, end_stream ? END_STREAM : 0, 1, payload);
}

static bool read_all(int fd, uint8_t *room, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = recv(fd, room + at, len - at, 0);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool send_all(int fd, struct bytes data)
{
    for (size_t at = 0; at < data.len;) {
        ssize_t n = send(fd, data.data + at, data.len - at, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool read_frame(int fd, uint8_t *type, uint8_t *flags, size_t *len)
{
    uint8_t head[HEAD_BYTES], rest[65536];
    if (!read_all(fd, head, sizeof head))
        return false;
    *len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    *type = head[3];
    *flags = head[4];
    return *len <= sizeof rest && read_all(fd, rest, *len);
}

/* Until headers and some of the body have come, and all of it unless it stays open. */
static bool read_request(struct connection *c)
{
    uint8_t type, flags;
    size_t len;
    bool headers = false;
    while (read_frame(c->fd, &type, &flags, &len)) {
        if (type == HEADERS) {
            headers = true;
            c->script->requests++;
        }
        if (headers && type == DATA && (len || (flags & END_STREAM)))
            return true;
    }
    return false;
}

static void wait_for_release(struct h2_script *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->released)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void converse(struct connection *c)
{
    const struct h2_script_step *step = c->step;
    uint8_t preface[PREFACE_BYTES], type, flags;
    size_t len;
    if (!step || !read_all(c->fd, preface, sizeof preface) || !send_all(c->fd, step->greeting) ||
        !read_request(c))
        return;
    if (step->end == H2_SCRIPT_HELD)
        wait_for_release(c->script);
    if (!send_all(c->fd, step->answer))
        return;
    while (step->end != H2_SCRIPT_CLOSE && read_frame(c->fd, &type, &flags, &len))
        c->script->resets += type == RST_STREAM;
}

static void *run_connection(void *arg)
{
    struct connection *c = arg;
    converse(c);
    shutdown(c->fd, SHUT_RDWR);
    return NULL;
}

static void *run(void *arg)
{
    struct h2_script *s = arg;
    for (;;) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0 || s->stopping)
            return NULL;
        POST(s->connection_count < CONNECTIONS_MAX);
        size_t i = s->connection_count++;
        s->connections[i] = (struct connection){
            .script = s, .step = i < s->step_count ? &s->steps[i] : NULL, .fd = fd};
        s->connections[i].thread = thread_start("h2-script", run_connection, &s->connections[i]);
    }
}

struct h2_script *h2_script_start(const struct h2_script_step *steps, size_t count)
{
    struct h2_script *s = mem_alloc(sizeof *s);
    s->steps = steps;
    s->step_count = count;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->listener = loopback_listen(&s->url);
    s->thread = thread_start("h2-scripts", run, s);
    return s;
}

void h2_script_release(struct h2_script *s)
{
    pthread_mutex_lock(&s->lock);
    s->released = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void h2_script_free(struct h2_script *s)
{
    s->stopping = true;
    h2_script_release(s);
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    for (size_t i = 0; i < s->connection_count; i++) {
        shutdown(s->connections[i].fd, SHUT_RDWR);
        pthread_join(s->connections[i].thread, NULL);
        close(s->connections[i].fd);
    }
    close(s->listener);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->url);
    free(s);
}

const char *h2_script_url(const struct h2_script *s)
{
    return s->url;
}

int h2_script_requests(struct h2_script *s)
{
    return s->requests;
}

int h2_script_resets(struct h2_script *s)
{
    return s->resets;
}
