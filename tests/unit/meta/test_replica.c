/* The replica between following and leading, with an etcd that takes everything and says nothing:
 * the test gives its answers. */
#include "common/base/clock.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/fanout.h"
#include "meta/follow.h"
#include "meta/replica_parts.h"
#include "meta/upkeep.h"
#include "meta/waiting.h"
#include "tests/lib/put_write.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/wait_for.h"
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define PREFIX "/baton/t/"
enum { TTL_MS = 8000 };

struct kit {
    char *dir;
    int silent; /* etcd */
    struct board *board;
    struct store *store;
    struct replica *replica;
    struct record last; /* in `commit` */
    uint64_t led;       /* epoch of the last leadership */
    _Atomic int done;
    _Atomic int done_code;
    _Atomic uint64_t done_epoch; /* under which a read could be answered when the caller was */
};

/* ---- whom the replica tells ---- */

static _Atomic int posted[ELECTION_TICK + 1], reopened, reloads;

void candidate_post(struct candidate *c, const struct election_event *event)
{
    atomic_fetch_add(&posted[event->kind], 1);
}

uint64_t follow_reopen(struct follow *f, bool reload)
{
    atomic_fetch_add(&reloads, reload);
    return 2 + (uint64_t)atomic_fetch_add(&reopened, 1);
}

static _Atomic uint64_t confirmed;
static _Atomic int looks;

void waiting_on_confirmed(struct waiting *w, uint64_t epoch, uint64_t ticket)
{
    atomic_store(&confirmed, ticket);
}

void waiting_on_applied(struct waiting *w, int64_t revision)
{
}

void fanout_applied(struct fanout *f, int64_t revision, uint64_t epoch, struct ring_commit *c)
{
    ring_commit_drop(c);
}

void fanout_lost(struct fanout *f)
{
}

void fanout_listed(struct fanout *f, int64_t revision, uint64_t epoch, uint64_t incarnation)
{
}

void upkeep_look(struct upkeep *u)
{
    atomic_fetch_add(&looks, 1);
}

/* ---- etcd ---- */

