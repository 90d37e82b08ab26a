/* Handing over to somebody, being taken out, and the level that all speak. */
#include "meta/core/cluster.h"
#include "meta/core/removal.h"
#include "tests/unit/meta_core/election_kit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define QUEUE KIT_PREFIX "live/election/"
#define RELEASED KIT_PREFIX "live/released"
#define MEMBERS KIT_PREFIX "live/members/"
#define REMOVED KIT_PREFIX "live/removed/"
#define CLUSTER KIT_PREFIX "cluster"

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

/* ---- handing over ---- */

static struct drive *given_a_leader(void **state)
{
    struct drive *d = *state;
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    return d;
}

static void transfer(struct drive *d, uint64_t ticket)
{
    struct election_event event = {.kind = ELECTION_TRANSFER, .epoch = 1, .ticket = ticket};
    event.handover = (struct handover){.target = "m3", .ahead_count = 1, .ahead = {0x77}};
    drive_event(d, event);
}

static void assert_answered(const struct drive *d, uint64_t ticket, enum err_code code)
{
    const struct election_action *a = drive_action(d, ELECTION_TRANSFERRED);
    assert_non_null(a);
    assert_int_equal(a->ticket, ticket);
    assert_int_equal(a->err.code, code);
}

static bool deletes(const struct drive *d, const char *key)
{
    for (size_t i = 0; i < d->asked.txn.success_count; i++) {
        const struct etcd_op *op = &d->asked.txn.success[i];
        if (op->kind == ETCD_OP_DELETE && bytes_equal(op->key, bytes_str(key)))
            return true;
    }
    return false;
}

/* The answer to the resignation: somebody is first in line now. */
static void resigned(struct drive *d, const char *first)
{
    struct kit_answer a;
    size_t count = d->asked.txn.success_count;
    kit_failed(&a, count);
    a.result.succeeded = true;
    for (size_t i = 0; i + 1 < count; i++)
        a.reads[i].kind = ETCD_OP_DELETE;
    kit_found(&a, count - 1, (struct etcd_kv){.key = bytes_str(first)});
    drive_event(d, (struct election_event){
                       .kind = ELECTION_ANSWERED, .call = d->call.id, .result = &a.result});
}

static void it_settles_resigns_and_makes_way_in_one_txn(void **state)
{
    struct drive *d = given_a_leader(state);
    transfer(d, 5);
    assert_true(drive_position(d, ELECTION_CLOSE_GATE) >= 0);
    assert_int_equal(election_role(d->e), ROLE_STEPPING_DOWN);
    assert_int_equal(d->calls, 0); /* what is in flight is settled first */
    drive_epoch(d, ELECTION_SETTLED);
    assert_true(drive_asks(d, RELEASED) && deletes(d, QUEUE "77"));
    assert_int_equal(d->asked.txn.compares[0].number, 12);
    for (size_t i = 0; i < d->asked.txn.failure_count; i++) /* a late copy displaces nobody */
        assert_int_equal(d->asked.txn.failure[i].kind, ETCD_OP_PUT);
    assert_null(drive_action(d, ELECTION_TRANSFERRED));
    resigned(d, QUEUE "99");
    assert_answered(d, 5, ERR_OK);
    assert_int_equal(drive_action(d, ELECTION_TRANSFERRED)->lease, 0x99);
    assert_int_equal(drive_action(d, ELECTION_TRANSFERRED)->epoch, 1);
    assert_int_equal(drive_action(d, ELECTION_PUBLISH)->role, ROLE_FOLLOWER);
    assert_true(drive_asks(d, QUEUE)); /* and queues again, behind all others */
    drive_succeeded(d, 60);
    assert_int_equal(election_role(d->e), ROLE_CANDIDATE);
}

static void the_plan_is_of_one_resignation(void **state)
{
    struct drive *d = given_a_leader(state);
    transfer(d, 5);
    drive_epoch(d, ELECTION_SETTLED);
    resigned(d, QUEUE "99");
    drive_succeeded(d, 60);
    d->own_revision = 60;
    d->first = false;
    drive_event(d, (struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = false});
    assert_true(drive_asks(d, QUEUE));
    assert_int_equal(d->asked.txn.success_count, 1); /* its own key, and nobody else's */
}

static void one_handover_at_a_time(void **state)
{
    struct drive *d = given_a_leader(state);
    transfer(d, 5);
    transfer(d, 6);
    assert_answered(d, 6, ERR_IN_TRANSFER);
    assert_non_null(strstr(drive_action(d, ELECTION_TRANSFERRED)->err.message, "m3"));
    drive_epoch(d, ELECTION_SETTLED);
    resigned(d, QUEUE "99");
    assert_answered(d, 5, ERR_OK);
    transfer(d, 7);
    assert_answered(d, 7, ERR_NOT_LEADER);
}

