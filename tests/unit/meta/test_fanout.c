/* The fan-out with streams that the test plays: what each is told, and how it ends. */
#include "common/base/thread.h"
#include "meta/board.h"
#include "meta/core/record.h"
#include "meta/fanout.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait_for.h"
#include <pthread.h>
#include <stdatomic.h>

enum { COMMITS = 1500, STREAMS = 120, BUFFER_BYTES = 2000, LEADS = 7 };

/* ---- a kind whose messages are one letter and a revision; its filter is the first letter of keys,
 * or nothing ---- */

static void *filter_new(void *ctx, struct bytes filter)
{
    char *letter = mem_alloc(1);
    *letter = filter.len ? (char)filter.data[0] : 0;
    return letter;
}

static size_t weigh(const void *filter, const struct ring_commit *c)
{
    const char *letter = filter;
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        if (!*letter || c->events[i].kv.key.data[3] == *letter)
            bytes += 100;
    return bytes;
}

static void say(struct fanout_out *out, char what, int64_t revision)
{
    char text[32];
    snprintf(text, sizeof text, "%c%lld", what, (long long)revision);
    fanout_say(out, bytes_str(text));
}

/* In two parts. */
static void say_commit(const void *filter, const struct fanout_view *v, const struct ring_commit *c,
                       struct fanout_out *out)
{
    say(out, '(', c->revision);
    say(out, ')', c->revision);
}

static bool say_page(const void *filter, const struct fanout_view *v, struct store_snapshot *snap,
                     struct buf *cursor, struct buf *told, struct fanout_out *out)
{
    say(out, cursor->len ? 'S' : 's', store_revision(snap));
    buf_byte(cursor, 0);
    return cursor->len == 3;
}

static void say_progress(const void *filter, const struct fanout_view *v, int64_t revision,
                         struct fanout_out *out)
{
    say(out, 'p', revision);
}

static void say_beside(const void *filter, const struct fanout_view *v, int64_t revision,
                       struct buf *told, struct fanout_out *out)
{
    buf_byte(told, 0);
    say(out, 'b', (int64_t)told->len);
}

static const struct fanout_kind kind = {.name = "test",
                                        .filter_new = filter_new,
                                        .filter_free = free,
                                        .weigh = weigh,
                                        .commit = say_commit,
                                        .page = say_page,
                                        .progress = say_progress,
                                        .beside = say_beside};

/* ---- a reader ---- */

struct reader {
    pthread_mutex_t lock;   /* of what the fan-out writes */
    pthread_mutex_t events; /* held during one: the end of a stream waits for it */
    rpc_stream_fn *on_event;
    void *user;
    bool begun, ended, asleep;
    enum err_code why;
    int64_t oldest;
    size_t queued;
    int64_t told; /* everything of the filter up to it; -1: nothing yet */
    int64_t half; /* the first part of that commit was told */
    char letter;
    int snapshots, beside, messages;
    bool wrong;
};

/* Letters of commits go round: a, b, c; every tenth revision changes nothing. */
static bool concerns(char letter, int64_t revision)
{
    return revision % 10 && (!letter || letter == "abc"[revision % 3]);
}

static bool nothing_missed(const struct reader *r, int64_t next)
{
    for (int64_t missed = r->told + 1; missed < next; missed++)
        if (concerns(r->letter, missed))
            return false;
    return next > r->told;
}

static void take(struct reader *r, char what, int64_t revision)
{
    switch (what) {
    case 's':
        r->half = 0;
        r->snapshots++;
        r->told = revision;
        break;
    case 'S':
        r->wrong |= r->told != revision;
        break;
    case '(':
        r->wrong |= r->half || (r->told >= 0 && !nothing_missed(r, revision));
        r->half = revision;
        break;
    case ')':
        r->wrong |= r->half != revision || !concerns(r->letter, revision);
        r->half = 0;
        r->told = revision;
        break;
    case 'p':
        r->wrong |=
            r->half || (r->told >= 0 && revision != r->told && !nothing_missed(r, revision + 1));
        r->told = revision;
        break;
    case 'b':
        r->wrong |= r->half || revision != r->beside + 1;
        r->beside = (int)revision;
        break;
    default:
        r->wrong = true;
    }
}

static void wire_begin(struct fanout *f, struct rpc_call *call, uint64_t epoch,
                       rpc_stream_fn *on_event, void *user)
{
    struct reader *r = (struct reader *)call;
    pthread_mutex_lock(&r->lock);
    r->on_event = on_event;
    r->user = user;
    r->begun = true;
    pthread_mutex_unlock(&r->lock);
}

