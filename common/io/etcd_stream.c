/* A watch stream: one POST whose answer is one JSON object on each line, for as long as it lasts.
 */
#include "common/io/etcd_internal.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/etcd_observe.h"
#include "common/io/etcd_pb.h"
#include <stdlib.h>
#include <utlist.h>

struct etcd_stream {
    struct transfer t;  /* first: a transfer of this kind is a stream */
    struct buf partial; /* what came after the last newline; all of an answer that is no stream */
    struct err why;     /* it is over because of what it said; else OK */
    bool ended;
    etcd_on_line *on_line;
    etcd_on_end *on_end;
    void *arg;
    _Atomic int64_t last_received_ms;
    struct etcd_stream *prev, *next;
};

/* false: the stream is over. */
static bool take_line(struct etcd_stream *s, struct bytes text)
{
    struct etcd_watch_line line;
    s->why = etcd_decode_watch(text, &line);
    if (err_is(&s->why))
        return false;
    if (line.header.cluster_id == 0)
        s->why = line.err;
    else
        s->why = client_check_cluster(s->t.client, &line.header);
    if (!err_is(&s->why))
        s->on_line(s->arg, &line);
    etcd_watch_line_close(&line);
    return !err_is(&s->why);
}

static bool too_large(struct etcd_stream *s)
{
    s->why = err_make(ERR_PROTOCOL, "a message of etcd's watch is larger than %u MiB",
                      ETCD_MAX_ANSWER_BYTES >> 20);
    return false;
}

static bool fits(struct etcd_stream *s, size_t more)
{
    return more <= ETCD_MAX_ANSWER_BYTES - s->partial.len || too_large(s);
}

static bool take_frames(struct etcd_stream *s, const uint8_t *data, size_t len)
{
    struct bytes message, rest;
    size_t whole, at = 0;
    buf_append(&s->partial, data, len);
    for (;; at += whole) {
        rest = bytes_of(s->partial.data + at, s->partial.len - at);
        if (!etcd_frame_message(rest, &message, &whole))
            break;
        if (!take_line(s, bytes_of(rest.data, whole)))
            return false;
    }
    buf_consume(&s->partial, at);
    return whole <= ETCD_MAX_ANSWER_BYTES || too_large(s);
}

static bool stream_on_data(struct transfer *t, const uint8_t *data, size_t len)
{
    struct etcd_stream *s = (struct etcd_stream *)t;
    long http_status = 0;
    if (t->link) {
        s->last_received_ms = clock_boot_ms();
        return take_frames(s, data, len);
    }
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &http_status);
    s->last_received_ms = clock_boot_ms();
    const uint8_t *end;
    while (http_status == 200 && (end = memchr(data, '\n', len))) {
        size_t n = (size_t)(end - data);
        if (!fits(s, n))
            return false;
        struct bytes line = bytes_of(data, n);
        if (s->partial.len) {
            buf_append(&s->partial, data, n);
            line = buf_view(&s->partial);
        }
        if (line.len && !take_line(s, line))
            return false;
        buf_clear(&s->partial);
        data += n + 1;
        len -= n + 1;
    }
    if (!fits(s, len))
        return false;
    buf_append(&s->partial, data, len);
    return true;
}

/* A whole answer is the end too: etcd says good-bye in a last line, often without a newline, or
 * refuses. */
static struct err last_words(struct etcd_stream *s, int http_status)
{
    struct err e = OK_ERR;
    int grpc_code;
    if (s->t.answered_in_grpc)
        e = etcd_grpc_error(s->t.grpc_status, s->t.detail);
    else if (http_status != 200)
        e = etcd_decode_error(http_status, buf_view(&s->partial), &grpc_code);
    else if (s->partial.len && !take_line(s, buf_view(&s->partial)))
        e = s->why;
    return err_is(&e) ? e : err_make(ERR_LOST, "etcd ended the watch stream");
}

static void stream_on_over(struct transfer *t, int http_status, struct err why)
{
    struct etcd_stream *s = (struct etcd_stream *)t;
    if (http_status)
        why = last_words(s, http_status);
    else if (err_is(&s->why))
        why = s->why;
    s->ended = true;
    client_note(t->client, t->endpoint, why.code);
    if (t->endpoint >= 0)
        etcd_observed(t->client->name, t->path, t->client->endpoints.urls[t->endpoint], why.code,
                      -1);
    s->on_end(s->arg, why);
}

/* hasleader: etcd ends the stream when its member has seen no leader for a few election timeouts.
 */
static const char *const stream_headers[] = {"Content-Type: application/json",
                                             "Expect:", "Grpc-Metadata-hasleader: true", NULL};
static const struct transfer_kind stream_kind = {.headers = stream_headers,
                                                 .keeps_open = true,
                                                 .on_data = stream_on_data,
                                                 .on_over = stream_on_over};

struct etcd_stream *etcd_watch_open(struct etcd_client *c, struct bytes body, int endpoint,
                                    etcd_on_line *on_line, etcd_on_end *on_end, void *arg)
{
    PRE(endpoint >= ETCD_ANY && endpoint < c->endpoints.count);
    struct etcd_stream *s = mem_alloc(sizeof *s);
    s->on_line = on_line;
    s->on_end = on_end;
    s->arg = arg;
    s->last_received_ms = clock_boot_ms();
    s->t.kind = &stream_kind;
    s->t.client = c;
    s->t.path = ETCD_PATH_WATCH;
    s->t.wanted = endpoint;
    s->t.endpoint = ETCD_ANY;
    buf_bytes(&s->t.request, body);
    client_command(c, COMMAND_OPEN, s);
    return s;
}

void etcd_watch_close(struct etcd_stream *s)
{
    client_command(s->t.client, COMMAND_CLOSE, s);
}

int64_t etcd_watch_last_received_ms(const struct etcd_stream *s)
{
    return s->last_received_ms;
}

int etcd_watch_endpoint(const struct etcd_stream *s)
{
    return s->t.endpoint;
}

void stream_start(struct etcd_stream *s)
{
    DL_APPEND(s->t.client->streams, s);
    transfer_start(&s->t);
}

void stream_close(struct etcd_stream *s)
{
    if (!s->ended)
        transfer_abort(&s->t, err_make(ERR_CANCELLED, "the watch was closed"));
    DL_DELETE(s->t.client->streams, s);
    transfer_close(&s->t);
    buf_close(&s->partial);
    free(s);
}
