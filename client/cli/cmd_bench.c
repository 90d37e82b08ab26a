/* bench. */
#include "client/cli/bench.h"
#include "client/cli/output.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct bench_config config;
static int64_t concurrency, connections, attempts, value_bytes;
static bool no_request_ids;
static volatile bool interrupted;

static const struct option_row bench_rows[] = {
    {.group = "Options of bench",
     .name = "concurrency",
     .kind = OPTION_INT,
     .target = &concurrency,
     .fallback = "64",
     .value = "N",
     .min = 1,
     .max = 100000,
     .help = "Operations in flight."},
    {.name = "duration",
     .kind = OPTION_DURATION,
     .target = &config.duration_ms,
     .fallback = "10s",
     .value = "TIME",
     .min = 1,
     .max = 86400000,
     .help = "How long operations are begun."},
    {.name = "connections",
     .kind = OPTION_INT,
     .target = &connections,
     .fallback = "4",
     .value = "N",
     .min = 1,
     .max = 1000,
     .help = "HTTP/2 connections that share them."},
    {.name = "attempts",
     .kind = OPTION_INT,
     .target = &attempts,
     .fallback = "1",
     .value = "N",
     .min = 1,
     .max = 1000,
     .help = "Attempts of an operation before it counts as an error; 1 hides nothing."},
    {.name = "value-size",
     .kind = OPTION_BYTES,
     .target = &value_bytes,
     .fallback = "64",
     .value = "BYTES",
     .min = 0,
     .max = 1 << 20,
     .help = "Of a put."},
    {.name = "keys",
     .kind = OPTION_INT,
     .target = &config.keys,
     .fallback = "10000",
     .value = "N",
     .min = 1,
     .max = 100000000,
     .help = "Keys bench/00000000 and on, chosen at random."},
    {.name = "no-request-ids",
     .kind = OPTION_FLAG,
     .target = &no_request_ids,
     .help = "Puts without an id of their own (a proxy adds one)."},
};

static void on_interrupt(int signal_number)
{
    interrupted = true;
}

static void watch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static struct json_object *result_json(const struct bench_result *r)
{
    struct json_object *o = json_object_new_object(), *errors = json_object_new_array();
    double seconds = (double)r->elapsed_us / 1e6;
    output_add_number(o, "ops", (int64_t)r->ops);
    output_add_number(o, "errors", (int64_t)r->errors);
    output_add_number(o, "attempts", (int64_t)r->attempts);
    output_add_number(o, "ops_per_s", (int64_t)((double)r->ops / seconds + 0.5));
    output_add_number(o, "p50_us", latency_quantile(&r->latency, 0.5));
    output_add_number(o, "p99_us", latency_quantile(&r->latency, 0.99));
    output_add_number(o, "max_us", r->latency.max_us);
    output_add_number(o, "longest_gap_us", r->longest_gap_us);
    output_add_number(o, "elapsed_ms", r->elapsed_us / 1000);
    for (int i = 0; i < r->shown; i++)
        json_object_array_add(errors, json_object_new_string(r->first_errors[i]));
    json_object_object_add(o, "first_errors", errors);
    return o;
}

static void print_errors(const struct bench_result *r)
{
    for (int i = 0; i < r->shown; i++)
        fprintf(stderr, "batonctl: %s\n", r->first_errors[i]);
}

static bool read_mix(const char *word)
{
    static const char *const words[] = {
        [BENCH_GET] = "get", [BENCH_PUT] = "put", [BENCH_MIXED] = "mixed"};
    for (int i = BENCH_GET; i <= BENCH_MIXED; i++)
        if (!strcmp(word, words[i])) {
            config.mix = (enum bench_mix)i;
            return true;
        }
    return false;
}

static int run_bench(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"operations", "ops", COLUMN_PLAIN},     {"errors", "errors", COLUMN_PLAIN},
        {"attempts", "attempts", COLUMN_PLAIN},  {"operations/s", "ops_per_s", COLUMN_PLAIN},
        {"p50 us", "p50_us", COLUMN_PLAIN},      {"p99 us", "p99_us", COLUMN_PLAIN},
        {"max us", "max_us", COLUMN_PLAIN},      {"longest gap us", "longest_gap_us", COLUMN_PLAIN},
        {"took ms", "elapsed_ms", COLUMN_PLAIN},
    };
    static struct bench_result result;
    struct err e = OK_ERR;
    if (!read_mix(words[0]))
        e = err_make(ERR_USAGE, "bench '%s': get, put or mixed is wanted", words[0]);
    config.addresses = cli->addresses;
    config.concurrency = (int)concurrency;
    config.channels = (int)connections;
    config.attempts_max = (int)attempts;
    config.value_bytes = (size_t)value_bytes;
    config.timeout_ms = cli->timeout_ms;
    config.request_ids = !no_request_ids;
    config.progress = isatty(STDERR_FILENO);
    config.stop = &interrupted;
    watch_interrupts();
    if (!err_is(&e))
        e = bench_run(&config, &result);
    if (err_is(&e))
        return cli_fail(&e);
    output_object(cli, result_json(&result), columns, sizeof columns / sizeof *columns);
    print_errors(&result);
    return result.ops > 0 ? EXIT_OK : EXIT_UNAVAILABLE;
}

const struct command command_bench = {.name = "bench",
                                      .words = "get|put|mixed",
                                      .min_words = 1,
                                      .max_words = 1,
                                      .about = "Load the service and measure it.",
                                      .footer =
                                          "A closed loop: --concurrency operations are in flight "
                                          "until --duration is over; an operation that failed\n"
                                          "rests 10 ms before the next one of its place. Latencies "
                                          "are of operations that succeeded; the longest gap\n"
                                          "is that between two successes, the start and the end "
                                          "included. An interrupt prints what there is so far.\n"
                                          "JSON: ops, errors, attempts, ops_per_s, p50_us, p99_us, "
                                          "max_us, longest_gap_us, elapsed_ms, first_errors.\n"
                                          "Exit code 4 when nothing succeeded.",
                                      .rows = bench_rows,
                                      .row_count = sizeof bench_rows / sizeof *bench_rows,
                                      .run = run_bench};
