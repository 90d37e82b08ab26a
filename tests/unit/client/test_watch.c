/* Watches against a member that is played in this process: each stream tells what its script says.
 */
#include "client/baton_parts.h"
#include "client/convert_member.h"
#include "client/convert_watch.h"
#include "tests/lib/rpc_fixture.h"
#include <baton/v1/kv.pb-c.h>
#include <baton/v1/member.pb-c.h>

/* One message, or the end of a stream with `error`. */
struct line {
    enum err_code error;
    Baton__V1__WatchKind kind;
    int64_t revision;
    size_t events;
    bool restart, more;
    uint64_t epoch; /* 0: 5 */
};

#define END(code)                                                                                  \
    {                                                                                              \
        .error = ERR_##code                                                                        \
    }

static pthread_mutex_t stage = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct fixture member;
static const struct line *script; /* the lines of the streams, one behind the other */
static size_t script_len, at;
static struct buf asked; /* what the streams asked for, a line each */
static struct buf heard; /* what the user was told, a word each */
static struct rpc_call *open_call;
static struct baton_client *client;

static void say_leader(struct rpc_call *call, void *ctx)
{
    uint8_t bytes[256];
    Baton__V1__LeaderState m = BATON__V1__LEADER_STATE__INIT;
    m.member_id = m.id = (char *)"one";
    m.cluster_id = (char *)"c";
    m.epoch = 5;
    m.known = true;
    m.addr = member.addr;
    rpc_reply(call, bytes_of(bytes, protobuf_c_message_pack(&m.base, bytes)), NULL, 0);
}

static void send_line(struct rpc_call *call, const struct line *l)
{
    uint8_t bytes[512];
    Baton__V1__KeyEvent events[4], *all[4];
    Baton__V1__KeyValue kvs[4];
    Baton__V1__WatchResponse m = BATON__V1__WATCH_RESPONSE__INIT;
    for (size_t i = 0; i < l->events; i++) {
        baton__v1__key_event__init(all[i] = &events[i]);
        baton__v1__key_value__init(events[i].kv = &kvs[i]);
        kvs[i].key = (ProtobufCBinaryData){1, (uint8_t *)&"abcd"[i]};
    }
    m.events = all;
    m.n_events = l->events;
    m.kind = l->kind;
    m.revision = l->revision;
    m.restart = l->restart;
    m.more = l->more;
    m.cluster_id = (char *)"c";
    m.epoch = l->epoch ? l->epoch : 5;
    if (!l->more)
        m.resume_token = (ProtobufCBinaryData){1, (uint8_t *)&"0123456789"[l->revision % 10]};
    bool sent = rpc_stream_send(call, bytes_of(bytes, protobuf_c_message_pack(&m.base, bytes)));
    assert_true(sent);
}

static void note_request(struct rpc_call *call)
{
    struct bytes body = rpc_call_body(call);
    Baton__V1__WatchRequest *m = baton__v1__watch_request__unpack(NULL, body.len, body.data);
    buf_printf(&asked, "%s%lld%.*s ", m->snapshot ? "s" : "", (long long)m->start_revision,
               (int)m->resume_token.len, (char *)m->resume_token.data);
    baton__v1__watch_request__free_unpacked(m, NULL);
}

/* The last stream stays open, until the next one comes. */
static void play_watch(struct rpc_call *call, void *ctx)
{
    struct rpc_call *before = NULL;
    rpc_stream_begin(call, NULL, NULL, NULL, 0);
    pthread_mutex_lock(&stage);
    note_request(call);
    while (at < script_len && !script[at].error)
        send_line(call, &script[at++]);
    bool ends = at < script_len;
    struct err e = err_make(ends ? script[at++].error : ERR_OK, "as scripted");
    if (!ends) {
        before = open_call;
        open_call = call;
    }
    pthread_mutex_unlock(&stage);
    if (before)
        rpc_stream_end(before, NULL, NULL);
    if (ends)
        rpc_stream_end(call, &e, NULL);
}

/* ---- the user ---- */

static void hear(const char *format, int64_t number)
{
    pthread_mutex_lock(&stage);
    buf_printf(&heard, format, (long long)number);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&stage);
}

static void on_changed(void *user, const struct baton_changes *c)
{
    hear(c->restart ? "restart%lld " : c->snapshot ? "page%lld " : "commit%lld ", c->revision);
    for (size_t i = 0; i < c->count; i++)
        hear("%c ", *(const char *)c->events[i].kv.key.data);
    if (!c->more)
        hear("whole%lld ", c->revision);
}

static void on_progress(void *user, int64_t revision)
{
    hear("at%lld ", revision);
}

static void on_connection(void *user, const struct baton_error *err)
{
    hear(err ? "down " : "up ", 0);
}

static void on_failed(void *user, const struct baton_error *err)
{
    hear("failed ", 0);
}

