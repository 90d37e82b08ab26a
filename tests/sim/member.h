/* One simulated member: the cores in a shell of threads that may each be stopped, a process that
 * may die, and a guardian that outlives it. The shell decides nothing about leadership. Its local
 * state is the fake etcd's at the revision that it has applied. */
#pragma once
#include "meta/core/commit.h"
#include "meta/core/confirm.h"
#include "meta/core/election.h"
#include "meta/core/plan.h"
#include "meta/core/read_gate.h"
#include "tests/sim/net.h"

enum { BATCH_MAX = 16 };

#define SIM_PREFIX "/baton/sim/"

struct request;

/* What the replica thread owns. */
struct replica {
    struct world *w;
    int64_t applied;
    uint64_t epoch, seq; /* of the last commit record applied */
    int64_t opened;      /* caught up once this is applied; 0: no watch yet */
    bool caught_up;
    /* while leading */
    bool leading, stopping, drained, failed, in_flight;
    struct leadership leadership;
    struct commit *commit;
    int64_t renewed_ms; /* first attempt of the last commit known applied */
    int64_t begun_ms;   /* of the last commit or probe */
    int64_t give_up_ms;
    char batch_id[NONCE_DIGITS + 1]; /* of what is in flight */
    uint64_t batch_seq;
    struct dedup_window window;
    struct plan_batch plan;
    struct request *batch[BATCH_MAX]; /* in flight */
    struct plan_answer *answers[BATCH_MAX];
    size_t batch_count;
    struct request *queue, **queue_end;
    struct request *unconfirmed; /* reads that etcd confirms, in the order of their tickets */
    uint64_t asked;              /* tickets given out */
    struct confirm confirm;
    int64_t ticked_ms; /* when the next tick is due */
};

struct member {
    int index;
    bool alive, banned; /* banned: does not start any more */
    unsigned life;
    double rate; /* of its clock */
    int64_t clock_offset_ms, ttl_ms;
    int64_t stopped_until_us, stuck_until_us[THREADS];
    int64_t backlog_until_us[THREADS]; /* what came while it stood still is run then, in order */
    int activations_to_fail;
    unsigned version, running_version;        /* of its program, now and since its start */
    uint64_t transfers_asked, transfers_open; /* bits of the last 64 tickets */

    /* on its disk */
    int64_t disk_applied;
    struct released disk_leadership;
    char disk_starts[STARTS_BYTES];
    char instance[NONCE_DIGITS + 1];

    char start[NONCE_DIGITS + 1]; /* of its process */

    /* what its guardian was told */
    int64_t told_lease;
    struct released told;

    struct election *election;
    int64_t ticked_ms;
    int64_t kept_lease, keep_every_ms;
    uint64_t keep_generation;
    size_t keep_endpoint;

    /* follow thread */
    uint64_t watch_generation;
    int watch_endpoint;
    int64_t live_revision, heard_us;
    bool reload;
    struct replica replica;

    /* published */
    struct read_gate gate;
    enum role role;
    uint64_t epoch;
};

void member_init(struct world *w, int index, int64_t ttl_ms, double rate);
void member_close(struct world *w, int index);
void member_start(struct world *w, int index); /* nothing when it runs */
/* The process dies; its guardian lets go of its leadership after a delay, or never (-1). */
void member_kill(struct world *w, int index, int64_t guardian_delay_us);
void member_drain(struct world *w, int index);
void member_stop_for(struct world *w, int index, int64_t us);              /* SIGSTOP, SIGCONT */
void member_stick_for(struct world *w, int index, int thread, int64_t us); /* one thread */
int64_t member_paused_until(const struct member *m, int thread);
void member_clear_pauses(struct member *m);
int64_t member_ms(const struct world *w, const struct member *m); /* its clock */
int64_t member_delay_us(const struct world *w, const struct member *m, int64_t until_ms);
/* Whether it may answer reads now. */
bool member_reads(const struct world *w, const struct member *m);

/* ---- member_election.c ---- */
void election_shell_start(struct world *w, struct member *m);
void election_shell_post(struct world *w, struct member *m, const struct election_event *event);

/* ---- member_follow.c ---- */
void follow_shell_start(struct world *w, struct member *m);
void follow_shell_reopen(struct world *w, struct member *m, bool reload);

/* ---- member_replica.c: on the replica thread ---- */
void replica_shell_start(struct member *m);
void replica_shell_close(struct member *m);
void replica_shell_lead(struct world *w, struct member *m, const struct leadership *l);
void replica_shell_step_down(struct world *w, struct member *m, uint64_t epoch);
void replica_shell_watch(struct world *w, struct member *m, int64_t revision);
void replica_shell_loaded(struct world *w, struct member *m, int64_t revision);
void replica_shell_opened(struct world *w, struct member *m, int64_t revision);
void replica_shell_request(struct world *w, struct member *m, struct request *request);
/* To be called after anything that may have settled what was in flight. */
void replica_shell_after(struct world *w, struct member *m);

/* ---- member_batch.c: on the replica thread ---- */
/* Sends what the commit core wants sent, takes note of what it has decided. */
void batch_carry_out(struct world *w, struct member *m, const struct commit_effects *effects);
/* Makes a batch of what waits and begins its commit, or a heartbeat or probe when one is due. */
void batch_work(struct world *w, struct member *m);
void batch_refuse_waiting(struct world *w, struct member *m, enum err_code code);

/* ---- member_reads.c ---- */
void reader_shell_read(struct world *w, struct member *m, struct request *request);

/* ---- member_view.c ---- */
/* The committed state as it stands at m's applied revision. */
struct plan_view view_of(struct world *w, struct member *m);
void view_fill_window(struct world *w, struct member *m);
