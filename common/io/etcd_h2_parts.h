/* Inside the gRPC transport: etcd_h2.c has the links, etcd_h2_session.c what is said on one. */
#pragma once
#include "common/io/etcd_h2.h"
#include <nghttp2/nghttp2.h>

enum h2_link_state {
    H2_CONNECTING, /* curl is at it */
    H2_GREETING,   /* connected; has not said yet that it speaks HTTP/2 */
    H2_OPEN,
    H2_BROKEN,
};

struct h2_link {
    struct etcd_client *client;
    int endpoint;
    enum h2_link_state state;
    bool opened;   /* it was open once */
    bool retired;  /* nothing new begins on it */
    bool no_http2; /* what came is something else */
    bool has_more; /* not all was read that has come */
    CURL *easy;    /* in the client's multi until the link is closed */
    nghttp2_session *session;
    struct buf unsent; /* stays as it is until all of it was written: TLS wants that */
    size_t unsent_at;
    int64_t greeted_ms, received_ms;
    char detail[CURL_ERROR_SIZE]; /* why it broke */
    struct h2_link *prev, *next;
};

/* Greets; nothing is written yet. */
void h2_session_begin(struct h2_link *link);
/* Bytes of the other end. False: the link is broken. */
bool h2_session_take(struct h2_link *link, const uint8_t *data, size_t len);
/* Hands t to the library: it has a stream then. False: there are none left on this link. */
bool h2_session_submit(struct h2_link *link, struct transfer *t, const char *token);
void h2_session_reset(struct h2_link *link, const struct transfer *t);
/* Frames that are due, into link->unsent, up to some size. */
void h2_session_fill(struct h2_link *link);
/* With all that was due written: what the other end sent was no HTTP/2, and it was told so. It may
 * go on being silent, with the connection open. */
bool h2_session_is_over(const struct h2_link *link);

/* What became of t, whose stream is over or whose link is broken. status: 200 for an answer of
 * gRPC, else 0 and why. */
struct err h2_verdict(const struct transfer *t, int *status);
