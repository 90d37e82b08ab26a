/* Watch streams of a real etcd. */
#include "tests/lib/etcd_process.h"
#include "common/io/etcd.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

static struct etcd_process *server;
static enum etcd_transport transport; /* everything is tried both ways */

/* What a stream said, in order; ended is set in the last one. */
struct said {
    struct etcd_watch_line line;
    bool ended;
    struct err why;
};

struct inbox {
    struct etcd_client *c;
    struct etcd_stream *stream;
    struct queue *q;
};

static void keep_line(void *arg, struct etcd_watch_line *line)
{
    struct inbox *in = arg;
    struct said *s = mem_alloc(sizeof *s);
    s->line = *line;
    *line = (struct etcd_watch_line){0};
    queue_push_always(in->q, s);
}

static void keep_end(void *arg, struct err why)
{
    struct inbox *in = arg;
    struct said *s = mem_alloc(sizeof *s);
    s->ended = true;
    s->why = why;
    queue_push_always(in->q, s);
}

static struct inbox inbox_of(const char *endpoints)
{
    struct inbox in = {.q = queue_new(1)};
    struct etcd_config cfg = {.access = {.endpoints = endpoints, .transport = transport},
                              .name = "etcd-watch"};
    struct err e = etcd_client_new(&in.c, &cfg);
    assert_string_equal(e.message, "");
    return in;
}

static void watch(struct inbox *in, const struct etcd_watch *watches, size_t count)
{
    struct buf body = {0};
    etcd_encode_watches(&body, watches, count);
    in->stream = etcd_watch_open(in->c, buf_view(&body), ETCD_ANY, keep_line, keep_end, in);
    buf_close(&body);
}

static void said_free(struct said *s)
{
    etcd_watch_line_close(&s->line);
    free(s);
}

static struct said *next(struct inbox *in)
{
    struct said *s = queue_pop(in->q, 10000);
    if (!s)
        fail_msg("nothing came from the stream in 10 s");
    return s;
}

static bool is_progress(const struct said *s)
{
    return !s->ended && !s->line.created && !s->line.canceled && !s->line.event_count;
}

/* The next that is no progress notice. */
static struct said *next_real(struct inbox *in)
{
    struct said *s = next(in);
    while (is_progress(s)) {
        said_free(s);
        s = next(in);
    }
    return s;
}

static void expect_created(struct inbox *in, int64_t watch_id)
{
    struct said *s = next_real(in);
    assert_true(s->line.created);
    assert_int_equal(s->line.watch_id, watch_id);
    assert_true(s->line.header.revision > 0);
    said_free(s);
}

static void expect_end(struct inbox *in, enum err_code code)
{
    struct said *s = next_real(in);
    assert_true(s->ended);
    assert_int_equal(s->why.code, code);
    assert_true(s->why.message[0]);
    said_free(s);
}

static void close_inbox(struct inbox *in)
{
    etcd_client_free(in->c);
    assert_int_equal(queue_length(in->q), 0);
    queue_free(in->q);
}

static int64_t change(struct inbox *in, enum etcd_op_kind kind, const char *key, struct bytes value)
{
    struct etcd_op op = {.kind = kind, .key = bytes_str(key), .value = value};
    struct etcd_txn txn = {.success = &op, .success_count = 1};
    struct buf body = {0};
    struct etcd_reply reply;
    etcd_encode_txn(&body, &txn);
    struct err e = etcd_call_wait(in->c, ETCD_PATH_TXN, buf_view(&body), ETCD_ANY, 5000, &reply);
    assert_string_equal(e.message, "");
    int64_t revision = reply.header.revision;
    buf_close(&body);
    etcd_reply_close(&reply);
    return revision;
}

