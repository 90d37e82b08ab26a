/* The network between members and etcd. A call reaches etcd late, twice or never; its answer comes
 * late or never; either way the caller hears exactly once, on the thread that called. */
#pragma once
#include "tests/sim/world.h"

enum net_kind { NET_TXN, NET_GRANT, NET_KEEPALIVE, NET_REVOKE };

struct net_answer {
    struct err err;
    struct etcd_txn_result result; /* NET_TXN */
    int64_t ttl_ms;                /* NET_GRANT, NET_KEEPALIVE; 0: no such lease */
};

struct net_call {
    int member; /* NOBODY: a guardian or an operator */
    unsigned life;
    int thread, endpoint;
    const char *what; /* for hooks and traces: "commit", "takeover", ... */
    enum net_kind kind;
    struct etcd_txn txn; /* copied by net_send */
    int64_t lease, ttl_ms, timeout_ms;
    /* Called once, unless the caller's process has died by then. */
    void (*done)(struct world *w, struct net_call *call, struct net_answer *answer);
    void *owner;
    uint64_t tag, epoch; /* the caller's own */

    /* of the network */
    uint64_t id;
    int references;
    bool answered, refused;
    void *block; /* what txn points into */
};

/* What a directed schedule wants for one request or reply. */
enum net_verdict {
    NET_PASS,     /* at once, nothing happens to it */
    NET_CHANCE,   /* as the seed has it */
    NET_LOSE,     /* never comes */
    NET_HOLD,     /* until net_release */
    NET_REFUSE,   /* etcd answers TOO_LARGE and does nothing (of a request) */
    NET_NO_SPACE, /* etcd answers NO_SPACE (of a request: does nothing; of a reply: it was applied)
                   */
    NET_EMPTY,    /* the answer is `{}` (of a reply) */
    NET_FOREIGN,  /* the answer has another cluster id (of a reply) */
    NET_UNAVAILABLE /* LOST is answered at once (of a request: does nothing; of a reply: was
                       applied) */
};
enum net_stage { NET_REQUEST, NET_REPLY };

/* In millionths for each message. */
struct net_faults {
    uint64_t lose_request, lose_reply, slow, duplicate, refuse, no_space, applied_no_space, empty,
        foreign;
    uint64_t watch_gap;
    int64_t slow_max_us;
};

struct net_held;
struct net {
    struct net_faults faults;
    int64_t cut_until_us[MEMBERS][ENDPOINTS];
    int64_t down_until_us[ENDPOINTS];
    int64_t lag_us[ENDPOINTS];
    int64_t stalled_until_us; /* etcd has no leader until then */
    /* A directed schedule; NULL: chance. */
    enum net_verdict (*hook)(struct world *w, const struct net_call *call, enum net_stage stage);
    void *hook_arg;
    /* Told of every call that is sent; NULL: nobody is. */
    void (*sent)(struct world *w, const struct net_call *call);
    void *sent_arg;
    uint64_t next_id;
    struct net_held *held;
    struct net_watch *watches[MEMBERS];
};

struct net *net_new(void);
void net_free(struct world *w);
/* Copies the call and the txn in it. */
void net_send(struct world *w, const struct net_call *call);
/* Lets go of what is held and whose `what` is this (NULL: all), in the order in which it was sent.
 */
size_t net_release(struct world *w, const char *what, enum net_stage stage);
size_t net_held_count(const struct world *w, const char *what, enum net_stage stage);
int64_t net_delay_us(struct world *w);

/* A watch of everything that brings one revision at a time, in order, to a member's follow thread.
 */
struct net_watch {
    int member, endpoint;
    uint64_t generation; /* of the member's watches */
    int64_t from;        /* the first revision */
    int64_t last_at_us;  /* nothing comes before this */
    bool silent;
    void (*on_revision)(struct world *w, int member, uint64_t generation, int64_t revision);
    void (*on_end)(struct world *w, int member, uint64_t generation, bool compacted);
};

/* Replaces the member's watch. What etcd already has is sent at once. */
void net_watch_open(struct world *w, const struct net_watch *watch);
void net_watch_close(struct world *w, int member);
bool net_watch_is_open(const struct world *w, int member);
void net_watch_break(struct world *w, int member);       /* the stream ends with an error */
void net_on_revision(struct world *w, int64_t revision); /* etcd made one */
