/* Follows the keys below a prefix, through failovers: prints what is there, then each change.
 *
 *     cc follow.c $(pkg-config --cflags --libs baton) -o follow
 *     ./follow 127.0.0.1:5680 config/
 *
 * Ends with its input (^D). */
#include <baton/baton.h>
#include <stdio.h>
#include <string.h>

/* Called by one thread, never twice at a time. What it is shown is valid until it returns. */
static void changed(void *user, const struct baton_changes *c)
{
    (void)user;
    if (c->restart) /* what was known before may be wrong: the whole state follows */
        printf("-- the state at revision %lld\n", (long long)c->revision);
    for (size_t i = 0; i < c->count; i++) {
        const struct baton_event *e = &c->events[i];
        printf("%s %.*s", e->deleted ? "gone" : "set ", (int)e->kv.key.len,
               (const char *)e->kv.key.data);
        printf(e->deleted ? "\n" : " = %.*s\n", (int)e->kv.value.len,
               (const char *)e->kv.value.data);
    }
    /* A commit is told in one call, but for a very large one. A program that wants to go on from
     * here after its own restart stores c->token now, together with what it made of the changes. */
    if (!c->more)
        printf("-- all up to revision %lld\n", (long long)c->revision);
    fflush(stdout);
}

/* For people: nothing is to be done, the library goes on by itself. */
static void connection(void *user, const struct baton_error *err)
{
    (void)user;
    if (err)
        fprintf(stderr, "connecting again: %s (%s)\n", err->message, err->reason);
    else
        fprintf(stderr, "connected\n");
}

static void failed(void *user, const struct baton_error *err)
{
    (void)user;
    fprintf(stderr, "cannot be watched: %s (%s)\n", err->message, err->reason);
}

static int follow(struct baton_client *client, const char *prefix)
{
    struct baton_error err;
    struct baton_watch *watch;
    struct baton_bytes below = {prefix, strlen(prefix)};
    struct baton_watch_options options = {
        .prefixes = &below,
        .prefix_count = 1,
        .snapshot = true,
        .changed = changed,
        .connection = connection,
        .failed = failed,
    };
    if (baton_watch_open(&watch, client, &options, &err) != 0) {
        fprintf(stderr, "watch: %s (%s)\n", err.message, err.reason);
        return 1;
    }
    while (getchar() != EOF)
        ;
    baton_watch_close(watch);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s ADDRESSES PREFIX\n", argv[0]);
        return 2;
    }
    struct baton_error err;
    struct baton_client *client;
    struct baton_options options = {.addresses = argv[1]};
    if (baton_client_new(&client, &options, &err) != 0) {
        fprintf(stderr, "%s (%s)\n", err.message, err.reason);
        return 1;
    }
    int status = follow(client, argv[2]);
    baton_client_free(client);
    return status;
}
