/* Holes on the way to leadership and away from it. */
#include "tests/sim/checker.h"
#include "tests/sim/holes.h"

enum { ALL = 100000 };

static void lost_reply_of_the_own_takeover(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REPLY, 1, 1, NET_LOSE});
    member_kill(w, 0, 0);
    expect_leader(w, 1, 2000);
    expect(w, w->checker->takeovers == 2 && w->checker->epoch == 2, "it took over once");
}

static void takeover_is_not_rebuilt_while_in_flight(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, 1, NET_HOLD});
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, 1, NET_REFUSE});
    member_kill(w, 0, 0);
    expect_leader(w, 1, 3000);
    expect(w, net_release(w, "takeover", NET_REQUEST) == 1, "the first attempt was held");
    run_ms(w, 1000);
    expect(w, leader(w) == 1 && w->checker->takeovers == 2, "it leads on in the same epoch");
}

static void empty_answer_to_a_takeover_settles_nothing(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REPLY, 1, 3, NET_EMPTY});
    member_kill(w, 0, 0);
    expect_leader(w, 1, 3000);
    expect(w, w->checker->takeovers == 2, "it took over once");
}

static void candidate_that_cannot_take_over_gives_way(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, ALL, NET_LOSE});
    member_kill(w, 0, 0);
    expect_leader(w, 2, 5000);
}

static void abandoned_takeover_that_comes_late_is_fenced(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, ALL, NET_HOLD});
    member_kill(w, 0, 0);
    expect_leader(w, 2, 5000);
    net_release(w, "takeover", NET_REQUEST);
    run_ms(w, 1000);
    expect(w, leader(w) == 2, "the late takeovers change nothing");
}

/* Nobody knows that it applied; whoever comes next must not stumble over it. */
static void abandoned_takeover_that_applied_is_taken_over(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REPLY, 1, ALL, NET_LOSE});
    member_kill(w, 0, 0);
    expect_leader(w, 2, 10000);
    expect(w, w->checker->epoch >= 3, "the epoch of the abandoned takeover is not used again");
}

/* The epoch that a member did not get may be led by somebody else, who reads. */
static void abandoned_takeover_names_nobody_else(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, ALL, NET_LOSE});
    member_kill(w, 0, 0);
    expect_leader(w, 2, 5000);
    script_clear(w);
    run_ms(w, 4000);
    expect(w, w->checker->epoch == 2 && w->members[1].role == ROLE_CANDIDATE,
           "another leads the epoch that it wanted");
    w->net->watches[2]->silent = true;
    script_add(w, (struct rule){NULL, NET_REQUEST, 2, ALL, NET_LOSE});
    operator_deletes_key(w, 2);
    expect_leader(w, 1, 6000);
}

static void failed_activation_lets_another_lead(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    w->members[1].activations_to_fail = 1;
    member_kill(w, 0, 0);
    expect_leader(w, 2, 2000);
}

static void drained_leader_hands_over_without_a_wait(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    struct op *op = begin_put(w, 0, "alpha");
    member_drain(w, 0);
    expect_another_leader(w, 0, 200);
    expect_done(w, op, 2000);
    op_release(op);
}

static void guardian_releases_at_once(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_kill(w, 0, 1000);
    expect_another_leader(w, 0, 100);
}

static void crash_without_guardian_takes_a_ttl(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_kill(w, 0, -1);
    run_ms(w, 1000);
    expect(w, leader(w) == NOBODY, "nobody leads before the TTL is over");
    expect_another_leader(w, 0, 2500);
}

static void deleted_key_means_stepping_down_and_a_new_epoch(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    operator_deletes_key(w, 0);
    expect_another_leader(w, 0, 500);
    run_ms(w, 3000);
    expect(w, w->members[0].role == ROLE_CANDIDATE, "the old leader stands again");
    operator_deletes_key(w, 2); /* a waiting candidate requeues */
    run_ms(w, 3000);
    expect(w, w->members[2].role == ROLE_CANDIDATE && leader(w) == 1, "nobody is lost");
}

