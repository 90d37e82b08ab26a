/* Subscriptions against a member that is played in this process: each stream tells the
 * notifications of its script. */
#include "client/convert_notification.h"
#include "tests/lib/stream_play.h"
#include <baton/v1/notification.pb-c.h>

struct line {
    int64_t version; /* 0: the stream ends */
    uint64_t epoch;
    size_t keys, workers;
    bool snapshot, restart, more, beside, progress;
};

static const struct line *script;

static void add_beside(Baton__V1__Notification *m)
{
    static Baton__V1__Member one = BATON__V1__MEMBER__INIT, *all[] = {&one};
    static Baton__V1__MemberTable table = BATON__V1__MEMBER_TABLE__INIT;
    static Baton__V1__LeaderState leader = BATON__V1__LEADER_STATE__INIT;
    one.id = leader.id = (char *)"m1";
    leader.epoch = m->epoch;
    table.members = all;
    table.n_members = 1;
    m->members = &table;
    m->leader = &leader;
}

static enum err_code tell_line(struct rpc_call *call, size_t i)
{
    const struct line *l = &script[i];
    static Baton__V1__KeyEvent key = BATON__V1__KEY_EVENT__INIT, *keys[] = {&key, &key, &key, &key};
    static Baton__V1__WorkerEvent gone = BATON__V1__WORKER_EVENT__INIT,
                                  *workers[] = {&gone, &gone, &gone, &gone};
    static Baton__V1__Worker worker = BATON__V1__WORKER__INIT;
    Baton__V1__Notification m = BATON__V1__NOTIFICATION__INIT;
    if (!l->version)
        return ERR_DRAINING;
    gone.worker = &worker;
    gone.gone = gone.expired = true;
    worker.id = 7;
    m.cluster_id = (char *)"c";
    m.epoch = l->epoch;
    m.version = l->version;
    m.snapshot = l->snapshot;
    m.restart = l->restart;
    m.more = l->more;
    m.progress = l->progress;
    m.keys = keys;
    m.n_keys = l->keys;
    m.workers = workers;
    m.n_workers = l->workers;
    if (l->beside)
        add_beside(&m);
    if (!l->more)
        m.resume_token = play_token(l->version);
    play_send(call, &m.base);
    return ERR_OK;
}

static void note_request(struct bytes body, struct buf *asked)
{
    Baton__V1__SubscribeRequest *m =
        baton__v1__subscribe_request__unpack(NULL, body.len, body.data);
    buf_printf(asked, "%s/%zu/%s/%.*s ", m->kind, m->n_topics,
               m->n_worker_types ? m->worker_types[0] : "", (int)m->resume_token.len,
               (char *)m->resume_token.data);
    baton__v1__subscribe_request__free_unpacked(m, NULL);
}

static void on_notified(void *user, const struct baton_notification *n)
{
    hear(n->restart ? "restart%lld" : "v%lld", n->version);
    if (n->key_count)
        hear(":k%lld", (int64_t)n->key_count);
    if (n->worker_count)
        hear(n->workers[0].expired ? ":w%lld" : "?", (int64_t)n->worker_count);
    if (n->members)
        hear(strcmp(n->members->members[0].id, "m1") ? "?" : ":m%lld", (int64_t)n->members->count);
    if (n->leader)
        hear(strcmp(n->leader->id, "m1") ? "?" : ":l%lld", (int64_t)n->leader->epoch);
    hear(n->more ? "+ " : " ", 0);
    assert_int_equal(n->more, !n->token.len);
}

static void on_rejected(void *user, uint64_t epoch, const struct baton_error *err)
{
    hear(strcmp(err->reason, "STALE_EPOCH") ? "?" : "rejected%lld ", (int64_t)epoch);
}

/* Subscribes until it was told the last of these words. */
static void follow(const struct line *lines, size_t count, const char *told)
{
    static const char *types[] = {"compute"};
    struct baton_subscription *s;
    struct baton_subscribe_options options = {.kind = "test",
                                              .topics = BATON_MEMBERS | BATON_LEADERS |
                                                        BATON_WORKERS | BATON_KEYS,
                                              .worker_types = types,
                                              .worker_type_count = 1,
                                              .notified = on_notified,
                                              .progress = on_progress,
                                              .connection = on_connection,
                                              .failed = on_failed,
                                              .rejected = on_rejected};
    script = lines;
    play.lines = count;
    assert_int_equal(baton_subscribe(&s, play.client, &options, NULL), 0);
    play_wait(told);
    baton_subscription_close(s);
    assert_string_equal((char *)play.heard.data, told);
}

static int setup(void **state)
{
    play.line = tell_line;
    play.note = note_request;
    play_start(NOTIFICATION_PATH);
    return 0;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void a_snapshot_then_changes(void **state)
{
    static const struct line lines[] = {
        {.version = 3,
         .epoch = 5,
         .keys = 2,
         .snapshot = true,
         .restart = true,
         .beside = true,
         .more = true},
        {.version = 3, .epoch = 5, .workers = 1, .snapshot = true},
        {.version = 4, .epoch = 5, .keys = 1, .workers = 2},
        {.version = 4, .epoch = 5, .beside = true},
        {.version = 5, .epoch = 5, .progress = true},
        {0},
        {.version = 5, .epoch = 6, .beside = true},
        {.version = 6, .epoch = 6, .keys = 1},
    };
    follow(lines, COUNT(lines),
           "up restart3:k2:m1:l5+ v3:w1 v4:k1:w2 v4:m1:l5 at5 down up v5:m1:l6 v6:k1 ");
    assert_string_equal((char *)play.asked.data, "test/4/compute/ test/4/compute/5 ");
}

static void a_commit_that_broke_goes_on(void **state)
{
    static const struct line lines[] = {
        {.version = 3, .epoch = 5, .snapshot = true, .restart = true},
        {.version = 4, .epoch = 5, .keys = 3, .workers = 1, .more = true},
        {0},
        {.version = 3, .epoch = 5, .beside = true},
        {.version = 4, .epoch = 5, .keys = 4, .more = true},
        {.version = 4, .epoch = 5, .workers = 3},
    };
    follow(lines, COUNT(lines), "up restart3 v4:k3:w1+ down up v3:m1:l5+ v4:k1+ v4:w2 ");
    assert_string_equal((char *)play.asked.data, "test/4/compute/ test/4/compute/3 ");
}

static void what_a_deposed_leader_says_is_rejected(void **state)
{
    static const struct line lines[] = {
        {.version = 3, .epoch = 6, .snapshot = true, .restart = true},
        {.version = 4, .epoch = 5, .keys = 1},
    };
    follow(lines, COUNT(lines), "up restart3 rejected5 down ");
}

static void options_are_looked_at(void **state)
{
    struct baton_error err;
    struct baton_subscription *s;
    struct baton_subscribe_options none = {.kind = "test", .notified = on_notified},
                                   unknown = {
                                       .kind = "test", .topics = 1u << 20, .notified = on_notified};
    assert_int_equal(baton_subscribe(&s, play.client, &none, &err), -1);
    assert_string_equal(err.reason, "USAGE");
    assert_int_equal(baton_subscribe(&s, play.client, &unknown, &err), -1);
    assert_null(s);
    baton_subscription_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_snapshot_then_changes, setup, play_end),
        cmocka_unit_test_setup_teardown(a_commit_that_broke_goes_on, setup, play_end),
        cmocka_unit_test_setup_teardown(what_a_deposed_leader_says_is_rejected, setup, play_end),
        cmocka_unit_test_setup_teardown(options_are_looked_at, setup, play_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
