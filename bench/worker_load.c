/* Registers many workers and sends their heartbeats, one an interval each, evenly spread. Prints
 * two lines of JSON: when all are registered, and what became of the heartbeats. */
#include "bench/h2_load.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/protowire.h"
#include <stdio.h>
#include <stdlib.h>

enum { REGISTERING_MAX = 256, STRAGGLERS_US = 10000000, WORKERS_A_HOST = 50000 };

static const char *addr, *mode;
static int64_t worker_count, connection_count, duration_ms, interval_ms, ttl_ms;

static const struct option_row rows[] = {
    {.group = "Load",
     .name = "addr",
     .kind = OPTION_STRING,
     .target = &addr,
     .required = true,
     .value = "HOST:PORT",
     .help = "gRPC address of the leader."},
    {.name = "mode",
     .kind = OPTION_CHOICE,
     .target = &mode,
     .fallback = "stream",
     .choices = "stream|unary",
     .value = "HOW",
     .help = "One HeartbeatStream a connection, or a Heartbeat call each time."},
    {.name = "workers",
     .kind = OPTION_INT,
     .target = &worker_count,
     .fallback = "1000",
     .min = 1,
     .max = 1000000,
     .value = "N",
     .help = "How many."},
    {.name = "connections",
     .kind = OPTION_INT,
     .target = &connection_count,
     .fallback = "8",
     .min = 1,
     .max = 200,
     .value = "N",
     .help = "That they share."},
    {.name = "duration",
     .kind = OPTION_DURATION,
     .target = &duration_ms,
     .fallback = "10s",
     .min = 1000,
     .max = 600000,
     .value = "TIME",
     .help = "For how long heartbeats are sent."},
    {.name = "interval",
     .kind = OPTION_DURATION,
     .target = &interval_ms,
     .fallback = "1s",
     .min = 10,
     .max = 600000,
     .value = "TIME",
     .help = "Between two heartbeats of a worker."},
    {.name = "ttl",
     .kind = OPTION_DURATION,
     .target = &ttl_ms,
     .fallback = "5m",
     .min = 1000,
     .max = 3600000,
     .value = "TIME",
     .help = "Of each worker."},
};
static const struct option_set set = {.program = "worker-load",
                                      .usage = "--addr HOST:PORT [options]",
                                      .about = "Heartbeats of many workers, for bench/.",
                                      .rows = rows,
                                      .count = sizeof rows / sizeof rows[0]};

struct worker {
    struct h2_load_call call; /* of a registration, or of a unary heartbeat */
    uint64_t id, incarnation;
    int64_t sent_us; /* of the heartbeat that is not answered yet; 0: none is */
    bool added, active;
};

static struct h2_load_conn **conns;
static struct h2_load_call *streams; /* one for each connection */
static struct worker *workers, **by_id;
static uint64_t ids_end;
static int64_t registering, active, sent, answered, refused, late;
static uint32_t *samples;

static struct h2_load_conn *conn_of(const struct worker *w)
{
    return conns[(w - workers) % connection_count];
}

static void heartbeat_encode(struct buf *b, const struct worker *w)
{
    h2_load_number(b, 1, w->id);
    h2_load_number(b, 2, w->incarnation);
}

/* ---- registering ---- */

static void on_registered(struct h2_load_call *call, struct bytes message)
{
    struct worker *w = (struct worker *)call;
    struct protowire answer = {.in = message};
    struct protowire_field f;
    while (protowire_next(&answer, &f)) {
        struct protowire worker = {.in = f.bytes};
        while (f.number == 2 && protowire_next(&worker, &f)) {
            if (f.number == 1)
                w->id = f.value;
            if (f.number == 2)
                w->incarnation = f.value;
            f.number = 2;
        }
    }
}

static void on_step_ended(struct h2_load_call *call)
{
    struct worker *w = (struct worker *)call;
    if (call->status != 0 || !w->id)
        h2_load_fail("a worker is not taken: status %d, %s", call->status, call->told);
    if (w->added) {
        w->active = true;
        registering--;
        active++;
        return;
    }
    w->added = true;
    struct buf b = {0};
    heartbeat_encode(&b, w);
    h2_load_start(conn_of(w), call, "/baton.v1.ClusterService/ActivateWorker", buf_view(&b), false);
    buf_close(&b);
}

static void add(struct worker *w)
{
    char name[64];
    long n = w - workers;
    snprintf(name, sizeof name, "10.0.0.%ld:%ld", n / WORKERS_A_HOST, 1 + n % WORKERS_A_HOST);
    struct buf b = {0};
    h2_load_field(&b, 1, bytes_str("bench"));
    h2_load_field(&b, 2, bytes_str(name));
    h2_load_number(&b, 6, (uint64_t)ttl_ms);
    w->call = (struct h2_load_call){.answered = on_registered, .ended = on_step_ended};
    h2_load_start(conn_of(w), &w->call, "/baton.v1.ClusterService/AddWorker", buf_view(&b), false);
    buf_close(&b);
    registering++;
}

