/* The election of one member, step by step, up to its takeover. tests/sim plays many of them
 * against each other. */
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

/* ---- into the queue ---- */

static void it_gets_a_lease_and_registers(void **state)
{
    struct drive *d = *state;
    assert_int_equal(d->calls, 1);
    assert_int_equal(d->call.kind, CALL_GRANT);
    assert_int_equal(d->call.ttl_s, 5);
    assert_true(d->call.lease > 0);
    drive_granted(d, 5000);
    const struct election_action *keep = drive_action(d, ELECTION_KEEP);
    assert_non_null(keep);
    assert_int_equal(keep->lease, d->asked.txn.success[0].lease);
    assert_int_equal(keep->every_ms, 1250);
    assert_int_equal(drive_action(d, ELECTION_TELL)->lease, keep->lease);
    assert_int_equal(drive_action(d, ELECTION_TELL)->release.epoch, 0);
    assert_null(drive_action(d, ELECTION_WARN));
    assert_true(drive_asks(d, MEMBERS "m1"));
    assert_int_equal(d->asked.txn.compares[0].target, ETCD_CREATE);
    assert_int_equal(d->asked.txn.compares[0].number, 0);
}

static void a_lost_grant_is_asked_for_under_the_same_id(void **state)
{
    struct drive *d = *state;
    int64_t lease = d->call.lease;
    size_t endpoint = d->call.endpoint;
    drive_tick(d, election_next_ms(d->e));
    assert_int_equal(d->call.kind, CALL_GRANT);
    assert_int_equal(d->call.lease, lease);
    assert_int_not_equal(d->call.endpoint, endpoint);
    drive_error(d, ERR_IN_USE); /* the first one had worked */
    assert_true(drive_asks(d, MEMBERS));
}

static void the_granted_ttl_is_the_one_that_counts(void **state)
{
    struct drive *d = *state;
    drive_granted(d, 8000);
    assert_non_null(drive_action(d, ELECTION_WARN));
    assert_int_equal(drive_action(d, ELECTION_KEEP)->every_ms, 2000);
    drive_succeeded(d, 10);
    drive_event(d, (struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = true});
    drive_succeeded(d, 12);
    d->own_revision = 12;
    d->first = true;
    drive_read(d);
    assert_int_equal(drive_takeover(d).ttl_ms, 8000);
}

static void it_stands_only_when_caught_up(void **state)
{
    struct drive *d = *state;
    drive_granted(d, 5000);
    drive_succeeded(d, 10);
    assert_int_equal(d->calls, 0);
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    drive_event(d, (struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = true});
    assert_int_equal(election_role(d->e), ROLE_CANDIDATE);
    assert_int_equal(drive_action(d, ELECTION_PUBLISH)->role, ROLE_CANDIDATE);
    assert_true(drive_asks(d, QUEUE));
    drive_succeeded(d, 12);
    drive_event(d, (struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = false});
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    assert_true(drive_asks(d, QUEUE)); /* gives its key up, and only that */
    assert_false(drive_asks(d, RELEASED));
    assert_int_equal(d->asked.txn.compares[0].number, 12);
}

static void a_key_that_comes_after_it_left_is_taken_away(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    drive_event(d, (struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = false});
    drive_succeeded(d, 40);
    drive_look(d, 12, true, 39); /* an old view of the key that it gave up */
    assert_int_equal(d->calls, 0);
    drive_look(d, 45, true, 46); /* a late attempt of the campaign */
    assert_true(drive_asks(d, QUEUE));
    assert_int_equal(d->asked.txn.compares[0].number, 45);
    drive_succeeded(d, 47);
    drive_look(d, 0, false, 48);
    assert_int_equal(d->calls, 0);
}

