/* The election of one member: lease, queue, wait, takeover, roles, resigning. Pure: events with the
 * time in them come in, actions go out. One thread. Nothing that must be right rests on a lease, a
 * keepalive or a plain read: only on the txns of fence.h. */
#pragma once
#include "common/base/backoff.h"
#include "common/base/sm.h"
#include "meta/core/fence.h"
#include "meta/core/handover.h"
#include "meta/core/level.h"
#include "meta/core/role.h"

struct election_config {
    char prefix[PREFIX_MAX];
    uint64_t etcd_cluster_id; /* 0: any */
    struct member_info self;
    int64_t ttl_ms; /* asked for; what etcd grants is used */
    size_t endpoints;
    uint64_t seed;
    int64_t unix_minus_boot_ms; /* for the start time in the history, which only people read */
    /* A leadership of a former process on the same data directory, whose lock this one holds: it
     * needs no wait. epoch 0: not known. */
    struct released dead;
    /* Start ids of former processes on this data directory, whose lock this one holds: what they
     * registered may be taken away. */
    char former_starts[STARTS_BYTES];
};

/* ---- events ---- */

enum election_event_kind {
    /* from etcd, about what the actions asked for */
    ELECTION_ANSWERED,   /* exactly once for each ELECTION_CALL */
    ELECTION_LEASE_KEPT, /* a keepalive was answered: .lease, .ttl_ms (0: the lease is lost) */
    /* from the watches, the live table and the replica; any number of times, in order */
    /* .bytes, .received_ms, .revision: the value of `commit` in a list or watch message, and its
     * mod_revision (0: not told) */
    ELECTION_RECORD_SEEN,
    ELECTION_LIVE_CHANGED, /* .live: the live table after a change, and after each new listing */
    ELECTION_CAUGHT_UP,    /* .flag: the replica follows closely, so this member may stand */
    ELECTION_ACTIVATED,    /* .epoch: the state holds the takeover, reads may be answered */
    ELECTION_ACTIVATION_FAILED, /* .epoch, .err */
    ELECTION_RENEWED,           /* .epoch, .sent_ms: proof_ms of a commit's or probe's outcome */
    ELECTION_DEPOSED, /* .epoch, .err: a guard failed, or the leadership must end for another reason
                       */
    ELECTION_SETTLED, /* .epoch: after step_down: nothing in flight, leader's jobs have stopped */
    ELECTION_DRAIN,   /* leave: resign, give the lease back */
    /* .epoch: hand it over as .handover says, planned under that leadership; .ticket comes back
     * with TRANSFERRED, exactly once unless the election ends before */
    ELECTION_TRANSFER,
    /* .etcd_cluster_id: answers of another etcd do not count from now on; .level, .epoch_floor: of
     * `cluster` */
    ELECTION_IDENTIFIED,
    /* .flag: this member neither leads nor stands, because etcd's state is not the one it knows */
    ELECTION_HOLD,
    ELECTION_TICK, /* at or after election_next_ms */
};

/* What the live table says about the election key of `lease`. */
struct election_live {
    int64_t lease;            /* the lease that was looked for: candidate_lease(); 0: none */
    int64_t create_revision;  /* of its key; 0: not there */
    bool first;               /* no election key has a lower create revision */
    int64_t revision;         /* of etcd, up to which the table is known */
    struct released released; /* epoch 0: none */
    /* the start id in the mark below `removed` with the own id; "": there is none */
    char removed_start[NONCE_DIGITS + 1];
    struct level_range spoken; /* by the listed members */
};

struct election_event {
    enum election_event_kind kind;
    int64_t now_ms; /* clock_boot_ms */
    /* ANSWERED: err OK and result, or err. The result is borrowed. */
    uint64_t call;
    struct err err;
    const struct etcd_txn_result *result;
    int64_t ttl_ms, lease; /* LEASE_KEPT; ttl_ms also of the answer to a grant */
    struct record_bytes bytes;
    int64_t received_ms, revision;
    struct election_live live;
    bool flag;
    uint64_t epoch;
    int64_t sent_ms;
    uint64_t ticket, etcd_cluster_id, epoch_floor;
    uint32_t level;
    struct handover handover;
};

/* ---- actions ---- */

enum election_action_kind {
    ELECTION_CALL, /* ask etcd; .call */
    ELECTION_KEEP, /* keep .lease alive, every .every_ms; 0: stop keeping */
    ELECTION_TELL, /* the guardian: what to let go if this process dies now; lease 0: nothing */
    ELECTION_CLOSE_GATE, /* .epoch */
    ELECTION_PUBLISH,    /* .role, .epoch (of the leadership, 0 for others) */
    ELECTION_LEAD,       /* .leadership */
    ELECTION_STEP_DOWN,  /* .epoch, .why */
    ELECTION_WARN,       /* .err: for the log */
    ELECTION_DRAINED, /* the last one: resigned, and the lease given back (or etcd does not answer)
                       */
    /* .err: what etcd answered does not go on from what was seen. The election holds until HOLD
     * says otherwise. */
    ELECTION_SUSPECT,
    ELECTION_FATAL, /* .err: this member cannot go on */
    /* .ticket. err OK: resigned from .epoch, and .lease is first in line now (0: not told) */
    ELECTION_TRANSFERRED,
    ELECTION_REMOVED, /* an operator has taken this member out: it leaves, as if told to DRAIN */
};

enum election_call_kind { CALL_TXN, CALL_GRANT, CALL_REVOKE };

struct election_call {
    uint64_t id;
    enum election_call_kind kind;
    const struct etcd_txn *txn; /* CALL_TXN; to be encoded before the next step */
    int64_t lease, ttl_s;       /* GRANT; REVOKE takes the lease */
    size_t endpoint;
    int timeout_ms;
};

struct election_action {
    enum election_action_kind kind;
    struct election_call call;
    int64_t lease, every_ms;
    enum role role;
    uint64_t epoch;
    const char *why;                     /* constant */
    const struct leadership *leadership; /* of the election; lives until the next LEAD */
    struct released release;             /* TELL: epoch 0: only the key and the lease */
    struct err err;
    uint64_t ticket;
};

/* To be carried out in this order, each before the next. */
struct election_effects {
    size_t count;
    struct election_action actions[16];
};

struct election;

struct election *election_new(const struct election_config *cfg, int64_t now_ms);
void election_free(struct election *e);
/* The first step is a TICK. */
void election_step(struct election *e, const struct election_event *event,
                   struct election_effects *out);
int64_t election_next_ms(const struct election *e);

/* For logs, metrics and tests. */
enum role election_role(const struct election *e);
int64_t election_lease(const struct election *e); /* 0: none */
/* The machines of the role and of the seat (lease, queue, takeover): to set `moved`. */
struct sm *election_role_sm(struct election *e);
struct sm *election_seat_sm(struct election *e);
