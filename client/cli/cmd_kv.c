/* kv get, put, del, range. */
#include "client/cli/output.h"
#include "client/cli/kv_output.h"
#include <stdio.h>

#define VALUE_MAX                                                                                  \
    ((size_t)2 << 20) /* more than a member takes, so that it is the member who refuses */

struct json_object *kv_item_json(const struct kv_item *item, bool with_value)
{
    struct json_object *o = json_object_new_object();
    output_add_bytes(o, "key", item->key);
    if (with_value)
        output_add_bytes(o, "value", item->value);
    output_add_number(o, "revision", item->mod_revision);
    output_add_number(o, "create_revision", item->create_revision);
    output_add_number(o, "version", item->version);
    return o;
}

void print_bytes(struct bytes b)
{
    fwrite(b.data, 1, b.len, stdout);
}

static const char *consistency;
static int64_t min_revision;

/* Of the tables of get and of range. */
#define CONSISTENCY_ROW                                                                            \
    {                                                                                              \
        .group = "How fresh", .name = "consistency", .kind = OPTION_CHOICE,                        \
        .target = &consistency, .fallback = "lease", .choices = "lease|quorum|stale",              \
        .help = "Who answers: the leader, by its lease; the leader, once etcd has confirmed it; "  \
                "or whoever is at --addr, with what it has."                                       \
    }
#define MIN_REVISION_ROW                                                                           \
    {                                                                                              \
        .name = "min-revision", .kind = OPTION_INT, .target = &min_revision, .fallback = "0",      \
        .value = "N", .min = 0, .max = INT64_MAX, .help = "Wait until the state has revision N."   \
    }

static struct kv_freshness freshness(void)
{
    enum kv_consistency c = !strcmp(consistency, "quorum")  ? KV_QUORUM
                            : !strcmp(consistency, "stale") ? KV_STALE
                                                            : KV_LEASE;
    return (struct kv_freshness){.consistency = c, .min_revision = min_revision};
}

static const struct option_row get_rows[] = {CONSISTENCY_ROW, MIN_REVISION_ROW};

static int not_found(const char *key)
{
    fprintf(stderr, "batonctl: %s: no such key\n", key);
    return EXIT_NOT_FOUND;
}

static int run_get(struct cli *cli, char **words, int count)
{
    struct kv_answer a;
    struct err e = client_kv_get(cli->client, bytes_str(words[0]), freshness(), cli_deadline(cli),
                                 &cli->memory, &a);
    if (err_is(&e))
        return cli_fail(&e);
    if (a.item_count == 0)
        return not_found(words[0]);
    if (cli_json(cli)) {
        output_json(kv_item_json(&a.items[0], true));
    } else {
        print_bytes(a.items[0].value);
        putchar('\n');
    }
    return EXIT_OK;
}

const struct command command_get = {.name = "kv get",
                                    .words = "KEY",
                                    .min_words = 1,
                                    .max_words = 1,
                                    .about = "Print the value of a key.",
                                    .footer =
                                        "JSON: key, value, revision (of its last change), "
                                        "create_revision, version. A key or value that is\n"
                                        "no UTF-8 stands in base64 under key_base64 or "
                                        "value_base64. Exit code 3 when there is no such key.",
                                    .rows = get_rows,
                                    .row_count = 2,
                                    .run = run_get};

static void read_all(FILE *from, struct buf *out)
{
    char piece[4096];
    size_t n;
    while (out->len <= VALUE_MAX && (n = fread(piece, 1, sizeof piece, from)) > 0)
        buf_append(out, piece, n);
}

static int print_change(struct cli *cli, const struct kv_answer *a, const char *counted)
{
    if (!cli_json(cli)) {
        if (counted)
            printf("%s %llu, revision %lld\n", counted, (unsigned long long)a->count,
                   (long long)a->revision);
        else
            printf("revision %lld\n", (long long)a->revision);
        return EXIT_OK;
    }
    struct json_object *o = json_object_new_object();
    output_add_number(o, "revision", a->revision);
    if (counted)
        output_add_number(o, counted, (int64_t)a->count);
    output_json(o);
    return EXIT_OK;
}

static int run_put(struct cli *cli, char **words, int count)
{
    struct kv_answer a;
    struct buf value = {0};
    if (!strcmp(words[1], "-"))
        read_all(stdin, &value);
    else
        buf_str(&value, words[1]);
    struct err e = client_kv_put(cli->client, bytes_str(words[0]), buf_view(&value),
                                 cli_deadline(cli), &cli->memory, &a);
    buf_close(&value);
    return err_is(&e) ? cli_fail(&e) : print_change(cli, &a, NULL);
}

const struct command command_put = {.name = "kv put",
                                    .words = "KEY VALUE",
                                    .min_words = 2,
                                    .max_words = 2,
                                    .about = "Set a key.",
                                    .footer = "VALUE - is read from stdin. A word that starts with "
                                              "a dash goes behind --. JSON: revision.",
                                    .run = run_put};

static bool by_prefix, must_exist;

static const struct option_row del_rows[] = {
    {.group = "Options of kv del",
     .name = "prefix",
     .kind = OPTION_FLAG,
     .target = &by_prefix,
     .help = "Every key that starts with KEY."},
    {.name = "must-exist",
     .kind = OPTION_FLAG,
     .target = &must_exist,
     .help = "Fail with exit code 3 when nothing was there."},
};