/* Finds this record under its own id until it gives up; touches nothing meanwhile. */
static struct err meet(struct drive *d, const struct member_info *other)
{
    struct buf value = {0};
    const struct election_action *fatal = NULL;
    member_info_encode(other, &value);
    drive_granted(d, 5000);
    for (int i = 0; i < 200 && !fatal; i++) {
        struct kit_answer a;
        kit_failed(&a, 2);
        kit_found(&a, 0, (struct etcd_kv){.value = buf_view(&value), .lease = 77});
        drive_event(d, (struct election_event){
                           .kind = ELECTION_ANSWERED, .call = d->call.id, .result = &a.result});
        fatal = drive_action(d, ELECTION_FATAL);
        if (!fatal)
            drive_tick(d, election_next_ms(d->e));
        assert_true(d->calls == 0 || d->call.kind == CALL_TXN);
        assert_false(drive_asks(d, RELEASED));
    }
    assert_non_null(fatal);
    buf_close(&value);
    return fatal->err;
}

static void an_id_in_use_is_refused_by_name(void **state)
{
    struct drive *d = *state;
    struct member_info other = drive_config().self;
    snprintf(other.instance, sizeof other.instance, KIT_OTHER);
    snprintf(other.addr, sizeof other.addr, "h9:7000");
    struct err e = meet(d, &other);
    assert_int_equal(e.code, ERR_IN_USE);
    assert_non_null(strstr(e.message, "h9:7000"));
    assert_true(d->now_ms > 6000); /* a dead one's lease would have ended by now */
}

/* The same directory by its instance, but a start that it does not know of: a copy is alive. */
static void the_record_of_a_copy_is_left_alone(void **state)
{
    struct member_info copy = drive_config().self;
    snprintf(copy.start, sizeof copy.start, "33333333333333333333333333333333");
    snprintf(copy.addr, sizeof copy.addr, "h9:7000");
    struct err e = meet(*state, &copy);
    assert_non_null(strstr(e.message, "this one is its copy"));
}

static void its_own_former_record_is_replaced(void **state)
{
    struct drive *d = *state;
    struct member_info former = drive_config().self;
    struct kit_answer a;
    struct buf value = {0};
    snprintf(former.start, sizeof former.start, KIT_OTHER);
    member_info_encode(&former, &value);
    drive_granted(d, 5000);
    kit_failed(&a, 2);
    kit_found(&a, 0, (struct etcd_kv){.value = buf_view(&value), .lease = 77});
    drive_event(d, (struct election_event){
                       .kind = ELECTION_ANSWERED, .call = d->call.id, .result = &a.result});
    for (int i = 0; i < 3 && d->call.kind != CALL_REVOKE; i++)
        drive_succeeded(d, 11); /* what that process led is released first */
    assert_int_equal(d->call.kind, CALL_REVOKE);
    assert_int_equal(d->call.lease, 77);
    drive_event(d, (struct election_event){.kind = ELECTION_ANSWERED, .call = d->call.id});
    assert_true(drive_asks(d, MEMBERS));
    buf_close(&value);
}

/* ---- the wait and the takeover ---- */

static void an_empty_etcd_is_led_at_once(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    drive_read(d);
    assert_true(drive_asks(d, COMMIT));
    struct record r = drive_takeover(d);
    assert_int_equal(r.epoch, 1);
    assert_int_equal(r.seq, 0);
    assert_string_equal(r.leader, "m1");
    assert_int_equal(d->asked.txn.compare_count, 4);
    const struct election_action *tell = drive_action(d, ELECTION_TELL);
    assert_non_null(tell); /* before etcd can know of it */
    assert_true(drive_position(d, ELECTION_TELL) < drive_position(d, ELECTION_CALL));
    assert_int_equal(tell->release.epoch, 1);
    assert_string_equal(tell->release.nonce, r.nonce);
    drive_succeeded(d, 20);
    const struct election_action *lead = drive_action(d, ELECTION_LEAD);
    assert_non_null(lead);
    assert_int_equal(lead->leadership->epoch, 1);
    assert_int_equal(lead->leadership->takeover_revision, 20);
    assert_int_equal(lead->leadership->ttl_ms, 5000);
    assert_int_equal(lead->leadership->margin_ms, 500);
    assert_int_equal(lead->leadership->first_attempt_ms, 1000);
    assert_int_equal(lead->leadership->seat.create_revision, 12);
    assert_int_equal(election_role(d->e), ROLE_ACTIVATING);
    drive_epoch(d, ELECTION_ACTIVATED);
    assert_int_equal(drive_action(d, ELECTION_PUBLISH)->role, ROLE_LEADER);
    assert_int_equal(drive_action(d, ELECTION_PUBLISH)->epoch, 1);
}

