#include "baton/v1/kv.pb-c.h"
#include "common/base/rng.h"
#include "meta/convert.h"
#include <stdarg.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

/* Messages as any client would send them. */
static struct buf packed(const void *message)
{
    struct buf out = {0};
    buf_reserve(&out, protobuf_c_message_get_packed_size(message));
    out.len = protobuf_c_message_pack(message, out.data);
    return out;
}

static ProtobufCBinaryData data(const char *s)
{
    return (ProtobufCBinaryData){.len = strlen(s), .data = (uint8_t *)s};
}

static struct err convert(struct err (*how)(struct bytes, struct plan_request *),
                          const void *message, struct plan_request *out)
{
    struct buf body = packed(message);
    *out = (struct plan_request){0};
    struct err e = how(buf_view(&body), out);
    memset(body.data, 0xee, body.len); /* nothing shows into the body */
    buf_close(&body);
    return e;
}

static enum err_code code_of(struct err (*how)(struct bytes, struct plan_request *),
                             const void *message)
{
    struct plan_request req;
    struct err e = convert(how, message, &req);
    request_close(&req);
    return e.code;
}

static bool is(struct bytes s, const char *text)
{
    return bytes_equal(s, bytes_str(text));
}

/* ---- mutations ---- */

static void a_put_is_taken_over(void **state)
{
    Baton__V1__PutRequest m = BATON__V1__PUT_REQUEST__INIT;
    struct plan_request req;
    m.key = data("k");
    m.value = data("v");
    m.prev_kv = true;
    assert_int_equal(convert(convert_put, &m, &req).code, ERR_OK);
    assert_int_equal(req.method, REQUEST_PUT);
    assert_int_equal(req.then_count, 1);
    assert_int_equal(req.id_revision, -1);
    assert_true(is(req.then_ops->key, "k") && is(req.then_ops->value, "v"));
    assert_true(req.then_ops->prev_kv && req.then_ops->kind == REQUEST_OP_PUT);
    request_close(&req);
}

static void deletes_take_keys_ranges_and_prefixes(void **state)
{
    Baton__V1__DeleteRequest m = BATON__V1__DELETE_REQUEST__INIT;
    struct plan_request req;
    m.key = data("ab");
    m.must_exist = true;
    assert_int_equal(convert(convert_delete, &m, &req).code, ERR_OK);
    assert_true(!req.then_ops->ranged && req.then_ops->must_exist);
    request_close(&req);
    m.prefix = true;
    assert_int_equal(convert(convert_delete, &m, &req).code, ERR_OK);
    assert_true(req.then_ops->ranged && is(req.then_ops->end, "ac"));
    request_close(&req);
    m.key = data("\xff");
    assert_int_equal(convert(convert_delete, &m, &req).code, ERR_OK);
    assert_true(req.then_ops->ranged && req.then_ops->end.len == 0);
    request_close(&req);
    m.range_end = data("z");
    assert_int_equal(code_of(convert_delete, &m), ERR_BAD_REQUEST);
    m.prefix = false;
    assert_int_equal(convert(convert_delete, &m, &req).code, ERR_OK);
    assert_true(req.then_ops->ranged && is(req.then_ops->end, "z"));
    request_close(&req);
}

