/* Holes on the way of what operators ask for. */
#include "meta/core/cluster.h"
#include "tests/sim/checker.h"
#include "tests/sim/holes.h"
#include "tests/sim/operator.h"

enum { ALL = 100000 };

static bool stands(const struct world *w, int member)
{
    return w->members[member].alive && w->members[member].role == ROLE_CANDIDATE;
}

static void handover_goes_to_the_target(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    struct op *op = begin_put(w, 0, "alpha");
    operator_transfer(w, 0, "m2");
    expect_leader(w, 2, 100);
    expect_done(w, op, 2000);
    op_release(op);
    run_ms(w, 500);
    expect(w, w->checker->takeovers == 2, "nobody else took over between");
    expect(w, stands(w, 0) && stands(w, 1), "the old leader and who stood before it queue again");
    expect(w, w->members[0].transfers_open == 0, "whoever asked was answered");
    operator_transfer(w, 2, ""); /* whoever is first now */
    expect_another_leader(w, 2, 100);
}

static void handover_without_reply_goes_to_the_target(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"release", NET_REPLY, 0, 1, NET_LOSE});
    operator_transfer(w, 0, "m2");
    expect_leader(w, 2, 100);
    run_ms(w, 3000);
    expect(w, leader(w) == 2 && stands(w, 0) && stands(w, 1), "the second attempt changes nothing");
    expect(w, w->members[0].transfers_open == 0, "whoever asked was answered");
}

/* It would delete the key of whoever leads by then. */
static void late_copy_of_a_handover_displaces_nobody(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"release", NET_REQUEST, 0, 1, NET_HOLD});
    operator_transfer(w, 0, "m2");
    expect_leader(w, 2, 1000);
    run_ms(w, 500);
    operator_transfer(w, 2, "m1");
    expect_leader(w, 1, 1000);
    run_ms(w, 500);
    uint64_t takeovers = w->checker->takeovers;
    expect(w, net_release(w, "release", NET_REQUEST) == 1, "the first attempt was held");
    run_ms(w, 3000);
    expect(w, leader(w) == 1 && w->checker->takeovers == takeovers, "it leads on");
    expect(w, stands(w, 0) && stands(w, 2), "and the others stand behind it");
}

/* The target dies at the moment when it is first in line. */
static void handover_to_a_dying_target_is_survived(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"takeover", NET_REQUEST, 2, ALL, NET_LOSE});
    operator_transfer(w, 0, "m2");
    run_ms(w, 50);
    member_kill(w, 2, 10000);
    expect_another_leader(w, 2, 3000);
}

static void member_that_is_taken_out_leaves_and_may_come_again(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    unsigned life = w->members[1].life;
    operator_remove(w, 0, 1);
    run_ms(w, 100);
    expect(w, !w->members[1].alive, "it has left");
    run_ms(w, 3000); /* whoever runs it starts it again */
    expect(w, w->members[1].life == life + 1 && stands(w, 1), "it stands again");
    char start[NONCE_DIGITS + 1];
    operator_mark(w, 1, 0, start);
    expect(w, !start[0], "the mark has gone");
    expect(w, leader(w) == 0 && w->checker->takeovers == 1, "the leader leads on");
}

/* Its lease is gone before it can hear why. */
static void member_that_is_taken_out_unheard_does_not_register(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    unsigned life = w->members[1].life;
    w->net->watches[1]->silent = true;
    operator_remove(w, 0, 1);
    run_ms(w, 1900); /* the checker watches for its start id */
    expect(w, w->members[1].life != life || !w->members[1].alive, "it has left");
}

static void late_copy_of_a_removal_harms_nobody(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    script_add(w, (struct rule){"removal", NET_REQUEST, NOBODY, 1, NET_HOLD});
    operator_remove(w, 0, 1);
    run_ms(w, 5000); /* the next attempt takes it out, and it comes again */
    unsigned life = w->members[1].life;
    expect(w, life > 1 && stands(w, 1), "it stands again");
    expect(w, net_release(w, "removal", NET_REQUEST) == 1, "the first attempt was held");
    run_ms(w, 3000);
    expect(w, w->members[1].life == life && stands(w, 1), "it stands still");
}