static struct record_bytes a_cluster(const char *fields)
{
    struct record_bytes b;
    record_bytes_set(&b, bytes_str(fields));
    return b;
}

static void its_epoch_is_above_the_floor_and_above_the_last(void **state)
{
    (void)state;
    static const struct {
        const char *cluster;
        bool led_before; /* with epoch 5 */
        uint64_t epoch;
    } rows[] = {
        {"id=c format=1 epoch_floor=40", false, 41},
        {"id=c format=1 epoch_floor=40", true, 41},
        {"id=c format=1 epoch_floor=5", true, 6},
        {"id=c format=1 epoch_floor=2", true, 6},
        {"id=c format=1", true, 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct drive *d = drive_new(NULL);
        d->cluster = a_cluster(rows[i].cluster);
        if (rows[i].led_before)
            d->commit = drive_old_record(1000, 1);
        drive_to_queue(d);
        assert_true(drive_takeover_time(d) >= 0);
        assert_int_equal(drive_takeover(d).epoch, rows[i].epoch);
        assert_true(bytes_equal(d->asked.txn.compares[1].value, record_view(&d->cluster)));
        drive_free(d);
    }
}

static void a_floor_that_rises_meanwhile_is_read_anew(void **state)
{
    struct drive *d = *state;
    d->cluster = a_cluster("id=c format=1 epoch_floor=7");
    d->commit = drive_old_record(1000, 1);
    drive_to_queue(d);
    assert_true(drive_takeover_time(d) >= 0);
    d->cluster = a_cluster("id=c format=1 incarnation=2 epoch_floor=70");
    drive_failed(d);
    assert_null(drive_action(d, ELECTION_LEAD));
    assert_true(drive_takeover_time(d) >= 0);
    assert_int_equal(drive_takeover(d).epoch, 71);
}

static void an_unreadable_cluster_lets_nobody_take_over(void **state)
{
    struct drive *d = *state;
    d->cluster = a_cluster("by hand");
    drive_to_queue(d);
    drive_read(d);
    assert_false(drive_asks(d, COMMIT));
    assert_non_null(drive_action(d, ELECTION_WARN));
    d->cluster = a_cluster("id=c format=1");
    assert_true(drive_takeover_time(d) >= 0);
}

static void it_waits_as_long_as_the_record_says(void **state)
{
    struct drive *d = *state;
    d->commit = drive_old_record(9000, 1);
    d->now_ms = 2000;
    drive_to_queue(d);
    assert_int_equal(drive_takeover_time(d), 2000 + 9000);
    assert_int_equal(drive_takeover(d).epoch, 6);
    assert_true(bytes_equal(d->asked.txn.compares[2].value, record_view(&d->commit)));
}

static void it_waits_from_the_first_receipt_of_these_bytes(void **state)
{
    struct drive *d = *state;
    d->commit = drive_old_record(3000, 1);
    d->now_ms = 2000;
    drive_see(d, &d->commit, 1500);
    drive_see(d, &d->commit, 1900); /* the same again */
    drive_to_queue(d);
    assert_int_equal(drive_takeover_time(d), 1500 + 3000);
}

static void a_changed_record_starts_the_wait_anew(void **state)
{
    struct drive *d = *state;
    d->commit = drive_old_record(3000, 1);
    drive_to_queue(d);
    drive_read(d);
    d->now_ms = 3900;
    d->commit = drive_old_record(3000, 2);
    drive_see(d, &d->commit, 3800);
    assert_int_equal(drive_takeover_time(d), 3800 + 3000);
    assert_true(bytes_equal(d->asked.txn.compares[2].value, record_view(&d->commit)));
}

static void a_late_message_with_an_older_record_changes_nothing(void **state)
{
    struct drive *d = *state;
    struct record_bytes older = drive_old_record(3000, 1);
    d->commit = drive_old_record(3000, 2);
    drive_to_queue(d);
    drive_read(d);
    int64_t seen_ms = d->now_ms;
    d->now_ms += 500;
    drive_see(d, &older, d->now_ms);
    assert_int_equal(drive_takeover_time(d), seen_ms + 3000);
}

static void released_by_epoch_and_nonce_needs_no_wait(void **state)
{
    struct drive *d = *state;
    d->commit = drive_old_record(9000, 1);
    d->released.epoch = 5;
    snprintf(d->released.nonce, sizeof d->released.nonce, KIT_NONCE);
    drive_to_queue(d);
    assert_int_equal(drive_takeover_time(d), d->now_ms);
}

static void released_that_comes_by_watch_ends_the_wait(void **state)
{
    struct drive *d = *state;
    d->commit = drive_old_record(9000, 1);
    drive_to_queue(d);
    drive_read(d);
    d->now_ms += 700;
    d->released.epoch = 5;
    snprintf(d->released.nonce, sizeof d->released.nonce, KIT_NONCE);
    drive_look(d, 12, true, 60);
    assert_int_equal(drive_takeover_time(d), 1700);
}

static void released_of_another_nonce_or_epoch_does_not_count(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct drive *d = drive_new(NULL);
        d->commit = drive_old_record(9000, 1);
        d->released.epoch = wrong ? 5 : 6;
        snprintf(d->released.nonce, sizeof d->released.nonce, wrong ? KIT_OTHER : KIT_NONCE);
        drive_to_queue(d);
        assert_int_equal(drive_takeover_time(d), 1000 + 9000);
        drive_free(d);
    }
}

