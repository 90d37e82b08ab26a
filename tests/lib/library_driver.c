/* A program of a user of the library, for tests:
 *
 *     library-driver count ADDRESSES THREADS
 *         Until stdin ends each thread sets its own key again and again, by Put and by Txn, and
 * adds to a number that all share. A line "ops N" comes now and then, then one with what was done.
 *     library-driver tour ADDRESSES
 *         Every call that blocks, once. Prints "ok", or what was not as it must be.
 *     library-driver get ADDRESSES KEY TIMEOUT_MS
 *         One line: how it ended, and how long it took.
 *     library-driver guard [PATH]
 *         For each line "CLUSTER EPOCH" of stdin a line with the guard's word: "admitted", or the
 *         reason. */
#include <baton/baton.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
#define SHARED "shared"

static struct baton_bytes text(const char *s)
{
    return (struct baton_bytes){.data = s, .len = strlen(s)};
}

static struct baton_client *connect_to(const char *addresses, int64_t timeout_ms)
{
    struct baton_client *client;
    struct baton_error err;
    struct baton_options options = {.addresses = addresses, .timeout_ms = timeout_ms};
    if (baton_client_new(&client, &options, &err) != 0) {
        printf("%s: %s\n", err.reason, err.message);
        exit(2);
    }
    return client;
}

/* ---- count ---- */

struct worker {
    pthread_t thread;
    struct baton_client *client;
    char key[16];
    long sets, adds, failures;
    struct baton_error first;
};

static long ops; /* atomic */
static int over; /* atomic */

static void note(struct worker *w, bool failed, const struct baton_error *err)
{
    if (failed && w->failures++ == 0)
        w->first = *err;
    if (!failed && __atomic_add_fetch(&ops, 1, __ATOMIC_SEQ_CST) % 20 == 0) {
        printf("ops %ld\n", __atomic_load_n(&ops, __ATOMIC_SEQ_CST));
        fflush(stdout);
    }
}

/* Sets the key whatever it holds: each time it was done counts in its version. */
static void set_own(struct worker *w)
{
    struct baton_error err;
    struct baton_op op = {.kind = BATON_OP_PUT, .key = text(w->key), .value = text("v")};
    struct baton_txn txn = {.then_ops = &op, .then_count = 1};
    int failed = w->sets % 2 ? baton_txn(w->client, NULL, &txn, NULL, &err)
                             : baton_put(w->client, NULL, text(w->key), text("v"), NULL, &err);
    w->sets += !failed;
    note(w, failed != 0, &err);
}

/* One more, if nobody else changed it meanwhile. */
static void add_one(struct worker *w)
{
    struct baton_error err;
    struct baton_kvs *seen;
    struct baton_txn_result *done;
    char next[32];
    if (baton_get(w->client, NULL, text(SHARED), NULL, &seen, &err) != 0) {
        note(w, true, &err);
        return;
    }
    const struct baton_kv *kv = seen->kv_count ? seen->kvs : NULL;
    snprintf(next, sizeof next, "%ld", kv ? strtol(kv->value.data, NULL, 10) + 1 : 1);
    struct baton_compare same = {.key = text(SHARED),
                                 .target = BATON_TARGET_MOD_REVISION,
                                 .number = kv ? kv->mod_revision : 0};
    struct baton_op op = {.kind = BATON_OP_PUT, .key = text(SHARED), .value = text(next)};
    struct baton_txn txn = {
        .compares = &same, .compare_count = 1, .then_ops = &op, .then_count = 1};
    int failed = baton_txn(w->client, NULL, &txn, &done, &err);
    w->adds += !failed && done->succeeded;
    note(w, failed != 0, &err);
    baton_result_free(done);
    baton_result_free(seen);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        set_own(w);
        add_one(w);
    }
    return NULL;
}

