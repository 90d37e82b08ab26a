/* Inside of the election: the facts it knows, and what its files do for each other. A step takes
 * the event's facts in, then asks the seat and the role what follows from the facts until nothing
 * does. */
#pragma once
#include "meta/core/cluster.h"
#include "meta/core/election.h"

/* One question to etcd: every attempt of it means the same, so the first answer that counts is the
 * answer. Attempts go from endpoint to endpoint, and a later one does not cut an earlier one off.
 */
struct ask {
    bool active;
    enum election_call_kind kind;
    uint64_t first, last; /* ids of its attempts */
    size_t tries;
    int64_t next_ms;
    struct fence_txn txn;
    int64_t lease;
};

/* What is known of `commit`. */
struct seen {
    bool known;                /* something is; else nothing was received yet */
    struct record_bytes bytes; /* len 0: there is none */
    struct record record;
    int64_t revision;   /* mod_revision; 0: not told */
    int64_t since_ms;   /* receipt of the first message with exactly these bytes */
    uint64_t last_call; /* calls after this one were made when it was known */
};

/* A handover that was asked for. The plan stays until the txn that follows it is answered, the
 * ticket only until whoever asked has heard. */
struct transfer {
    uint64_t ticket; /* 0: nobody waits */
    struct handover to;
    int64_t until_ms; /* then whoever waits is told that it is not known */
};

struct election {
    struct election_config cfg;
    struct rng rng;
    struct sm role, seat;
    int64_t now_ms;
    struct election_effects *out; /* of the step under way */

    /* facts about etcd and this member */
    int64_t lease, ttl_ms;
    bool lease_lost, key_gone, first, caught_up, draining;
    bool held; /* neither leads nor stands: etcd's state is not the one that was seen */
    int64_t create_revision; /* of the own key; 0: none */
    int64_t view_revision;   /* of what key_gone and first say */
    int64_t left_revision;   /* create revision of the last own key */
    int64_t stray_revision;  /* of a key that a late attempt put after it had left; 0: none */
    struct released released;
    int64_t released_revision;
    uint32_t level;            /* in use; 0: not known */
    struct level_range spoken; /* by all listed members */
    int64_t spoken_revision;   /* as of this one; 0: not known */
    int64_t raised_revision;   /* raising it was tried with the members of this one */
    struct seen seen;
    uint64_t highest_epoch;
    uint64_t epoch_floor;     /* of `cluster`, as it was last told */
    struct record_bytes read; /* what the last read brought */
    int64_t read_revision;
    bool read_since_seen;   /* there was a read since `seen` changed */
    struct cluster cluster; /* `cluster` as of that read; no id: it was not there */
    struct record_bytes cluster_bytes;

    /* the candidacy */
    struct ask ask;
    uint64_t last_call;
    size_t endpoint;
    struct backoff retry, rest;
    int64_t rest_until_ms;     /* does not stand before */
    int64_t look_ms;           /* when queued: reads anew then, should the watch be silent */
    int64_t give_way_ms;       /* first in line: leaves the queue then; 0: is not first */
    int64_t former_lease;      /* of the own former process */
    struct record_bytes mark;  /* of an operator who took a former one out; len 0: none */
    int64_t conflict_until_ms; /* while another directory's record is in the way; 0: none is */
    struct fence_takeover takeover;
    int64_t takeover_first_ms;

    /* the leadership */
    struct leadership leadership;
    int64_t proof_ms;
    bool settled;
    int64_t resign_ms;       /* STEPPING_DOWN: resigns then, settled or not */
    struct released closed;  /* the last own leadership: its gate is closed */
    struct released release; /* to put when leaving; epoch 0: nothing */
    const char *end_why;     /* a leadership that must end: why; NULL: goes on */
    bool end_rests;          /* and somebody else had better lead next */
    struct transfer transfer;
    int64_t leave_by_ms; /* draining: gives up talking to etcd then; 0: not yet */
};

/* ---- election.c ---- */
struct election_action *election_act(struct election *e, enum election_action_kind kind);
void election_warn(struct election *e, struct err err);
void election_suspect(struct election *e, struct err err); /* holds until it is told to go on */
void election_fail(struct election *e, struct err err);    /* fatal: nothing more is done */
void election_move_seat(struct election *e, enum seat to, const char *why);
void election_move_role(struct election *e, enum role to, const char *why); /* and publishes it */
/* `commit` as somebody said it stands. */
struct sight {
    struct bytes value;
    int64_t revision; /* its mod_revision; 0: not told */
    int64_t received_ms;
};
/* `certain`: ordered by raft, so older than what is known means that the state went back. */
void election_see(struct election *e, const struct sight *s, bool certain);
void election_view(struct election *e, int64_t revision, int64_t create_revision, bool first);
void election_see_released(struct election *e, int64_t revision, const struct released *released);
void election_see_removed(struct election *e,
                          const char *start); /* leaves if that is this process */

/* ---- election_ask.c ---- */
void ask_start_txn(struct election *e, struct fence_txn *txn); /* takes what *txn owns */
void ask_start_lease(struct election *e, enum election_call_kind kind, int64_t lease);
void ask_drop(struct election *e);
/* Whether this answer is to the present question; then what it says is to be looked at. */
bool ask_takes(struct election *e, const struct election_event *event);
void ask_failed(struct election *e, const struct election_event *event); /* asks again, later */
void ask_puzzled(struct election *e,
                 const char *what); /* likewise: an answer that settles nothing */
void ask_tick(struct election *e);

/* ---- election_seat.c ---- */
/* False when nothing follows from the facts any more. */
bool seat_advance(struct election *e);
int64_t seat_next_ms(const struct election *e);
void seat_ask_registration(struct election *e);
void seat_ask_release(struct election *e);
void seat_start_reading(struct election *e, const char *why);
void seat_limit_wait(struct election *e);                /* once it is first in line */
void seat_step_out(struct election *e, const char *why); /* it has no key (any more) */
void seat_rest(struct election *e);                      /* lets others go first */
void seat_tell_lease(struct election *e); /* the guardian: there is nothing but the lease */

/* ---- election_answer.c ---- */
void seat_on_answer(struct election *e, const struct election_event *event);

/* ---- election_lead.c ---- */
bool election_lead_advance(struct election *e);
void election_lead_break_off(struct election *e,
                             const char *why); /* if it leads: closes the gate and steps down */
void election_lead_begin(struct election *e, int64_t revision);
int64_t election_lead_next_ms(const struct election *e);

/* ---- election_transfer.c ---- */
extern const char transfer_why[];
void transfer_ask(struct election *e, const struct election_event *event);
/* Resigning: false when it is not to anybody. */
bool transfer_ask_release(struct election *e);
void transfer_released(struct election *e, const struct etcd_txn_result *r);
void transfer_end(struct election *e); /* the key is gone: what was not answered is not known */
void transfer_tick(struct election *e);
int64_t transfer_next_ms(const struct election *e);

/* ---- election_level.c ---- */
/* Whether this member speaks the format level in use, as far as it knows it. */
bool level_is_spoken(const struct election *e);
void level_see(struct election *e, uint32_t level); /* as it stands in `cluster`; 0: not told */
bool level_advance(struct election *e); /* leading: raises it once all speak a higher one */
void level_on_answer(struct election *e, const struct election_event *event);
