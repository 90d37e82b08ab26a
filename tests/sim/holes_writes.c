/* Holes in what becomes of a write. */
#include "meta/core/bug.h"
#include "meta/core/cluster.h"
#include "tests/sim/checker.h"
#include "tests/sim/holes.h"

#define REQ(kind, n, v)                                                                            \
    ((struct rule){.what = kind, .stage = NET_REQUEST, .member = 0, .times = n, .verdict = v})
#define REP(kind, n, v)                                                                            \
    ((struct rule){.what = kind, .stage = NET_REPLY, .member = 0, .times = n, .verdict = v})
enum { ALL = 100000 };

static void lost_reply_of_an_applied_commit(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REP("commit", 1, NET_LOSE));
    struct op *op = begin_put(w, 0, "alpha");
    expect_done(w, op, 1000); /* the second attempt finds it there */
    expect(w, applied_at(w, op) != 0 && leader(w) == 0, "it is applied and the leader stays");
    op_release(op);
}

static void first_attempt_arrives_after_the_second_was_applied(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("commit", 1, NET_HOLD));
    struct op *first = begin_put(w, 0, "alpha");
    expect_done(w, first, 1000);
    struct op *second = begin_put(w, 1, "beta");
    expect_done(w, second, 1000);
    expect(w, net_release(w, "commit", NET_REQUEST) == 1, "an attempt was held");
    run_ms(w, 500);
    expect(w, leader(w) == 0, "the leader stays");
    op_release(first);
    op_release(second);
}

static void refusal_of_attempt_two_is_not_the_outcome_of_attempt_one(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("commit", 1, NET_HOLD));
    script_add(w, REQ("commit", 1, NET_REFUSE));
    script_add(w, REQ("heartbeat", ALL, NET_LOSE)); /* the settling commit does not get through */
    struct op *op = begin_put(w, 0, "alpha");
    run_ms(w, 600);
    expect(w, !op->done, "nothing is answered while the first attempt may apply");
    expect(w, net_release(w, "commit", NET_REQUEST) == 1, "the first attempt was held");
    script_clear(w);
    expect_done(w, op, 3000);
    expect(w, applied_at(w, op) != 0, "it is applied");
    op_release(op);
}

static void refused_batch_is_settled_by_an_empty_commit(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("commit", 1, NET_HOLD));
    script_add(w, REQ("commit", 1, NET_NO_SPACE));
    struct op *op = begin_put(w, 0, "alpha");
    run_ms(w, 800); /* settled: the refusal is definite, and the proxy tries again */
    expect(w, leader(w) == 0 && w->checker->outcomes[COMMIT_NEVER] >= 1, "the leader settles it");
    net_release(w, "commit", NET_REQUEST);
    expect_done(w, op, 3000);
    run_ms(w, 500);
    op_release(op);
}

static void no_space_is_answered_although_it_was_applied(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REP("commit", 1, NET_NO_SPACE));
    struct op *op = begin_put(w, 0, "alpha");
    expect_done(w, op, 2000);
    expect(w, applied_at(w, op) != 0, "it is applied");
    op_release(op);
}

static void empty_answer_is_not_a_failed_compare(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REP("commit", 4, NET_EMPTY));
    struct op *op = begin_put(w, 0, "alpha");
    expect_done(w, op, 5000);
    expect(w, applied_at(w, op) != 0 && leader(w) == 0, "it is applied and the leader stays");
    op_release(op);
}

static void answer_of_another_etcd_counts_for_nothing(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REP("commit", 2, NET_FOREIGN));
    struct op *op = begin_put(w, 0, "alpha");
    expect_done(w, op, 5000);
    expect(w, leader(w) == 0, "the leader stays");
    op_release(op);
}

static void heartbeat_in_flight_keeps_its_place(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("heartbeat", 1, NET_HOLD));
    expect_held(w, "heartbeat", NET_REQUEST, 2000);
    script_add(w, REQ("commit", 1, NET_HOLD));
    struct op *op = begin_put(w, 0, "alpha");
    run_ms(w, 50);
    net_release(w, "heartbeat", NET_REQUEST);
    run_ms(w, 50);
    net_release(w, "commit", NET_REQUEST);
    expect_done(w, op, 3000);
    expect(w, applied_at(w, op) != 0 && leader(w) == 0, "it is applied and the leader stays");
    op_release(op);
}

static void late_commit_of_a_zombie_is_fenced(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("commit", ALL, NET_HOLD));
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    expect_held(w, "commit", NET_REQUEST, 1000);
    member_stop_for(w, 0, 20000000);
    expect_another_leader(w, 0, 10000);
    struct op *other = begin_put(w, 1, "alpha");
    expect_done(w, other, 2000);
    net_release(w, "commit", NET_REQUEST);
    run_ms(w, 500);
    expect(w, applied_at(w, op) == 0, "the zombie's write is not applied");
    op_release(op);
    op_release(other);
}