static int64_t number_of(struct baton_client *client, const char *key, bool version)
{
    struct baton_kvs *seen;
    struct baton_error err;
    if (baton_get(client, NULL, text(key), NULL, &seen, &err) != 0 || !seen->kv_count) {
        printf("%s is not there\n", key);
        exit(1);
    }
    int64_t n = version ? seen->kvs[0].version : strtoll(seen->kvs[0].value.data, NULL, 10);
    baton_result_free(seen);
    return n;
}

/* Each effect happened once: no fewer and no more than callers were told. */
static int judge(struct baton_client *client, struct worker *all, int threads)
{
    long adds = 0, failures = 0, wrong = 0;
    for (int i = 0; i < threads; i++) {
        struct worker *w = &all[i];
        int64_t version = number_of(client, w->key, true);
        adds += w->adds;
        failures += w->failures;
        wrong += version != w->sets;
        if (version != w->sets)
            printf("%s was set %ld times, but has version %" PRId64 "\n", w->key, w->sets, version);
        if (w->failures)
            printf("%s %s: %s\n", w->first.reason, w->key, w->first.message);
    }
    int64_t sum = number_of(client, SHARED, false);
    printf("done: ops %ld, failures %ld, adds %ld, sum %" PRId64 ", wrong %ld\n", ops, failures,
           adds, sum, wrong);
    return failures || wrong || adds != sum;
}

static int count(const char *addresses, int threads)
{
    static struct worker all[THREADS_MAX];
    char ignored[64];
    struct baton_client *client = connect_to(addresses, 60000);
    if (threads < 1 || threads > THREADS_MAX)
        return 2;
    for (int i = 0; i < threads; i++) {
        all[i].client = client;
        snprintf(all[i].key, sizeof all[i].key, "own/%d", i);
        if (pthread_create(&all[i].thread, NULL, work, &all[i]) != 0)
            return 2;
    }
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        ;
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i].thread, NULL);
    int status = judge(client, all, threads);
    baton_client_free(client);
    return status;
}

/* ---- tour ---- */

static int trouble;

static void must(bool holds, const char *what, const struct baton_error *err)
{
    if (holds)
        return;
    printf("not so: %s (%s: %s)\n", what, err->reason, err->message);
    trouble = 1;
}

static void tour_keys(struct baton_client *c)
{
    struct baton_error err = {0};
    struct baton_kvs *r;
    char id[40];
    snprintf(id, sizeof id, "tour-%032ld", (long)getpid());
    struct baton_call again = {.request_id = id};
    struct baton_read stale = {.consistency = BATON_STALE}, quorum = {.consistency = BATON_QUORUM};
    must(!baton_put(c, &again, text("tour/a"), text("1"), &r, &err) && !r->replayed, "put", &err);
    int64_t revision = r ? r->revision : 0;
    baton_result_free(r);
    must(!baton_put(c, &again, text("tour/a"), text("1"), &r, &err) && r->replayed &&
             r->revision == revision,
         "the same request id gets the same answer", &err);
    baton_result_free(r);
    must(!baton_put(c, NULL, text("tour/b"), text("2"), NULL, &err), "put without a result", &err);
    must(!baton_get(c, NULL, text("tour/b"), &quorum, &r, &err) && r->kv_count == 1 && r->epoch > 0,
         "get", &err);
    baton_result_free(r);
    stale.min_revision = revision;
    must(!baton_get(c, NULL, text("tour/none"), &stale, &r, &err) && r->kv_count == 0, "none",
         &err);
    baton_result_free(r);
    struct baton_range range = {.key = text("tour/"), .prefix = true, .limit = 1};
    must(!baton_range(c, NULL, &range, NULL, &r, &err) && r->kv_count == 1 && r->more &&
             r->next_key.len == 6,
         "a page", &err);
    baton_result_free(r);
    must(!baton_delete(c, NULL, text("tour/a"), &r, &err) && r->count == 1, "delete", &err);
    baton_result_free(r);
    must(!baton_delete_prefix(c, NULL, text("tour/"), &r, &err) && r->count == 1, "delete all",
         &err);
    baton_result_free(r);
}

