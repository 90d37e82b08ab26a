/* Finds the command among the words, reads its options, and runs it. */
#include "client/cli/cli.h"
#include "client/core/retry.h"
#include "common/base/clock.h"
#include "common/base/rpc_status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cli cli;

#define GLOBAL_ROWS 3
#define ROWS_MAX 128

static const struct option_row global_rows[GLOBAL_ROWS] = {
    {.group = "Options of all commands",
     .name = "addr",
     .kind = OPTION_STRING,
     .target = &cli.addresses,
     .fallback = "127.0.0.1:5680,127.0.0.1:5690",
     .value = "HOST:PORT[,...]",
     .help = "Addresses of proxies or members (default: a proxy, or else a member, on this host); "
             "the environment's BATON_ADDR stands in for it."},
    {.name = "output",
     .kind = OPTION_CHOICE,
     .target = &cli.output,
     .fallback = "table",
     .choices = "table|json",
     .help = "How answers are printed; -o for short."},
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .target = &cli.timeout_ms,
     .fallback = "10s",
     .value = "TIME",
     .min = 1,
     .max = 86400000,
     .help = "How long a call may take, with all its attempts."},
};

const struct command *const commands[] = {
    &command_leader,
    &command_members,
    &command_status,
    &command_info,
    &command_history,
    &command_transfer,
    &command_member_rm,
    &command_get,
    &command_put,
    &command_del,
    &command_range,
    &command_txn,
    &command_watch,
    &command_worker_list,
    &command_worker_add,
    &command_worker_activate,
    &command_worker_cordon,
    &command_worker_uncordon,
    &command_worker_drain,
    &command_worker_undrain,
    &command_worker_label,
    &command_worker_rm,
    &command_worker_heartbeat,
    &command_recover,
    &command_export,
    &command_import,
    &command_top,
    &command_bench,
    &command_completion,
    &command_version,
    &command_help,
};
const size_t command_count = sizeof commands / sizeof *commands;

bool cli_json(const struct cli *c)
{
    return !strcmp(c->output, "json");
}

int64_t cli_deadline(const struct cli *c)
{
    return clock_boot_ms() + c->timeout_ms;
}

static enum exit_code code_of(enum err_code code)
{
    if (retry_may_pass(code) || code == ERR_TIMEOUT)
        return EXIT_UNAVAILABLE;
    if (code == ERR_USAGE)
        return EXIT_USAGE;
    bool missing =
        code == ERR_KEY_NOT_FOUND || code == ERR_UNKNOWN_MEMBER || code == ERR_UNKNOWN_WORKER;
    return missing ? EXIT_NOT_FOUND : EXIT_FAILED;
}

int cli_fail(const struct err *e)
{
    if (e->code == ERR_USAGE)
        fprintf(stderr, "batonctl: %s\n", e->message);
    else
        fprintf(stderr, "batonctl: %s (%s)\n", e->message, err_word(e->code));
    return code_of(e->code);
}

struct err cli_err(const struct baton_error *err)
{
    return err_make(rpc_code_of((int)err->status, err->reason), "%s", err->message);
}

int cli_fail_api(const struct baton_error *err)
{
    struct err e = cli_err(err);
    return cli_fail(&e);
}

static int usage_error(const char *message)
{
    fprintf(stderr, "batonctl: %s\n", message);
    return EXIT_USAGE;
}

/* --- help --- */

/* Whether a command is one of a group: "kv get" of "kv". Every command is of the group NULL. */
static bool is_of_group(const struct command *command, const char *group)
{
    size_t len = group ? strlen(group) : 0;
    return !group || (!strncmp(command->name, group, len) && command->name[len] == ' ');
}

static bool is_group(const char *word)
{
    for (size_t i = 0; i < command_count; i++)
        if (is_of_group(commands[i], word))
            return true;
    return false;
}

static void list_commands(struct buf *out, const char *group)
{
    buf_str(out, "Commands:\n");
    for (size_t i = 0; i < command_count; i++) {
        struct buf left = {0};
        if (!is_of_group(commands[i], group))
            continue;
        buf_printf(&left, "%s %s", commands[i]->name, commands[i]->words);
        buf_printf(out, "  %-34s %s\n", (const char *)left.data, commands[i]->about);
        buf_close(&left);
    }
    buf_str(out, "\n`batonctl help COMMAND` tells more. Exit codes: 0 done, 1 failed, 2 usage, 3 "
                 "not found or "
                 "a\ncomparison failed, 4 unavailable.");
}

