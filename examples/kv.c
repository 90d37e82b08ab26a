/* Keys and values: a greeting, and a number that counts right through failovers.
 *
 *     cc kv.c $(pkg-config --cflags --libs baton) -o kv
 *     ./kv 127.0.0.1:5680 100
 *
 * The address is a proxy's, or those of several members: "host:port,host:port,host:port". */
#include <baton/baton.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct baton_bytes text(const char *s)
{
    return (struct baton_bytes){.data = s, .len = strlen(s)};
}

static int fail(const char *what, const struct baton_error *err)
{
    fprintf(stderr, "%s: %s (%s)\n", what, err->message, err->reason);
    if (err->hint[0])
        fprintf(stderr, "  %s\n", err->hint);
    return -1;
}

static int greet(struct baton_client *client)
{
    struct baton_error err;
    struct baton_kvs *got; /* a result: freed when we are done with what it shows */
    if (baton_put(client, NULL, text("example/greeting"), text("hello"), NULL, &err) != 0)
        return fail("put", &err);
    if (baton_get(client, NULL, text("example/greeting"), NULL, &got, &err) != 0)
        return fail("get", &err);
    if (got->kv_count) /* none: there is no such key */
        printf("%.*s, at revision %lld\n", (int)got->kvs[0].value.len,
               (const char *)got->kvs[0].value.data, (long long)got->revision);
    baton_result_free(got);
    return 0;
}

/* Reads the number and writes the next one, if nobody else did so in between: two programs can
 * count with one key. That a failover comes in between shows nowhere but in the time it takes: the
 * call is sent again inside, with the same request id, and takes effect once. */
static int add_one(struct baton_client *client, long *now)
{
    struct baton_error err;
    for (;;) {
        struct baton_kvs *seen;
        struct baton_txn_result *done;
        char next[32];
        if (baton_get(client, NULL, text("example/count"), NULL, &seen, &err) != 0)
            return fail("get", &err);
        long before = seen->kv_count ? strtol(seen->kvs[0].value.data, NULL, 10) : 0;
        snprintf(next, sizeof next, "%ld", before + 1);

        /* A key that is not there has mod_revision 0. */
        struct baton_compare unchanged = {
            .key = text("example/count"),
            .target = BATON_TARGET_MOD_REVISION,
            .relation = BATON_EQUAL,
            .number = seen->kv_count ? seen->kvs[0].mod_revision : 0,
        };
        struct baton_op write = {
            .kind = BATON_OP_PUT, .key = text("example/count"), .value = text(next)};
        struct baton_txn txn = {
            .compares = &unchanged, .compare_count = 1, .then_ops = &write, .then_count = 1};
        baton_result_free(seen);
        if (baton_txn(client, NULL, &txn, &done, &err) != 0)
            return fail("txn", &err);
        bool won = done->succeeded;
        baton_result_free(done);
        if (won) {
            *now = before + 1;
            return 0;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: kv ADDRESS[,ADDRESS...] HOW-OFTEN\n", stderr);
        return 2;
    }
    struct baton_error err;
    struct baton_client *client;
    struct baton_options options = {.addresses = argv[1]};
    if (baton_client_new(&client, &options, &err) != 0) {
        fail("client", &err);
        return 1;
    }
    int status = greet(client);
    long now = 0, times = strtol(argv[2], NULL, 10);
    for (long i = 0; i < times && status == 0; i++)
        status = add_one(client, &now);
    if (status == 0)
        printf("counted to %ld\n", now);
    baton_client_free(client);
    return status == 0 ? 0 : 1;
}
