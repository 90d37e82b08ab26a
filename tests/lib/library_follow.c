/* A program that follows a cluster through the library, for tests. Until stdin ends it prints a
 * line for each thing it is told:
 *
 *     library-follow watch ADDRESSES now|snapshot|REVISION [PREFIX]
 *         connected | down REASON | failed REASON
 *         restart R       a snapshot begins
 *         key R KEY VALUE      one of its keys
 *         put R KEY VALUE | delete R KEY
 *         whole R         all of that commit, or snapshot, was told
 *         progress R
 *
 *     library-follow subscribe ADDRESSES KIND [PREFIX]
 *         all topics; the same, and
 *         member ID...    all members that are alive
 *         leader ID EPOCH
 *         worker ID INCARNATION ADDR STATE
 *         left ID INCARNATION ADDR gone|expired
 *         rejected EPOCH REASON
 *
 *     library-follow worker ADDRESSES TYPE HOST:PORT TTL_MS [COUNT]
 *         so many workers, at this port and the next ones; a line begins with the number of one
 *         N run ID INCARNATION
 *         N stop lost-touch|forgotten|replaced|closed MAY_WORK
 *         N wanted CORDONED DRAINING
 *         N failed REASON */
#include <baton/baton.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Streams of one process say whole lines each. */
static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

static struct baton_bytes text(const char *s)
{
    return (struct baton_bytes){.data = s, .len = strlen(s)};
}

static int give_up(const char *what, const struct baton_error *err)
{
    printf("%s: %s: %s\n", what, err->reason, err->message);
    return 2;
}

static void wait_for_end_of_input(void)
{
    char ignored[64];
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        ;
}

/* ---- what all streams say ---- */

static void on_connection(void *user, const struct baton_error *err)
{
    char line[64];
    snprintf(line, sizeof line, "down %s", err ? err->reason : "");
    say(err ? line : "connected");
}

static void on_failed(void *user, const struct baton_error *err)
{
    printf("failed %s %s\n", err->reason, err->message);
    fflush(stdout);
}

static void on_progress(void *user, int64_t revision)
{
    printf("progress %" PRId64 "\n", revision);
    fflush(stdout);
}

static void say_event(const struct baton_event *e, int64_t revision, bool snapshot)
{
    const char *what = e->deleted ? "delete" : snapshot ? "key" : "put";
    printf("%s %" PRId64 " %.*s %.*s\n", what, revision, (int)e->kv.key.len,
           (const char *)e->kv.key.data, (int)e->kv.value.len, (const char *)e->kv.value.data);
}

/* ---- watch ---- */

static void on_changed(void *user, const struct baton_changes *c)
{
    if (c->restart)
        printf("restart %" PRId64 "\n", c->revision);
    for (size_t i = 0; i < c->count; i++)
        say_event(&c->events[i], c->revision, c->snapshot);
    if (!c->more)
        printf("whole %" PRId64 "\n", c->revision);
    fflush(stdout);
}

static int watch(struct baton_client *client, const char *from, const char *prefix)
{
    struct baton_error err;
    struct baton_watch *w;
    struct baton_bytes below = text(prefix);
    struct baton_watch_options options = {.prefixes = &below,
                                          .prefix_count = 1,
                                          .snapshot = !strcmp(from, "snapshot"),
                                          .start_revision = strtoll(from, NULL, 10),
                                          .changed = on_changed,
                                          .progress = on_progress,
                                          .connection = on_connection,
                                          .failed = on_failed};
    if (baton_watch_open(&w, client, &options, &err) != 0)
        return give_up("watch", &err);
    wait_for_end_of_input();
    baton_watch_close(w);
    return 0;
}

/* ---- subscribe ---- */

static void say_members(const struct baton_members *all)
{
    printf("member");
    for (size_t i = 0; i < all->count; i++)
        printf(" %s", all->members[i].id);
    printf("\n");
}

static void say_worker(const struct baton_worker_event *e)
{
    static const char *const states[] = {"unknown", "starting", "running", "expiring"};
    const struct baton_worker_info *w = &e->worker;
    printf("%s %" PRIu64 " %" PRIu64 " %s %s\n", e->gone ? "left" : "worker", w->id, w->incarnation,
           w->addr,
           e->expired ? "expired"
           : e->gone  ? "gone"
                      : states[w->state]);
}