static void help_of_group(const char *group)
{
    struct buf list = {0};
    list_commands(&list, group);
    puts((const char *)list.data);
    buf_close(&list);
}

void cli_help(const struct command *command)
{
    struct buf usage = {0}, footer = {0};
    struct option_row rows[ROWS_MAX];
    size_t own = command ? command->row_count : 0;
    for (size_t i = 0; i < own; i++)
        rows[i] = command->rows[i];
    memcpy(rows + own, global_rows, sizeof global_rows);
    if (command) {
        buf_printf(&usage, "[OPTIONS] %s %s", command->name, command->words);
        if (command->footer)
            buf_str(&footer, command->footer);
    } else {
        buf_str(&usage, "[OPTIONS] COMMAND [WORDS]");
        list_commands(&footer, NULL);
    }
    struct option_set set = {
        .program = "batonctl",
        .usage = (const char *)usage.data,
        .about = command ? command->about
                         : "Talks to a Baton cluster, through a proxy or with its members.",
        .footer = footer.len ? (const char *)footer.data : NULL,
        .rows = rows,
        .count = own + GLOBAL_ROWS};
    options_help(&set, stdout);
    buf_close(&usage);
    buf_close(&footer);
}

static int unknown_command(char **words, int count)
{
    struct buf text = {0};
    buf_printf(&text, "no command '%s", words[0]);
    if (count > 1)
        buf_printf(&text, " %s", words[1]);
    buf_str(&text, "'");
    bool first = true;
    for (size_t i = 0; i < command_count; i++)
        if (is_of_group(commands[i], words[0])) {
            buf_printf(&text, "%s%s", first ? "; there are: " : ", ", commands[i]->name);
            first = false;
        }
    if (first)
        buf_str(&text, "; `batonctl help` lists them");
    int code = usage_error((const char *)text.data);
    buf_close(&text);
    return code;
}

static int run_help(struct cli *c, char **words, int count)
{
    int used;
    const struct command *command = count ? cli_find(words, count, &used) : NULL;
    if (count && !command && !(count == 1 && is_group(words[0])))
        return unknown_command(words, count);
    if (count && !command)
        help_of_group(words[0]);
    else
        cli_help(command);
    return EXIT_OK;
}

const struct command command_help = {.name = "help",
                                     .words = "[COMMAND]",
                                     .max_words = 2,
                                     .about = "Explain a command.",
                                     .run = run_help};

static int run_version(struct cli *c, char **words, int count)
{
    puts("batonctl " BATON_VERSION);
    return EXIT_OK;
}

const struct command command_version = {
    .name = "version", .words = "", .about = "Print the version.", .run = run_version};

/* --- which command --- */

const struct command *cli_find(char **words, int count, int *used)
{
    for (size_t i = 0; i < command_count; i++) {
        const char *name = commands[i]->name, *blank = strchr(name, ' ');
        size_t first = blank ? (size_t)(blank - name) : strlen(name);
        *used = blank ? 2 : 1;
        if (count >= *used && strlen(words[0]) == first && !memcmp(words[0], name, first) &&
            (!blank || !strcmp(words[1], blank + 1)))
            return commands[i];
    }
    return NULL;
}

/* Every option of every command, only to tell words from the values of options: of one name,
 * commands may want different things. */
static size_t all_rows(struct option_row rows[ROWS_MAX])
{
    static bool flag;
    static const char *text;
    memcpy(rows, global_rows, sizeof global_rows);
    size_t n = GLOBAL_ROWS;
    for (size_t i = 0; i < command_count; i++)
        for (size_t r = 0; r < commands[i]->row_count && n < ROWS_MAX; r++)
            rows[n++] = commands[i]->rows[r];
    for (size_t i = 0; i < n; i++) {
        bool is_flag = rows[i].kind == OPTION_FLAG;
        rows[i] = (struct option_row){.name = rows[i].name,
                                      .value = rows[i].value,
                                      .kind = is_flag ? OPTION_FLAG : OPTION_STRING,
                                      .target = is_flag ? (void *)&flag : (void *)&text};
    }
    return n;
}

/* -o stands for --output; the options table knows long names only. */
static void expand_short(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "-o"))
            argv[i] = (char *)"--output";
}