static void a_txn_is_taken_over(void **state)
{
    Baton__V1__Compare c = BATON__V1__COMPARE__INIT, *compares[] = {&c};
    Baton__V1__GetRequest get = BATON__V1__GET_REQUEST__INIT;
    Baton__V1__PutRequest put = BATON__V1__PUT_REQUEST__INIT;
    Baton__V1__DeleteRequest del = BATON__V1__DELETE_REQUEST__INIT;
    Baton__V1__Operation ops[] = {BATON__V1__OPERATION__INIT, BATON__V1__OPERATION__INIT,
                                  BATON__V1__OPERATION__INIT};
    Baton__V1__Operation *list[] = {&ops[0], &ops[1], &ops[2]};
    Baton__V1__TxnRequest m = BATON__V1__TXN_REQUEST__INIT;
    struct plan_request req;
    c.key = data("k");
    c.target = BATON__V1__COMPARE__TARGET__TARGET_MOD_REVISION;
    c.result = BATON__V1__COMPARE__RESULT__RESULT_GREATER;
    c.number = 7;
    get.key = data("g");
    put.key = data("p");
    del.key = data("d");
    ops[0].op_case = BATON__V1__OPERATION__OP_GET;
    ops[0].get = &get;
    ops[1].op_case = BATON__V1__OPERATION__OP_PUT;
    ops[1].put = &put;
    ops[2].op_case = BATON__V1__OPERATION__OP_DELETE;
    ops[2].delete_ = &del;
    m.n_compare = 1;
    m.compare = compares;
    m.n_then_ops = 3;
    m.then_ops = list;
    m.n_else_ops = 1;
    m.else_ops = list;
    assert_int_equal(convert(convert_txn, &m, &req).code, ERR_OK);
    assert_int_equal(req.method, REQUEST_TXN);
    assert_int_equal(req.compares[0].target, ETCD_MOD);
    assert_int_equal(req.compares[0].relation, ETCD_GREATER);
    assert_int_equal(req.compares[0].number, 7);
    assert_int_equal(req.then_count, 3);
    assert_int_equal(req.then_ops[0].kind, REQUEST_OP_GET);
    assert_true(is(req.then_ops[1].key, "p") && is(req.then_ops[2].key, "d"));
    assert_int_equal(req.else_count, 1);
    request_close(&req);

    c.target = (Baton__V1__Compare__Target)9;
    assert_int_equal(code_of(convert_txn, &m), ERR_BAD_REQUEST);
    c.target = BATON__V1__COMPARE__TARGET__TARGET_VALUE;
    get.min_revision = 7; /* a Txn reads the newest state anyway */
    assert_int_equal(code_of(convert_txn, &m), ERR_BAD_REQUEST);
    get.min_revision = 0;
    get.consistency = BATON__V1__CONSISTENCY__CONSISTENCY_STALE;
    assert_int_equal(code_of(convert_txn, &m), ERR_BAD_REQUEST);
    ops[0].op_case = BATON__V1__OPERATION__OP__NOT_SET;
    assert_int_equal(code_of(convert_txn, &m), ERR_BAD_REQUEST);
}

static void too_many_parts_of_a_txn_are_refused(void **state)
{
    Baton__V1__Compare c = BATON__V1__COMPARE__INIT, *compares[REQUEST_COMPARES_MAX + 1];
    Baton__V1__TxnRequest m = BATON__V1__TXN_REQUEST__INIT;
    c.key = data("k");
    for (int i = 0; i <= REQUEST_COMPARES_MAX; i++)
        compares[i] = &c;
    m.compare = compares;
    m.n_compare = REQUEST_COMPARES_MAX;
    assert_int_equal(code_of(convert_txn, &m), ERR_OK);
    m.n_compare++;
    assert_int_equal(code_of(convert_txn, &m), ERR_TOO_LARGE);
}

static void any_bytes_give_an_answer(void **state)
{
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        uint8_t noise[48];
        size_t len = rng_below(&rng, sizeof noise);
        for (size_t k = 0; k < len; k++)
            noise[k] = (uint8_t)rng_below(&rng, rng_below(&rng, 2) ? 256 : 28);
        struct plan_request req = {0};
        struct err e = i % 3 == 0   ? convert_txn(bytes_of(noise, len), &req)
                       : i % 3 == 1 ? convert_put(bytes_of(noise, len), &req)
                                    : convert_delete(bytes_of(noise, len), &req);
        if (!err_is(&e))
            request_check(&req);
        request_close(&req);
    }
}

/* ---- reads ---- */