static void leader_that_is_taken_out_hands_over(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    struct op *op = begin_put(w, 0, "alpha");
    operator_remove(w, 1, 0);
    expect_another_leader(w, 0, 2500);
    expect_done(w, op, 3000);
    op_release(op);
}

static uint32_t level_of(struct world *w)
{
    struct cluster cluster;
    const struct fake_version *v = fake_etcd_get(&w->etcd, bytes_str(SIM_PREFIX "cluster"), 0);
    struct err err = cluster_decode(v->value, &cluster);
    return err_is(&err) ? 0 : cluster.format;
}

static void restart_as(struct world *w, int member, unsigned version)
{
    member_kill(w, member, 0);
    run_ms(w, 100);
    operator_upgrade(w, member, version);
    member_start(w, member);
    run_ms(w, 1500);
}

static void level_rises_once_all_speak_it(struct world *w)
{
    given_a_leader_and_two_candidates(w);
    restart_as(w, 1, 3);
    restart_as(w, 2, 2);
    expect(w, level_of(w) == 1, "nothing is raised while somebody speaks the old level only");
    restart_as(w, 0, 3);
    expect(w, level_of(w) == 2, "the highest that all speak is in use");
    int now = leader(w);
    restart_as(w, 0, 1);
    expect(w, w->members[0].alive && w->members[0].role == ROLE_FOLLOWER,
           "who does not speak it does not stand");
    expect(w, now == NOBODY || leader(w) == now, "and disturbs nobody");
}

/* It judged the level before that rose, and is first in line afterwards. */
static void takeover_compares_the_level(struct world *w)
{
    operator_upgrade(w, 2, 2);
    given_a_leader_and_two_candidates(w);
    expect(w, level_of(w) == 1 && leader(w) == 0, "the old level is in use");
    script_add(w, (struct rule){"takeover", NET_REQUEST, 1, 1, NET_HOLD});
    member_kill(w, 0, 0);
    expect_held(w, "takeover", NET_REQUEST, 1000);
    struct cluster cluster;
    struct buf value = {0};
    cluster_begin(&cluster, "0123456789abcdef0123456789abcdef");
    cluster.format = 2;
    cluster_encode(&cluster, &value);
    void (*applied)(void *, const struct fake_revision *) = w->etcd.applied;
    w->etcd.applied = NULL; /* as if it had been raised before m1 was listed */
    fake_etcd_put(&w->etcd, bytes_str(SIM_PREFIX "cluster"), buf_view(&value), 0);
    w->etcd.applied = applied;
    buf_close(&value);
    net_release(w, "takeover", NET_REQUEST);
    expect_leader(w, 2, 5000);
}

const struct hole holes_of_operators[] = {
    {"handover_goes_to_the_target", handover_goes_to_the_target, -1, {0}},
    {"handover_without_reply_goes_to_the_target",
     handover_without_reply_goes_to_the_target,
     -1,
     {0}},
    {"late_copy_of_a_handover_displaces_nobody", late_copy_of_a_handover_displaces_nobody, -1, {0}},
    {"handover_to_a_dying_target_is_survived", handover_to_a_dying_target_is_survived, -1, {0}},
    {"member_that_is_taken_out_leaves_and_may_come_again",
     member_that_is_taken_out_leaves_and_may_come_again,
     -1,
     {0}},
    {"member_that_is_taken_out_unheard_does_not_register",
     member_that_is_taken_out_unheard_does_not_register,
     -1,
     {0}},
    {"late_copy_of_a_removal_harms_nobody", late_copy_of_a_removal_harms_nobody, -1, {0}},
    {"leader_that_is_taken_out_hands_over", leader_that_is_taken_out_hands_over, -1, {0}},
    {"level_rises_once_all_speak_it", level_rises_once_all_speak_it, -1, {0}},
    {"takeover_compares_the_level", takeover_compares_the_level, -1, {0}},
};
const size_t holes_of_operators_count = sizeof holes_of_operators / sizeof *holes_of_operators;
