/* kv txn. */
#include "client/cli/kv_output.h"
#include <stdio.h>
#include <stdlib.h>

static struct err add_lines(struct kv_txn *txn, struct arena *memory, FILE *from)
{
    char *line = NULL;
    size_t cap = 0;
    struct err e = OK_ERR;
    while (!err_is(&e) && getline(&line, &cap, from) >= 0)
        e = txn_script_add(txn, memory, line);
    free(line);
    return e;
}

static struct json_object *result_json(const struct kv_result *r)
{
    struct json_object *o = json_object_new_object();
    static const char *const words[] = {[KV_GET] = "get", [KV_PUT] = "put", [KV_DELETE] = "del"};
    output_add_text(o, "op", words[r->kind]);
    if (r->kind == KV_DELETE)
        output_add_number(o, "deleted", (int64_t)r->deleted);
    if (r->kind == KV_GET)
        json_object_object_add(o, "kv", r->found ? kv_item_json(&r->item, true) : NULL);
    return o;
}

static void print_json(const struct kv_answer *a)
{
    struct json_object *o = json_object_new_object(), *results = json_object_new_array();
    json_object_object_add(o, "succeeded", json_object_new_boolean(a->succeeded));
    output_add_number(o, "revision", a->revision);
    for (size_t i = 0; i < a->result_count; i++)
        json_object_array_add(results, result_json(&a->results[i]));
    json_object_object_add(o, "results", results);
    output_json(o);
}

static void print_result(const struct kv_result *r)
{
    if (r->kind == KV_PUT) {
        puts("put");
    } else if (r->kind == KV_DELETE) {
        printf("del %llu\n", (unsigned long long)r->deleted);
    } else if (!r->found) {
        puts("get: no such key");
    } else {
        fputs("get ", stdout);
        print_bytes(r->item.key);
        putchar('\t');
        print_bytes(r->item.value);
        putchar('\n');
    }
}

static void print_text(const struct kv_answer *a)
{
    printf("%s, revision %lld\n", a->succeeded ? "succeeded" : "a comparison failed",
           (long long)a->revision);
    for (size_t i = 0; i < a->result_count; i++)
        print_result(&a->results[i]);
}

static int run_txn(struct cli *cli, char **words, int count)
{
    static struct kv_txn txn; /* large, and made once in a process */
    struct kv_answer a;
    struct err e = OK_ERR;
    for (int i = 0; i < count && !err_is(&e); i++)
        e = strcmp(words[i], "-") ? txn_script_add(&txn, &cli->memory, words[i])
                                  : add_lines(&txn, &cli->memory, stdin);
    if (!err_is(&e))
        e = client_kv_txn(cli->client, &txn, cli_deadline(cli), &cli->memory, &a);
    if (err_is(&e))
        return cli_fail(&e);
    if (cli_json(cli))
        print_json(&a);
    else
        print_text(&a);
    return a.succeeded ? EXIT_OK : EXIT_NOT_FOUND;
}

const struct command command_txn = {
    .name = "kv txn",
    .words = "CLAUSE... | -",
    .min_words = 1,
    .max_words = 512,
    .about = "Compare, then do one of two things, all or nothing.",
    .footer =
        "A clause is one argument, or with - one line of stdin:\n"
        "  if KEY value|version|create|mod =|!=|<|> WHAT   a comparison; version 0: the key is "
        "absent\n"
        "  get KEY, put KEY VALUE, del KEY, del-prefix KEY  done when every comparison holds\n"
        "  else get KEY, else put KEY VALUE, ...            done otherwise\n"
        "A word with blanks stands in double quotes, where \\\" \\\\ \\n \\t and \\xHH are known; "
        "an empty line, or\n"
        "one that starts with #, says nothing. A branch may write a key once.\n"
        "\n"
        "  batonctl kv txn 'if lock version = 0' 'put lock me' 'else get lock'\n"
        "\n"
        "JSON: succeeded, revision, results (op; kv of a get, null when absent; deleted of a "
        "del).\n"
        "Exit code 3 when a comparison failed.",
    .run = run_txn};