static int wrong_words(const struct command *c)
{
    struct buf text = {0};
    buf_printf(&text, "%s: usage: batonctl %s%s%s", c->name, c->name, *c->words ? " " : "",
               c->words);
    int code = usage_error((const char *)text.data);
    buf_close(&text);
    return code;
}

static int run(const struct command *command, char **words, int count)
{
    if (count < command->min_words || count > command->max_words)
        return wrong_words(command);
    struct baton_options options = {.addresses = cli.addresses, .timeout_ms = cli.timeout_ms};
    struct baton_error err;
    if (baton_client_new(&cli.api, &options, &err) != 0)
        return cli_fail_api(&err);
    cli.client = cli.api->calls;
    int code = command->run(&cli, words, count);
    baton_client_free(cli.api);
    arena_close(&cli.memory);
    return fflush(stdout) == 0 ? code : EXIT_FAILED;
}

static int show(enum option_show what, char **words, int count)
{
    if (what == OPTION_SHOW_VERSION)
        return run_version(&cli, NULL, 0);
    int used;
    const struct command *command = cli_find(words, count, &used);
    if (!command && count && is_group(words[0]))
        help_of_group(words[0]);
    else
        cli_help(command);
    return EXIT_OK;
}

/* Parsed with the options of all commands, *argc and argv are left with the words. The command's
 * own table is then asked, so that an option of another command is refused. */
static struct err parse(const struct command *command, const struct option_row *rows, size_t count,
                        int *argc, char **argv, enum option_show *what)
{
    char program[64];
    struct option_row mine[ROWS_MAX];
    const char *from_environment = getenv("BATON_ADDR");
    memcpy(mine, rows, count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        if (mine[i].target == &cli.addresses && from_environment && *from_environment)
            mine[i].fallback = from_environment;
    snprintf(program, sizeof program, "batonctl%s%s", command ? " " : "",
             command ? command->name : "");
    struct option_set set = {.program = program, .rows = mine, .count = count};
    return options_parse(&set, argc, argv, what);
}

static size_t rows_of(const struct command *command, struct option_row rows[ROWS_MAX])
{
    memcpy(rows, global_rows, sizeof global_rows);
    for (size_t i = 0; i < command->row_count; i++)
        rows[GLOBAL_ROWS + i] = command->rows[i];
    return GLOBAL_ROWS + command->row_count;
}

/* Among words of which some make no sense: where the first name of a command stands. */
static const struct command *guess_command(char **argv, int argc)
{
    const struct command *command = NULL;
    int used;
    for (int i = 1; i < argc && !command; i++)
        command = cli_find(argv + i, argc - i, &used);
    return command;
}

/* What is wrong, as the command's own table has it: a near name of another command's option would
 * mislead. */
static int wrong_options(const struct err *e, int argc, char **argv)
{
    struct option_row rows[ROWS_MAX];
    enum option_show what;
    const struct command *command = guess_command(argv, argc);
    struct err own =
        command ? parse(command, rows, rows_of(command, rows), &argc, argv, &what) : OK_ERR;
    return usage_error(err_is(&own) ? own.message : e->message);
}

#define WORDS_MAX 1024

int cli_main(int argc, char **argv)
{
    struct option_row rows[ROWS_MAX];
    char *words[WORDS_MAX];
    enum option_show what;
    int count = argc, used = 0;
    if (argc > WORDS_MAX)
        return usage_error("too many words");
    expand_short(argc, argv);
    memcpy(words, argv, (size_t)argc * sizeof *argv);
    struct err e = parse(NULL, rows, all_rows(rows), &count, words, &what);
    const struct command *command =
        !err_is(&e) && count > 1 ? cli_find(words + 1, count - 1, &used) : NULL;
    if (!err_is(&e) && what != OPTION_SHOW_NOTHING)
        return show(what, words + 1, count - 1);
    if (err_is(&e))
        return wrong_options(&e, argc, argv);
    if (count <= 1)
        return usage_error("which command? `batonctl help` lists them");
    if (!command)
        return unknown_command(words + 1, count - 1);
    e = parse(command, rows, rows_of(command, rows), &argc, argv, &what);
    if (err_is(&e))
        return usage_error(e.message);
    return run(command, argv + 1 + used, argc - 1 - used);
}
