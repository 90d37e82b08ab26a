/* kv get, put, del, range. */
#include "client/cli/output.h"
#include "client/cli/kv_output.h"
#include <stdio.h>

#define VALUE_MAX                                                                                  \
    ((size_t)2 << 20) /* more than a member takes, so that it is the member who refuses */

void kv_add(struct json_object *to, const struct baton_kv *kv, bool with_value)
{
    output_add_bytes(to, "key", kv->key);
    if (with_value)
        output_add_bytes(to, "value", kv->value);
    output_add_number(to, "revision", kv->mod_revision);
    output_add_number(to, "create_revision", kv->create_revision);
    output_add_number(to, "version", kv->version);
}

struct json_object *kv_json(const struct baton_kv *kv, bool with_value)
{
    struct json_object *o = json_object_new_object();
    kv_add(o, kv, with_value);
    return o;
}

void print_bytes(struct baton_bytes b)
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

static struct baton_read freshness(void)
{
    enum baton_consistency c = !strcmp(consistency, "quorum")  ? BATON_QUORUM
                               : !strcmp(consistency, "stale") ? BATON_STALE
                                                               : BATON_LEASE;
    return (struct baton_read){.consistency = c, .min_revision = min_revision};
}

static const struct option_row get_rows[] = {CONSISTENCY_ROW, MIN_REVISION_ROW};

static int not_found(const char *key)
{
    fprintf(stderr, "batonctl: %s: no such key\n", key);
    return EXIT_NOT_FOUND;
}

static int run_get(struct cli *cli, char **words, int count)
{
    struct baton_kvs *got;
    struct baton_error err;
    struct baton_read read = freshness();
    if (baton_get(cli->api, NULL, api_text(words[0]), &read, &got, &err) != 0)
        return cli_fail_api(&err);
    int code = got->kv_count ? EXIT_OK : not_found(words[0]);
    if (got->kv_count && cli_json(cli)) {
        output_json(kv_json(&got->kvs[0], true));
    } else if (got->kv_count) {
        print_bytes(got->kvs[0].value);
        putchar('\n');
    }
    baton_result_free(got);
    return code;
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

/* a is used up. */
static int print_change(struct cli *cli, struct baton_kvs *a, const char *counted)
{
    if (!cli_json(cli)) {
        if (counted)
            printf("%s %llu, revision %lld\n", counted, (unsigned long long)a->count,
                   (long long)a->revision);
        else
            printf("revision %lld\n", (long long)a->revision);
    } else {
        struct json_object *o = json_object_new_object();
        output_add_number(o, "revision", a->revision);
        if (counted)
            output_add_number(o, counted, (int64_t)a->count);
        output_json(o);
    }
    baton_result_free(a);
    return EXIT_OK;
}

static int run_put(struct cli *cli, char **words, int count)
{
    struct baton_kvs *put;
    struct baton_error err;
    struct buf value = {0};
    if (!strcmp(words[1], "-"))
        read_all(stdin, &value);
    else
        buf_str(&value, words[1]);
    baton_put(cli->api, NULL, api_text(words[0]), api_shown(buf_view(&value)), &put, &err);
    buf_close(&value);
    return put ? print_change(cli, put, NULL) : cli_fail_api(&err);
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
    struct baton_kvs *gone;
    struct baton_error err;
    if (by_prefix)
        baton_delete_prefix(cli->api, NULL, api_text(words[0]), &gone, &err);
    else
        baton_delete(cli->api, NULL, api_text(words[0]), &gone, &err);
    if (!gone)
        return cli_fail_api(&err);
    if (!must_exist || gone->count > 0)
        return print_change(cli, gone, "deleted");
    baton_result_free(gone);
    struct err e = err_make(ERR_KEY_NOT_FOUND, "%s: nothing was there", words[0]);
    return cli_fail(&e);
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

static void add_page(struct json_object *to, const struct baton_kvs *page)
{
    struct json_object *kvs;
    json_object_object_get_ex(to, "kvs", &kvs);
    for (size_t i = 0; i < page->kv_count; i++)
        json_object_array_add(kvs, kv_json(&page->kvs[i], !keys_only));
}

static void print_page(const struct baton_kvs *page)
{
    for (size_t i = 0; i < page->kv_count; i++) {
        print_bytes(page->kvs[i].key);
        if (!keys_only) {
            putchar('\t');
            print_bytes(page->kvs[i].value);
        }
        putchar('\n');
    }
}

/* How many keys the next page may have; 0: as many as the service likes. */
static uint32_t page_limit(size_t so_far)
{
    return range_limit ? (uint32_t)((size_t)range_limit - so_far) : 0;
}

/* Page after page until the limit or the end; *page is the last one. */
static int read_pages(struct cli *cli, struct baton_range *range, struct json_object *json,
                      struct baton_kvs **page, struct baton_error *err)
{
    struct baton_read read = freshness();
    struct baton_kvs *before = NULL;
    int status = 0;
    for (size_t so_far = 0; status == 0;) {
        range->limit = page_limit(so_far);
        status = baton_range(cli->api, NULL, range, &read, page, err);
        baton_result_free(before); /* which the range pointed to */
        if (status != 0)
            break;
        so_far += (*page)->kv_count;
        if (json)
            add_page(json, *page);
        else
            print_page(*page);
        if (!(*page)->more || (range_limit && so_far >= (size_t)range_limit))
            break;
        range->key = (*page)->next_key;
        before = *page;
    }
    return status;
}

static int count_keys(struct cli *cli, const struct baton_range *range)
{
    struct baton_kvs *a;
    struct baton_error err;
    struct baton_read read = freshness();
    if (baton_range(cli->api, NULL, range, &read, &a, &err) != 0)
        return cli_fail_api(&err);
    if (cli_json(cli)) {
        struct json_object *o = json_object_new_object();
        output_add_number(o, "revision", a->revision);
        output_add_number(o, "count", (int64_t)a->count);
        output_json(o);
    } else {
        printf("%llu\n", (unsigned long long)a->count);
    }
    baton_result_free(a);
    return EXIT_OK;
}

static void finish_range(struct json_object *json, const struct baton_kvs *page)
{
    output_add_number(json, "revision", page->revision);
    json_object_object_add(json, "more", json_object_new_boolean(page->more));
    if (page->more)
        output_add_bytes(json, "next_key", page->next_key);
    output_json(json);
}

static int print_range(struct cli *cli, struct baton_range *range)
{
    struct baton_kvs *page;
    struct baton_error err;
    struct json_object *json = cli_json(cli) ? range_json() : NULL;
    if (read_pages(cli, range, json, &page, &err) != 0) {
        json_object_put(json);
        return cli_fail_api(&err);
    }
    if (json)
        finish_range(json, page);
    else if (page->more)
        fputs("batonctl: there are more; --limit 0 prints all\n", stderr);
    baton_result_free(page);
    return EXIT_OK;
}

static int run_range(struct cli *cli, char **words, int count)
{
    struct baton_range range = {.keys_only = keys_only, .count_only = count_only};
    struct buf end = {0};
    if (by_prefix && count != 1) {
        struct err e = err_make(ERR_USAGE, "kv range --prefix takes one key, the prefix");
        return cli_fail(&e);
    }
    range.key = api_text(count > 0 ? words[0] : NULL);
    range.range_end = api_text(count > 1 ? words[1] : NULL);
    if (by_prefix && bytes_prefix_end(api_bytes(range.key), &end))
        range.range_end = api_shown(buf_view(&end));
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
