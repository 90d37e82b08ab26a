/* Taking a member out: the txn, and what its answers mean. */
#include "meta/core/removal.h"
#include "tests/unit/meta_core/fence_kit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct removal a_removal(void)
{
    struct removal r = {.record_revision = 33, .lease = 0xabc};
    snprintf(r.id, sizeof r.id, "m2");
    snprintf(r.start, sizeof r.start, KIT_NONCE);
    return r;
}

static void one_registration_is_meant(void **state)
{
    struct removal r = a_removal();
    struct fence_txn t = {0};
    char start[NONCE_DIGITS + 1];
    removal_make(&t, KIT_PREFIX, &r);
    assert_int_equal(t.txn.compare_count, 1);
    assert_int_equal(t.txn.compares[0].number, 33);
    assert_true(bytes_equal(t.txn.compares[0].key, bytes_str(KIT_PREFIX "live/members/m2")));
    assert_int_equal(t.txn.success_count, 3);
    assert_true(bytes_equal(t.txn.success[0].key, bytes_str(KIT_PREFIX "live/removed/m2")));
    removal_decode_mark(t.txn.success[0].value, start);
    assert_string_equal(start, KIT_NONCE);
    assert_true(bytes_equal(t.txn.success[2].key, bytes_str(KIT_PREFIX "live/election/abc")));
    for (size_t i = 0; i < t.txn.failure_count; i++)
        assert_int_equal(t.txn.failure[i].kind, ETCD_OP_RANGE);
    fence_txn_close(&t);
}

static void a_record_without_a_lease_has_no_key_in_line(void **state)
{
    struct removal r = a_removal();
    struct fence_txn t = {0};
    r.lease = 0;
    removal_make(&t, KIT_PREFIX, &r);
    assert_int_equal(t.txn.success_count, 2);
    fence_txn_close(&t);
}

static enum removal_verdict judge(struct kit_answer *a)
{
    struct removal r = a_removal();
    return removal_judge(&r, KIT_CLUSTER, &a->result);
}

static void put_mark(struct kit_answer *a, const char *start, struct buf *room)
{
    removal_encode_mark(start, room);
    kit_found(a, 1, (struct etcd_kv){.value = buf_view(room)});
}

static void answers(void **state)
{
    struct kit_answer a;
    struct buf mine = {0}, other = {0};
    kit_succeeded(&a, 40);
    assert_int_equal(judge(&a), REMOVAL_DONE);
    a.result.header.cluster_id++;
    assert_int_equal(judge(&a), REMOVAL_UNKNOWN);
    kit_failed(&a, 0); /* `{}` is no failed compare */
    assert_int_equal(judge(&a), REMOVAL_UNKNOWN);
    kit_failed(&a, 2);
    assert_int_equal(judge(&a), REMOVAL_LEFT);
    put_mark(&a, KIT_NONCE, &mine); /* the attempt before it applied */
    assert_int_equal(judge(&a), REMOVAL_DONE);
    kit_found(&a, 0, (struct etcd_kv){.create_revision = 50}); /* and it came again */
    assert_int_equal(judge(&a), REMOVAL_DONE);
    put_mark(&a, KIT_OTHER, &other);
    assert_int_equal(judge(&a), REMOVAL_OTHER);
    kit_found(&a, 0, (struct etcd_kv){.create_revision = 33});
    assert_int_equal(judge(&a), REMOVAL_UNKNOWN);
    buf_close(&mine);
    buf_close(&other);
}

static void marks_that_make_no_sense_name_nobody(void **state)
{
    char start[NONCE_DIGITS + 1] = "x";
    removal_decode_mark(bytes_str("start=short"), start);
    assert_string_equal(start, "");
    removal_decode_mark(BYTES_NONE, start);
    assert_string_equal(start, "");
    removal_decode_mark(bytes_str("later=1 start=" KIT_NONCE), start);
    assert_string_equal(start, KIT_NONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_registration_is_meant),
        cmocka_unit_test(a_record_without_a_lease_has_no_key_in_line),
        cmocka_unit_test(answers),
        cmocka_unit_test(marks_that_make_no_sense_name_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