static bool wire_send(struct rpc_call *call, struct rpc_shared *message)
{
    struct reader *r = (struct reader *)call;
    struct bytes m = rpc_shared_bytes(message);
    char text[32] = "";
    memcpy(text, m.data, m.len);
    pthread_mutex_lock(&r->lock);
    r->messages++;
    if (r->asleep)
        r->queued = FANOUT_QUEUED_BYTES;
    take(r, text[0], strtoll(text + 1, NULL, 10));
    pthread_mutex_unlock(&r->lock);
    return true;
}

static size_t wire_queued(struct rpc_call *call)
{
    struct reader *r = (struct reader *)call;
    pthread_mutex_lock(&r->lock);
    size_t queued = r->queued;
    pthread_mutex_unlock(&r->lock);
    return queued;
}

static void wire_end(struct fanout *f, struct rpc_call *call, const struct err *e, int64_t oldest)
{
    struct reader *r = (struct reader *)call;
    pthread_mutex_lock(&r->events);
    pthread_mutex_lock(&r->lock);
    r->ended = true;
    r->why = e->code;
    r->oldest = oldest;
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_unlock(&r->events);
}

static const struct fanout_wire wire = {wire_begin, wire_send, wire_queued, wire_end};

static bool has_ended(struct reader *r)
{
    pthread_mutex_lock(&r->lock);
    bool ended = r->ended;
    pthread_mutex_unlock(&r->lock);
    return ended;
}

static int64_t told_to(struct reader *r)
{
    pthread_mutex_lock(&r->lock);
    int64_t told = r->told;
    assert_false(r->wrong);
    pthread_mutex_unlock(&r->lock);
    return told;
}

/* ---- the world around it ---- */

struct world {
    struct fixture store;
    struct board *board;
    struct fanout *fanout;
    int64_t revision;
    _Atomic int committed;
    struct reader readers[STREAMS];
};

static void commit(struct world *w, uint64_t epoch)
{
    char key[64];
    struct record_bytes bytes;
    struct record record = {.epoch = epoch, .seq = 1, .leader = "m1", .ttl_ms = 1000};
    int64_t revision = ++w->revision;
    memset(record.nonce, '1', NONCE_DIGITS);
    memset(record.batch, '2', NONCE_DIGITS);
    snprintf(key, sizeof key, STATE_PREFIX "kv/%c%d", "abc"[revision % 3], (int)revision % 50);
    record_bytes_encode(&bytes, &record);
    const struct etcd_op op = {
        .kind = ETCD_OP_PUT, .key = bytes_str(key), .value = bytes_str("some value")};
    struct err e =
        store_apply_ops(w->store.store, revision, &op, revision % 10 ? 1 : 0, record_view(&bytes));
    assert_string_equal(e.message, "");
    fanout_applied(w->fanout, revision, epoch, store_take_changes(w->store.store, revision, epoch));
}

static void lead(struct world *w, uint64_t epoch)
{
    board_set_role(w->board, ROLE_LEADER, epoch);
    fanout_on_role(w->fanout);
}

static int world_open(void **state)
{
    struct world *w = mem_alloc(sizeof *w);
    fixture_init(&w->store);
    w->board = board_new("m1", "127.0.0.1:1");
    struct cluster cluster = {.id = "0123456789abcdef0123456789abcdef", .incarnation = 1};
    board_set_cluster(w->board, &cluster);
    board_set_role(w->board, ROLE_LEADER, LEADS);
    w->fanout = fanout_start(&(struct fanout_config){.board = w->board,
                                                     .store = w->store.store,
                                                     .threads = 2,
                                                     .history_bytes = 20000,
                                                     .buffer_bytes = BUFFER_BYTES,
                                                     .max_streams = STREAMS,
                                                     .wire = &wire});
    fanout_listed(w->fanout, w->revision = 9, LEADS, 1);
    for (int i = 0; i < STREAMS; i++) {
        pthread_mutex_init(&w->readers[i].lock, NULL);
        pthread_mutex_init(&w->readers[i].events, NULL);
        w->readers[i].told = -1;
    }
    for (int i = 0; i < 20; i++)
        commit(w, LEADS);
    *state = w;
    return 0;
}

static void tell(struct reader *r, enum rpc_stream_event event)
{
    pthread_mutex_lock(&r->events);
    if (r->begun && !has_ended(r))
        r->on_event((struct rpc_call *)r, event, r->user);
    pthread_mutex_unlock(&r->events);
}