static void its_own_former_leadership_needs_no_wait(void **state)
{
    (void)state;
    struct election_config config = drive_config();
    config.dead.epoch = 5;
    snprintf(config.dead.nonce, sizeof config.dead.nonce, KIT_NONCE);
    struct drive *d = drive_new(&config);
    d->commit = drive_old_record(9000, 1);
    drive_to_queue(d);
    assert_int_equal(drive_takeover_time(d), 1000);
    drive_free(d);
}

static void the_takeover_is_sent_again_as_it_was(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    drive_read(d);
    struct record first = drive_takeover(d);
    size_t endpoint = d->call.endpoint;
    drive_tick(d, election_next_ms(d->e));
    struct record second = drive_takeover(d);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_not_equal(endpoint, d->call.endpoint);
    record_bytes_encode(&d->commit, &first); /* the first one had won */
    drive_failed(d);
    const struct election_action *lead = drive_action(d, ELECTION_LEAD);
    assert_non_null(lead);
    assert_int_equal(lead->leadership->takeover_revision, 15);
    assert_int_equal(lead->leadership->first_attempt_ms, 1000);
}

/* Reads always succeed: a late answer to one must not pass for a takeover that won. */
static void late_answers_to_earlier_questions_do_not_count(void **state)
{
    struct drive *d = *state;
    struct kit_answer a;
    drive_to_queue(d);
    uint64_t first_look = d->call.id;
    drive_tick(d, election_next_ms(d->e));
    drive_read(d);
    assert_true(drive_asks(d, COMMIT));
    kit_failed(&a, 4);
    a.result.succeeded = true;
    drive_event(d, (struct election_event){
                       .kind = ELECTION_ANSWERED, .call = first_look, .result = &a.result});
    assert_int_equal(election_role(d->e), ROLE_CANDIDATE);
    assert_null(drive_action(d, ELECTION_LEAD));
}

static void a_lost_takeover_is_waited_for_anew(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    drive_read(d);
    d->now_ms = 1400;
    d->commit = drive_old_record(3000, 1); /* somebody was faster */
    drive_failed(d);
    assert_null(drive_action(d, ELECTION_LEAD));
    const struct election_action *tell = drive_action(d, ELECTION_TELL);
    assert_non_null(tell); /* there is nothing to release any more */
    assert_int_equal(tell->release.epoch, 0);
    assert_int_equal(drive_takeover_time(d), 1400 + 3000);
    assert_int_equal(drive_takeover(d).epoch, 6);
}