static void two_watches_on_one_request(void **state)
{
    struct inbox in = inbox_of(etcd_process_url(server));
    struct etcd_watch watches[] = {
        {.key = bytes_str("two/a/"),
         .range_end = bytes_str("two/a0"),
         .watch_id = 1,
         .progress_notify = true,
         .fragment = true},
        {.key = bytes_str("two/b"), .watch_id = 2},
    };
    watch(&in, watches, 2);
    expect_created(&in, 1);
    expect_created(&in, 2);
    int64_t at_a = change(&in, ETCD_OP_PUT, "two/a/1", bytes_str("x"));
    int64_t at_b = change(&in, ETCD_OP_PUT, "two/b", bytes_str("y"));
    change(&in, ETCD_OP_PUT, "two/c", bytes_str("nobody sees it"));
    int64_t gone = change(&in, ETCD_OP_DELETE, "two/a/1", BYTES_NONE);
    struct said *seen[3];
    int order[3] = {-1, -1, -1};
    for (int i = 0; i < 3; i++) { /* two watches have no order among each other */
        seen[i] = next_real(&in);
        assert_int_equal(seen[i]->line.event_count, 1);
        assert_false(err_is(&seen[i]->line.err));
        int which = seen[i]->line.watch_id == 2 ? 1 : order[0] < 0 ? 0 : 2;
        order[which] = i;
    }
    const struct etcd_event *a = seen[order[0]]->line.events, *b = seen[order[1]]->line.events,
                            *d = seen[order[2]]->line.events;
    assert_true(!a->deleted && bytes_equal(a->kv.key, bytes_str("two/a/1")));
    assert_true(bytes_equal(a->kv.value, bytes_str("x")));
    assert_int_equal(a->kv.mod_revision, at_a);
    assert_true(!b->deleted && bytes_equal(b->kv.value, bytes_str("y")));
    assert_int_equal(b->kv.mod_revision, at_b);
    assert_true(d->deleted && bytes_equal(d->kv.key, bytes_str("two/a/1")));
    assert_int_equal(d->kv.mod_revision, gone);
    for (int i = 0; i < 3; i++)
        said_free(seen[i]);
    etcd_watch_close(in.stream);
    expect_end(&in, ERR_CANCELLED);
    close_inbox(&in);
}

static void progress_shows_that_it_lives(void **state)
{
    struct inbox in = inbox_of(etcd_process_url(server));
    struct etcd_watch w = {.key = bytes_str("quiet"), .watch_id = 1, .progress_notify = true};
    int64_t opened_ms = clock_boot_ms();
    watch(&in, &w, 1);
    assert_true(etcd_watch_last_received_ms(in.stream) >= opened_ms);
    expect_created(&in, 1);
    /* 3.4 gives no notices before the first event of a watch. */
    change(&in, ETCD_OP_PUT, "quiet", BYTES_NONE);
    said_free(next_real(&in));
    int64_t before_ms = etcd_watch_last_received_ms(in.stream);
    struct said *s = next(&in);
    assert_true(is_progress(s));
    said_free(s);
    assert_true(etcd_watch_last_received_ms(in.stream) > before_ms);
    assert_int_equal(etcd_watch_endpoint(in.stream), 0);
    etcd_client_free(in.c);
    in.c = NULL;
    expect_end(&in, ERR_CANCELLED);
    close_inbox(&in);
}

static void a_compacted_start_is_told(void **state)
{
    struct inbox in = inbox_of(etcd_process_url(server));
    struct buf body = {0};
    struct etcd_reply reply;
    int64_t old = change(&in, ETCD_OP_PUT, "compacted", bytes_str("1"));
    int64_t now = change(&in, ETCD_OP_PUT, "compacted", bytes_str("2"));
    etcd_encode_compact(&body, now);
    struct err e = etcd_call_wait(in.c, ETCD_PATH_COMPACT, buf_view(&body), 0, 5000, &reply);
    assert_string_equal(e.message, "");
    buf_close(&body);
    etcd_reply_close(&reply);
    struct etcd_watch watches[] = {
        {.key = bytes_str("compacted"), .watch_id = 1, .start_revision = old},
        {.key = bytes_str("compacted"), .watch_id = 2, .start_revision = now},
    };
    watch(&in, watches, 2);
    bool told = false, seen = false;
    while (!told || !seen) {
        struct said *s = next_real(&in);
        assert_false(s->ended);
        if (s->line.canceled) {
            told = true;
            assert_int_equal(s->line.watch_id, 1);
            assert_int_equal(s->line.err.code, ERR_COMPACTED);
            assert_int_equal(s->line.compact_revision, now);
        } else if (s->line.event_count) {
            seen = true;
            assert_int_equal(s->line.watch_id, 2);
            assert_int_equal(s->line.events->kv.mod_revision, now);
        }
        said_free(s);
    }
    etcd_watch_close(in.stream);
    expect_end(&in, ERR_CANCELLED);
    close_inbox(&in);
}