static int world_close(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < STREAMS; i++)
        tell(&w->readers[i], RPC_STREAM_GONE);
    for (int i = 0; i < STREAMS; i++)
        WAIT_FOR(!w->readers[i].begun || has_ended(&w->readers[i]));
    fanout_stop(w->fanout);
    for (int i = 0; i < STREAMS; i++) {
        assert_false(w->readers[i].wrong);
        pthread_mutex_destroy(&w->readers[i].lock);
        pthread_mutex_destroy(&w->readers[i].events);
    }
    board_free(w->board);
    fixture_close(&w->store);
    free(w);
    return 0;
}

static struct reader *watch(struct world *w, int i, struct fanout_request request)
{
    struct reader *r = &w->readers[i];
    request.kind = &kind;
    request.filter = bytes_of(&r->letter, r->letter ? 1 : 0);
    if (request.start == FANOUT_AFTER)
        r->told = request.revision;
    fanout_open(w->fanout, &request, (struct rpc_call *)r);
    return r;
}

/* ---- tests ---- */

static void *commit_all(void *arg)
{
    struct world *w = arg;
    for (int i = 0; i < COMMITS; i++) {
        commit(w, LEADS);
        if (i % 100 == 0)
            fanout_touch(w->fanout);
        atomic_fetch_add(&w->committed, 1);
    }
    return NULL;
}

/* Streams come from anywhere and go at any time while the state moves on. */
static void everybody_is_told_everything_once(void **state)
{
    struct world *w = *state;
    pthread_t writer = thread_start("writer", commit_all, w);
    for (int i = 0; i < STREAMS; i++) {
        struct fanout_load load;
        fanout_load(w->fanout, &load);
        w->readers[i].letter = "\0abc"[i % 4];
        watch(w, i,
              (struct fanout_request){.start = i % 3 == 0   ? FANOUT_NOW
                                               : i % 3 == 1 ? FANOUT_SNAPSHOT
                                                            : FANOUT_AFTER,
                                      .revision = load.oldest_revision + 100,
                                      .epoch = i % 2 ? LEADS : 0});
        if (i % 5 == 4)
            tell(&w->readers[i - 2], RPC_STREAM_GONE);
        WAIT_FOR(atomic_load(&w->committed) >= i * (COMMITS / STREAMS));
    }
    pthread_join(writer, NULL);
    for (int i = 0; i < STREAMS; i++) {
        struct reader *r = &w->readers[i];
        /* one that waits for a late thread may have been cut, on a machine that is busy */
        WAIT_FOR(has_ended(r) || told_to(r) >= w->revision - 30);
        if (has_ended(r))
            assert_true(r->why == ERR_CANCELLED || r->why == ERR_TOO_SLOW ||
                        r->why == ERR_COMPACTED);
    }
}

static void one_that_sleeps_is_cut_alone(void **state)
{
    struct world *w = *state;
    struct reader *slow = watch(w, 0, (struct fanout_request){.start = FANOUT_NOW});
    struct reader *good = watch(w, 1, (struct fanout_request){.start = FANOUT_NOW});
    WAIT_FOR(told_to(slow) == w->revision && told_to(good) == w->revision);
    pthread_mutex_lock(&slow->lock);
    slow->asleep = true;
    pthread_mutex_unlock(&slow->lock);
    for (int i = 0; i < BUFFER_BYTES / 100 + 10; i++) {
        commit(w, LEADS);
        WAIT_FOR(!concerns(0, w->revision) || told_to(good) == w->revision);
    }
    WAIT_FOR(has_ended(slow));
    assert_int_equal(slow->why, ERR_TOO_SLOW);
    assert_false(has_ended(good));
}

static void what_is_queued_goes_on_when_it_is_written(void **state)
{
    struct world *w = *state;
    struct reader *r = &w->readers[0];
    r->asleep = true;
    watch(w, 0, (struct fanout_request){.start = FANOUT_AFTER, .revision = 9});
    for (int woken = 1; told_to(r) < w->revision - 1; woken++) {
        WAIT_FOR(wire_queued((struct rpc_call *)r) > 0);
        pthread_mutex_lock(&r->lock);
        r->queued = 0;
        pthread_mutex_unlock(&r->lock);
        tell(r, RPC_STREAM_WRITABLE);
        assert_true(woken < 100);
    }
    assert_false(has_ended(r));
}

