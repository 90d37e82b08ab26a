/* kv watch. */
#include "client/cli/interrupt.h"
#include "client/cli/watch_output.h"
#include "common/base/clock.h"
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

static int64_t watch_from, watch_count;
static const char *watch_token;
static bool watch_snapshot;

static const struct option_row watch_rows[] = {
    {.group = "Options of kv watch",
     .name = "from",
     .kind = OPTION_INT,
     .target = &watch_from,
     .fallback = "0",
     .value = "REVISION",
     .min = 0,
     .max = INT64_MAX,
     .help = "Changes from this revision on; 0: from now on."},
    {.name = "token",
     .kind = OPTION_STRING,
     .target = &watch_token,
     .fallback = "",
     .value = "TOKEN",
     .help = "Changes behind the line that had this token (-o json)."},
    {.name = "snapshot",
     .kind = OPTION_FLAG,
     .target = &watch_snapshot,
     .help = "With neither: what exists first, then the changes."},
    {.name = "count",
     .kind = OPTION_INT,
     .target = &watch_count,
     .fallback = "0",
     .value = "N",
     .min = 0,
     .max = INT64_MAX,
     .help = "End after so many events; 0: when interrupted."},
};

/* Callbacks run on the thread of the stream; the main thread waits until it is over. */
struct watching {
    bool json;
    size_t left;            /* events */
    _Atomic bool connected; /* at least once */
    _Atomic bool over;      /* code says how; the fields below belong to the main thread then */
    int code;
    struct baton_error trouble; /* why it is not connected */
};

static void end(struct watching *w, int code)
{
    w->code = code;
    w->over = true;
    interrupt_wake();
}

static void on_changed(void *user, const struct baton_changes *changes)
{
    struct watching *w = user;
    if (w->over)
        return;
    w->left -= watch_print(stdout, changes, w->json, w->left);
    if (fflush(stdout) != 0)
        end(w, EXIT_FAILED);
    else if (w->left == 0)
        end(w, EXIT_OK);
}

static void on_connection(void *user, const struct baton_error *err)
{
    struct watching *w = user;
    if (err && w->connected)
        fprintf(stderr, "batonctl: the stream broke: %s; going on\n", err->message);
    else if (err)
        w->trouble = *err;
    else if (!w->connected) {
        w->connected = true;
        interrupt_wake();
    }
}

static void on_failed(void *user, const struct baton_error *err)
{
    struct watching *w = user;
    end(w, cli_fail_api(err));
}

/* Once it was connected it goes on for ever, over failovers; the first time has a limit. */
static void wait_for_end(struct cli *cli, const struct watching *w)
{
    int64_t until = cli_deadline(cli), left = 0;
    while (!w->over && left >= 0 && !interrupt_wait(w->connected ? -1 : left))
        left = w->connected ? 0 : until - clock_boot_ms();
}

static int watch(struct cli *cli, struct baton_watch_options *options)
{
    struct watching w = {.json = cli_json(cli),
                         .left = watch_count ? (size_t)watch_count : SIZE_MAX};
    struct baton_watch *stream;
    struct baton_error err;
    options->changed = on_changed;
    options->connection = on_connection;
    options->failed = on_failed;
    options->user = &w;
    interrupt_begin();
    if (baton_watch_open(&stream, cli->api, options, &err) != 0)
        return cli_fail_api(&err);
    wait_for_end(cli, &w);
    baton_watch_close(stream);
    if (w.over)
        return w.code;
    if (interrupt_came())
        return EXIT_OK;
    struct err late = err_make(ERR_TIMEOUT, "no connection came about in time");
    return w.trouble.status ? cli_fail_api(&w.trouble) : cli_fail(&late);
}

static struct err take_token(struct cli *cli, struct baton_bytes *out)
{
    struct bytes token;
    if (watch_from && *watch_token)
        return err_make(ERR_USAGE, "kv watch takes --from or --token, not both");
    if (!output_unbase64(bytes_str(watch_token), &cli->memory, &token))
        return err_make(ERR_USAGE, "--token '%s' is none that kv watch printed", watch_token);
    *out = api_shown(token);
    return OK_ERR;
}

#define PREFIXES_MAX 100

static int run_watch(struct cli *cli, char **words, int count)
{
    struct baton_bytes prefixes[PREFIXES_MAX];
    struct baton_watch_options options = {.prefixes = prefixes,
                                          .prefix_count = (size_t)count,
                                          .start_revision = watch_from,
                                          .snapshot = watch_snapshot};
    struct err e = take_token(cli, &options.token);
    if (err_is(&e))
        return cli_fail(&e);
    for (int i = 0; i < count; i++)
        prefixes[i] = api_text(words[i]);
    return watch(cli, &options);
}

const struct command command_watch = {
    .name = "kv watch",
    .words = "[PREFIX...]",
    .max_words = PREFIXES_MAX,
    .about = "Print changes of keys as they are committed.",
    .footer =
        "A line for each event, without a gap and without a repeat over any number of failovers: "
        "put, REVISION, key and value, or\n"
        "delete, REVISION and key, or exists (of a snapshot) as put, with tabs in between; restart "
        "REVISION says that a snapshot\n"
        "follows, and what was known before is void: it comes when what was asked for is not kept "
        "any more. JSON: an object a\n"
        "line: event, key, revision, and but for delete value, create_revision, version; token on "
        "the last of each commit, for\n"
        "--token. Exit code 0 when interrupted or after --count, 4 when there is no connection in "
        "--timeout; later it goes on\n"
        "for ever.",
    .rows = watch_rows,
    .row_count = sizeof watch_rows / sizeof *watch_rows,
    .run = run_watch};
