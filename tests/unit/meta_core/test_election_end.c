/* The end of a leadership, step by step, and what must not count for anything. */
#include "tests/unit/meta_core/election_kit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define COMMIT KIT_PREFIX "state/commit"
#define QUEUE KIT_PREFIX "live/election/"
#define RELEASED KIT_PREFIX "live/released"
#define MEMBERS KIT_PREFIX "live/members/"

static int setup(void **state)
{
    *state = drive_new(NULL);
    return 0;
}

static int teardown(void **state)
{
    drive_free(*state);
    return 0;
}

/* ---- the end of a leadership ---- */

static void assert_stepped_down(const struct drive *d)
{
    int gate = drive_position(d, ELECTION_CLOSE_GATE), call = drive_position(d, ELECTION_CALL);
    assert_true(gate >= 0);
    assert_int_equal(d->out.actions[gate].epoch, 1);
    assert_true(gate < drive_position(d, ELECTION_PUBLISH));
    assert_true(gate < drive_position(d, ELECTION_STEP_DOWN));
    assert_true(call < 0 || gate < call);
    assert_int_equal(election_role(d->e), ROLE_STEPPING_DOWN);
}

static void a_ttl_without_proof_ends_it(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    d->now_ms = 4000;
    drive_epoch(d, ELECTION_RENEWED);
    drive_tick(d, 8999);
    assert_int_equal(election_role(d->e), ROLE_LEADER);
    assert_true(election_next_ms(d->e) <= 9000);
    drive_tick(d, 9000);
    assert_stepped_down(d);
    assert_true(drive_asks(d, RELEASED) && drive_asks(d, QUEUE));
}

/* The raise was asked of a leader who was deposed before etcd took it: this one compared the value
 * of before, and whoever raised it was told that what comes is above. */
static void a_floor_above_its_epoch_ends_it(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    drive_event(d, (struct election_event){.kind = ELECTION_IDENTIFIED,
                                           .etcd_cluster_id = KIT_CLUSTER,
                                           .epoch_floor = 0});
    assert_int_equal(election_role(d->e), ROLE_LEADER);
    drive_event(d, (struct election_event){.kind = ELECTION_IDENTIFIED,
                                           .etcd_cluster_id = KIT_CLUSTER,
                                           .epoch_floor = 1});
    assert_stepped_down(d);
}

static void proofs_of_another_epoch_do_not_count(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    d->now_ms = 4000;
    drive_event(d, (struct election_event){.kind = ELECTION_RENEWED, .epoch = 2, .sent_ms = 4000});
    drive_event(d, (struct election_event){.kind = ELECTION_ACTIVATED, .epoch = 2});
    assert_int_equal(election_role(d->e), ROLE_ACTIVATING);
    drive_tick(d, 6000);
    assert_stepped_down(d);
}

static void reasons_to_step_down(void **state)
{
    (void)state;
    for (int reason = 0; reason < 6; reason++) {
        struct drive *d = drive_new(NULL);
        struct record_bytes other = kit_bytes(2, 0, 'd');
        drive_to_lead(d);
        drive_epoch(d, ELECTION_ACTIVATED);
        d->now_ms = 1500;
        switch (reason) {
        case 0: /* not this lease */
            drive_event(d, (struct election_event){.kind = ELECTION_LEASE_KEPT, .lease = 1});
            assert_int_equal(election_role(d->e), ROLE_LEADER);
            drive_event(d, (struct election_event){.kind = ELECTION_LEASE_KEPT,
                                                   .lease = election_lease(d->e)});
            break;
        case 1: /* an older view than that in which the key was made */
            drive_look(d, 0, false, 11);
            assert_int_equal(election_role(d->e), ROLE_LEADER);
            drive_look(d, 0, false, 60);
            break;
        case 2:
            drive_look(d, 59, true, 60); /* somebody put the key anew */
            break;
        case 3:
            drive_see(d, &other, d->now_ms);
            break;
        case 4:
            drive_epoch(d, ELECTION_DEPOSED);
            break;
        case 5:
            drive_epoch(d, ELECTION_ACTIVATION_FAILED);
            break;
        }
        assert_stepped_down(d);
        assert_int_equal(drive_asks(d, RELEASED), reason != 3); /* it is history then */
        drive_epoch(d, ELECTION_RENEWED); /* late answers bring nothing back */
        drive_epoch(d, ELECTION_ACTIVATED);
        assert_int_equal(election_role(d->e), ROLE_STEPPING_DOWN);
        drive_free(d);
    }
}

