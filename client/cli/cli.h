/* batonctl: what commands share. */
#pragma once
#include "client/baton_parts.h"
#include "client/calls.h"
#include "common/base/options.h"
#include <stdbool.h>

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_FOUND = 3, /* or a comparison failed */
    EXIT_UNAVAILABLE = 4,
};

/* What the options before any command say. */
struct cli {
    const char *addresses;
    const char *output; /* "table" or "json" */
    int64_t timeout_ms;
    struct baton_client *api;
    struct client *client; /* its inside, for what only operators ask */
    struct arena memory;   /* of answers of the latter */
};

struct command {
    const char *name;  /* "kv get" */
    const char *words; /* "KEY", as in usage */
    int min_words, max_words;
    const char *about; /* one sentence, in lists; more goes to the footer */
    const char *footer;
    const struct option_row *rows;
    size_t row_count;
    int (*run)(struct cli *cli, char **words, int count); /* the exit code */
};

#define COMMAND_MAX 32
extern const struct command *const commands[];
extern const size_t command_count;
extern const struct command command_leader, command_members, command_status, command_history;
extern const struct command command_transfer, command_member_rm;
extern const struct command command_get, command_put, command_del, command_range, command_txn;
extern const struct command command_recover, command_export, command_import;
extern const struct command command_info, command_worker_list, command_worker_add;
extern const struct command command_worker_activate, command_worker_cordon, command_worker_uncordon;
extern const struct command command_worker_drain, command_worker_undrain, command_worker_label;
extern const struct command command_worker_rm, command_worker_heartbeat, command_top, command_watch;
extern const struct command command_bench, command_completion, command_version, command_help;

/* Prints the error; the exit code that stands for it. */
int cli_fail(const struct err *e);
int cli_fail_api(const struct baton_error *err);
/* The same error as commands pass it on. */
struct err cli_err(const struct baton_error *err);
/* The deadline of a call that begins now. */
int64_t cli_deadline(const struct cli *cli);
bool cli_json(const struct cli *cli);

/* The whole program but for main. */
int cli_main(int argc, char **argv);
void cli_help(const struct command *command); /* NULL: of the program */
/* "kv get" of {"kv", "get", ...}; *used is how many words its name takes. NULL: there is none. */
const struct command *cli_find(char **words, int count, int *used);
