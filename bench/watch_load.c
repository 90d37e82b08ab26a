/* Many watchers of one prefix, and puts of one key below it, one after another: how long until each
 * watcher had heard of a put. Prints two lines of JSON: when all watch, and the times. */
#include "bench/h2_load.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/protowire.h"
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_US = 60000000, PROGRESS = 2, SNAPSHOT = 1 };

static const char *addr;
static int64_t watcher_count, stalled_count, connection_count, put_count, value_bytes;

static const struct option_row rows[] = {
    {.group = "Load",
     .name = "addr",
     .kind = OPTION_STRING,
     .target = &addr,
     .required = true,
     .value = "HOST:PORT",
     .help = "gRPC address of the leader."},
    {.name = "watchers",
     .kind = OPTION_INT,
     .target = &watcher_count,
     .fallback = "1000",
     .min = 1,
     .max = 1000000,
     .value = "N",
     .help = "Streams, each of which hears of every put."},
    {.name = "stalled",
     .kind = OPTION_INT,
     .target = &stalled_count,
     .fallback = "0",
     .min = 0,
     .max = 10000,
     .value = "N",
     .help =
         "Further streams, on a connection of their own, that are not read once they are open."},
    {.name = "connections",
     .kind = OPTION_INT,
     .target = &connection_count,
     .fallback = "8",
     .min = 1,
     .max = 200,
     .value = "N",
     .help = "That they share; the puts have one of their own."},
    {.name = "puts",
     .kind = OPTION_INT,
     .target = &put_count,
     .fallback = "100",
     .min = 1,
     .max = 100000,
     .value = "N",
     .help = "One after another, each when all have heard of the one before."},
    {.name = "value-size",
     .kind = OPTION_INT,
     .target = &value_bytes,
     .fallback = "64",
     .min = 0,
     .max = 1 << 20,
     .value = "BYTES",
     .help = "Of each put."},
};
static const struct option_set set = {.program = "watch-load",
                                      .usage = "--addr HOST:PORT [options]",
                                      .about = "One writer and many watchers, for bench/.",
                                      .rows = rows,
                                      .count = sizeof rows / sizeof rows[0]};

struct watcher {
    struct h2_load_call call;
    bool ready;       /* has its snapshot */
    int64_t revision; /* of the last change */
};

static struct h2_load_conn *
    *conns;                      /* the last but one is the writer's, the last the stalled ones' */
static struct watcher *watchers; /* the stalled ones behind the others */
static int64_t conns_read;       /* the first so many */
static struct h2_load_call put;
static int64_t ready, heard, put_began_us, put_answered_us;
static int64_t put_revision;
static uint32_t *deliveries; /* of the put under way, by order of arrival */

static void run(int64_t deadline_us, const char *what)
{
    h2_load_run(conns, (size_t)conns_read, 100);
    if (clock_mono_us() > deadline_us)
        h2_load_fail("%s: only %lld of %lld", what, (long long)(heard ? heard : ready),
                     (long long)watcher_count);
}

static void on_told(struct h2_load_call *call, struct bytes message)
{
    struct watcher *w = (struct watcher *)call;
    struct protowire told = {.in = message};
    struct protowire_field f;
    uint64_t kind = 0, revision = 0;
    while (protowire_next(&told, &f)) {
        if (f.number == 1)
            kind = f.value;
        if (f.number == 2)
            revision = f.value;
    }
    if (kind == SNAPSHOT && !w->ready) {
        w->ready = true;
        ready++;
    }
    if (kind == SNAPSHOT || kind == PROGRESS)
        return;
    if (heard == watcher_count || (int64_t)revision <= w->revision)
        h2_load_fail("a watcher was told twice, of revision %llu", (unsigned long long)revision);
    w->revision = (int64_t)revision;
    deliveries[heard++] = (uint32_t)(clock_mono_us() - put_began_us);
}

static void on_watch_ended(struct h2_load_call *call)
{
    h2_load_fail("a watch ended: status %d, %s", call->status, call->told);
}

