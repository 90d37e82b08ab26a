/* Holes in what may be read, and for how long. */
#include "meta/core/bug.h"
#include "tests/sim/checker.h"
#include "tests/sim/holes.h"

enum { ALL = 100000 };

/* Alive, but deaf and dumb: it reads on until its own clock forbids it. */
static void isolate(struct world *w, int member)
{
    if (w->net->watches[member])
        w->net->watches[member]->silent = true;
    script_add(w, (struct rule){NULL, NET_REQUEST, member, ALL, NET_LOSE});
    script_add(w, (struct rule){NULL, NET_REPLY, member, ALL, NET_LOSE});
}

static void first_in_line_waits_for_the_old_leaders_reads(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    isolate(w, 0);
    operator_deletes_key(w, 0);
    run_ms(w, 1000);
    expect(w, leader(w) == 0, "the old leader still reads");
    expect_another_leader(w, 0, 5000); /* the checker looks at the gates when that begins */
}

static void deadline_counts_from_the_first_attempt(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"commit", NET_REPLY, 0, 1, NET_LOSE});
    struct op *op = begin_put(w, 0, "alpha");
    expect_done(w, op, 1000);
    isolate(w, 0);
    operator_deletes_key(w, 0);
    expect_another_leader(w, 0, 5000);
    op_release(op);
}

static void late_answer_after_stepping_down_opens_nothing(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"commit", NET_REPLY, 0, 1, NET_HOLD});
    script_add(w, (struct rule){"commit", NET_REQUEST, 0, 1, NET_PASS});
    script_add(w, (struct rule){"commit", NET_REQUEST, 0, ALL, NET_HOLD});
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, ALL, NET_HOLD});
    struct op *op = send_op(w, 0, OP_PUT, "alpha", 0);
    expect_held(w, "commit", NET_REPLY, 1000);
    operator_deletes_key(w, 0);
    expect_held(w, "takeover", NET_REQUEST, 1000); /* released, so there is no wait */
    net_release(w, "commit", NET_REPLY);
    run_ms(w, 10);
    expect(w, op->done && !member_reads(w, &w->members[0]), "answered, and the gate stays closed");
    net_release(w, "takeover", NET_REQUEST);
    expect_another_leader(w, 0, 1000);
    op_release(op);
}

static void reader_looks_before_its_snapshot(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_stick_for(w, 1, THREAD_FOLLOW, 300000); /* m1 falls behind by one write */
    struct op *put = begin_put(w, 0, "alpha");
    expect_done(w, put, 200);
    w->reader_pause_us = 4000000;
    struct op *read = send_op(w, 1, OP_READ, "alpha", 1);
    run_ms(w, 10);
    member_kill(w, 0, 0);
    expect_leader(w, 1, 3000);
    run_ms(w, 5000);
    op_release(put);
    op_release(read);
}

/* A former leader applies what the present one has not heard of yet, and must not tell it. */
static void reader_of_a_former_leader_does_not_see_ahead(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    w->reader_look_us = 1200000;
    struct op *read = send_op(w, 0, OP_READ, "alpha", 0);
    run_ms(w, 10);
    w->reader_look_us = 0;
    operator_deletes_key(w, 0);
    expect_leader(w, 1, 500);
    script_add(w, (struct rule){"commit", NET_REPLY, 1, ALL, NET_HOLD});
    struct op *put = begin_put(w, 1, "alpha");
    run_ms(w, 1200);
    expect(w, applied_at(w, put) != 0 && !put->done && member_reads(w, &w->members[1]),
           "the present leader has not heard of its commit, and reads");
    struct op *second = send_op(w, 2, OP_READ, "alpha", 1);
    run_ms(w, 10); /* the checker compares it with the first one */
    expect(w, second->done && !read->done, "only the present leader answers");
    op_release(read);
    op_release(put);
    op_release(second);
}

/* Another member was told to release epoch 2 too, for its takeover that lost. */
static void released_of_another_leadership_of_the_same_epoch(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, ALL, NET_HOLD});
    member_kill(w, 0, 0);
    expect_held(w, "takeover", NET_REQUEST, 1000);
    operator_deletes_key(w, 1);
    expect_leader(w, 2, 5000);
    expect(w, w->members[2].epoch == 2, "it is the second epoch");
    member_start(w, 0);
    run_ms(w, 1000);
    member_kill(w, 1, 0);
    run_ms(w, 100);
    isolate(w, 2);
    operator_deletes_key(w, 2);
    expect_leader(w, 0, 6000);
}

static void paused_leader_reads_nothing_after_its_deadline(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_stop_for(w, 0, 10000000);
    expect_another_leader(w, 0, 8000);
    struct op *put = begin_put(w, 0, "alpha");
    expect_done(w, put, 1000);
    struct op *read = send_op(w, 1, OP_READ, "alpha", 0);
    struct op *confirmed = send_op(w, 2, OP_QUORUM_READ, "alpha", 0);
    run_ms(w, 12000);
    expect(w, !read->done && !confirmed->done, "the paused leader answers nothing");
    expect(w, w->members[0].role == ROLE_CANDIDATE, "it stands again");
    op_release(put);
    op_release(read);
    op_release(confirmed);
}

static void confirmed_read_of_a_deposed_leader_is_refused(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_stick_for(w, 0, THREAD_ELECTION, 20000000);
    operator_deletes_key(w, 0);
    expect_another_leader(w, 0, 5000);
    struct op *put = begin_put(w, 0, "alpha");
    expect_done(w, put, 1000);
    struct op *read = send_op(w, 1, OP_QUORUM_READ, "alpha", 0);
    run_ms(w, 1000);
    expect(w, !read->done, "it is not answered from the old state");
    op_release(put);
    op_release(read);
}

