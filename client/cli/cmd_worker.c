/* worker list, activate, cordon, uncordon, drain, undrain, label, rm. */
#include "client/cli/worker_output.h"
#include <string.h>

/* ---- list ---- */

static const char *list_type, *list_state, *list_labels;
static bool list_schedulable;

static const struct option_row list_rows[] = {
    {.group = "Options of worker list",
     .name = "type",
     .kind = OPTION_STRING,
     .target = &list_type,
     .fallback = "",
     .value = "TYPE",
     .help = "Only workers of this type."},
    {.name = "state",
     .kind = OPTION_CHOICE,
     .target = &list_state,
     .fallback = "all",
     .choices = "all|starting|running|expiring",
     .help = "Only workers in this state."},
    {.name = "labels",
     .kind = OPTION_STRING,
     .target = &list_labels,
     .fallback = "",
     .value = "NAME=VALUE[,...]",
     .help = "Only workers that have all of these labels."},
    {.name = "schedulable",
     .kind = OPTION_FLAG,
     .target = &list_schedulable,
     .help = "Only workers that run and are neither cordoned nor draining."},
};

/* Page after page, each of its own moment. NULL: err says why not. */
static struct json_object *list_all(struct cli *cli, struct baton_worker_filter *filter,
                                    struct baton_error *err)
{
    struct json_object *list = json_object_new_array();
    for (bool more = true; more;) {
        struct baton_workers *page;
        if (baton_worker_list(cli->api, NULL, filter, &page, err) != 0) {
            json_object_put(list);
            return NULL;
        }
        for (size_t i = 0; i < page->count; i++)
            json_object_array_add(list, worker_entry(cli, &page->workers[i]));
        more = page->more && page->count > 0;
        if (more)
            filter->after_id = page->workers[page->count - 1].id;
        baton_result_free(page);
    }
    return list;
}

static int run_list(struct cli *cli, char **words, int count)
{
    struct baton_error err;
    struct baton_label *labels;
    struct baton_worker_filter filter = {.type = list_type,
                                         .state = worker_state_of(list_state),
                                         .schedulable_only = list_schedulable};
    struct err e = worker_parse_labels(list_labels, &cli->memory, &labels, &filter.label_count);
    if (err_is(&e))
        return cli_fail(&e);
    filter.labels = labels;
    struct json_object *list = list_all(cli, &filter, &err);
    if (!list)
        return cli_fail_api(&err);
    worker_print_list(cli, list);
    return EXIT_OK;
}

const struct command command_worker_list = {
    .name = "worker list",
    .words = "",
    .about = "The workers, sorted by id.",
    .footer = "JSON: an array of workers: id, incarnation, type, addr, state, cordoned, draining, "
              "slot and slot_grant (null\n"
              "without one), ttl_ms, silent_ms, labels, resources (objects), create_revision, "
              "mod_revision. Long lists come in\n"
              "pages, each of its own moment.",
    .rows = list_rows,
    .row_count = sizeof list_rows / sizeof *list_rows,
    .run = run_list};

/* ---- changes ---- */

#define CHANGE_FOOTER                                                                              \
    "Prints the worker as it is then; JSON: as of worker list, and revision. Exit code 3 when "    \
    "there is no such worker."

static int change_worker(struct cli *cli, const char *id, struct baton_worker_change *change)
{
    struct baton_workers *changed;
    struct baton_error err;
    struct err e = worker_parse_number("worker id", id, &change->id);
    if (err_is(&e))
        return cli_fail(&e);
    if (baton_worker_update(cli->api, NULL, change, &changed, &err) != 0)
        return cli_fail_api(&err);
    return worker_print(cli, changed);
}

static int run_cordon(struct cli *cli, char **words, int count)
{
    struct baton_worker_change change = {.cordoned = BATON_ON};
    return change_worker(cli, words[0], &change);
}

static int run_uncordon(struct cli *cli, char **words, int count)
{
    struct baton_worker_change change = {.cordoned = BATON_OFF};
    return change_worker(cli, words[0], &change);
}

static int run_drain(struct cli *cli, char **words, int count)
{
    struct baton_worker_change change = {.draining = BATON_ON};
    return change_worker(cli, words[0], &change);
}

static int run_undrain(struct cli *cli, char **words, int count)
{
    struct baton_worker_change change = {.draining = BATON_OFF};
    return change_worker(cli, words[0], &change);
}

const struct command command_worker_cordon = {.name = "worker cordon",
                                              .words = "ID",
                                              .min_words = 1,
                                              .max_words = 1,
                                              .about = "Give a worker no new work.",
                                              .footer = CHANGE_FOOTER,
                                              .run = run_cordon};