/* The successor's history tells the old leader what became of its last batch. */
static void history_says_that_the_last_batch_was_applied(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REP("commit", 1, NET_LOSE));
    script_add(w, REQ("commit", 1, NET_PASS));
    script_add(w, REQ("commit", ALL, NET_HOLD)); /* the second attempt asks much later */
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    expect_held(w, "commit", NET_REQUEST, 2000);
    operator_deletes_key(w, 0);
    expect_another_leader(w, 0, 5000);
    struct op *other = begin_put(w, 1, "beta");
    expect_done(w, other, 2000);
    expect(w, !op->done, "the old leader does not know yet");
    net_release(w, "commit", NET_REQUEST);
    expect_done(w, op, 2000);
    expect(w, w->checker->outcomes[COMMIT_APPLIED_DEPOSED] == 1, "the old leader learns it");
    op_release(op);
    op_release(other);
}

static void history_says_that_the_last_batch_was_not_applied(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("commit", ALL, NET_HOLD));
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    expect_held(w, "commit", NET_REQUEST, 1000);
    operator_deletes_key(w, 0);
    expect_another_leader(w, 0, 5000);
    struct op *other = begin_put(w, 1, "beta");
    expect_done(w, other, 2000);
    net_release(w, "commit", NET_REQUEST);
    run_ms(w, 500);
    expect(w, w->checker->outcomes[COMMIT_NOT_APPLIED] == 1, "the old leader learns it");
    expect(w, applied_at(w, op) == 0, "it is not applied");
    op_release(op);
    op_release(other);
}

static void raise_the_floor(struct world *w, uint64_t floor)
{
    struct cluster cluster;
    struct buf value = {0};
    cluster_begin(&cluster, "0123456789abcdef0123456789abcdef");
    cluster.epoch_floor = floor;
    cluster_encode(&cluster, &value);
    fake_etcd_put(&w->etcd, bytes_str(SIM_PREFIX "cluster"), buf_view(&value), 0);
    buf_close(&value);
}

/* The epoch jumps, so there is no `history/<epoch + 1>`: what became of the last batch is not known
 * to the old leader then, and it must not guess. */
static void a_jump_of_the_epoch_hides_the_outcome(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REP("commit", 1, NET_LOSE));
    script_add(w, REQ("commit", 1, NET_PASS));
    script_add(w, REQ("commit", ALL, NET_HOLD));
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    expect_held(w, "commit", NET_REQUEST, 2000);
    raise_the_floor(w, 40);
    operator_deletes_key(w, 0);
    expect_another_leader(w, 0, 5000);
    struct op *other = begin_put(w, 1, "beta");
    expect_done(w, other, 2000);
    expect(w, w->checker->epoch == 41, "the epoch is above the floor");
    net_release(w, "commit", NET_REQUEST);
    run_ms(w, 1000);
    const uint64_t *outcomes = w->checker->outcomes;
    expect(w, applied_at(w, op) != 0, "it is applied");
    expect(w, outcomes[COMMIT_APPLIED_DEPOSED] + outcomes[COMMIT_NOT_APPLIED] == 0,
           "the old leader claims neither");
    expect(w, outcomes[COMMIT_UNKNOWN] == 1, "it says that it does not know");
    op_release(op);
    op_release(other);
}

/* Nobody has taken over yet, but with the key gone nothing of ours applies any more. */
static void commit_as_it_was_and_no_key_is_not_applied(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("commit", 1, NET_HOLD));
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    expect_held(w, "commit", NET_REQUEST, 1000);
    member_stick_for(w, 0, THREAD_ELECTION, 3000000);
    script_add(w, (struct rule){"release", NET_REQUEST, 0, ALL, NET_LOSE});
    operator_deletes_key(w, 0);
    net_release(w, "commit", NET_REQUEST);
    run_ms(w, 600);
    expect(w, w->checker->outcomes[COMMIT_NOT_APPLIED] == 1, "the leader learns it at once");
    op_release(op);
}

static void applied_and_lost_with_the_leader_happens_once(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REP("commit", ALL, NET_LOSE));
    struct op *op = begin_put(w, 0, "alpha");
    run_ms(w, 100);
    expect(w, applied_at(w, op) != 0, "it is applied");
    member_kill(w, 0, 1000);
    expect_another_leader(w, 0, 2000);
    expect_done(w, op, 3000); /* the successor answers from the table of request ids */
    op_release(op);
}

