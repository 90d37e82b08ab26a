#include "client/cli/worker_output.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_words[] = {
    [BATON_WORKER_UNKNOWN] = "unknown",
    [BATON_WORKER_STARTING] = "starting",
    [BATON_WORKER_RUNNING] = "running",
    [BATON_WORKER_EXPIRING] = "expiring",
};

const char *worker_state_word(enum baton_worker_state state)
{
    return state_words[state];
}

enum baton_worker_state worker_state_of(const char *word)
{
    for (int i = BATON_WORKER_STARTING; i <= BATON_WORKER_EXPIRING; i++)
        if (!strcmp(word, state_words[i]))
            return (enum baton_worker_state)i;
    return BATON_WORKER_UNKNOWN;
}

/* ---- JSON ---- */

static struct json_object *labels_json(const struct baton_worker_info *w)
{
    struct json_object *o = json_object_new_object();
    for (size_t i = 0; i < w->label_count; i++)
        output_add_text(o, w->labels[i].name, w->labels[i].value);
    return o;
}

static struct json_object *resources_json(const struct baton_worker_info *w)
{
    struct json_object *o = json_object_new_object();
    for (size_t i = 0; i < w->resource_count; i++)
        json_object_object_add(o, w->resources[i].name,
                               json_object_new_uint64(w->resources[i].amount));
    return o;
}

struct json_object *worker_json(const struct baton_worker_info *w)
{
    struct json_object *o = json_object_new_object();
    output_add_number(o, "id", (int64_t)w->id);
    output_add_number(o, "incarnation", (int64_t)w->incarnation);
    output_add_text(o, "type", w->type);
    output_add_text(o, "addr", w->addr);
    output_add_text(o, "state", worker_state_word(w->state));
    output_add_flag(o, "cordoned", w->cordoned);
    output_add_flag(o, "draining", w->draining);
    json_object_object_add(o, "slot", w->has_slot ? json_object_new_int64(w->slot) : NULL);
    json_object_object_add(o, "slot_grant",
                           w->has_slot ? json_object_new_int64((int64_t)w->slot_grant) : NULL);
    output_add_number(o, "ttl_ms", w->ttl_ms);
    output_add_number(o, "silent_ms", w->silent_ms);
    json_object_object_add(o, "labels", labels_json(w));
    json_object_object_add(o, "resources", resources_json(w));
    output_add_number(o, "create_revision", w->create_revision);
    output_add_number(o, "mod_revision", w->mod_revision);
    return o;
}

/* ---- for people ---- */

static void add_cell(struct json_object *row, const char *key, struct buf *text)
{
    output_add_text(row, key, text->len ? (const char *)text->data : "");
    buf_clear(text);
}

static const char *wish_of(const struct baton_worker_info *w)
{
    return w->draining ? ", draining" : w->cordoned ? ", cordoned" : "";
}

/* The cells of a table that are not the fields of the JSON. */
static struct json_object *worker_row(const struct baton_worker_info *w)
{
    struct json_object *o = worker_json(w);
    struct buf text = {0};
    buf_printf(&text, "%s%s", worker_state_word(w->state), wish_of(w));
    add_cell(o, "state", &text);
    for (size_t i = 0; i < w->label_count; i++)
        buf_printf(&text, "%s%s=%s", i ? "," : "", w->labels[i].name, w->labels[i].value);
    add_cell(o, "labels", &text);
    for (size_t i = 0; i < w->resource_count; i++)
        buf_printf(&text, "%s%s=%" PRIu64, i ? "," : "", w->resources[i].name,
                   w->resources[i].amount);
    add_cell(o, "resources", &text);
    buf_printf(&text, "%.1f s", (double)w->silent_ms / 1000);
    add_cell(o, "silent", &text);
    buf_close(&text);
    return o;
}

struct json_object *worker_entry(const struct cli *cli, const struct baton_worker_info *w)
{
    return cli_json(cli) ? worker_json(w) : worker_row(w);
}

void worker_print_list(struct cli *cli, struct json_object *list)
{
    static const struct column columns[] = {
        {"ID", "id", COLUMN_PLAIN},
        {"INCARNATION", "incarnation", COLUMN_PLAIN},
        {"TYPE", "type", COLUMN_PLAIN},
        {"ADDRESS", "addr", COLUMN_PLAIN},
        {"STATE", "state", COLUMN_PLAIN},
        {"SLOT", "slot", COLUMN_PLAIN},
        {"SILENT", "silent", COLUMN_PLAIN},
        {"LABELS", "labels", COLUMN_PLAIN},
        {"RESOURCES", "resources", COLUMN_PLAIN},
    };
    output_list(cli, list, columns, sizeof columns / sizeof *columns);
}

int worker_print(struct cli *cli, struct baton_workers *result)
{
    struct json_object *o = worker_entry(cli, &result->workers[0]);
    if (cli_json(cli)) {
        output_add_number(o, "revision", result->revision);
        output_json(o);
    } else {
        struct json_object *list = json_object_new_array();
        json_object_array_add(list, o);
        worker_print_list(cli, list);
    }
    baton_result_free(result);
    return EXIT_OK;
}

/* ---- what people write ---- */

struct err worker_parse_number(const char *what, const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || *out == 0)
        return err_make(ERR_USAGE, "%s '%s' is no number from 1 on", what, text);
    return OK_ERR;
}

/* A list apart at its commas: "NAME=VALUE" each, of which the '=' becomes a 0. */
static struct err split_pairs(const char *text, struct arena *memory, struct baton_label **out,
                              size_t *count)
{
    *out = NULL;
    *count = 0;
    if (!text || !*text)
        return OK_ERR;
    char *copy = (char *)(uintptr_t)arena_copy(memory, bytes_str(text)).data;
    size_t most = 1;
    for (const char *c = text; *c; c++)
        most += *c == ',';
    *out = arena_array(memory, most, sizeof **out);
    for (char *rest = copy, *part; (part = strsep(&rest, ","));) {
        char *equals = strchr(part, '=');
        if (!equals || equals == part)
            return err_make(ERR_USAGE, "'%s': NAME=VALUE is wanted", part);
        *equals = 0;
        (*out)[(*count)++] = (struct baton_label){.name = part, .value = equals + 1};
    }
    return OK_ERR;
}

struct err worker_parse_labels(const char *text, struct arena *memory, struct baton_label **out,
                               size_t *count)
{
    return split_pairs(text, memory, out, count);
}

static struct err parse_amount(const struct baton_label *pair, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(pair->value, &end, 10);
    if (*pair->value < '0' || *pair->value > '9' || *end || errno)
        return err_make(ERR_USAGE, "resource %s: '%s' is no number", pair->name, pair->value);
    return OK_ERR;
}

struct err worker_parse_resources(const char *text, struct arena *memory,
                                  struct baton_resource **out, size_t *count)
{
    struct baton_label *pairs;
    struct err e = split_pairs(text, memory, &pairs, count);
    *out = arena_array(memory, *count, sizeof **out);
    for (size_t i = 0; i < *count && !err_is(&e); i++) {
        (*out)[i].name = pairs[i].name;
        e = parse_amount(&pairs[i], &(*out)[i].amount);
    }
    return e;
}