static enum err_code range_of(const Baton__V1__RangeRequest *m, struct arena *memory,
                              struct read_range *out)
{
    struct buf body = packed(m);
    struct err e = convert_range(buf_view(&body), memory, out);
    buf_close(&body);
    return e.code;
}

static void ranges_are_taken_over(void **state)
{
    Baton__V1__RangeRequest m = BATON__V1__RANGE_REQUEST__INIT;
    struct arena memory = {0};
    struct read_range range;
    assert_int_equal(range_of(&m, &memory, &range), ERR_OK);
    assert_true(range.start.len == 0 && range.end.len == 0);
    assert_int_equal(range.limit, 1000);
    m.key = data("a");
    m.limit = 5;
    m.prefix = true;
    m.keys_only = true;
    assert_int_equal(range_of(&m, &memory, &range), ERR_OK);
    assert_true(is(range.start, "a") && is(range.end, "b") && range.limit == 5 && range.keys_only);
    m.range_end = data("c");
    assert_int_equal(range_of(&m, &memory, &range), ERR_BAD_REQUEST);
    m.prefix = false;
    assert_int_equal(range_of(&m, &memory, &range), ERR_OK);
    assert_true(is(range.end, "c"));
    arena_close(&memory);
}

static void a_get_needs_a_key(void **state)
{
    Baton__V1__GetRequest m = BATON__V1__GET_REQUEST__INIT;
    struct arena memory = {0};
    struct read_get get;
    struct buf body = packed(&m);
    assert_int_equal(convert_get(buf_view(&body), &memory, &get).code, ERR_BAD_KEY);
    buf_close(&body);
    m.key = data("k");
    body = packed(&m);
    assert_int_equal(convert_get(buf_view(&body), &memory, &get).code, ERR_OK);
    assert_true(is(get.key, "k"));
    assert_int_equal(get.terms.consistency, READ_LEASE);
    buf_close(&body);
    assert_int_equal(convert_get(bytes_str("\x0a\x7f"), &memory, &get).code, ERR_BAD_REQUEST);
    arena_close(&memory);
}

static void reads_say_how_current_the_state_must_be(void **state)
{
    Baton__V1__GetRequest get = BATON__V1__GET_REQUEST__INIT;
    Baton__V1__RangeRequest m = BATON__V1__RANGE_REQUEST__INIT;
    struct arena memory = {0};
    struct read_get out;
    struct read_range range;
    get.key = data("k");
    get.consistency = BATON__V1__CONSISTENCY__CONSISTENCY_QUORUM;
    get.min_revision = 9;
    struct buf body = packed(&get);
    assert_int_equal(convert_get(buf_view(&body), &memory, &out).code, ERR_OK);
    buf_close(&body);
    assert_int_equal(out.terms.consistency, READ_QUORUM);
    assert_int_equal(out.terms.min_revision, 9);
    m.consistency = BATON__V1__CONSISTENCY__CONSISTENCY_STALE;
    assert_int_equal(range_of(&m, &memory, &range), ERR_OK);
    assert_int_equal(range.terms.consistency, READ_STALE);
    m.min_revision = -1;
    assert_int_equal(range_of(&m, &memory, &range), ERR_BAD_REQUEST);
    m.min_revision = 0;
    m.consistency = (Baton__V1__Consistency)5;
    assert_int_equal(range_of(&m, &memory, &range), ERR_BAD_REQUEST);
    arena_close(&memory);
}

