/* Subscriptions and notifications as messages: what goes into how many, and what all of them say.
 */
#include "meta/convert_notification.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { SENT_MAX = 8 };

/* Messages as a reader gets them. */
struct sent {
    Baton__V1__Notification *messages[SENT_MAX];
    size_t count;
};

static void take(void *arg, struct bytes message)
{
    struct sent *s = arg;
    assert_true(s->count < SENT_MAX);
    s->messages[s->count] = baton__v1__notification__unpack(NULL, message.len, message.data);
    assert_non_null(s->messages[s->count++]);
}

static void forget(struct sent *s)
{
    while (s->count)
        baton__v1__notification__free_unpacked(s->messages[--s->count], NULL);
}

static struct notification telling(struct sent *to, bool snapshot)
{
    return (struct notification){.head = {.cluster_id = "c1",
                                          .epoch = 7,
                                          .version = 42,
                                          .snapshot = snapshot,
                                          .restart = snapshot},
                                 .sink = take,
                                 .arg = to};
}

static void changes_of_one_commit(void **state)
{
    struct sent sent = {0};
    struct notification n = telling(&sent, false);
    struct etcd_kv kv = {.key = bytes_str("k"),
                         .value = bytes_str("v"),
                         .create_revision = 40,
                         .mod_revision = 42,
                         .version = 2};
    Baton__V1__Worker worker = BATON__V1__WORKER__INIT;
    worker.id = 9;
    notification_key(&n, &kv, false);
    notification_worker(&n, &worker, true, true);
    notification_key(&n, &kv, true);
    notification_end(&n, bytes_str("token"));
    assert_int_equal(sent.count, 1);
    const Baton__V1__Notification *m = sent.messages[0];
    assert_string_equal(m->cluster_id, "c1");
    assert_int_equal(m->epoch, 7);
    assert_int_equal(m->version, 42);
    assert_false(m->snapshot || m->restart || m->more || m->progress);
    assert_memory_equal(m->resume_token.data, "token", 5);
    assert_int_equal(m->n_keys, 2);
    assert_int_equal(m->keys[0]->kv->version, 2);
    assert_int_equal(m->keys[0]->kv->create_revision, 40);
    assert_true(m->keys[1]->deleted);
    assert_int_equal(m->keys[1]->kv->mod_revision, 42);
    assert_int_equal(m->keys[1]->kv->value.len, 0);
    assert_int_equal(m->n_workers, 1);
    assert_int_equal(m->workers[0]->worker->id, 9);
    assert_true(m->workers[0]->gone && m->workers[0]->expired);
    assert_null(m->members);
    assert_null(m->leader);
    forget(&sent);
}

static void members_and_leader(void **state)
{
    struct sent sent = {0};
    struct notification n = telling(&sent, false);
    uint8_t table[64];
    Baton__V1__MemberTable members = BATON__V1__MEMBER_TABLE__INIT;
    Baton__V1__LeaderState leader = BATON__V1__LEADER_STATE__INIT;
    members.version = 3;
    leader.id = "m1";
    notification_members(&n, bytes_of(table, baton__v1__member_table__pack(&members, table)));
    notification_leader(&n, &leader);
    notification_end(&n, bytes_str("t"));
    assert_int_equal(sent.count, 1);
    assert_int_equal(sent.messages[0]->members->version, 3);
    assert_string_equal(sent.messages[0]->leader->id, "m1");
    assert_false(sent.messages[0]->progress);
    forget(&sent);
}

static void nothing_new_is_progress(void **state)
{
    struct sent sent = {0};
    struct notification n = telling(&sent, false);
    notification_end(&n, bytes_str("t"));
    assert_true(sent.messages[0]->progress);
    assert_int_equal(sent.messages[0]->version, 42);
    forget(&sent);
    n = telling(&sent, true); /* an empty state is news */
    notification_end(&n, bytes_str("t"));
    assert_true(sent.messages[0]->snapshot && sent.messages[0]->restart);
    assert_false(sent.messages[0]->progress);
    forget(&sent);
}

static void what_is_large_goes_into_several(void **state)
{
    struct sent sent = {0};
    struct notification n = telling(&sent, true);
    enum { VALUE = NOTIFICATION_BYTES * 2 / 5, KEYS = 5 };
    uint8_t *value = calloc(1, VALUE);
    for (int i = 0; i < KEYS; i++) {
        struct etcd_kv kv = {.key = bytes_of(&"abcde"[i], 1), .value = bytes_of(value, VALUE)};
        notification_key(&n, &kv, false);
    }
    notification_end(&n, BYTES_NONE); /* the snapshot goes on */
    free(value);
    assert_int_equal(sent.count, 3);
    char next = 'a';
    for (size_t i = 0; i < sent.count; i++) {
        const Baton__V1__Notification *m = sent.messages[i];
        assert_true(m->more && m->snapshot);
        assert_int_equal(m->restart, i == 0);
        assert_int_equal(m->version, 42);
        assert_int_equal(m->resume_token.len, 0);
        for (size_t k = 0; k < m->n_keys; k++)
            assert_int_equal(m->keys[k]->kv->key.data[0], next++);
    }
    assert_int_equal(next, 'a' + KEYS);
    forget(&sent);
}

static struct err converted(const Baton__V1__SubscribeRequest *m, struct arena *memory,
                            struct subscription *out)
{
    uint8_t body[256];
    size_t len = baton__v1__subscribe_request__get_packed_size(m);
    assert_true(len <= sizeof body);
    baton__v1__subscribe_request__pack(m, body);
    struct err e = convert_subscribe(bytes_of(body, len), memory, out);
    memset(body, 0xee, sizeof body); /* nothing shows into the body */
    return e;
}

static void requests(void **state)
{
    struct arena memory = {0};
    struct subscription s;
    Baton__V1__SubscribeRequest m = BATON__V1__SUBSCRIBE_REQUEST__INIT;
    Baton__V1__Topic topics[] = {BATON__V1__TOPIC__TOPIC_KEYS, BATON__V1__TOPIC__TOPIC_WORKERS,
                                 BATON__V1__TOPIC__TOPIC_KEYS};
    ProtobufCBinaryData prefixes[] = {{.len = 2, .data = (uint8_t *)"p/"}};
    char *types[] = {"compute"};
    m.kind = "store";
    m.n_topics = 3;
    m.topics = topics;
    m.n_prefixes = m.n_worker_types = 1;
    m.prefixes = prefixes;
    m.worker_types = types;
    m.resume_token = prefixes[0];
    struct err e = converted(&m, &memory, &s);
    assert_false(err_is(&e));
    assert_int_equal(s.topics, TOPIC_KEYS | TOPIC_WORKERS);
    assert_true(bytes_equal(s.kind, bytes_str("store")));
    assert_true(bytes_equal(s.prefixes[0], bytes_str("p/")));
    assert_true(bytes_equal(s.types[0], bytes_str("compute")));
    assert_true(bytes_equal(s.token, bytes_str("p/")));
    static const int unknown[] = {0, 5, 40, -1};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        topics[2] = (Baton__V1__Topic)unknown[i];
        e = converted(&m, &memory, &s);
        assert_int_equal(e.code, ERR_BAD_REQUEST);
    }
    e = convert_subscribe(bytes_str("\xff"), &memory, &s);
    assert_int_equal(e.code, ERR_BAD_REQUEST);
    arena_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_one_commit),
        cmocka_unit_test(members_and_leader),
        cmocka_unit_test(nothing_new_is_progress),
        cmocka_unit_test(what_is_large_goes_into_several),
        cmocka_unit_test(requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
