/* One RPC from its first header to its last: PARKED -> SENT -> COMMITTED -> DONE, back to PARKED
 * while another attempt is right. relay_decide says what becomes of it, the functions here do it.
 * Response headers go to the client at once, except those of a unary method that may be replayed:
 * its answer is held until it is whole, or larger than a first window, so that a leader that dies
 * within it costs another attempt and no error. */
#pragma once
#include "proxy/client.h"
#include "proxy/core/method_table.h"
#include "proxy/core/relay_decide.h"
#include "proxy/core/replay.h"
#include "proxy/core/wheel.h"
#include "proxy/uplink.h"

enum call_state {
    CALL_OPENING,   /* headers are arriving */
    CALL_PARKED,    /* no usable leader */
    CALL_SENT,      /* given to a connection; what came of the answer is held */
    CALL_COMMITTED, /* response headers went to the client */
    CALL_DONE,      /* the client has its status, or is gone */
};

struct call {
    struct up_stream up; /* first: the two are cast into each other */
    /* These keep their memory for the next call that uses the struct; what follows starts as zero.
     */
    struct header_list request;
    struct replay body;
    struct buf answer; /* held, or not yet written to the client */
    struct worker *worker;
    struct client *client; /* NULL: the client's stream is closed */
    int32_t stream_id;
    struct call *next, **link;           /* of the client */
    struct call *park_next, **park_link; /* in the parking lot; link NULL: not there */
    enum call_state state;
    struct bytes path;
    enum method_class class;
    bool unary;      /* for certain */
    size_t owed;     /* request bytes the client has no credit for yet */
    size_t received; /* request bytes in all, while that matters */
    bool widened;    /* the client's window is --stream-window */
    bool is_post;
    char timeout[16], attempts_text[12]; /* header values made by us */
    bool too_large;                      /* the header list is over our limit and was not kept */
    bool ramped;                         /* counted in the ramp */
    bool waited;                         /* was parked */
    bool pausing;                        /* parked for a pause, not in line */
    size_t answer_at;
    size_t answered;     /* answer bytes in all, while that matters */
    bool answer_widened; /* the member's window is --stream-window */
    int64_t moved_ms;    /* when the client last took answer bytes, or began to have some */
    bool answer_ended, answer_deferred, answer_has_trailers;
    bool answer_reset; /* ends with a reset instead, of reset_code */
    uint32_t reset_code;
    struct relay_verdict failure; /* act FAIL: these are the trailers, not the leader's */
    int64_t arrived_ns, sent_ns;  /* worker_turn_ns, worker_clock_ns of the last attempt */
    int64_t arrived_ms, deadline_ms, park_until_ms, first_sent_ms, parked_since_ms, due_ms;
    struct target *sent_to; /* by the last attempt; only compared */
    unsigned refusals, replays, attempts;
    bool unknown;
    struct wheel_entry timer;
    char request_id[56]; /* given by us; empty: none */
};

/* From the client's side. */
struct call *call_open(struct client *k, int32_t stream_id);
void call_on_request(struct call *c, bool ended);
void call_on_request_data(struct call *c, struct bytes data);
void call_on_request_end(struct call *c);
void call_on_client_gone(struct call *c); /* c->client is NULL already; may free c */
/* The answer, fetched while the client's connection is written. */
static inline struct bytes call_answer(const struct call *c)
{
    return bytes_of(c->answer.data + c->answer_at, c->answer.len - c->answer_at);
}
void call_memory_free(struct call *c); /* of one in the worker's free list */
void call_answer_sent(struct call *c, size_t bytes);

/* From the worker's side. */
void relay_pump(struct worker *w); /* sends parked calls that can go */
void relay_on_timer(struct wheel_entry *e);
void relay_supersede(struct uplink *l); /* the grace of a replaced leader is over */
void relay_abandon(struct uplink *l);   /* its time to drain is over as well */
void relay_cut(struct call *c);         /* its client does not read */
void relay_shut(struct client *k);      /* the drain time is over: ends its calls */

/* relay_headers.c: what is sent upstream, and what the client gets. `out` has room for count +
 * these. */
#define RELAY_HEADERS_ADDED 8
bool relay_check_request(struct call *c, struct relay_verdict *refusal, int *http_status);
size_t relay_request_headers(struct call *c, struct header *out);
size_t relay_answer_headers(struct call *c, const struct header_list *l, struct header *out);
/* Of a request's headers only some are kept. */
bool call_keeps(struct call *c, enum header_kind kind, struct bytes value);
#define RELAY_FAILURE_HEADERS 12
size_t relay_failure_headers(struct call *c, const struct relay_verdict *v, bool trailers_only,
                             struct header *out);
/* The trailers of a committed answer, once its bytes are gone: submit is called with them. */
void call_with_trailers(struct call *c, void (*submit)(void *arg, const struct header *h, size_t n),
                        void *arg);

/* relay_park.c */
struct parking {
    struct call *first, **last;
    size_t count; /* in line */
    size_t held;  /* in line or pausing */
};
void parking_init(struct parking *p);
void parking_add(struct parking *p, struct call *c);
void parking_remove(struct parking *p, struct call *c);