static void answers_to_reads_are_complete(void **state)
{
    struct etcd_kv kvs[] = {{.key = bytes_str("a"),
                             .value = bytes_str("1"),
                             .create_revision = 2,
                             .mod_revision = 3,
                             .version = 2},
                            {.key = bytes_str("b"), .version = 1}};
    struct buf out = {0};
    struct arena memory = {0};
    convert_get_answer(9, &kvs[0], &out);
    Baton__V1__GetResponse *get = baton__v1__get_response__unpack(NULL, out.len, out.data);
    assert_true(get->found && get->revision == 9 && get->kv->mod_revision == 3);
    assert_true(get->kv->create_revision == 2 && get->kv->version == 2);
    assert_memory_equal(get->kv->value.data, "1", 1);
    baton__v1__get_response__free_unpacked(get, NULL);
    buf_clear(&out);
    convert_get_answer(9, NULL, &out);
    get = baton__v1__get_response__unpack(NULL, out.len, out.data);
    assert_true(!get->found && !get->kv);
    baton__v1__get_response__free_unpacked(get, NULL);
    buf_clear(&out);
    struct read_page page = {
        .revision = 9, .kvs = kvs, .count = 2, .more = true, .next_key = bytes_str("c")};
    convert_range_answer(&page, &memory, &out);
    Baton__V1__RangeResponse *range = baton__v1__range_response__unpack(NULL, out.len, out.data);
    assert_true(range->more && range->n_kvs == 2 && range->next_key.len == 1);
    assert_memory_equal(range->kvs[1]->key.data, "b", 1);
    baton__v1__range_response__free_unpacked(range, NULL);
    buf_close(&out);
    arena_close(&memory);
}

/* ---- answers to mutations ---- */

static void answers_to_mutations_are_complete(void **state)
{
    struct etcd_kv kv = {.key = bytes_str("a"), .value = bytes_str("1"), .version = 4};
    struct answer_result results[] = {
        {.kind = REQUEST_OP_PUT, .kvs = &kv, .kv_count = 1},
        {.kind = REQUEST_OP_DELETE, .kvs = &kv, .kv_count = 1, .deleted = 1},
        {.kind = REQUEST_OP_GET},
    };
    struct plan_answer answer = {
        .method = REQUEST_PUT, .revision = 12, .results = &results[0], .result_count = 1};
    struct buf out = {0};
    convert_answer(&answer, &out);
    Baton__V1__PutResponse *put = baton__v1__put_response__unpack(NULL, out.len, out.data);
    assert_true(put->revision == 12 && put->prev_kv->version == 4);
    baton__v1__put_response__free_unpacked(put, NULL);

    answer.method = REQUEST_DELETE;
    answer.results = &results[1];
    buf_clear(&out);
    convert_answer(&answer, &out);
    Baton__V1__DeleteResponse *del = baton__v1__delete_response__unpack(NULL, out.len, out.data);
    assert_true(del->revision == 12 && del->deleted == 1 && del->n_prev_kvs == 1);
    baton__v1__delete_response__free_unpacked(del, NULL);

    answer.method = REQUEST_TXN;
    answer.succeeded = true;
    answer.results = results;
    answer.result_count = 3;
    buf_clear(&out);
    convert_answer(&answer, &out);
    Baton__V1__TxnResponse *txn = baton__v1__txn_response__unpack(NULL, out.len, out.data);
    assert_true(txn->succeeded && txn->n_results == 3);
    assert_int_equal(txn->results[0]->result_case, BATON__V1__OPERATION_RESULT__RESULT_PUT);
    assert_int_equal(txn->results[1]->delete_->deleted, 1);
    assert_int_equal(txn->results[2]->result_case, BATON__V1__OPERATION_RESULT__RESULT_GET);
    assert_false(txn->results[2]->get->found);
    baton__v1__txn_response__free_unpacked(txn, NULL);
    buf_close(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_is_taken_over),
        cmocka_unit_test(deletes_take_keys_ranges_and_prefixes),
        cmocka_unit_test(a_txn_is_taken_over),
        cmocka_unit_test(too_many_parts_of_a_txn_are_refused),
        cmocka_unit_test(any_bytes_give_an_answer),
        cmocka_unit_test(ranges_are_taken_over),
        cmocka_unit_test(a_get_needs_a_key),
        cmocka_unit_test(reads_say_how_current_the_state_must_be),
        cmocka_unit_test(answers_to_reads_are_complete),
        cmocka_unit_test(answers_to_mutations_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