static void request_sent_twice_to_one_leader_happens_once(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, REQ("commit", 1, NET_HOLD));
    struct op *op = begin_put(w, 0, "alpha");
    expect_held(w, "commit", NET_REQUEST, 1000);
    clients_send(w, op, 0);
    clients_send(w, op, 0);
    run_ms(w, 50);
    net_release(w, "commit", NET_REQUEST);
    expect_done(w, op, 2000);
    run_ms(w, 500);
    op_release(op);
}

static void without_space_nothing_is_lost_and_the_leader_stays(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    w->etcd.no_space = true;
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    run_ms(w, 6000); /* three TTLs: probes keep the leadership */
    expect(w, w->checker->takeovers == 1, "the leader stays");
    struct op *read = send_op(w, 1, OP_QUORUM_READ, "beta", 0);
    expect_done(w, read, 2000);
    expect(w, !member_reads(w, &w->members[0]), "its gate has run out");
    struct op *leased = send_op(w, 2, OP_READ, "beta", 0);
    expect_done(w, leased, 2000);
    w->etcd.no_space = false;
    run_ms(w, 2000);
    struct op *later = begin_put(w, 3, "alpha");
    expect_done(w, later, 2000);
    op_release(op);
    op_release(read);
    op_release(leased);
    op_release(later);
}

/* The first attempt may apply once there is room again, and the settling commit needs room as well:
 * nothing can be said of the batch, but the leader leads on and its reads are confirmed. */
static void what_cannot_be_settled_without_space_waits_for_it(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"commit", NET_REQUEST, 0, 1, NET_HOLD});
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    expect_held(w, "commit", NET_REQUEST, 1000);
    w->etcd.no_space = true;
    run_ms(w, 6000);
    expect(w, w->checker->takeovers == 1 && !op->done, "the leader stays, and says nothing");
    struct op *read = send_op(w, 1, OP_QUORUM_READ, "alpha", 0);
    expect_done(w, read, 2000);
    w->etcd.no_space = false;
    net_release(w, "commit", NET_REQUEST);
    struct op *later = begin_put(w, 2, "alpha");
    expect_done(w, later, 3000);
    expect(w, w->checker->takeovers == 1, "it leads on");
    op_release(op);
    op_release(read);
    op_release(later);
}

const struct hole holes_of_writes[] = {
    {"lost_reply_of_an_applied_commit", lost_reply_of_an_applied_commit, -1, {0}},
    {"first_attempt_arrives_after_the_second_was_applied",
     first_attempt_arrives_after_the_second_was_applied,
     BUG_NO_COMPARE,
     {0}},
    {"refusal_of_attempt_two_is_not_the_outcome_of_attempt_one",
     refusal_of_attempt_two_is_not_the_outcome_of_attempt_one,
     BUG_LATER_ERROR,
     {0}},
    {"refused_batch_is_settled_by_an_empty_commit",
     refused_batch_is_settled_by_an_empty_commit,
     -1,
     {0}},
    {"no_space_is_answered_although_it_was_applied",
     no_space_is_answered_although_it_was_applied,
     -1,
     {0}},
    {"empty_answer_is_not_a_failed_compare",
     empty_answer_is_not_a_failed_compare,
     BUG_EMPTY_ANSWER,
     {0}},
    {"answer_of_another_etcd_counts_for_nothing",
     answer_of_another_etcd_counts_for_nothing,
     -1,
     {0}},
    {"heartbeat_in_flight_keeps_its_place",
     heartbeat_in_flight_keeps_its_place,
     BUG_SHARED_SEQ,
     {0}},
    {"late_commit_of_a_zombie_is_fenced", late_commit_of_a_zombie_is_fenced, -1, {0}},
    {"history_says_that_the_last_batch_was_applied",
     history_says_that_the_last_batch_was_applied,
     -1,
     {0}},
    {"history_says_that_the_last_batch_was_not_applied",
     history_says_that_the_last_batch_was_not_applied,
     -1,
     {0}},
    {"a_jump_of_the_epoch_hides_the_outcome", a_jump_of_the_epoch_hides_the_outcome, -1, {0}},
    {"commit_as_it_was_and_no_key_is_not_applied",
     commit_as_it_was_and_no_key_is_not_applied,
     -1,
     {0}},
    {"applied_and_lost_with_the_leader_happens_once",
     applied_and_lost_with_the_leader_happens_once,
     BUG_NO_DEDUP,
     {0}},
    {"request_sent_twice_to_one_leader_happens_once",
     request_sent_twice_to_one_leader_happens_once,
     BUG_NO_DEDUP,
     {0}},
    {"what_cannot_be_settled_without_space_waits_for_it",
     what_cannot_be_settled_without_space_waits_for_it,
     -1,
     {0}},
    {"without_space_nothing_is_lost_and_the_leader_stays",
     without_space_nothing_is_lost_and_the_leader_stays,
     -1,
     {0}},
};
const size_t holes_of_writes_count = sizeof holes_of_writes / sizeof *holes_of_writes;
