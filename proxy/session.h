/* One HTTP/2 connection of a worker, to a client or to a member: the socket, what could not be
 * written yet, and the library's session. Only files named session* know the library. All of it
 * runs on the worker's thread. Callbacks only note what happened; everything is written once a turn
 * of the loop. */
#pragma once
#include "common/base/buf.h"
#include <uv.h>

struct nghttp2_session;
struct worker;
struct session;

/* The error codes of HTTP/2 that mean something to the relay. */
enum h2_code {
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_REFUSED_STREAM = 7,
    H2_CANCEL = 8,
    H2_ENHANCE_YOUR_CALM = 11,
};

struct session_ops {
    /* The connection is over: the owner lets go of its streams. Called once, never from within a
     * callback of the library; the memory of the session is freed by `release` later. */
    void (*on_over)(struct session *s);
    void (*release)(struct session *s);
    /* Bytes before the library sees them; false: they were dealt with, the connection ends. May be
     * NULL. */
    bool (*on_first_bytes)(struct session *s, struct bytes data);
};

struct session {
    struct worker *worker;
    struct nghttp2_session *h2;
    const struct session_ops *ops;
    uv_poll_t poll;
    int fd;
    bool dirty, over, seen_bytes;
    bool closing; /* ends as soon as everything was written */
    struct session *next_dirty, *next_over;
    struct buf unsent;
    size_t unsent_at;
    int64_t last_in_ms, blocked_since_ms; /* blocked: 0 while the socket takes what we write */
    const char *why;                      /* it is over; static */
};

/* Takes the descriptor, whatever happens. s->h2 is set before. */
void session_open(struct session *s, struct worker *w, int fd, const struct session_ops *ops);
void session_touch(struct session *s);                 /* something is to be written */
void session_touch_if_wanted(struct session *s);       /* the same, when the library says so */
void session_fail(struct session *s, const char *why); /* over; on_over comes later in this turn */
void session_write_raw(struct session *s,
                       struct bytes data); /* past the library; for other protocols */
/* Writes what is due, everything of a turn in one system call where the socket takes it. */
void session_flush(struct session *s);
/* The socket is closed and the library's session freed; `release` follows. */
void session_close(struct session *s);
/* Frames of the library and payloads meet here while a session is flushed. False: full, come again.
 */
bool session_put(struct session *s, const uint8_t *frame_head, size_t head_len,
                 struct bytes payload);