static void register_all(void)
{
    int64_t began_us = clock_mono_us();
    for (int64_t next = 0; active < worker_count;) {
        while (next < worker_count && registering < REGISTERING_MAX)
            add(&workers[next++]);
        h2_load_run(conns, (size_t)connection_count, 1000);
    }
    for (int64_t i = 0; i < worker_count; i++)
        ids_end = workers[i].id >= ids_end ? workers[i].id + 1 : ids_end;
    by_id = mem_array(ids_end, sizeof *by_id);
    for (int64_t i = 0; i < worker_count; i++)
        by_id[workers[i].id] = &workers[i];
    printf("{\"registered\":%lld,\"seconds\":%.2f}\n", (long long)active,
           (double)(clock_mono_us() - began_us) / 1e6);
    fflush(stdout);
}

/* ---- heartbeats ---- */

static void on_beat(struct h2_load_call *call, struct bytes message)
{
    uint64_t id = 0;
    struct protowire answer = {.in = message};
    struct protowire_field f;
    while (protowire_next(&answer, &f)) {
        if (f.number == 1)
            id = f.value;
        if (f.number == 5 && f.bytes.len)
            refused++;
    }
    if (id >= ids_end || !by_id[id] || !by_id[id]->sent_us)
        h2_load_fail("an answer for worker %llu, which did not ask", (unsigned long long)id);
    samples[answered++] = (uint32_t)(clock_mono_us() - by_id[id]->sent_us);
    by_id[id]->sent_us = 0;
}

static void on_beat_ended(struct h2_load_call *call)
{
    if (call->status != 0)
        h2_load_fail("heartbeats: status %d, %s", call->status, call->told);
}

static void send_unary(struct worker *w, struct bytes request)
{
    w->call = (struct h2_load_call){.answered = on_beat, .ended = on_beat_ended};
    h2_load_start(conn_of(w), &w->call, "/baton.v1.ClusterService/Heartbeat", request, false);
}

static void send_streamed(struct worker *w, struct bytes request)
{
    struct h2_load_call *stream = &streams[(w - workers) % connection_count];
    if (stream->conn) {
        h2_load_send(stream, request);
        return;
    }
    *stream = (struct h2_load_call){.answered = on_beat, .ended = on_beat_ended};
    h2_load_start(conn_of(w), stream, "/baton.v1.ClusterService/HeartbeatStream", request, true);
}

static void beat(struct worker *w)
{
    if (w->sent_us || (w->call.stream && !strcmp(mode, "unary"))) {
        late++; /* the one before is not answered yet */
        return;
    }
    struct buf b = {0};
    heartbeat_encode(&b, w);
    w->sent_us = clock_mono_us();
    sent++;
    if (!strcmp(mode, "unary"))
        send_unary(w, buf_view(&b));
    else
        send_streamed(w, buf_view(&b));
    buf_close(&b);
}

static void beat_all(void)
{
    int64_t total = worker_count * duration_ms / interval_ms, began_us = clock_mono_us();
    samples = mem_array((size_t)total, sizeof *samples);
    for (int64_t next = 0; next < total;) {
        int64_t due = (clock_mono_us() - began_us) * worker_count / (interval_ms * 1000);
        for (; next < total && next <= due; next++)
            beat(&workers[next % worker_count]);
        h2_load_run(conns, (size_t)connection_count, 1);
    }
    int64_t over_us = clock_mono_us();
    while (answered < sent && clock_mono_us() < over_us + STRAGGLERS_US)
        h2_load_run(conns, (size_t)connection_count, 10);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_result(void)
{
    qsort(samples, (size_t)answered, sizeof *samples, ascending);
    printf("{\"sent\":%lld,\"answered\":%lld,\"refused\":%lld,\"late\":%lld,\"p50_us\":%u,"
           "\"p99_us\":%u}\n",
           (long long)sent, (long long)answered, (long long)refused, (long long)late,
           answered ? samples[answered / 2] : 0, answered ? samples[answered * 99 / 100] : 0);
}

int main(int argc, char **argv)
{
    h2_load_options(&set, argc, argv);
    conns = mem_array((size_t)connection_count, sizeof(struct h2_load_conn *));
    streams = mem_array((size_t)connection_count, sizeof *streams);
    workers = mem_array((size_t)worker_count, sizeof *workers);
    for (int64_t i = 0; i < connection_count; i++)
        conns[i] = h2_load_open(addr);
    register_all();
    beat_all();
    print_result();
    for (int64_t i = 0; i < connection_count; i++)
        h2_load_close(conns[i]);
    free(conns);
    free(streams);
    free(workers);
    free(by_id);
    free(samples);
    return refused || answered < sent ? 1 : 0;
}