static void only_a_leader_of_that_epoch_hands_over(void **state)
{
    struct drive *d = *state;
    transfer(d, 5);
    assert_answered(d, 5, ERR_NOT_LEADER);
    drive_to_lead(d);
    transfer(d, 6);
    assert_answered(d, 6, ERR_NOT_LEADER); /* activating */
    drive_epoch(d, ELECTION_ACTIVATED);
    drive_event(d, (struct election_event){.kind = ELECTION_TRANSFER, .epoch = 9, .ticket = 7});
    assert_answered(d, 7, ERR_NOT_LEADER);
    drive_event(d, (struct election_event){.kind = ELECTION_DRAIN});
    transfer(d, 8);
    assert_answered(d, 8, ERR_DRAINING);
    assert_int_equal(election_role(d->e), ROLE_STEPPING_DOWN);
}

/* The key had gone before, or the answer of an earlier attempt was lost. */
static void a_failed_guard_leaves_it_open_who_is_first(void **state)
{
    struct drive *d = given_a_leader(state);
    struct kit_answer a;
    transfer(d, 5);
    drive_epoch(d, ELECTION_SETTLED);
    kit_failed(&a, 1);
    drive_event(d, (struct election_event){
                       .kind = ELECTION_ANSWERED, .call = d->call.id, .result = &a.result});
    assert_answered(d, 5, ERR_OUTCOME_UNKNOWN);
    assert_int_equal(election_role(d->e), ROLE_CANDIDATE);
}

static void whoever_asked_does_not_wait_for_ever(void **state)
{
    struct drive *d = given_a_leader(state);
    int64_t from_ms = d->now_ms;
    transfer(d, 5);
    bool answered = false;
    for (int i = 0; i < 100 && !answered; i++) {
        drive_tick(d, election_next_ms(d->e));
        answered = drive_action(d, ELECTION_TRANSFERRED) != NULL;
    }
    assert_true(answered && d->now_ms <= from_ms + 10000);
    assert_answered(d, 5, ERR_OUTCOME_UNKNOWN);
    drive_epoch(d, ELECTION_SETTLED);
    drive_tick(d, election_next_ms(d->e));
    assert_true(deletes(d, QUEUE "77")); /* the work goes on, as it was planned */
    resigned(d, QUEUE "99");
    assert_null(drive_action(d, ELECTION_TRANSFERRED)); /* it has been answered */
}

static void where_a_txn_is_too_large_nobody_has_to_make_way(void **state)
{
    struct drive *d = given_a_leader(state);
    transfer(d, 5);
    drive_epoch(d, ELECTION_SETTLED);
    drive_error(d, ERR_TOO_LARGE);
    assert_true(drive_asks(d, RELEASED) && !deletes(d, QUEUE "77"));
    resigned(d, QUEUE "77");
    assert_answered(d, 5, ERR_OK);
    assert_int_equal(drive_action(d, ELECTION_TRANSFERRED)->lease, 0x77);
}

static void out_of_space_the_keys_go_all_the_same(void **state)
{
    struct drive *d = given_a_leader(state);
    transfer(d, 5);
    drive_epoch(d, ELECTION_SETTLED);
    drive_error(d, ERR_NO_SPACE);
    assert_true(deletes(d, QUEUE "77") && !drive_asks(d, RELEASED));
    assert_int_equal(d->asked.txn.failure_count, 0);
    resigned(d, QUEUE "99");
    assert_answered(d, 5, ERR_OK);
}

/* ---- being taken out ---- */

static void look_removed(struct drive *d, const char *start)
{
    struct election_live live = {.lease = election_lease(d->e), .revision = 90};
    snprintf(live.removed_start, sizeof live.removed_start, "%s", start);
    live.create_revision = d->own_revision;
    drive_event(d, (struct election_event){.kind = ELECTION_LIVE_CHANGED, .live = live});
}

static void it_leaves_when_it_was_meant(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    look_removed(d, KIT_OTHER); /* a former process */
    assert_null(drive_action(d, ELECTION_REMOVED));
    look_removed(d, KIT_START);
    assert_non_null(drive_action(d, ELECTION_REMOVED));
    assert_int_equal(d->call.kind, CALL_REVOKE);
    look_removed(d, KIT_START);
    assert_null(drive_action(d, ELECTION_REMOVED)); /* it is told once */
    drive_error(d, ERR_KEY_NOT_FOUND);              /* the lease was revoked by whoever did it */
    assert_non_null(drive_action(d, ELECTION_DRAINED));
}