/* It was true when etcd worked it off, but the second read came after that. */
static void probe_sent_before_a_read_confirms_it_not(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"probe", NET_REQUEST, 0, 1, NET_PASS});
    script_add(w, (struct rule){"probe", NET_REQUEST, 0, ALL, NET_HOLD});
    script_add(w, (struct rule){"probe", NET_REPLY, 0, 1, NET_HOLD});
    struct op *first = send_op(w, 1, OP_QUORUM_READ, "alpha", 0);
    expect_held(w, "probe", NET_REPLY, 1000);
    member_stick_for(w, 0, THREAD_ELECTION, 20000000);
    operator_deletes_key(w, 0);
    expect_another_leader(w, 0, 8000);
    struct op *put = begin_put(w, 0, "alpha");
    expect_done(w, put, 1000);
    struct op *second = send_op(w, 2, OP_QUORUM_READ, "alpha", 0);
    run_ms(w, 10);
    net_release(w, "probe", NET_REPLY);
    run_ms(w, 10);
    expect(w, first->done && !second->done, "it confirms only the read that came before it");
    net_release(w, "probe", NET_REQUEST);
    run_ms(w, 1000);
    expect(w, !second->done, "the deposed leader refuses the other one");
    op_release(first);
    op_release(put);
    op_release(second);
}

/* The election does not know yet; the local state lacks what the caller is told. */
static void applied_and_deposed_closes_the_gate_before_it_answers(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_stick_for(w, 0, THREAD_ELECTION, 20000000);
    script_add(w, (struct rule){"commit", NET_REPLY, 0, 1, NET_LOSE});
    struct op *put = send_op(w, 0, OP_PUT, "alpha", 0);
    run_ms(w, 100);
    operator_deletes_key(w, 0);
    expect_done(w, put, 1000);
    expect(w, w->checker->outcomes[COMMIT_APPLIED_DEPOSED] == 1, "the second attempt finds it");
    struct op *read = send_op(w, 1, OP_READ, "alpha", 0);
    run_ms(w, 100);
    expect(w, !read->done, "it is not read from a state that lacks it");
    op_release(put);
    op_release(read);
}

static void ttl_without_commit_ends_the_leadership(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_stick_for(w, 0, THREAD_REPLICA, 30000000); /* a hung disk; the lease is kept alive */
    expect_another_leader(w, 0, 6000);
    expect(w, w->members[0].role == ROLE_STEPPING_DOWN, "the old one steps down");
}

static void lost_lease_ends_the_leadership_at_once(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    w->net->watches[0]->silent = true; /* only the keepalive can tell */
    fake_etcd_revoke(&w->etcd, election_lease(w->members[0].election));
    run_ms(w, 700);
    expect(w, w->members[0].role != ROLE_LEADER, "the keepalive's answer ends it");
    expect_another_leader(w, 0, 1000);
}

const struct hole hole_beyond_the_margin = {"drift_beyond_the_margin",
                                            first_in_line_waits_for_the_old_leaders_reads,
                                            -1,
                                            {0},
                                            {0.94, 1.06, 1.06}};

const struct hole holes_of_reads[] = {
    {"first_in_line_waits_for_the_old_leaders_reads",
     first_in_line_waits_for_the_old_leaders_reads,
     BUG_NO_WAIT,
     {0}},
    {"it_waits_as_long_as_the_record_says",
     first_in_line_waits_for_the_old_leaders_reads,
     BUG_OWN_TTL,
     {3000, 1000, 1000}},
    {"drift_within_the_margin_is_waited_out",
     first_in_line_waits_for_the_old_leaders_reads,
     -1,
     {0},
     {0.95, 1.05, 1.05}},
    {"deadline_counts_from_the_first_attempt",
     deadline_counts_from_the_first_attempt,
     BUG_LAST_ATTEMPT,
     {0}},
    {"late_answer_after_stepping_down_opens_nothing",
     late_answer_after_stepping_down_opens_nothing,
     BUG_GATE_REOPENS,
     {0}},
    {"reader_looks_before_its_snapshot", reader_looks_before_its_snapshot, BUG_LATE_LOOK, {0}},
    {"reader_of_a_former_leader_does_not_see_ahead",
     reader_of_a_former_leader_does_not_see_ahead,
     -1,
     {0}},
    {"released_of_another_leadership_of_the_same_epoch",
     released_of_another_leadership_of_the_same_epoch,
     BUG_RELEASED_EPOCH,
     {0}},
    {"paused_leader_reads_nothing_after_its_deadline",
     paused_leader_reads_nothing_after_its_deadline,
     -1,
     {0}},
    {"confirmed_read_of_a_deposed_leader_is_refused",
     confirmed_read_of_a_deposed_leader_is_refused,
     -1,
     {0}},
    {"probe_sent_before_a_read_confirms_it_not",
     probe_sent_before_a_read_confirms_it_not,
     BUG_EARLY_PROBE,
     {0}},
    {"applied_and_deposed_closes_the_gate_before_it_answers",
     applied_and_deposed_closes_the_gate_before_it_answers,
     -1,
     {0}},
    {"ttl_without_commit_ends_the_leadership", ttl_without_commit_ends_the_leadership, -1, {0}},
    {"lost_lease_ends_the_leadership_at_once", lost_lease_ends_the_leadership_at_once, -1, {0}},
};
const size_t holes_of_reads_count = sizeof holes_of_reads / sizeof *holes_of_reads;
