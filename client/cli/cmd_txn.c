/* kv txn. */
#include "client/cli/kv_output.h"
#include "client/core/txn_script.h"
#include <stdio.h>
#include <stdlib.h>

static struct err add_lines(struct txn_script *txn, struct arena *memory, FILE *from)
{
    char *line = NULL;
    size_t cap = 0;
    struct err e = OK_ERR;
    while (!err_is(&e) && getline(&line, &cap, from) >= 0)
        e = txn_script_add(txn, memory, line);
    free(line);
    return e;
}

static bool is_delete(const struct baton_op *op)
{
    return op->kind == BATON_OP_DELETE || op->kind == BATON_OP_DELETE_PREFIX;
}

static struct json_object *result_json(const struct baton_op *op, const struct baton_op_result *r)
{
    struct json_object *o = json_object_new_object();
    static const char *const words[] = {[BATON_OP_GET] = "get",
                                        [BATON_OP_PUT] = "put",
                                        [BATON_OP_DELETE] = "del",
                                        [BATON_OP_DELETE_PREFIX] = "del"};
    output_add_text(o, "op", words[op->kind]);
    if (is_delete(op))
        output_add_number(o, "deleted", (int64_t)r->deleted);
    if (op->kind == BATON_OP_GET)
        json_object_object_add(o, "kv", r->kv_count ? kv_json(r->kvs, true) : NULL);
    return o;
}

static void print_json(const struct baton_op *ops, const struct baton_txn_result *a)
{
    struct json_object *o = json_object_new_object(), *results = json_object_new_array();
    json_object_object_add(o, "succeeded", json_object_new_boolean(a->succeeded));
    output_add_number(o, "revision", a->revision);
    for (size_t i = 0; i < a->result_count; i++)
        json_object_array_add(results, result_json(&ops[i], &a->results[i]));
    json_object_object_add(o, "results", results);
    output_json(o);
}

static void print_result(const struct baton_op *op, const struct baton_op_result *r)
{
    if (op->kind == BATON_OP_PUT) {
        puts("put");
    } else if (is_delete(op)) {
        printf("del %llu\n", (unsigned long long)r->deleted);
    } else if (!r->kv_count) {
        puts("get: no such key");
    } else {
        fputs("get ", stdout);
        print_bytes(r->kvs[0].key);
        putchar('\t');
        print_bytes(r->kvs[0].value);
        putchar('\n');
    }
}

static void print_text(const struct baton_op *ops, const struct baton_txn_result *a)
{
    printf("%s, revision %lld\n", a->succeeded ? "succeeded" : "a comparison failed",
           (long long)a->revision);
    for (size_t i = 0; i < a->result_count; i++)
        print_result(&ops[i], &a->results[i]);
}

/* One result for each operation of the branch that was taken. */
static int show(struct cli *cli, const struct txn_script *script, struct baton_txn_result *a)
{
    const struct baton_op *ops = a->succeeded ? script->then_ops : script->else_ops;
    size_t count = a->succeeded ? script->then_count : script->else_count;
    bool succeeded = a->succeeded, whole = a->result_count == count;
    if (whole && cli_json(cli))
        print_json(ops, a);
    else if (whole)
        print_text(ops, a);
    baton_result_free(a);
    struct err e = err_make(ERR_PROTOCOL, "the answer has not one result for each operation");
    if (!whole)
        return cli_fail(&e);
    return succeeded ? EXIT_OK : EXIT_NOT_FOUND;
}

static int run_txn(struct cli *cli, char **words, int count)
{
    static struct txn_script script; /* large, and made once in a process */
    struct baton_txn_result *a;
    struct baton_error err;
    struct err e = OK_ERR;
    for (int i = 0; i < count && !err_is(&e); i++)
        e = strcmp(words[i], "-") ? txn_script_add(&script, &cli->memory, words[i])
                                  : add_lines(&script, &cli->memory, stdin);
    if (err_is(&e))
        return cli_fail(&e);
    struct baton_txn txn = txn_script_view(&script);
    if (baton_txn(cli->api, NULL, &txn, &a, &err) != 0)
        return cli_fail_api(&err);
    return show(cli, &script, a);
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
