/* A connection to a member, and streams on it: calls of clients, and the proxy's own questions. */
#pragma once
#include "proxy/header.h"
#include "proxy/session.h"

/* What a member may send of one answer before we widen its window. */
#define UPLINK_FIRST_WINDOW 65535

/* The same, unless --stream-window is smaller. */
uint32_t uplink_first_window(const struct worker *w);

struct uplink;
struct up_stream;
struct target;

enum up_end {
    UP_NOT_SENT, /* the HEADERS never left, or the peer says it did not process them */
    UP_REFUSED,  /* REFUSED_STREAM: certainly not processed */
    UP_RESET,    /* the peer reset it; the code says why */
    UP_LOST,     /* the connection went away */
    UP_CLOSED,   /* ended by both sides */
};

struct up_stream_ops {
    /* The final response headers are in up->headers, or the trailers in up->trailers. end:
     * END_STREAM. */
    void (*on_headers)(struct up_stream *up, bool trailers, bool end);
    void (*on_data)(struct up_stream *up, struct bytes data);
    void (*on_end)(struct up_stream *up); /* END_STREAM on data */
    /* Last call; up->link is NULL already and the struct may be used for another attempt. */
    void (*on_over)(struct up_stream *up, enum up_end how, uint32_t code);
    struct bytes (*body)(struct up_stream *up, bool *ended); /* what is to be sent next */
    void (*on_body_sent)(struct up_stream *up, size_t bytes);
};

struct up_stream {
    const struct up_stream_ops *ops;
    struct uplink *link; /* NULL: no attempt in flight */
    struct up_stream *next, **list;
    int32_t id;
    bool sent;                   /* its HEADERS were serialised */
    bool answered;               /* final response headers came */
    bool deferred;               /* the library waits for more of the body */
    bool body_ended, peer_ended; /* END_STREAM each way */
    struct header_list headers;  /* of the answer; trailers alone when it is Trailers-Only */
    struct header_list
        trailers; /* those that follow; apart, for the headers may wait to be written */
};

struct uplink {
    struct session session; /* first: the two are cast into each other */
    struct target *target;
    struct up_stream *streams;
    struct up_stream *current;       /* whose headers are arriving */
    struct up_stream *recent;        /* the last one looked up */
    unsigned active;                 /* streams in the library, dropped ones too */
    bool ready;                      /* the peer's SETTINGS came */
    bool retired;                    /* no new streams: GOAWAY, or most stream ids used */
    int64_t opened_ms, ping_sent_ms; /* ping: 0 none outstanding */
    int64_t superseded_ms;           /* 0, or since when another leader is known */
};

/* Takes the connected descriptor. Belongs to the target and frees itself when over. */
struct uplink *uplink_open(struct target *t, int fd);
bool uplink_has_room(const struct uplink *l);
/* The largest header list the peer takes. */
size_t uplink_header_limit(const struct uplink *l);
/* Starts a stream; up->ops is set, its lists are empty. The body is fetched by ops. False: the
 * library refused; nothing was sent. */
bool uplink_send(struct uplink *l, struct up_stream *up, const struct header *headers,
                 size_t count);
void up_stream_more(struct up_stream *up); /* there is more of the body, or its end */
void up_stream_credit(struct up_stream *up, size_t bytes);
void up_stream_widen(struct up_stream *up); /* from the first window to --stream-window */
/* Reset and forgotten: no callback comes any more. Fine without an attempt in flight. */
void up_stream_drop(struct up_stream *up, enum h2_code code);
void uplink_tick(struct uplink *l, int64_t now_ms);
