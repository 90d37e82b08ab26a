/* What becomes of an RPC when something happened to it, as a pure function. The relay acts on the
 * verdict; it decides nothing of this itself. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define RELAY_NEVER INT64_MAX

/* gRPC status codes that the proxy itself gives. */
enum relay_status {
    RELAY_OK = 0,
    RELAY_INVALID_ARGUMENT = 3,
    RELAY_DEADLINE_EXCEEDED = 4,
    RELAY_RESOURCE_EXHAUSTED = 8,
    RELAY_INTERNAL = 13,
    RELAY_UNAVAILABLE = 14,
};

enum relay_event {
    RELAY_ARRIVED,    /* the request's headers are complete */
    RELAY_TURN,       /* it is this parked call's turn, and the leader has room */
    RELAY_NOT_SENT,   /* could not connect, or lost before the HEADERS were serialised */
    RELAY_REFUSED,    /* REFUSED_STREAM, or above the last stream of a GOAWAY */
    RELAY_NOT_DONE,   /* Trailers-Only UNAVAILABLE with baton-not-executed: 1 */
    RELAY_LOST,       /* the connection was lost or declared dead after sending */
    RELAY_ANSWERED,   /* any other answer, or its continuation, and not its end */
    RELAY_SUPERSEDED, /* another leader has a higher epoch, and the grace is over */
    RELAY_TIME,       /* look at the clock */
    RELAY_LOT_FULL,   /* no room for one more parked call */
    RELAY_SHUTDOWN,   /* the proxy's drain time is over */
};
#define RELAY_EVENTS (RELAY_SHUTDOWN + 1)

enum relay_act {
    RELAY_SEND,
    RELAY_PARK,
    RELAY_HOLD, /* the answer is not passed on yet: should it break off, another attempt is right */
    RELAY_PASS,
    RELAY_FAIL,
};

/* What is known of a call. Times share one clock. */
struct relay_facts {
    int64_t now_ms;
    int64_t deadline_ms;   /* of the client; RELAY_NEVER: none */
    int64_t park_until_ms; /* end of the patience while parked */
    int64_t first_sent_ms; /* of the first attempt; RELAY_NEVER: never sent */
    unsigned replays;      /* attempts after one that was sent and lost */
    bool usable;      /* the leader is known, connected, has a free stream, and nobody is before */
    bool sent;        /* an attempt is in flight now */
    bool committed;   /* response headers went to the client */
    bool unary;       /* the method has one answer for certain: its client waits for the end */
    bool holdable;    /* what came of the answer is within what may be held */
    bool whole;       /* the replay buffer still holds all that was received */
    bool may_repeat;  /* the method may be replayed after it was sent */
    bool unknown;     /* an earlier attempt has an unknown outcome */
    bool same_leader; /* the leader known now is the one that refused */
};

struct relay_limits {
    unsigned replay_attempts;
    int64_t replay_window_ms;
};

struct relay_verdict {
    enum relay_act act;
    bool repeats;  /* SEND or PARK after an unknown outcome: counts as a replay */
    bool back_off; /* PARK for a pause that grows, not merely until the leader has room */
    /* of FAIL: */
    enum relay_status status;
    const char *reason, *message; /* static; printable ASCII without %: nothing to encode */
    bool not_executed;            /* certainly nothing happened */
    bool unknown;                 /* it may or may not have happened */
    bool pushback;                /* tell the client when to come again */
};

struct relay_verdict relay_decide(const struct relay_facts *f, enum relay_event event,
                                  const struct relay_limits *limits);