static int listen_silently(char url[40])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(url, 40, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

/* Somebody asks: each attempt that hangs has a connection of its own. */
static bool is_asked(struct kit *k)
{
    return accept(k->silent, NULL, NULL) >= 0; /* open until the test's end, with its process */
}

static void answer_applied(struct kit *k, uint64_t attempt, int64_t revision)
{
    char body[160];
    snprintf(body, sizeof body,
             "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"%lld\"},\"succeeded\":true}",
             (long long)revision);
    struct etcd_reply reply = {.body = bytes_str(body)};
    replica_post_answer(k->replica, k->led, attempt, &reply);
}

/* The record that the next attempt to arrive would put, as the gateway writes it. Its connection
 * stays open, as those of is_asked. */
static void read_record_asked(struct kit *k, char out[RECORD_BYTES_MAX])
{
    static const char name[] = "\"value\":\"";
    static char request[8192];
    size_t len = 0;
    int fd = -1;
    char *at = NULL;
    WAIT_FOR((fd = accept(k->silent, NULL, NULL)) >= 0);
    while (!strstr(request, "\"failure\"")) { /* it stands behind what would be put */
        ssize_t n = recv(fd, request + len, sizeof request - 1 - len, 0);
        assert_true(n > 0);
        len += (size_t)n;
        request[len] = 0;
    }
    *strstr(request, "\"failure\"") = 0;
    for (char *next = strstr(request, name); next; next = strstr(next + 1, name))
        at = next + strlen(name);
    assert_non_null(at);
    snprintf(out, RECORD_BYTES_MAX, "%.*s", (int)strcspn(at, "\""), at);
}

/* The guard failed because the own key is gone; `commit` holds that record. */
static void answer_key_gone(struct kit *k, uint64_t attempt, const char *record, int64_t revision)
{
    char body[RECORD_BYTES_MAX + 400];
    snprintf(body, sizeof body,
             "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"%lld\"},\"responses\":["
             "{\"response_range\":{}},{\"response_range\":{\"kvs\":[{\"key\":\"Yw==\","
             "\"create_revision\":\"10\",\"mod_revision\":\"%lld\",\"version\":\"2\","
             "\"value\":\"%s\"}],\"count\":\"1\"}},{\"response_range\":{}}]}",
             (long long)revision + 1, (long long)revision, record);
    struct etcd_reply reply = {.body = bytes_str(body)};
    replica_post_answer(k->replica, k->led, attempt, &reply);
}

/* ---- what the watch brings ---- */

static void send_events(struct kit *k, int64_t revision, const struct etcd_event *events,
                        size_t count)
{
    struct replica_events *e = replica_events_new(events, count, revision, clock_boot_ms());
    e->generation = 1000; /* newer than whatever was reopened */
    assert_true(replica_watch(k->replica, e));
}

static struct etcd_event a_put(struct bytes key, struct bytes value, int64_t revision)
{
    return (struct etcd_event){.kv = {.key = key, .value = value, .mod_revision = revision}};
}

static void send_takeover(struct kit *k, int64_t revision, const struct record *next)
{
    char commit[KEY_MAX], entry[KEY_MAX];
    struct record_bytes bytes;
    struct buf value = {0};
    struct history h = {.leader = "m", .addr = "h:1", .reason = "released"};
    snprintf(h.nonce, sizeof h.nonce, "%s", next->nonce);
    snprintf(h.prev_nonce, sizeof h.prev_nonce, "%s", k->last.nonce);
    snprintf(h.prev_batch, sizeof h.prev_batch, "%s", k->last.batch);
    h.prev_seq = k->last.seq;
    history_encode(&h, &value);
    record_bytes_encode(&bytes, next);
    struct etcd_event events[] = {
        a_put(keys_commit(commit, PREFIX), record_view(&bytes), revision),
        a_put(keys_history(entry, PREFIX, next->epoch), buf_view(&value), revision)};
    send_events(k, revision, events, 2);
    buf_close(&value);
    k->last = *next;
}

static struct record a_record(uint64_t epoch, uint64_t seq)
{
    struct record r = {.epoch = epoch, .seq = seq, .ttl_ms = TTL_MS, .leader = "m"};
    snprintf(r.nonce, sizeof r.nonce, "%032llx", (unsigned long long)epoch);
    snprintf(r.batch, sizeof r.batch, "%032llx", (unsigned long long)(epoch * 100 + seq));
    return r;
}

static void send_put(struct kit *k, int64_t revision, const char *value)
{
    char commit[KEY_MAX];
    struct record_bytes bytes;
    k->last = a_record(k->last.epoch, k->last.seq + 1);
    k->last.events = 1;
    record_bytes_encode(&bytes, &k->last);
    struct etcd_event events[] = {
        a_put(bytes_str(PREFIX "state/kv/key"), bytes_str(value), revision),
        a_put(keys_commit(commit, PREFIX), record_view(&bytes), revision)};
    send_events(k, revision, events, 2);
}

/* ---- leading ---- */

/* `age_ms` ago the takeover was sent. */
static void lead(struct kit *k, const struct record *takeover, int64_t revision, int64_t age_ms)
{
    struct leadership l = {.epoch = takeover->epoch,
                           .leader = "m",
                           .takeover_revision = revision,
                           .ttl_ms = TTL_MS,
                           .margin_ms = 800,
                           .first_attempt_ms = clock_boot_ms() - age_ms,
                           .seat = {.prefix = PREFIX, .lease = 7, .create_revision = 3}};
    memcpy(l.nonce, takeover->nonce, sizeof l.nonce);
    record_bytes_encode(&l.takeover, takeover);
    k->led = l.epoch;
    replica_lead(k->replica, &l);
}

static void step_down(struct kit *k, uint64_t epoch)
{
    int settled = posted[ELECTION_SETTLED];
    replica_step_down(k->replica, epoch, "the test says so");
    WAIT_FOR(posted[ELECTION_SETTLED] > settled);
}

static void on_done(struct write *w, const struct err *err, const struct plan_answer *answer,
                    uint64_t epoch)
{
    struct kit *k = w->user;
    atomic_store(&k->done_code, (int)err->code);
    atomic_store(&k->done_epoch, board_read_epoch(k->board));
    atomic_fetch_add(&k->done, 1);
    request_close(&w->request);
    free(w);
}

static void submit_put(struct kit *k, const char *value)
{
    struct err e = replica_submit(k->replica, put_write("key", value, on_done, k));
    assert_false(err_is(&e));
}

static void lead_first(struct kit *k)
{
    struct record first = a_record(1, 0);
    lead(k, &first, 10, 0);
    send_takeover(k, 10, &first);
    WAIT_FOR(posted[ELECTION_ACTIVATED] == 1);
}

static void assert_key(struct kit *k, const char *value, int64_t revision)
{
    struct etcd_kv kv;
    struct store_snapshot *snap = store_snapshot_open(k->store);
    assert_true(store_get(snap, bytes_str("key"), &kv));
    assert_true(bytes_equal(kv.value, bytes_str(value)));
    assert_int_equal(kv.mod_revision, revision);
    store_snapshot_close(snap);
}

static void take_last_from_store(struct kit *k)
{
    struct store_snapshot *snap = store_snapshot_open(k->store);
    struct err e = record_decode(store_record(snap), &k->last);
    assert_false(err_is(&e));
    store_snapshot_close(snap);
}

/* ---- tests ---- */

static void follows_on_where_it_stopped_leading(void **state)
{
    struct kit *k = *state;
    struct record second = a_record(2, 0);
    lead_first(k);
    submit_put(k, "mine");
    WAIT_FOR((answer_applied(k, 1, 11), k->done == 1));
    assert_int_equal(k->done_code, ERR_OK);
    step_down(k, 1);
    take_last_from_store(k);
    send_takeover(k, 12, &second);
    send_put(k, 13, "theirs");
    WAIT_FOR(replica_applied(k->replica) == 13);
    assert_int_equal(reloads, 0);
    assert_key(k, "theirs", 13);
}

static void a_heartbeat_from_before_the_activation_brings_nothing_old(void **state)
{
    struct kit *k = *state;
    struct record third = a_record(3, 0);
    follows_on_where_it_stopped_leading(state);
    while (is_asked(k))
        ;
    lead(k, &third, 14, TTL_MS / 2); /* so long ago that a heartbeat is due */
    WAIT_FOR(is_asked(k));
    send_takeover(k, 14, &third);
    WAIT_FOR(posted[ELECTION_ACTIVATED] == 2);
    answer_applied(k, 1, 15);
    WAIT_FOR(replica_applied(k->replica) == 15);
    assert_key(k, "theirs", 13);
}

static void somebody_elses_write_ends_the_leadership(void **state)
{
    struct kit *k = *state;
    lead_first(k);
    board_set_role(k->board, ROLE_LEADER, 1);
    assert_int_equal(board_read_epoch(k->board), 1);
    struct etcd_event foreign = a_put(bytes_str(PREFIX "state/kv/key"), bytes_str("x"), 11);
    send_events(k, 11, &foreign, 1);
    WAIT_FOR(posted[ELECTION_DEPOSED] == 1);
    assert_int_equal(board_read_epoch(k->board), 0);
    WAIT_FOR(reloads == 1);
    submit_put(k, "never planned");
    step_down(k, 1);
    WAIT_FOR(k->done == 1);
    assert_int_equal(k->done_code, ERR_NOT_LEADER);
    assert_false(is_asked(k));
    /* pages that came before it had stepped down were passed over */
    assert_int_equal(reloads, 2);
}

/* The commit is in etcd and not in the local state, from which nobody may read any more by then. */
static void a_deposed_leader_reads_no_more_when_its_caller_hears(void **state)
{
    struct kit *k = *state;
    char record[RECORD_BYTES_MAX];
    lead_first(k);
    board_set_role(k->board, ROLE_LEADER, 1);
    submit_put(k, "applied");
    read_record_asked(k, record);
    answer_key_gone(k, 1, record, 11);
    WAIT_FOR(k->done == 1);
    assert_int_equal(k->done_code, ERR_OK);
    assert_int_equal(k->done_epoch, 0);
    WAIT_FOR(posted[ELECTION_DEPOSED] == 1);
}

/* One endpoint takes fewer operations in a txn than the others said. */
static void a_refused_batch_is_planned_anew(void **state)
{
    struct kit *k = *state;
    struct etcd_reply refused = {.err = err_make(ERR_TOO_LARGE, "too many operations")};
    lead_first(k);
    submit_put(k, "small enough");
    WAIT_FOR(is_asked(k));
    replica_post_answer(k->replica, k->led, 1, &refused);
    WAIT_FOR(is_asked(k));
    assert_int_equal(k->done, 0);
    WAIT_FOR((answer_applied(k, 2, 11), k->done == 1));
    assert_int_equal(k->done_code, ERR_OK);
    assert_key(k, "small enough", 11);
    /* what is refused in small batches too is refused for good */
    submit_put(k, "too large after all");
    WAIT_FOR(is_asked(k));
    replica_post_answer(k->replica, k->led, 3, &refused);
    WAIT_FOR(k->done == 2);
    assert_int_equal(k->done_code, ERR_TOO_LARGE);
}

static void an_activation_that_brings_nothing_ends(void **state)
{
    struct kit *k = *state;
    struct record first = a_record(1, 0);
    lead(k, &first, 10, 3 * TTL_MS);
    WAIT_FOR(posted[ELECTION_ACTIVATION_FAILED] == 1);
}

static void send_page(struct kit *k, const char *key, bool first, bool last)
{
    struct etcd_event put = a_put(bytes_str(key), bytes_str("1"), 5);
    put.kv.create_revision = 5;
    put.kv.version = 1;
    struct replica_events *page = replica_events_new(&put, 1, 20, clock_boot_ms());
    page->generation = 1;
    assert_true(replica_load(k->replica, page, first, last));
}

/* Pages may be passed over while a leadership ends, so what comes after them completes nothing. */
static void a_listing_does_not_go_on_after_a_leadership(void **state)
{
    struct kit *k = *state;
    struct record first = a_record(1, 0);
    send_page(k, PREFIX "state/kv/a", true, false);
    lead(k, &first, 10, 0);
    step_down(k, 1);
    assert_int_equal(reloads, 1);
    send_page(k, PREFIX "state/kv/b", false, true);
    step_down(k, 2); /* works off what came before it */
    assert_int_equal(replica_applied(k->replica), 0);
}

/* Each leadership numbers its attempts from 1, and an answer may come late. */
static void an_answer_of_a_former_leadership_says_nothing(void **state)
{
    struct kit *k = *state;
    lead_first(k);
    submit_put(k, "mine");
    WAIT_FOR(is_asked(k));
    k->led = 7;
    answer_applied(k, 1, 11);
    k->led = 1;
    answer_applied(k, 1, 12);
    WAIT_FOR(k->done == 1);
    assert_key(k, "mine", 12);
}

static void a_probe_takes_its_turn_with_the_commits(void **state)
{
    struct kit *k = *state;
    lead_first(k);
    atomic_store(&confirmed, 0);
    uint64_t first = replica_ask(k->replica);
    WAIT_FOR(is_asked(k));
    uint64_t second = replica_ask(k->replica);
    submit_put(k, "mine");
    answer_applied(k, 1, 11); /* of the probe: confirms whom it was sent for */
    WAIT_FOR(atomic_load(&confirmed) == first);
    assert_int_equal(k->done, 0);
    WAIT_FOR(is_asked(k));
    answer_applied(k, 2, 12); /* of the commit, which confirms as well */
    WAIT_FOR(atomic_load(&confirmed) == second);
    WAIT_FOR(k->done == 1);
    assert_key(k, "mine", 12);
}

/* What is written next might fill etcd: somebody looks first, and says what may go on. */
static void a_batch_waits_for_a_look_at_etcds_size(void **state)
{
    struct kit *k = *state;
    struct err full = err_make(ERR_NO_SPACE, "full");
    lead_first(k);
    looks = 0;
    replica_set_space(k->replica, &OK_ERR, 0);
    submit_put(k, "mine");
    WAIT_FOR(looks == 1);
    assert_int_equal(k->done, 0);
    replica_set_space(k->replica, &full, UINT64_MAX);
    WAIT_FOR(k->done == 1);
    assert_int_equal(k->done_code, ERR_NO_SPACE);
    replica_set_space(k->replica, &OK_ERR, 0);
    submit_put(k, "mine");
    WAIT_FOR(looks == 2);
    WAIT_FOR(is_asked(k)); /* nobody says anything: it goes on by itself */
    answer_applied(k, 1, 11);
    WAIT_FOR(k->done == 2);
    assert_int_equal(k->done_code, ERR_OK);
}

/* ---- the kit ---- */

static int set_up(void **state)
{
    struct kit *k = mem_alloc(sizeof *k);
    char url[40];
    memset(posted, 0, sizeof posted);
    reopened = reloads = 0;
    k->dir = temp_dir_new();
    k->silent = listen_silently(url);
    k->board = board_new("m", "h:1");
    struct err e = store_open(&k->store, &(struct store_config){.dir = k->dir,
                                                                .state_prefix = PREFIX "state/",
                                                                .map_bytes = 16 << 20});
    assert_false(err_is(&e));
    e = replica_start(&k->replica,
                      &(struct replica_config){.board = k->board,
                                               .store = k->store,
                                               .etcd = &(struct etcd_access){.endpoints = url},
                                               .prefix = PREFIX,
                                               .member_id = "m",
                                               .ttl_ms = TTL_MS,
                                               .max_pending = 100,
                                               .max_pending_bytes = 1 << 20,
                                               .dedup_bytes = 1 << 20,
                                               .max_txn_ops = 1024});
    assert_false(err_is(&e));
    replica_connect(k->replica, &(struct replica_links){0});
    *state = k;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *k = *state;
    replica_stop(k->replica);
    replica_free(k->replica);
    store_close(k->store);
    board_free(k->board);
    close(k->silent);
    temp_dir_free(k->dir);
    free(k);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_of_a_former_leadership_says_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_batch_waits_for_a_look_at_etcds_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_probe_takes_its_turn_with_the_commits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(follows_on_where_it_stopped_leading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_heartbeat_from_before_the_activation_brings_nothing_old,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deposed_leader_reads_no_more_when_its_caller_hears,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_batch_is_planned_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_activation_that_brings_nothing_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_listing_does_not_go_on_after_a_leadership, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(somebody_elses_write_ends_the_leadership, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