const struct command command_worker_uncordon = {.name = "worker uncordon",
                                                .words = "ID",
                                                .min_words = 1,
                                                .max_words = 1,
                                                .about = "Let a worker have new work again.",
                                                .footer = CHANGE_FOOTER,
                                                .run = run_uncordon};

const struct command command_worker_drain = {
    .name = "worker drain",
    .words = "ID",
    .min_words = 1,
    .max_words = 1,
    .about = "Have a worker give back the work it has; cordons it, too.",
    .footer = CHANGE_FOOTER,
    .run = run_drain};

const struct command command_worker_undrain = {.name = "worker undrain",
                                               .words = "ID",
                                               .min_words = 1,
                                               .max_words = 1,
                                               .about =
                                                   "Let a worker keep its work; it stays cordoned.",
                                               .footer = CHANGE_FOOTER,
                                               .run = run_undrain};

/* "NAME=VALUE" sets, "NAME-" removes. The words are changed. */
static struct err read_labels(char **words, int count, struct arena *memory,
                              struct baton_worker_change *change)
{
    struct baton_label *set = arena_array(memory, (size_t)count, sizeof *set);
    const char **gone = arena_array(memory, (size_t)count, sizeof *gone);
    for (int i = 0; i < count; i++) {
        char *equals = strchr(words[i], '=');
        size_t len = strlen(words[i]);
        if (equals && equals > words[i]) {
            *equals = 0;
            set[change->set_label_count++] =
                (struct baton_label){.name = words[i], .value = equals + 1};
        } else if (!equals && len > 1 && words[i][len - 1] == '-') {
            words[i][len - 1] = 0;
            gone[change->remove_label_count++] = words[i];
        } else {
            return err_make(ERR_USAGE, "'%s': NAME=VALUE or NAME- is wanted", words[i]);
        }
    }
    change->set_labels = set;
    change->remove_labels = gone;
    return OK_ERR;
}

static int run_label(struct cli *cli, char **words, int count)
{
    struct baton_worker_change change = {0};
    struct err e = read_labels(words + 1, count - 1, &cli->memory, &change);
    return err_is(&e) ? cli_fail(&e) : change_worker(cli, words[0], &change);
}

const struct command command_worker_label = {
    .name = "worker label",
    .words = "ID LABEL...",
    .min_words = 2,
    .max_words = 129,
    .about = "Set labels of a worker (NAME=VALUE), or remove them (NAME-).",
    .footer = CHANGE_FOOTER,
    .run = run_label};

/* ---- of one incarnation ---- */

static int run_activate(struct cli *cli, char **words, int count)
{
    uint64_t id, incarnation = 0;
    struct baton_workers *active;
    struct baton_error err;
    struct err e = worker_parse_number("worker id", words[0], &id);
    if (!err_is(&e))
        e = worker_parse_number("incarnation", words[1], &incarnation);
    if (err_is(&e))
        return cli_fail(&e);
    if (baton_worker_activate(cli->api, NULL, id, incarnation, &active, &err) != 0)
        return cli_fail_api(&err);
    return worker_print(cli, active);
}

const struct command command_worker_activate = {
    .name = "worker activate",
    .words = "ID INCARNATION",
    .min_words = 2,
    .max_words = 2,
    .about = "Say that a worker that was added is ready for work.",
    .footer = CHANGE_FOOTER,
    .run = run_activate};

static int64_t rm_incarnation;

static const struct option_row rm_rows[] = {
    {.group = "Options of worker rm",
     .name = "incarnation",
     .kind = OPTION_INT,
     .target = &rm_incarnation,
     .fallback = "0",
     .value = "N",
     .min = 0,
     .max = INT64_MAX,
     .help = "Only if it is this one still; 0: whichever it is."},
};

static int run_rm(struct cli *cli, char **words, int count)
{
    uint64_t id;
    struct baton_workers *gone;
    struct baton_error err;
    struct err e = worker_parse_number("worker id", words[0], &id);
    if (err_is(&e))
        return cli_fail(&e);
    if (baton_worker_delete(cli->api, NULL, id, (uint64_t)rm_incarnation, &gone, &err) != 0)
        return cli_fail_api(&err);
    return worker_print(cli, gone);
}

const struct command command_worker_rm = {
    .name = "worker rm",
    .words = "ID",
    .min_words = 1,
    .max_words = 1,
    .about = "Take a worker out; its slot is free at once.",
    .footer = "Prints the worker as it was; JSON: as of worker list, and revision. Its program, "
              "should it still run, is told\n"
              "at its next heartbeat and may register again. Exit code 3 when there is no such "
              "worker.",
    .rows = rm_rows,
    .row_count = 1,
    .run = run_rm};
