/* A client's connection, and what the relay may do to the client's side of a call. */
#pragma once
#include "proxy/core/limits.h"
#include "proxy/header.h"
#include "proxy/session.h"

struct call;

struct client {
    struct session session; /* first: the two are cast into each other */
    struct client *next, **link;
    struct call *calls;   /* all with an open stream here */
    struct call *current; /* whose headers are arriving */
    struct call *recent;  /* the last one looked up */
    struct reset_guard resets;
    struct frame_guard frames;
    int64_t opened_ms, looked_ms; /* looked: at its calls */
    bool greeted;                 /* its first SETTINGS came */
    bool warned;                  /* a notice was sent that a GOAWAY follows */
    bool leaving;                 /* GOAWAY was sent: ends when its last stream does */
    char peer[46];
};

/* Takes the descriptor. The client belongs to the worker and frees itself when over. */
void client_open(struct worker *w, int fd, const char *peer);
/* Response headers; end: nothing follows (Trailers-Only). Without end the answer's bytes are
 * fetched by call_answer_* of relay.h. */
void client_answer(struct call *c, const struct header *headers, size_t count, bool end);
void client_more(struct call *c); /* there are bytes, or the end, to fetch */
/* The call's stream is reset, and the call no longer belongs to a client. */
void client_reset(struct call *c, enum h2_code code);
void client_credit(struct call *c, size_t bytes);
void client_widen(struct call *c); /* from the first small window to --stream-window */
/* No new streams: a notice first, the final GOAWAY when the client has confirmed it or client_leave
 * is called. */
void client_warn(struct client *k);
void client_leave(struct client *k, enum h2_code code);
/* The look at the clock, a few times a second. */
void client_tick(struct client *k, int64_t now_ms);
