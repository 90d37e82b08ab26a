/* Watches against a member that is played in this process: each stream tells what its script says.
 */
#include "client/convert_watch.h"
#include "tests/lib/stream_play.h"
#include <baton/v1/kv.pb-c.h>

/* One message, or the end of a stream with `error`. */
struct line {
    enum err_code error;
    Baton__V1__WatchKind kind;
    int64_t revision;
    size_t events;
    bool restart, more;
    uint64_t epoch;      /* 0: 5 */
    const char *cluster; /* NULL: "c" */
};

#define END(code)                                                                                  \
    {                                                                                              \
        .error = ERR_##code                                                                        \
    }

static const struct line *script;

static enum err_code tell_line(struct rpc_call *call, size_t i)
{
    const struct line *l = &script[i];
    Baton__V1__KeyEvent events[4], *all[4];
    Baton__V1__KeyValue kvs[4];
    Baton__V1__WatchResponse m = BATON__V1__WATCH_RESPONSE__INIT;
    if (l->error)
        return l->error;
    for (size_t k = 0; k < l->events; k++) {
        baton__v1__key_event__init(all[k] = &events[k]);
        baton__v1__key_value__init(events[k].kv = &kvs[k]);
        kvs[k].key = (ProtobufCBinaryData){1, (uint8_t *)&"abcd"[k]};
    }
    m.events = all;
    m.n_events = l->events;
    m.kind = l->kind;
    m.revision = l->revision;
    m.restart = l->restart;
    m.more = l->more;
    m.cluster_id = (char *)(l->cluster ? l->cluster : "c");
    m.epoch = l->epoch ? l->epoch : 5;
    if (!l->more)
        m.resume_token = play_token(l->revision);
    play_send(call, &m.base);
    return ERR_OK;
}

static void note_request(struct bytes body, struct buf *asked)
{
    Baton__V1__WatchRequest *m = baton__v1__watch_request__unpack(NULL, body.len, body.data);
    buf_printf(asked, "%s%lld%.*s ", m->snapshot ? "s" : "", (long long)m->start_revision,
               (int)m->resume_token.len, (char *)m->resume_token.data);
    baton__v1__watch_request__free_unpacked(m, NULL);
}

static void on_changed(void *user, const struct baton_changes *c)
{
    hear(c->restart ? "restart%lld " : c->snapshot ? "page%lld " : "commit%lld ", c->revision);
    for (size_t i = 0; i < c->count; i++)
        hear("%c ", *(const char *)c->events[i].kv.key.data);
    if (!c->more)
        hear("whole%lld ", c->revision);
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
    play.lines = count;
    assert_int_equal(baton_watch_open(&watch, play.client, &options, NULL), 0);
    play_wait(told);
    baton_watch_close(watch);
    assert_string_equal((char *)play.heard.data, told);
}

static int setup(void **state)
{
    play.line = tell_line;
    play.note = note_request;
    play_start(WATCH_PATH);
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
    assert_string_equal((char *)play.asked.data, "0 s04 s04 s04 ");
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
    assert_string_equal((char *)play.asked.data, "0 s03 ");
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
    assert_string_equal((char *)play.asked.data, "0 s0 ");
}

static void what_a_deposed_leader_says_is_not_told(void **state)
{
    static const struct line lines[] = {
        {.kind = PROGRESS, .revision = 3, .epoch = 6},
        {.kind = EVENTS, .revision = 4, .events = 1, .epoch = 5},
    };
    follow(lines, COUNT(lines), "up at3 down ");
}

static void another_cluster_is_not_told(void **state)
{
    static const struct line lines[] = {
        {.kind = PROGRESS, .revision = 3},
        {.kind = EVENTS, .revision = 4, .events = 1, .cluster = "d"},
        END(DRAINING),
        {.kind = PROGRESS, .revision = 3},
        {.kind = EVENTS, .revision = 4, .events = 1},
    };
    follow(lines, COUNT(lines), "up at3 down up at3 commit4 a whole4 ");
}

/* The second stream asks behind what was told, the third for all there is. */
static void what_is_compacted_comes_as_a_snapshot(void **state)
{
    static const struct line lines[] = {
        {.kind = PROGRESS, .revision = 3},
        {.kind = EVENTS, .revision = 4, .events = 1, .more = true},
        END(DRAINING),
        END(COMPACTED),
        {.kind = SNAPSHOT, .revision = 9, .events = 2, .restart = true},
        {.kind = EVENTS, .revision = 10, .events = 1},
    };
    follow(lines, COUNT(lines), "up at3 commit4 a down up restart9 a b whole9 commit10 a whole10 ");
    assert_string_equal((char *)play.asked.data, "0 s03 s0 ");
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
    assert_int_equal(baton_watch_open(&watch, play.client, &(struct baton_watch_options){0}, &err),
                     -1);
    assert_string_equal(err.reason, "USAGE");
    assert_null(watch);
    baton_watch_close(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_goes_on_where_a_stream_ended, setup, play_end),
        cmocka_unit_test_setup_teardown(a_commit_that_broke_goes_on, setup, play_end),
        cmocka_unit_test_setup_teardown(a_snapshot_that_broke_begins_anew, setup, play_end),
        cmocka_unit_test_setup_teardown(what_a_deposed_leader_says_is_not_told, setup, play_end),
        cmocka_unit_test_setup_teardown(another_cluster_is_not_told, setup, play_end),
        cmocka_unit_test_setup_teardown(what_is_compacted_comes_as_a_snapshot, setup, play_end),
        cmocka_unit_test_setup_teardown(what_can_never_be_had_ends_it, setup, play_end),
        cmocka_unit_test_setup_teardown(options_are_looked_at, setup, play_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