static void large_histories_come_in_fragments(void **state)
{
    enum { VALUES = 5, SIZE = 1000000 };
    struct inbox in = inbox_of(etcd_process_url(server));
    uint8_t *value = mem_alloc(SIZE);
    int64_t first = 0;
    for (int i = 0; i < VALUES; i++) {
        memset(value, 'a' + i, SIZE);
        int64_t at = change(&in, ETCD_OP_PUT, "large", bytes_of(value, SIZE));
        first = first ? first : at;
    }
    struct etcd_watch w = {
        .key = bytes_str("large"), .watch_id = 1, .start_revision = first, .fragment = true};
    watch(&in, &w, 1);
    expect_created(&in, 1);
    int count = 0, fragments = 0;
    while (count < VALUES) {
        struct said *s = next_real(&in);
        assert_false(s->ended);
        fragments += s->line.fragment;
        for (size_t i = 0; i < s->line.event_count; i++, count++) {
            const struct etcd_kv *kv = &s->line.events[i].kv;
            assert_int_equal(kv->value.len, SIZE);
            assert_int_equal(kv->value.data[SIZE - 1], 'a' + count);
        }
        said_free(s);
    }
    assert_true(fragments > 0);
    free(value);
    etcd_watch_close(in.stream);
    expect_end(&in, ERR_CANCELLED);
    close_inbox(&in);
}

static void a_killed_server_ends_the_stream(void **state)
{
    static const int signals[] = {SIGKILL, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        struct inbox in = inbox_of(etcd_process_url(server));
        struct etcd_watch w = {.key = bytes_str("killed"), .watch_id = 1};
        watch(&in, &w, 1);
        expect_created(&in, 1);
        etcd_process_kill(server, signals[i]);
        expect_end(&in, ERR_LOST);
        etcd_watch_close(in.stream);
        watch(&in, &w, 1);
        expect_end(&in, ERR_UNREACHABLE);
        etcd_process_restart(server);
        watch(&in, &w, 1); /* the stream before is not closed: the client frees it */
        expect_created(&in, 1);
        int64_t at = change(&in, ETCD_OP_PUT, "killed", BYTES_NONE);
        struct said *s = next_real(&in);
        assert_int_equal(s->line.events->kv.mod_revision, at);
        said_free(s);
        etcd_watch_close(in.stream);
        expect_end(&in, ERR_CANCELLED);
        close_inbox(&in);
    }
}

static void a_lost_stream_goes_on_elsewhere(void **state)
{
    char *list = mem_printf("127.0.0.1:%d,%s", free_port(), etcd_process_url(server));
    struct inbox in = inbox_of(list);
    free(list);
    struct etcd_watch w = {.key = bytes_str("elsewhere"), .watch_id = 1};
    watch(&in, &w, 1);
    expect_end(&in, ERR_UNREACHABLE);
    assert_int_equal(etcd_watch_endpoint(in.stream), 0);
    etcd_watch_close(in.stream);
    watch(&in, &w, 1);
    expect_created(&in, 1);
    assert_int_equal(etcd_watch_endpoint(in.stream), 1);
    etcd_watch_close(in.stream);
    expect_end(&in, ERR_CANCELLED);
    close_inbox(&in);
}

static void close_in_callback(void *arg, struct etcd_watch_line *line)
{
    struct inbox *in = arg;
    struct etcd_stream *s = __atomic_exchange_n(&in->stream, NULL, __ATOMIC_ACQ_REL);
    if (s)
        etcd_watch_close(s);
}

static void callbacks_may_close(void **state)
{
    struct inbox in = inbox_of(etcd_process_url(server));
    struct etcd_watch w = {.key = bytes_str("own"), .watch_id = 1};
    struct buf body = {0};
    etcd_encode_watches(&body, &w, 1);
    /* A handle that the callback can only see once it is stored: hold the server until then. */
    etcd_process_signal(server, SIGSTOP);
    struct etcd_stream *s =
        etcd_watch_open(in.c, buf_view(&body), 0, close_in_callback, keep_end, &in);
    __atomic_store_n(&in.stream, s, __ATOMIC_RELEASE);
    etcd_process_signal(server, SIGCONT);
    expect_end(&in, ERR_CANCELLED);
    buf_close(&body);
    close_inbox(&in);
}

static int start_server(void **state)
{
    server = etcd_process_start(NULL);
    return 0;
}

static int stop_server(void **state)
{
    etcd_process_free(server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_watches_on_one_request),
        cmocka_unit_test(progress_shows_that_it_lives),
        cmocka_unit_test(a_compacted_start_is_told),
        cmocka_unit_test(large_histories_come_in_fragments),
        cmocka_unit_test(a_killed_server_ends_the_stream),
        cmocka_unit_test(a_lost_stream_goes_on_elsewhere),
        cmocka_unit_test(callbacks_may_close),
    };
    int failed = cmocka_run_group_tests_name("JSON", tests, start_server, stop_server);
    transport = ETCD_GRPC;
    return failed + cmocka_run_group_tests_name("gRPC", tests, start_server, stop_server);
}