/* Watches until it was told the last of these words. */
static void follow(const struct line *lines, size_t count, const char *told)
{
    struct baton_watch *watch;
    struct baton_watch_options options = {.changed = on_changed,
                                          .progress = on_progress,
                                          .connection = on_connection,
                                          .failed = on_failed};
    script = lines;
    script_len = count;
    assert_int_equal(baton_watch_open(&watch, client, &options, NULL), 0);
    pthread_mutex_lock(&stage);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    while (heard.len < strlen(told) && pthread_cond_timedwait(&changed, &stage, &until) == 0)
        ;
    pthread_mutex_unlock(&stage);
    baton_watch_close(watch);
    assert_string_equal((char *)heard.data, told);
}

static int setup(void **state)
{
    static const struct rpc_method methods[] = {
        {MEMBER_GET_LEADER, RPC_UNARY, say_leader, NULL},
        {WATCH_PATH, RPC_SERVER_STREAM, play_watch, NULL},
    };
    struct err e = fixture_serve(&member, methods, 2);
    assert_string_equal(e.message, "");
    assert_int_equal(
        baton_client_new(&client, &(struct baton_options){.addresses = member.addr}, NULL), 0);
    at = 0;
    buf_clear(&asked);
    buf_clear(&heard);
    return 0;
}

static int teardown(void **state)
{
    baton_client_free(client);
    if (open_call)
        rpc_stream_end(open_call, NULL, NULL);
    open_call = NULL;
    rpc_server_free(member.server);
    return 0;
}

#define PROGRESS BATON__V1__WATCH_KIND__WATCH_KIND_PROGRESS
#define EVENTS BATON__V1__WATCH_KIND__WATCH_KIND_EVENTS
#define SNAPSHOT BATON__V1__WATCH_KIND__WATCH_KIND_SNAPSHOT
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void it_goes_on_where_a_stream_ended(void **state)
{
    static const struct line lines[] = {
        {.kind = PROGRESS, .revision = 3},
        {.kind = EVENTS, .revision = 4, .events = 2},
        END(DRAINING),
        {.kind = PROGRESS, .revision = 4},
        END(NOT_LEADER),
        END(ACTIVATING),
        {.kind = PROGRESS, .revision = 4},
        {.kind = EVENTS, .revision = 6, .events = 1},
    };
    follow(lines, COUNT(lines),
           "up at3 commit4 a b whole4 down up at4 down up at4 commit6 a whole6 ");
    assert_string_equal((char *)asked.data, "0 s04 s04 s04 ");
}

static void a_commit_that_broke_goes_on(void **state)
{
    static const struct line lines[] = {
        {.kind = PROGRESS, .revision = 3},
        {.kind = EVENTS, .revision = 4, .events = 2, .more = true},
        END(DRAINING),
        {.kind = PROGRESS, .revision = 3},
        {.kind = EVENTS, .revision = 4, .events = 4},
    };
    follow(lines, COUNT(lines), "up at3 commit4 a b down up commit4 c d whole4 ");
    assert_string_equal((char *)asked.data, "0 s03 ");
}

static void a_snapshot_that_broke_begins_anew(void **state)
{
    static const struct line lines[] = {
        {.kind = PROGRESS, .revision = 3},
        {.kind = SNAPSHOT, .revision = 7, .events = 1, .restart = true, .more = true},
        END(DRAINING),
        {.kind = SNAPSHOT, .revision = 8, .events = 1, .restart = true, .more = true},
        {.kind = SNAPSHOT, .revision = 8, .events = 1},
    };
    follow(lines, COUNT(lines), "up at3 restart7 a down up restart8 a page8 a whole8 ");
    assert_string_equal((char *)asked.data, "0 s0 ");
}

static void what_a_deposed_leader_says_is_not_told(void **state)
{
    static const struct line lines[] = {
        {.kind = PROGRESS, .revision = 3, .epoch = 6},
        {.kind = EVENTS, .revision = 4, .events = 1, .epoch = 5},
    };
    follow(lines, COUNT(lines), "up at3 down ");
}

static void what_can_never_be_had_ends_it(void **state)
{
    static const struct line lines[] = {END(BAD_KEY)};
    follow(lines, COUNT(lines), "failed ");
}

static void options_are_looked_at(void **state)
{
    struct baton_error err;
    struct baton_watch *watch;
    assert_int_equal(baton_watch_open(&watch, client, &(struct baton_watch_options){0}, &err), -1);
    assert_string_equal(err.reason, "USAGE");
    assert_null(watch);
    baton_watch_close(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_goes_on_where_a_stream_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(a_commit_that_broke_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_that_broke_begins_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_deposed_leader_says_is_not_told, setup, teardown),
        cmocka_unit_test_setup_teardown(what_can_never_be_had_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(options_are_looked_at, setup, teardown),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_close(&asked);
    buf_close(&heard);
    return failed;
}