static void on_notified(void *user, const struct baton_notification *n)
{
    if (n->restart)
        printf("restart %" PRId64 "\n", n->version);
    for (size_t i = 0; i < n->key_count; i++)
        say_event(&n->keys[i], n->version, n->snapshot);
    for (size_t i = 0; i < n->worker_count; i++)
        say_worker(&n->workers[i]);
    if (n->members)
        say_members(n->members);
    if (n->leader)
        printf("leader %s %" PRIu64 "\n", n->leader->id, n->leader->epoch);
    if (!n->more && (n->snapshot || n->key_count || n->worker_count))
        printf("whole %" PRId64 "\n", n->version);
    fflush(stdout);
}

static void on_rejected(void *user, uint64_t epoch, const struct baton_error *err)
{
    printf("rejected %" PRIu64 " %s\n", epoch, err->reason);
    fflush(stdout);
}

static int subscribe(struct baton_client *client, const char *kind, const char *prefix)
{
    struct baton_error err;
    struct baton_subscription *s;
    struct baton_bytes below = text(prefix);
    struct baton_subscribe_options options = {.kind = kind,
                                              .topics = BATON_MEMBERS | BATON_LEADERS |
                                                        BATON_WORKERS | BATON_KEYS,
                                              .prefixes = &below,
                                              .prefix_count = 1,
                                              .notified = on_notified,
                                              .progress = on_progress,
                                              .connection = on_connection,
                                              .failed = on_failed,
                                              .rejected = on_rejected};
    if (baton_subscribe(&s, client, &options, &err) != 0)
        return give_up("subscribe", &err);
    wait_for_end_of_input();
    baton_subscription_close(s);
    return 0;
}

/* ---- worker ---- */

#define WORKERS_MAX 1000

struct works {
    int number;
    struct baton_worker *worker;
};

static void on_run(void *user, const struct baton_worker_info *self)
{
    const struct works *w = user;
    printf("%d run %" PRIu64 " %" PRIu64 "\n", w->number, self->id, self->incarnation);
    fflush(stdout);
}

static void on_stop(void *user, enum baton_stop_reason reason)
{
    static const char *const reasons[] = {"lost-touch", "forgotten", "replaced", "closed"};
    const struct works *w = user;
    printf("%d stop %s %d\n", w->number, reasons[reason], baton_worker_may_work(w->worker));
    fflush(stdout);
}

static void on_wanted(void *user, bool cordoned, bool draining)
{
    const struct works *w = user;
    printf("%d wanted %d %d\n", w->number, cordoned, draining);
    fflush(stdout);
}

static void on_worker_failed(void *user, const struct baton_error *err)
{
    const struct works *w = user;
    printf("%d failed %s\n", w->number, err->reason);
    fflush(stdout);
}

static int work(struct baton_client *client, char **words, int count)
{
    static struct works all[WORKERS_MAX];
    struct baton_error err;
    const char *colon = strrchr(words[1], ':');
    for (int i = 0; colon && i < count && i < WORKERS_MAX; i++) {
        char addr[300];
        snprintf(addr, sizeof addr, "%.*s:%d", (int)(colon - words[1]), words[1],
                 (int)strtol(colon + 1, NULL, 10) + i);
        struct baton_worker_options options = {
            .spec = {.type = words[0], .addr = addr, .ttl_ms = strtoll(words[2], NULL, 10)},
            .run = on_run,
            .stop = on_stop,
            .wanted = on_wanted,
            .failed = on_worker_failed,
            .user = &all[i]};
        all[i].number = i;
        if (baton_worker_open(&all[i].worker, client, &options, &err) != 0)
            return give_up("worker", &err);
    }
    wait_for_end_of_input();
    for (int i = 0; i < WORKERS_MAX; i++)
        baton_worker_close(all[i].worker, 0);
    return 0;
}

static int run(struct baton_client *client, int argc, char **argv)
{
    if (argc >= 4 && !strcmp(argv[1], "watch"))
        return watch(client, argv[3], argc > 4 ? argv[4] : "");
    if (argc >= 4 && !strcmp(argv[1], "subscribe"))
        return subscribe(client, argv[3], argc > 4 ? argv[4] : "");
    if (argc >= 6 && !strcmp(argv[1], "worker"))
        return work(client, argv + 3, argc > 6 ? (int)strtol(argv[6], NULL, 10) : 1);
    fputs("usage: see the top of library_follow.c\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct baton_error err;
    struct baton_client *client;
    struct baton_options options = {.addresses = argc > 2 ? argv[2] : ""};
    if (baton_client_new(&client, &options, &err) != 0)
        return give_up("client", &err);
    int status = run(client, argc, argv);
    baton_client_free(client);
    return status;
}