static void it_follows_only_when_settled_and_its_key_is_gone(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    drive_epoch(d, ELECTION_DEPOSED);
    drive_succeeded(d, 40); /* released, key deleted */
    assert_int_equal(election_role(d->e), ROLE_STEPPING_DOWN);
    assert_false(drive_asks(d, QUEUE));
    d->commit = drive_old_record(9000, 1);
    drive_epoch(d, ELECTION_SETTLED);
    assert_int_equal(drive_action(d, ELECTION_PUBLISH)->role, ROLE_FOLLOWER);
    assert_true(drive_asks(d, QUEUE)); /* and stands again */
}

static void each_leadership_is_settled_for_itself(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    drive_epoch(d, ELECTION_DEPOSED);
    drive_succeeded(d, 40);
    drive_epoch(d, ELECTION_SETTLED);
    drive_succeeded(d, 42);
    d->own_revision = 42;
    struct record r = kit_record(1, 0, 'a');
    record_bytes_encode(&d->commit, &r);
    drive_takeover_time(d);
    drive_succeeded(d, 45);
    assert_int_equal(election_role(d->e), ROLE_ACTIVATING);
    drive_event(d, (struct election_event){.kind = ELECTION_DEPOSED, .epoch = 2});
    drive_succeeded(d, 140);
    drive_epoch(d, ELECTION_SETTLED); /* the first one again */
    assert_int_equal(election_role(d->e), ROLE_STEPPING_DOWN);
    drive_event(d, (struct election_event){.kind = ELECTION_SETTLED, .epoch = 2});
    assert_int_not_equal(election_role(d->e), ROLE_STEPPING_DOWN);
}

static void a_drained_leader_settles_resigns_and_revokes(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    drive_event(d, (struct election_event){.kind = ELECTION_DRAIN});
    assert_stepped_down(d);
    assert_int_equal(d->calls, 0); /* what is in flight is settled first */
    drive_epoch(d, ELECTION_SETTLED);
    assert_true(drive_asks(d, RELEASED));
    drive_succeeded(d, 40);
    assert_int_equal(d->call.kind, CALL_REVOKE);
    assert_null(drive_action(d, ELECTION_DRAINED));
    drive_event(d, (struct election_event){.kind = ELECTION_ANSWERED, .call = d->call.id});
    assert_non_null(drive_action(d, ELECTION_DRAINED));
    drive_tick(d, d->now_ms + 10000);
    assert_int_equal(d->out.count, 0); /* nothing comes after the last one */
    assert_true(election_next_ms(d->e) == INT64_MAX);
}

static void a_follower_that_drains_gives_its_lease_back(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    drive_event(d, (struct election_event){.kind = ELECTION_DRAIN});
    assert_int_equal(d->call.kind, CALL_REVOKE);
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    bool drained = false;
    int64_t from_ms = d->now_ms; /* etcd does not answer */
    for (int i = 0; i < 100 && !drained; i++) {
        drive_tick(d, election_next_ms(d->e));
        drained = drive_action(d, ELECTION_DRAINED) != NULL;
    }
    assert_true(drained && d->now_ms <= from_ms + 5000);
}

static void answers_of_another_etcd_do_not_count(void **state)
{
    struct drive *d = *state;
    struct kit_answer a;
    drive_to_queue(d);
    drive_read(d);
    kit_succeeded(&a, 20);
    a.result.header.cluster_id++;
    drive_event(d, (struct election_event){
                       .kind = ELECTION_ANSWERED, .call = d->call.id, .result = &a.result});
    assert_int_equal(election_role(d->e), ROLE_CANDIDATE);
}

static void a_takeover_with_an_empty_answer_goes_on(void **state)
{
    struct drive *d = *state;
    struct kit_answer a;
    drive_to_queue(d);
    drive_read(d);
    struct record first = drive_takeover(d);
    kit_failed(&a, 0);
    drive_event(d, (struct election_event){
                       .kind = ELECTION_ANSWERED, .call = d->call.id, .result = &a.result});
    drive_tick(d, election_next_ms(d->e));
    struct record again = drive_takeover(d);
    assert_memory_equal(&first, &again, sizeof first);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_ttl_without_proof_ends_it),
        ROW(a_floor_above_its_epoch_ends_it),
        ROW(proofs_of_another_epoch_do_not_count),
        cmocka_unit_test(reasons_to_step_down),
        ROW(it_follows_only_when_settled_and_its_key_is_gone),
        ROW(each_leadership_is_settled_for_itself),
        ROW(a_drained_leader_settles_resigns_and_revokes),
        ROW(a_follower_that_drains_gives_its_lease_back),
        ROW(answers_of_another_etcd_do_not_count),
        ROW(a_takeover_with_an_empty_answer_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
