/* worker add, heartbeat: a worker by hand. */
#include "client/cli/cmd_worker_run.h"
#include "client/cli/interrupt.h"
#include "client/cli/worker_output.h"
#include "common/base/clock.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- heartbeat ---- */

static bool beat_once;

static const struct option_row heartbeat_rows[] = {
    {.group = "Options of worker heartbeat",
     .name = "once",
     .kind = OPTION_FLAG,
     .target = &beat_once,
     .help = "Send one, and end."},
};

static void print_beat(const struct cli *cli, uint64_t id, const struct baton_worker_beat *beat)
{
    if (cli_json(cli)) {
        struct json_object *o = json_object_new_object();
        output_add_number(o, "id", (int64_t)id);
        output_add_number(o, "ttl_ms", beat->ttl_ms);
        output_add_flag(o, "cordoned", beat->cordoned);
        output_add_flag(o, "draining", beat->draining);
        output_json(o);
    } else {
        printf("worker %" PRIu64 " lives, for %.1f s from each heartbeat%s\n", id,
               (double)beat->ttl_ms / 1000,
               beat->draining   ? "; it is to give back its work"
               : beat->cordoned ? "; it gets no new work"
                                : "");
    }
    fflush(stdout);
}

/* May the next heartbeat do better? Those that say that the worker is gone are the last. */
static bool may_pass(const struct baton_error *err)
{
    return err->status == BATON_UNAVAILABLE || err->status == BATON_DEADLINE_EXCEEDED;
}

#define TRY_MS 1000

/* Heartbeats until it is interrupted; calls are short, so that an interrupt is heeded soon. */
static int keep_alive(struct cli *cli, uint64_t id, uint64_t incarnation)
{
    struct baton_call brief = {.timeout_ms = TRY_MS};
    struct baton_worker_beat shown = {0};
    bool troubled = false;
    for (int64_t pause_ms = 0; !interrupt_wait(pause_ms);) {
        struct baton_worker_beat beat;
        struct baton_error err;
        bool ok = baton_worker_heartbeat(cli->api, &brief, id, incarnation, &beat, &err) == 0;
        if (!ok && !may_pass(&err))
            return cli_fail_api(&err);
        if (!ok && !troubled)
            fprintf(stderr, "batonctl: not heard: %s; going on\n", err.message);
        troubled = !ok;
        bool news = ok && (beat.ttl_ms != shown.ttl_ms || beat.cordoned != shown.cordoned ||
                           beat.draining != shown.draining);
        if (news)
            print_beat(cli, id, &beat);
        if (ok)
            shown = beat;
        pause_ms = ok ? beat.ttl_ms / 4 : 100;
    }
    return EXIT_OK;
}

static int beat(struct cli *cli, uint64_t id, uint64_t incarnation)
{
    struct baton_worker_beat beat;
    struct baton_error err;
    if (baton_worker_heartbeat(cli->api, NULL, id, incarnation, &beat, &err) != 0)
        return cli_fail_api(&err);
    print_beat(cli, id, &beat);
    return EXIT_OK;
}

static int run_heartbeat(struct cli *cli, char **words, int count)
{
    uint64_t id, incarnation = 0;
    struct err e = worker_parse_number("worker id", words[0], &id);
    if (!err_is(&e))
        e = worker_parse_number("incarnation", words[1], &incarnation);
    if (err_is(&e))
        return cli_fail(&e);
    if (beat_once)
        return beat(cli, id, incarnation);
    interrupt_begin();
    return keep_alive(cli, id, incarnation);
}

const struct command command_worker_heartbeat = {
    .name = "worker heartbeat",
    .words = "ID INCARNATION",
    .min_words = 2,
    .max_words = 2,
    .about = "Keep a worker alive until interrupted.",
    .footer =
        "A heartbeat each quarter of its TTL, over failovers; prints the first answer, and each "
        "that says something new. JSON:\n"
        "an object a line: id, ttl_ms, cordoned, draining. Exit code 0 when interrupted, 3 when "
        "the worker is unknown (expired\n"
        "or deleted), 1 when another process has registered its address since.",
    .rows = heartbeat_rows,
    .row_count = 1,
    .run = run_heartbeat};

/* ---- add ---- */

static const char *add_labels, *add_resources;
static bool add_slot, add_run;
static int64_t add_ttl_ms;

static const struct option_row add_rows[] = {
    {.group = "Options of worker add",
     .name = "labels",
     .kind = OPTION_STRING,
     .target = &add_labels,
     .fallback = "",
     .value = "NAME=VALUE[,...]",
     .help = "Its labels."},
    {.name = "resources",
     .kind = OPTION_STRING,
     .target = &add_resources,
     .fallback = "",
     .value = "NAME=AMOUNT[,...]",
     .help = "What it has, in units of the cluster's own."},
    {.name = "slot",
     .kind = OPTION_FLAG,
     .target = &add_slot,
     .help = "It wants a slot: the lowest number that no other worker of its type holds."},
    {.name = "ttl",
     .kind = OPTION_DURATION,
     .target = &add_ttl_ms,
     .fallback = "0s",
     .value = "TIME",
     .min = 0,
     .max = 3600000,
     .help = "How long it may be silent; 0: the members' --worker-ttl."},
    {.name = "run",
     .kind = OPTION_FLAG,
     .target = &add_run,
     .help = "Be that worker: register, activate, send heartbeats, until interrupted."},
};

static int run_add(struct cli *cli, char **words, int count)
{
    struct baton_label *labels;
    struct baton_resource *resources;
    struct baton_workers *added;
    struct baton_error err;
    struct baton_worker_spec spec = {
        .type = words[0], .addr = words[1], .slot = add_slot, .ttl_ms = add_ttl_ms};
    struct err e = worker_parse_labels(add_labels, &cli->memory, &labels, &spec.label_count);
    if (!err_is(&e))
        e = worker_parse_resources(add_resources, &cli->memory, &resources, &spec.resource_count);
    if (err_is(&e))
        return cli_fail(&e);
    spec.labels = labels;
    spec.resources = resources;
    if (add_run)
        return worker_run(cli, &spec);
    if (baton_worker_add(cli->api, NULL, &spec, &added, &err) != 0)
        return cli_fail_api(&err);
    return worker_print(cli, added);
}

const struct command command_worker_add = {
    .name = "worker add",
    .words = "TYPE ADDR",
    .min_words = 2,
    .max_words = 2,
    .about = "Register a worker, in state starting; or be one (--run).",
    .footer =
        "An address that registers again keeps its id, slot and marks, and gets a new incarnation; "
        "the old one is refused from\n"
        "then on. Prints the worker; JSON: as of worker list, and revision.\n"
        "With --run a line for each event: run (as which worker), stop (why: lost-touch, "
        "forgotten, replaced, closed), wanted (what\n"
        "operators want of it); JSON: event, and worker, reason, or cordoned and draining. "
        "Interrupted it leaves the cluster, exit\n"
        "code 0; 1 when another process has registered its address.",
    .rows = add_rows,
    .row_count = sizeof add_rows / sizeof *add_rows,
    .run = run_add};