static void tour_refusals(struct baton_client *c)
{
    struct baton_error err = {0};
    struct baton_kvs *r;
    struct baton_call bad = {.request_id = "short"};
    struct baton_read nonsense = {.consistency = (enum baton_consistency)9};
    must(baton_put(c, NULL, text(""), text("x"), &r, &err) && !r &&
             err.status == BATON_INVALID_ARGUMENT && !strcmp(err.reason, "BAD_KEY") &&
             err.outcome == BATON_NOT_EXECUTED,
         "an empty key is refused", &err);
    must(baton_put(c, &bad, text("k"), text("x"), &r, &err) &&
             !strcmp(err.reason, "BAD_REQUEST_ID") && err.hint[0],
         "a short request id is refused", &err);
    must(baton_get(c, NULL, text("k"), &nonsense, &r, &err) && err.status == BATON_INVALID_ARGUMENT,
         "nonsense is refused", &err);
    must(baton_remove_member(c, NULL, "nobody", NULL, &err) && err.status == BATON_NOT_FOUND &&
             !strcmp(err.reason, "UNKNOWN_MEMBER"),
         "a member that is not there", &err);
    must(baton_put(c, NULL, text(""), text("x"), NULL, NULL), "no error is asked for", &err);
}

static void tour_cluster(struct baton_client *c)
{
    struct baton_error err = {0};
    struct baton_leader leader;
    struct baton_members *members;
    struct baton_history *history;
    must(!baton_leader(c, NULL, &leader, &err) && leader.known && leader.epoch > 0, "leader", &err);
    must(!baton_members(c, NULL, &members, &err) && members->count == 3, "members", &err);
    must(!baton_history(c, NULL, 1, &history, &err) && history->count == 1 &&
             history->leaderships[0].epoch == leader.epoch,
         "history", &err);
    for (size_t i = 0; members && i < members->count; i++)
        must((members->members[i].role == BATON_LEADER) ==
                 !strcmp(members->members[i].id, leader.id),
             "roles", &err);
    baton_result_free(members);
    baton_result_free(history);
}

static int tour(const char *addresses)
{
    struct baton_client *c = connect_to(addresses, 0);
    tour_keys(c);
    tour_refusals(c);
    tour_cluster(c);
    baton_client_free(c);
    if (!trouble)
        puts("ok");
    return trouble;
}

/* ---- get ---- */

static int get(const char *addresses, const char *key, int64_t timeout_ms)
{
    struct baton_client *c = connect_to(addresses, 0);
    struct baton_call call = {.timeout_ms = timeout_ms};
    struct baton_error err = {0};
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    int status = baton_get(c, &call, text(key), NULL, NULL, &err);
    clock_gettime(CLOCK_MONOTONIC, &to);
    int64_t ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
    printf("%d %d %s after %" PRId64 " ms: %s; %s\n", status, (int)err.status, err.reason, ms,
           err.message, err.hint);
    baton_client_free(c);
    return 0;
}

/* ---- guard ---- */

static int guard(const char *path)
{
    struct baton_guard *g;
    struct baton_error err;
    char cluster[64];
    uint64_t epoch;
    if (baton_guard_open(&g, path, &err) != 0) {
        printf("%s\n", err.reason);
        return 2;
    }
    while (scanf("%63s %" SCNu64, cluster, &epoch) == 2) {
        bool refused = baton_guard_admit(g, cluster, epoch, &err) != 0;
        printf("%s\n", refused ? err.reason : "admitted");
        fflush(stdout);
    }
    baton_guard_close(g);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "count"))
        return count(argv[2], (int)strtol(argv[3], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "tour"))
        return tour(argv[2]);
    if (argc == 5 && !strcmp(argv[1], "get"))
        return get(argv[2], argv[3], strtoll(argv[4], NULL, 10));
    if ((argc == 2 || argc == 3) && !strcmp(argv[1], "guard"))
        return guard(argv[2]);
    fputs("usage: see the top of library_driver.c\n", stderr);
    return 2;
}