static void who_cannot_take_over_gives_way(void **state)
{
    struct drive *d = *state;
    d->commit = drive_old_record(3000, 1);
    drive_to_queue(d);
    drive_takeover_time(d);
    bool left = false;
    for (int i = 0; i < 400 && !left; i++) {
        drive_tick(d, election_next_ms(d->e));
        left = drive_asks(d, QUEUE) && !drive_asks(d, COMMIT);
    }
    assert_true(left);
    assert_true(d->now_ms >= 1000 + 3000 && d->now_ms <= 1000 + 3000 + 5000);
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    drive_succeeded(d, 70);
    assert_false(drive_asks(d, QUEUE)); /* it rests before it stands again */
}

/* Neither leads nor stands before somebody has looked into it. */
static void assert_holds(struct drive *d)
{
    const struct election_action *suspect = drive_action(d, ELECTION_SUSPECT);
    assert_non_null(suspect);
    assert_int_equal(suspect->err.code, ERR_EPOCH_REGRESSION);
    assert_null(drive_action(d, ELECTION_FATAL));
    assert_true(drive_asks(d, QUEUE)); /* gives its key up */
    drive_succeeded(d, 60);
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    drive_tick(d, d->now_ms + 60000);
    assert_int_equal(d->calls, 0);
    drive_event(d, (struct election_event){.kind = ELECTION_HOLD, .flag = false});
    assert_int_equal(election_role(d->e), ROLE_CANDIDATE);
}

static void state_without_commit_is_suspect(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    drive_read(d);
    drive_failed(d);
    assert_holds(d);
}

static void a_certain_step_back_of_the_epoch_is_suspect(void **state)
{
    struct drive *d = *state;
    d->commit = drive_old_record(3000, 1);
    drive_to_queue(d);
    drive_takeover_time(d);
    struct record r = kit_record(4, 9, 'c');
    record_bytes_encode(&d->commit, &r); /* raft-ordered, and below what was seen: a restore */
    drive_failed(d);
    assert_holds(d);
}

static void a_leader_that_is_told_to_hold_steps_down(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    drive_event(d, (struct election_event){.kind = ELECTION_HOLD, .flag = true});
    assert_non_null(drive_action(d, ELECTION_CLOSE_GATE));
    assert_non_null(drive_action(d, ELECTION_STEP_DOWN));
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(it_gets_a_lease_and_registers),
        ROW(a_lost_grant_is_asked_for_under_the_same_id),
        ROW(the_granted_ttl_is_the_one_that_counts),
        ROW(it_stands_only_when_caught_up),
        ROW(a_key_that_comes_after_it_left_is_taken_away),
        ROW(an_id_in_use_is_refused_by_name),
        ROW(the_record_of_a_copy_is_left_alone),
        ROW(its_own_former_record_is_replaced),
        ROW(an_empty_etcd_is_led_at_once),
        cmocka_unit_test(its_epoch_is_above_the_floor_and_above_the_last),
        ROW(a_floor_that_rises_meanwhile_is_read_anew),
        ROW(an_unreadable_cluster_lets_nobody_take_over),
        ROW(it_waits_as_long_as_the_record_says),
        ROW(it_waits_from_the_first_receipt_of_these_bytes),
        ROW(a_changed_record_starts_the_wait_anew),
        ROW(a_late_message_with_an_older_record_changes_nothing),
        ROW(released_by_epoch_and_nonce_needs_no_wait),
        ROW(released_that_comes_by_watch_ends_the_wait),
        cmocka_unit_test(released_of_another_nonce_or_epoch_does_not_count),
        cmocka_unit_test(its_own_former_leadership_needs_no_wait),
        ROW(the_takeover_is_sent_again_as_it_was),
        ROW(late_answers_to_earlier_questions_do_not_count),
        ROW(a_lost_takeover_is_waited_for_anew),
        ROW(who_cannot_take_over_gives_way),
        ROW(state_without_commit_is_suspect),
        ROW(a_certain_step_back_of_the_epoch_is_suspect),
        ROW(a_leader_that_is_told_to_hold_steps_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
