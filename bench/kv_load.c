/* A closed loop of puts or gets against Baton or etcd's own gRPC port, the same code for both, so
 * that the ratio between them is theirs and not the client's. Prints one line of JSON. */
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/options.h"
#include "common/base/rng.h"
#include "common/io/rpc_client.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 8, DEADLINE_MS = 15000, SAMPLES_MAX = 4000000, FILL_PUTS = 100 };

static const char *target, *addr, *op;
static int64_t in_flight, duration_ms, value_bytes, keys, ids;

static const struct option_row rows[] = {
    {.group = "Load",
     .name = "target",
     .kind = OPTION_CHOICE,
     .target = &target,
     .fallback = "baton",
     .choices = "baton|etcd",
     .value = "WHAT",
     .help = "Whose protocol."},
    {.name = "addr",
     .kind = OPTION_STRING,
     .target = &addr,
     .required = true,
     .value = "HOST:PORT",
     .help = "gRPC address."},
    {.name = "op",
     .kind = OPTION_CHOICE,
     .target = &op,
     .fallback = "put",
     .choices = "put|get|fill",
     .value = "OP",
     .help = "What to do; get reads keys that were put before, fill puts each key, 100 in a txn, "
             "and ends; at least 100 keys."},
    {.name = "in-flight",
     .kind = OPTION_INT,
     .target = &in_flight,
     .fallback = "1",
     .min = 1,
     .max = 10000,
     .value = "N",
     .help = "Calls at a time."},
    {.name = "duration",
     .kind = OPTION_DURATION,
     .target = &duration_ms,
     .fallback = "5s",
     .value = "TIME",
     .min = 100,
     .max = 600000,
     .help = "How long."},
    {.name = "value-size",
     .kind = OPTION_INT,
     .target = &value_bytes,
     .fallback = "64",
     .min = 0,
     .max = 1 << 20,
     .value = "BYTES",
     .help = "Of each value."},
    {.name = "keys",
     .kind = OPTION_INT,
     .target = &keys,
     .fallback = "10000",
     .min = 1,
     .max = 1 << 30,
     .value = "N",
     .help = "Keys to use, each in turn."},
    {.name = "request-ids",
     .kind = OPTION_INT,
     .target = &ids,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .value = "0|1",
     .help = "Give each put of baton a request id."},
};
static const struct option_set set = {.program = "kv-load",
                                      .usage = "--addr HOST:PORT [options]",
                                      .about = "Closed-loop load for bench/.",
                                      .rows = rows,
                                      .count = sizeof rows / sizeof rows[0]};