static int run_del(struct cli *cli, char **words, int count)
{
    struct kv_answer a;
    struct err e = client_kv_delete(cli->client, bytes_str(words[0]), by_prefix, must_exist,
                                    cli_deadline(cli), &cli->memory, &a);
    return err_is(&e) ? cli_fail(&e) : print_change(cli, &a, "deleted");
}

const struct command command_del = {.name = "kv del",
                                    .words = "KEY",
                                    .min_words = 1,
                                    .max_words = 1,
                                    .about = "Delete a key, or all with a prefix.",
                                    .footer = "JSON: revision, deleted (how many there were).",
                                    .rows = del_rows,
                                    .row_count = 2,
                                    .run = run_del};

static int64_t range_limit;
static bool keys_only, count_only;

static const struct option_row range_rows[] = {
    {.group = "Options of kv range",
     .name = "prefix",
     .kind = OPTION_FLAG,
     .target = &by_prefix,
     .help = "Every key that starts with FROM."},
    {.name = "limit",
     .kind = OPTION_INT,
     .target = &range_limit,
     .fallback = "1000",
     .value = "N",
     .min = 0,
     .max = INT32_MAX,
     .help = "At most so many keys; 0: all."},
    {.name = "keys-only", .kind = OPTION_FLAG, .target = &keys_only, .help = "No values."},
    {.name = "count-only",
     .kind = OPTION_FLAG,
     .target = &count_only,
     .help = "Only how many there are."},
    CONSISTENCY_ROW,
    MIN_REVISION_ROW,
};

static struct json_object *range_json(void)
{
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "kvs", json_object_new_array());
    return o;
}

static void add_page(struct json_object *to, const struct kv_answer *page)
{
    struct json_object *kvs;
    json_object_object_get_ex(to, "kvs", &kvs);
    for (size_t i = 0; i < page->item_count; i++)
        json_object_array_add(kvs, kv_item_json(&page->items[i], !keys_only));
}

static void print_page(const struct kv_answer *page)
{
    for (size_t i = 0; i < page->item_count; i++) {
        print_bytes(page->items[i].key);
        if (!keys_only) {
            putchar('\t');
            print_bytes(page->items[i].value);
        }
        putchar('\n');
    }
}

/* How many keys the next page may have; 0: as many as the service likes. */
static uint32_t page_limit(size_t so_far)
{
    return range_limit ? (uint32_t)((size_t)range_limit - so_far) : 0;
}

/* Page after page until the limit or the end; page is the last one. */
static struct err read_pages(struct cli *cli, struct kv_range *range, struct json_object *json,
                             struct kv_answer *page)
{
    for (size_t so_far = 0;;) {
        range->limit = page_limit(so_far);
        struct err e = client_kv_range(cli->client, range, cli_deadline(cli), &cli->memory, page);
        if (err_is(&e))
            return e;
        so_far += page->item_count;
        if (json)
            add_page(json, page);
        else
            print_page(page);
        if (!page->more || (range_limit && so_far >= (size_t)range_limit))
            return OK_ERR;
        range->key = page->next_key;
    }
}

static int count_keys(struct cli *cli, const struct kv_range *range)
{
    struct kv_answer a;
    struct err e = client_kv_range(cli->client, range, cli_deadline(cli), &cli->memory, &a);
    if (err_is(&e))
        return cli_fail(&e);
    if (!cli_json(cli)) {
        printf("%llu\n", (unsigned long long)a.count);
        return EXIT_OK;
    }
    struct json_object *o = json_object_new_object();
    output_add_number(o, "revision", a.revision);
    output_add_number(o, "count", (int64_t)a.count);
    output_json(o);
    return EXIT_OK;
}

static void finish_range(struct json_object *json, const struct kv_answer *page)
{
    output_add_number(json, "revision", page->revision);
    json_object_object_add(json, "more", json_object_new_boolean(page->more));
    if (page->more)
        output_add_bytes(json, "next_key", page->next_key);
    output_json(json);
}

static int print_range(struct cli *cli, struct kv_range *range)
{
    struct kv_answer page = {0};
    struct json_object *json = cli_json(cli) ? range_json() : NULL;
    struct err e = read_pages(cli, range, json, &page);
    if (err_is(&e)) {
        json_object_put(json);
        return cli_fail(&e);
    }
    if (json)
        finish_range(json, &page);
    else if (page.more)
        fputs("batonctl: there are more; --limit 0 prints all\n", stderr);
    return EXIT_OK;
}

static int run_range(struct cli *cli, char **words, int count)
{
    struct kv_range range = {
        .keys_only = keys_only, .count_only = count_only, .freshness = freshness()};
    struct buf end = {0};
    if (by_prefix && count != 1) {
        struct err e = err_make(ERR_USAGE, "kv range --prefix takes one key, the prefix");
        return cli_fail(&e);
    }
    range.key = count > 0 ? bytes_str(words[0]) : BYTES_NONE;
    range.end = count > 1 ? bytes_str(words[1]) : BYTES_NONE;
    if (by_prefix && bytes_prefix_end(range.key, &end))
        range.end = buf_view(&end);
    int code = count_only ? count_keys(cli, &range) : print_range(cli, &range);
    buf_close(&end);
    return code;
}

const struct command command_range = {
    .name = "kv range",
    .words = "[FROM [TO]]",
    .max_words = 2,
    .about = "Print keys in byte order, from FROM up to but not including TO.",
    .footer = "A line for each: the key, a tab, the value. JSON: kvs (as of kv get), revision (of "
              "the last page),\n"
              "more, next_key; with --count-only: revision, count. Long answers come in pages, "
              "each of its own\n"
              "moment.",
    .rows = range_rows,
    .row_count = 6,
    .run = run_range};