static void a_leader_that_is_taken_out_hands_over(void **state)
{
    struct drive *d = given_a_leader(state);
    look_removed(d, KIT_START);
    assert_non_null(drive_action(d, ELECTION_REMOVED));
    assert_int_equal(election_role(d->e), ROLE_STEPPING_DOWN);
    drive_epoch(d, ELECTION_SETTLED);
    assert_true(drive_asks(d, RELEASED));
}

/* Registers against what etcd holds: a mark with this start id. */
static void register_against(struct drive *d, const char *start)
{
    struct kit_answer a;
    struct buf mark = {0};
    removal_encode_mark(start, &mark);
    kit_failed(&a, 2);
    kit_found(&a, 1, (struct etcd_kv){.value = buf_view(&mark)});
    drive_event(d, (struct election_event){
                       .kind = ELECTION_ANSWERED, .call = d->call.id, .result = &a.result});
    buf_close(&mark);
}

/* Its lease was revoked before it heard of the mark. */
static void whoever_was_taken_out_does_not_register_again(void **state)
{
    struct drive *d = *state;
    drive_granted(d, 5000);
    assert_int_equal(d->asked.txn.compares[1].number, 0);
    register_against(d, KIT_START);
    assert_non_null(drive_action(d, ELECTION_REMOVED));
    assert_int_equal(d->call.kind, CALL_REVOKE);
}

static void a_later_process_takes_the_mark_away(void **state)
{
    struct drive *d = *state;
    drive_granted(d, 5000);
    register_against(d, KIT_OTHER);
    assert_null(drive_action(d, ELECTION_REMOVED));
    assert_true(drive_asks(d, MEMBERS) && deletes(d, REMOVED "m1"));
    assert_int_equal(d->asked.txn.compares[1].target, ETCD_VALUE);
    register_against(d, KIT_OTHER); /* no news: it is something else that is in the way */
    assert_false(drive_asks(d, MEMBERS));
    drive_tick(d, election_next_ms(d->e));
    drive_succeeded(d, 30);
    assert_null(drive_action(d, ELECTION_FATAL));
}

/* ---- levels ---- */

static struct drive *drive_with_levels(uint32_t min, uint32_t max)
{
    struct election_config c = drive_config();
    c.self.format_min = min;
    c.self.format_max = max;
    return drive_new(&c);
}

static void see_level(struct drive *d, uint32_t level)
{
    drive_event(d, (struct election_event){.kind = ELECTION_IDENTIFIED, .level = level});
}

static void who_does_not_speak_it_does_not_stand(void **state)
{
    struct drive *d = drive_with_levels(1, 2);
    see_level(d, 3);
    assert_non_null(strstr(drive_action(d, ELECTION_WARN)->err.message, "format level 3"));
    drive_granted(d, 5000);
    drive_succeeded(d, 10);
    drive_event(d, (struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = true});
    assert_int_equal(d->calls, 0);
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    assert_true(election_next_ms(d->e) == INT64_MAX); /* nothing to wait for */
    see_level(d, 2);
    assert_true(drive_asks(d, QUEUE));
    drive_free(d);
}

static void who_stands_leaves_the_line_when_it_rises(void **state)
{
    struct drive *d = drive_with_levels(1, 1);
    see_level(d, 1);
    drive_to_queue(d);
    see_level(d, 2);
    assert_true(drive_asks(d, QUEUE)); /* gives its key up */
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    drive_free(d);
}

static void look_levels(struct drive *d, uint32_t min, uint32_t max, int64_t revision)
{
    struct election_live live = {.lease = election_lease(d->e),
                                 .create_revision = d->own_revision,
                                 .first = true,
                                 .revision = revision,
                                 .spoken = {.min = min, .max = max}};
    drive_event(d, (struct election_event){.kind = ELECTION_LIVE_CHANGED, .live = live});
}

static struct drive *given_a_leader_of_levels(uint32_t min, uint32_t max)
{
    struct drive *d = drive_with_levels(min, max);
    struct cluster cluster;
    struct buf value = {0};
    cluster_begin(&cluster, KIT_NONCE);
    snprintf(cluster.rest, sizeof cluster.rest, "later=7");
    cluster_encode(&cluster, &value);
    record_bytes_set(&d->cluster, buf_view(&value));
    buf_close(&value);
    drive_to_lead(d);
    drive_epoch(d, ELECTION_ACTIVATED);
    return d;
}