static void open_all(void)
{
    int64_t began_us = clock_mono_us();
    struct buf b = {0};
    h2_load_field(&b, 1, bytes_str("bench-watched/"));
    h2_load_number(&b, 4, 1);
    int64_t all = watcher_count + stalled_count;
    for (int64_t i = 0; i < all; i++) {
        watchers[i].call = (struct h2_load_call){.answered = on_told, .ended = on_watch_ended};
        h2_load_start(conns[i < watcher_count ? i % connection_count : connection_count + 1],
                      &watchers[i].call, "/baton.v1.KvService/Watch", buf_view(&b), false);
    }
    buf_close(&b);
    for (conns_read = connection_count + 2; ready < all;)
        run(began_us + PATIENCE_US, "watchers with a snapshot");
    conns_read = connection_count + 1;
    printf("{\"watching\":%lld,\"seconds\":%.2f}\n", (long long)ready,
           (double)(clock_mono_us() - began_us) / 1e6);
    fflush(stdout);
}

static void on_put_answered(struct h2_load_call *call, struct bytes message)
{
    struct protowire answer = {.in = message};
    struct protowire_field f;
    while (protowire_next(&answer, &f)) {
        if (f.number == 1)
            put_revision = (int64_t)f.value;
    }
    put_answered_us = clock_mono_us();
}

static void on_put_ended(struct h2_load_call *call)
{
    if (call->status != 0)
        h2_load_fail("the put failed: status %d, %s", call->status, call->told);
}

static void check_revisions(void)
{
    for (int64_t i = 0; i < watcher_count; i++) {
        if (watchers[i].revision != put_revision)
            h2_load_fail("watcher %lld heard of revision %lld, not of %lld", (long long)i,
                         (long long)watchers[i].revision, (long long)put_revision);
    }
}

/* One put, until every watcher has heard of it and its caller is answered. */
static void put_once(struct bytes value, int64_t number)
{
    struct buf b = {0};
    h2_load_field(&b, 1, bytes_str("bench-watched/key"));
    h2_load_field(&b, 2, value);
    put = (struct h2_load_call){.answered = on_put_answered, .ended = on_put_ended};
    heard = 0;
    put_answered_us = 0;
    put_began_us = clock_mono_us();
    h2_load_start(conns[connection_count], &put, "/baton.v1.KvService/Put", buf_view(&b), false);
    buf_close(&b);
    while (heard < watcher_count || !put_answered_us || put.stream)
        run(put_began_us + PATIENCE_US, "watchers that heard of a put");
    check_revisions();
    printf("%s[%lld,%u,%u,%u]", number ? "," : "", (long long)(put_answered_us - put_began_us),
           deliveries[0], deliveries[watcher_count / 2], deliveries[watcher_count - 1]);
}

static void put_all(void)
{
    uint8_t *value = mem_alloc((size_t)value_bytes + 1);
    memset(value, 'v', (size_t)value_bytes);
    printf("{\"columns\":[\"answered\",\"first\",\"median\",\"last\"],\"us\":[");
    for (int64_t i = 0; i < put_count; i++)
        put_once(bytes_of(value, (size_t)value_bytes), i);
    printf("]}\n");
    free(value);
}

int main(int argc, char **argv)
{
    h2_load_options(&set, argc, argv);
    conns = mem_array((size_t)connection_count + 2, sizeof(struct h2_load_conn *));
    watchers = mem_array((size_t)(watcher_count + stalled_count), sizeof *watchers);
    deliveries = mem_array((size_t)watcher_count, sizeof *deliveries);
    for (int64_t i = 0; i < connection_count + 2; i++)
        conns[i] = h2_load_open(addr);
    open_all();
    put_all();
    for (int64_t i = 0; i < connection_count + 2; i++)
        h2_load_close(conns[i]);
    free(conns);
    free(watchers);
    free(deliveries);
    return 0;
}