static void what_is_not_kept_is_refused_or_a_snapshot(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 300; i++)
        commit(w, LEADS);
    struct reader *old =
        watch(w, 0, (struct fanout_request){.start = FANOUT_AFTER, .revision = 10});
    assert_true(old->ended && !old->begun);
    assert_int_equal(old->why, ERR_COMPACTED);
    struct reader *kept =
        watch(w, 1, (struct fanout_request){.start = FANOUT_AFTER, .revision = old->oldest - 1});
    WAIT_FOR(told_to(kept) >= w->revision - 1);
    struct resume other = {.cluster_id = "x", .incarnation = 1, .revision = w->revision};
    struct reader *foreign =
        watch(w, 2, (struct fanout_request){.start = FANOUT_RESUME, .resume = other});
    assert_int_equal(foreign->why, ERR_RESYNC);
    struct reader *anew = watch(
        w, 3, (struct fanout_request){.start = FANOUT_RESUME, .resume = other, .snapshot = true});
    WAIT_FOR(told_to(anew) == w->revision);
    assert_int_equal(anew->snapshots, 1);
    struct reader *to_come =
        watch(w, 4, (struct fanout_request){.start = FANOUT_AFTER, .revision = w->revision + 5});
    for (int i = 0; i < 12; i++)
        commit(w, LEADS);
    WAIT_FOR(told_to(to_come) >= w->revision - 1);
}

/* What the state was meanwhile nobody knows. */
static void a_state_that_is_listed_anew_begins_anew(void **state)
{
    struct world *w = *state;
    struct reader *plain = watch(w, 0, (struct fanout_request){.start = FANOUT_NOW});
    struct reader *again = watch(w, 1, (struct fanout_request){.start = FANOUT_SNAPSHOT});
    WAIT_FOR(told_to(plain) == w->revision && told_to(again) == w->revision);
    fanout_lost(w->fanout);
    struct reader *refused = watch(w, 2, (struct fanout_request){.start = FANOUT_NOW});
    assert_int_equal(refused->why, ERR_NOT_READY);
    struct err e = store_load_begin(w->store.store);
    assert_false(err_is(&e));
    w->revision += 1000;
    e = store_load_end(w->store.store, w->revision);
    assert_false(err_is(&e));
    assert_false(has_ended(plain));
    fanout_listed(w->fanout, w->revision, LEADS, 1);
    WAIT_FOR(has_ended(plain));
    assert_int_equal(plain->why, ERR_RESYNC);
    WAIT_FOR(told_to(again) == w->revision);
    assert_int_equal(again->snapshots, 2);
    commit(w, LEADS);
    commit(w, LEADS);
    WAIT_FOR(told_to(again) >= w->revision - 1);
}

/* The election may say so later than the state. */
static void a_leader_tells_nothing_of_a_later_one(void **state)
{
    struct world *w = *state;
    struct reader *of_leader =
        watch(w, 0, (struct fanout_request){.start = FANOUT_NOW, .epoch = LEADS});
    struct reader *of_member = watch(w, 1, (struct fanout_request){.start = FANOUT_NOW});
    int64_t last = w->revision;
    WAIT_FOR(told_to(of_leader) == last && told_to(of_member) == last);
    commit(w, LEADS + 1);
    commit(w, LEADS + 1);
    WAIT_FOR(has_ended(of_leader));
    assert_int_equal(of_leader->why, ERR_NOT_LEADER);
    assert_int_equal(of_leader->told, last);
    WAIT_FOR(told_to(of_member) >= w->revision - 1);
    struct reader *late =
        watch(w, 2, (struct fanout_request){.start = FANOUT_SNAPSHOT, .epoch = LEADS});
    WAIT_FOR(has_ended(late));
    assert_int_equal(late->snapshots, 0);
    lead(w, LEADS + 1);
    struct reader *next =
        watch(w, 3, (struct fanout_request){.start = FANOUT_SNAPSHOT, .epoch = LEADS + 1});
    WAIT_FOR(told_to(next) == w->revision);
    lead(w, LEADS + 2);
    WAIT_FOR(has_ended(next));
    assert_false(has_ended(of_member));
}

static void there_are_so_many_and_no_more(void **state)
{
    struct world *w = *state;
    struct reader extra = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .events = PTHREAD_MUTEX_INITIALIZER, .told = -1};
    for (int i = 0; i < STREAMS; i++)
        watch(w, i, (struct fanout_request){.start = FANOUT_SNAPSHOT});
    const struct fanout_request request = {.kind = &kind, .start = FANOUT_NOW};
    fanout_open(w->fanout, &request, (struct rpc_call *)&extra);
    assert_int_equal(extra.why, ERR_OVERLOADED);
    for (int i = 0; i < STREAMS; i++)
        WAIT_FOR(told_to(&w->readers[i]) == w->revision);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)
    const struct CMUnitTest tests[] = {
        TEST(everybody_is_told_everything_once),
        TEST(one_that_sleeps_is_cut_alone),
        TEST(what_is_queued_goes_on_when_it_is_written),
        TEST(what_is_not_kept_is_refused_or_a_snapshot),
        TEST(a_state_that_is_listed_anew_begins_anew),
        TEST(a_leader_tells_nothing_of_a_later_one),
        TEST(there_are_so_many_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