static void a_leader_raises_it_once_all_speak_it(void **state)
{
    struct drive *d = given_a_leader_of_levels(1, 3);
    struct cluster next;
    look_levels(d, 1, 1, 30);
    assert_int_equal(d->calls, 0);
    look_levels(d, 1, 2, 31);
    assert_true(drive_asks(d, CLUSTER));
    assert_int_equal(d->asked.txn.compares[2].number, 32); /* nobody registered since */
    struct err e = cluster_decode(d->asked.txn.success[0].value, &next);
    assert_false(err_is(&e));
    assert_int_equal(next.format, 2);
    assert_string_equal(next.rest, "later=7"); /* what it does not know is kept */
    drive_succeeded(d, 33);
    look_levels(d, 1, 2, 34);
    assert_int_equal(d->calls, 0);
    assert_int_equal(election_role(d->e), ROLE_LEADER);
    look_levels(d, 3, 3, 35);
    assert_true(drive_asks(d, CLUSTER));
    drive_failed(d); /* the value that stands there is another: nothing happens */
    assert_int_equal(election_role(d->e), ROLE_LEADER);
    drive_free(d);
}

static void it_does_not_rise_above_what_the_leader_speaks(void **state)
{
    struct drive *d = given_a_leader_of_levels(1, 1);
    look_levels(d, 1, 4, 30);
    assert_int_equal(d->calls, 0);
    look_levels(d, 2, 1, 31); /* there is none that all speak */
    assert_int_equal(d->calls, 0);
    drive_free(d);
}

static void levels_in_common(void **state)
{
    struct level_range r = {0};
    struct member_info m = {.format_min = 1, .format_max = 3};
    level_narrow(&r, &m);
    assert_true(r.min == 1 && r.max == 3);
    m = (struct member_info){0}; /* of before there were levels */
    level_narrow(&r, &m);
    assert_true(r.min == 1 && r.max == 1);
    m = (struct member_info){.format_min = 2, .format_max = 3};
    level_narrow(&r, &m);
    assert_true(r.max < r.min && r.max != 0);
}

/* ---- odds and ends ---- */

static void without_a_lease_it_leaves_at_once(void **state)
{
    struct drive *d = *state;
    drive_event(d, (struct election_event){.kind = ELECTION_DRAIN});
    assert_non_null(drive_action(d, ELECTION_DRAINED));
    assert_int_equal(d->calls, 0);
}

static void a_takeover_that_nobody_answered_is_released(void **state)
{
    struct drive *d = *state;
    drive_to_queue(d);
    drive_read(d);
    struct record mine = drive_takeover(d);
    bool left = false;
    for (int i = 0; i < 100 && !left; i++) {
        drive_tick(d, election_next_ms(d->e));
        left = drive_asks(d, RELEASED);
    }
    assert_true(left && drive_asks(d, QUEUE));
    for (size_t i = 0; i < d->asked.txn.success_count; i++) {
        struct released released;
        if (d->asked.txn.success[i].kind != ETCD_OP_PUT)
            continue;
        released_decode(d->asked.txn.success[i].value, &released);
        assert_true(released_names(&released, &mine));
    }
}

static void it_learns_which_etcd_is_its_own(void **state)
{
    struct election_config c = drive_config();
    c.etcd_cluster_id = 0;
    struct drive *d = drive_new(&c);
    drive_event(d, (struct election_event){.kind = ELECTION_IDENTIFIED,
                                           .etcd_cluster_id = KIT_CLUSTER + 1});
    drive_to_queue(d); /* the kit answers as KIT_CLUSTER */
    assert_int_equal(election_role(d->e), ROLE_FOLLOWER);
    drive_free(d);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(it_settles_resigns_and_makes_way_in_one_txn),
        ROW(the_plan_is_of_one_resignation),
        ROW(one_handover_at_a_time),
        ROW(only_a_leader_of_that_epoch_hands_over),
        ROW(a_failed_guard_leaves_it_open_who_is_first),
        ROW(whoever_asked_does_not_wait_for_ever),
        ROW(where_a_txn_is_too_large_nobody_has_to_make_way),
        ROW(out_of_space_the_keys_go_all_the_same),
        ROW(it_leaves_when_it_was_meant),
        ROW(a_leader_that_is_taken_out_hands_over),
        ROW(whoever_was_taken_out_does_not_register_again),
        ROW(a_later_process_takes_the_mark_away),
        cmocka_unit_test(who_does_not_speak_it_does_not_stand),
        cmocka_unit_test(who_stands_leaves_the_line_when_it_rises),
        cmocka_unit_test(a_leader_raises_it_once_all_speak_it),
        cmocka_unit_test(it_does_not_rise_above_what_the_leader_speaks),
        cmocka_unit_test(levels_in_common),
        ROW(without_a_lease_it_leaves_at_once),
        ROW(a_takeover_that_nobody_answered_is_released),
        cmocka_unit_test(it_learns_which_etcd_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