static struct rpc_channel *channels[CHANNELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static int64_t running, ops, errors, end_ms, next_key;
static uint32_t *samples;
static uint8_t *value;
static struct rng rng;
static char first_error[300];

struct slot {
    int64_t began_us;
    int channel;
};

static void varint(struct buf *b, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        buf_byte(b, (uint8_t)(n | 0x80));
    buf_byte(b, (uint8_t)n);
}

/* Key and value have the same field numbers in both protocols. */
static void field(struct buf *b, int number, struct bytes data)
{
    varint(b, (uint64_t)number << 3 | 2);
    varint(b, data.len);
    buf_bytes(b, data);
}

static bool is_op(const char *name)
{
    return !strcmp(op, name);
}

static const char *path(void)
{
    if (!strcmp(target, "etcd"))
        return is_op("fill")  ? "/etcdserverpb.KV/Txn"
               : is_op("put") ? "/etcdserverpb.KV/Put"
                              : "/etcdserverpb.KV/Range";
    return is_op("fill")  ? "/baton.v1.KvService/Txn"
           : is_op("put") ? "/baton.v1.KvService/Put"
                          : "/baton.v1.KvService/Get";
}

static void key_and_value(struct buf *b, int64_t number)
{
    char key[32];
    snprintf(key, sizeof key, "bench-%010lld", (long long)(number % keys));
    field(b, 1, bytes_str(key));
    if (!is_op("get"))
        field(b, 2, bytes_of(value, (size_t)value_bytes));
}

/* Puts without a comparison; the last ones may start again with the first keys. */
static void txn(struct buf *b, int64_t first)
{
    struct buf put = {0}, operation = {0};
    for (int64_t i = first; i < first + FILL_PUTS; i++) {
        buf_clear(&put);
        buf_clear(&operation);
        key_and_value(&put, i);
        field(&operation, 2, buf_view(&put));
        field(b, 2, buf_view(&operation));
    }
    buf_close(&put);
    buf_close(&operation);
}

/* The first number that a call starts with; the lock is held. */
static int64_t take_keys(void)
{
    int64_t first = next_key;
    next_key += is_op("fill") ? FILL_PUTS : 1;
    return first;
}

static bool is_over(void)
{
    if (!is_op("fill"))
        return clock_boot_ms() >= end_ms;
    pthread_mutex_lock(&lock);
    bool over = next_key >= keys;
    pthread_mutex_unlock(&lock);
    return over;
}

static void on_done(void *arg, const struct err *e, struct rpc_answer *answer);

static void start(struct slot *slot)
{
    char id[80];
    struct buf body = {0};
    struct rpc_metadata metadata = {.key = "baton-request-id"};
    pthread_mutex_lock(&lock); /* the first calls are started while others end already */
    int64_t first = take_keys();
    if (ids)
        rng_hex(&rng, id, 32);
    pthread_mutex_unlock(&lock);
    if (is_op("fill"))
        txn(&body, first);
    else
        key_and_value(&body, first);
    if (ids)
        metadata.value = bytes_str(id);
    slot->began_us = clock_mono_us();
    rpc_channel_start(channels[slot->channel], path(), buf_view(&body), &metadata, ids ? 1 : 0,
                      clock_boot_ms() + DEADLINE_MS, on_done, slot);
    buf_close(&body);
}

static void on_done(void *arg, const struct err *e, struct rpc_answer *answer)
{
    struct slot *slot = arg;
    if (err_is(e)) {
        if (!errors++)
            snprintf(first_error, sizeof first_error, "%s", e->message);
    } else {
        if (ops < SAMPLES_MAX)
            samples[ops] = (uint32_t)(clock_mono_us() - slot->began_us);
        ops++;
    }
    if (!is_over()) {
        start(slot);
        return;
    }
    pthread_mutex_lock(&lock);
    if (--running == 0)
        pthread_cond_signal(&finished);
    pthread_mutex_unlock(&lock);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_result(int64_t spent_us)
{
    size_t n = (size_t)(ops < SAMPLES_MAX ? ops : SAMPLES_MAX);
    qsort(samples, n, sizeof *samples, ascending);
    printf("{\"ops\":%lld,\"errors\":%lld,\"ops_per_s\":%.0f,\"p50_us\":%u,\"p99_us\":%u,"
           "\"max_us\":%u}\n",
           (long long)ops, (long long)errors, (double)ops * 1e6 / (double)spent_us,
           n ? samples[n / 2] : 0, n ? samples[n * 99 / 100] : 0, n ? samples[n - 1] : 0);
    if (errors)
        fprintf(stderr, "first error: %s\n", first_error);
}

int main(int argc, char **argv)
{
    enum option_show show = OPTION_SHOW_NOTHING;
    struct err e = options_parse(&set, &argc, argv, &show);
    if (err_is(&e)) {
        fprintf(stderr, "kv-load: %s\n", e.message);
        return 2;
    }
    if (show != OPTION_SHOW_NOTHING) {
        options_help(&set, stdout);
        return 0;
    }
    rng_seed_os(&rng);
    value = mem_alloc((size_t)value_bytes + 1);
    memset(value, 'v', (size_t)value_bytes);
    samples = mem_array(SAMPLES_MAX, sizeof *samples);
    for (int i = 0; i < CHANNELS; i++)
        channels[i] = rpc_channel_new(addr);
    struct slot *slots = mem_array((size_t)in_flight, sizeof *slots);
    int64_t began_us = clock_mono_us();
    end_ms = clock_boot_ms() + duration_ms;
    running = in_flight;
    for (int64_t i = 0; i < in_flight; i++) {
        slots[i].channel = (int)(i % CHANNELS);
        start(&slots[i]);
    }
    pthread_mutex_lock(&lock);
    while (running)
        pthread_cond_wait(&finished, &lock);
    pthread_mutex_unlock(&lock);
    print_result(clock_mono_us() - began_us);
    for (int i = 0; i < CHANNELS; i++)
        rpc_channel_free(channels[i]);
    free(slots);
    free(samples);
    free(value);
    return errors ? 1 : 0;
}