static void state_without_commit_record_is_not_led(struct world *w)
{
    void (*applied)(void *, const struct fake_revision *) = w->etcd.applied;
    w->etcd.applied = NULL;
    fake_etcd_put(&w->etcd, bytes_str(SIM_PREFIX "state/kv/alpha"), bytes_str("old"), 0);
    w->etcd.applied = applied;
    for (int i = 0; i < MEMBERS; i++)
        member_start(w, i);
    run_ms(w, 5000);
    expect(w, w->checker->takeovers == 0 && w->checker->fatals > 0, "members refuse it");
}

/* An attempt to queue that arrives after the member left the queue must not block it. */
static void late_campaign_does_not_block_the_queue(struct world *w)
{
    member_start(w, 0);
    expect_leader(w, 0, 5000);
    script_add(w, (struct rule){"campaign", NET_REQUEST, 1, 1, NET_HOLD});
    member_start(w, 1);
    run_ms(w, 2000);
    expect(w, w->members[1].role == ROLE_CANDIDATE, "the second attempt queued it");
    struct election_event behind = {.kind = ELECTION_CAUGHT_UP, .flag = false};
    election_shell_post(w, &w->members[1], &behind);
    run_ms(w, 500);
    expect(w, w->members[1].role == ROLE_FOLLOWER, "it left the queue");
    expect(w, net_release(w, "campaign", NET_REQUEST) == 1, "the first attempt was held");
    run_ms(w, 500);
    member_start(w, 2);
    run_ms(w, 2000);
    member_kill(w, 0, 0);
    expect_leader(w, 2, 10000);
}

static void restarted_member_replaces_its_own_record(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    member_kill(w, 0, -1);
    member_start(w, 0);
    expect_another_leader(w, NOBODY, 4000);
    run_ms(w, 3000);
    expect(w, w->members[0].role != ROLE_FOLLOWER && w->checker->fatals == 0,
           "it leads or stands again");
}

const struct hole holes_of_roles[] = {
    {"lost_reply_of_the_own_takeover", lost_reply_of_the_own_takeover, -1, {0}},
    {"takeover_is_not_rebuilt_while_in_flight", takeover_is_not_rebuilt_while_in_flight, -1, {0}},
    {"empty_answer_to_a_takeover_settles_nothing",
     empty_answer_to_a_takeover_settles_nothing,
     -1,
     {0}},
    {"candidate_that_cannot_take_over_gives_way",
     candidate_that_cannot_take_over_gives_way,
     -1,
     {0}},
    {"abandoned_takeover_that_comes_late_is_fenced",
     abandoned_takeover_that_comes_late_is_fenced,
     -1,
     {0}},
    {"abandoned_takeover_that_applied_is_taken_over",
     abandoned_takeover_that_applied_is_taken_over,
     -1,
     {0}},
    {"abandoned_takeover_names_nobody_else", abandoned_takeover_names_nobody_else, -1, {0}},
    {"failed_activation_lets_another_lead", failed_activation_lets_another_lead, -1, {0}},
    {"drained_leader_hands_over_without_a_wait", drained_leader_hands_over_without_a_wait, -1, {0}},
    {"guardian_releases_at_once", guardian_releases_at_once, -1, {0}},
    {"crash_without_guardian_takes_a_ttl", crash_without_guardian_takes_a_ttl, -1, {0}},
    {"deleted_key_means_stepping_down_and_a_new_epoch",
     deleted_key_means_stepping_down_and_a_new_epoch,
     -1,
     {0}},
    {"state_without_commit_record_is_not_led", state_without_commit_record_is_not_led, -1, {0}},
    {"late_campaign_does_not_block_the_queue", late_campaign_does_not_block_the_queue, -1, {0}},
    {"restarted_member_replaces_its_own_record", restarted_member_replaces_its_own_record, -1, {0}},
};
const size_t holes_of_roles_count = sizeof holes_of_roles / sizeof *holes_of_roles;
