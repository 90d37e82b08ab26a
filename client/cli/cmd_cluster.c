/* leader, members, status, history, transfer, member rm. */
#include "client/cli/cluster_output.h"
#include "common/base/clock.h"
#include <stdio.h>
#include <string.h>

static int run_leader(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"known", "known", COLUMN_PLAIN},     {"id", "id", COLUMN_PLAIN},
        {"addr", "addr", COLUMN_PLAIN},       {"epoch", "epoch", COLUMN_PLAIN},
        {"cluster", "cluster", COLUMN_PLAIN},
    };
    struct baton_leader said;
    struct baton_error err;
    if (baton_leader(cli->api, NULL, &said, &err) != 0)
        return cli_fail_api(&err);
    struct json_object *o = json_object_new_object();
    output_add_flag(o, "known", said.known);
    output_add_text(o, "id", said.id);
    output_add_text(o, "addr", said.addr);
    output_add_number(o, "epoch", (int64_t)said.epoch);
    output_add_text(o, "cluster", said.cluster_id);
    output_object(cli, o, columns, sizeof columns / sizeof *columns);
    return said.known ? EXIT_OK : EXIT_UNAVAILABLE;
}

const struct command command_leader = {.name = "leader",
                                       .words = "",
                                       .about = "Who leads, as the first address says that knows.",
                                       .footer = "Exit code 4 when no leader is known now.",
                                       .run = run_leader};

static int run_members(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"ID", "id", COLUMN_PLAIN},
        {"ADDRESS", "addr", COLUMN_PLAIN},
        {"ROLE", "role", COLUMN_PLAIN},
        {"EPOCH", "epoch", COLUMN_PLAIN},
        {"APPLIED", "applied_revision", COLUMN_PLAIN},
        {"LAG", "lag", COLUMN_PLAIN},
        {"HTTP", "http_addr", COLUMN_PLAIN},
        {"VERSION", "version", COLUMN_PLAIN},
        {"STARTED", "started_unix_ms", COLUMN_TIME},
    };
    struct baton_members *list;
    struct baton_error err;
    if (baton_members(cli->api, NULL, &list, &err) != 0)
        return cli_fail_api(&err);
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < list->count; i++)
        json_object_array_add(rows, member_json(&list->members[i]));
    baton_result_free(list);
    output_list(cli, rows, columns, sizeof columns / sizeof *columns);
    return EXIT_OK;
}

const struct command command_members = {
    .name = "members", .words = "", .about = "The members that are alive.", .run = run_members};

static struct json_object *status_json(struct cli *cli, const char *addr, bool *leads)
{
    struct json_object *o = json_object_new_object();
    struct member_leader said = {0};
    int64_t before = clock_mono_us();
    struct err e = client_ask(cli->client, addr, cli_deadline(cli), &said);
    output_add_text(o, "addr", addr);
    output_add_flag(o, "ok", !err_is(&e));
    output_add_number(o, "answered_us", clock_mono_us() - before);
    output_add_text(o, "member", said.member_id);
    output_add_text(o, "leader", said.id);
    output_add_text(o, "leader_addr", said.addr);
    output_add_number(o, "epoch", (int64_t)said.epoch);
    output_add_number(o, "revision", said.revision);
    output_add_number(o, "age_ms", (int64_t)said.age_ms);
    output_add_text(o, "cluster", said.cluster);
    output_add_text(o, "error", e.message);
    *leads |= said.known;
    return o;
}

static int run_status(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"ADDRESS", "addr", COLUMN_PLAIN},       {"MEMBER", "member", COLUMN_PLAIN},
        {"LEADER", "leader", COLUMN_PLAIN},      {"AT", "leader_addr", COLUMN_PLAIN},
        {"EPOCH", "epoch", COLUMN_PLAIN},        {"REVISION", "revision", COLUMN_PLAIN},
        {"SEEN MS AGO", "age_ms", COLUMN_PLAIN}, {"TOOK US", "answered_us", COLUMN_PLAIN},
        {"ERROR", "error", COLUMN_PLAIN},
    };
    bool leads = false;
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < client_seed_count(cli->client); i++)
        json_object_array_add(rows, status_json(cli, client_seed(cli->client, i), &leads));
    output_list(cli, rows, columns, sizeof columns / sizeof *columns);
    return leads ? EXIT_OK : EXIT_UNAVAILABLE;
}

const struct command command_status = {
    .name = "status",
    .words = "",
    .about = "What each address of --addr knows of the leadership.",
    .footer = "Each address is asked once. Exit code 4 when none of them knows a leader.",
    .run = run_status};

static int run_transfer(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"target", "target", COLUMN_PLAIN},
        {"ended epoch", "epoch", COLUMN_PLAIN},
    };
    struct baton_transferred done;
    struct baton_error err;
    if (baton_transfer(cli->api, NULL, count ? words[0] : NULL, &done, &err) != 0)
        return cli_fail_api(&err);
    struct json_object *o = json_object_new_object();
    output_add_text(o, "target", done.target);
    output_add_number(o, "epoch", (int64_t)done.epoch);
    output_object(cli, o, columns, sizeof columns / sizeof *columns);
    bool other = count && strcmp(words[0], done.target) != 0;
    if (other)
        fprintf(stderr, "batonctl: member %s left the line at that moment: %s takes over\n",
                words[0], done.target);
    return other ? EXIT_FAILED : EXIT_OK;
}

const struct command command_transfer = {
    .name = "transfer",
    .words = "[ID]",
    .max_words = 1,
    .about = "Hand the leadership over to a member.",
    .footer =
        "Without ID: to whoever is first in line and caught up. Exit code 1 when nobody, or not "
        "that member, can take\nover now; the message says why, and nothing happened.",
    .run = run_transfer};

static int run_member_rm(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"removed", "id", COLUMN_PLAIN},
        {"addr", "addr", COLUMN_PLAIN},
        {"role", "role", COLUMN_PLAIN},
        {"version", "version", COLUMN_PLAIN},
    };
    struct baton_members *removed;
    struct baton_error err;
    if (baton_remove_member(cli->api, NULL, words[0], &removed, &err) != 0)
        return cli_fail_api(&err);
    output_object(cli, member_json(removed->members), columns, sizeof columns / sizeof *columns);
    baton_result_free(removed);
    return EXIT_OK;
}

const struct command command_member_rm = {
    .name = "member rm",
    .words = "ID",
    .min_words = 1,
    .max_words = 1,
    .about = "Take a member out of the cluster.",
    .footer =
        "It leaves the list and the line at once, and its program, should it still run, ends with "
        "exit code 0; a leader\nhands over first. Started again it joins again. Exit code 3 when "
        "no such member is listed.",
    .run = run_member_rm};

static int64_t history_limit;

static const struct option_row history_rows[] = {
    {.group = "Options of history",
     .name = "limit",
     .kind = OPTION_INT,
     .target = &history_limit,
     .fallback = "100",
     .value = "N",
     .min = 1,
     .max = 1000000,
     .help = "At most so many."},
};

static struct json_object *leadership_json(const struct baton_leadership *l)
{
    struct json_object *o = json_object_new_object();
    output_add_number(o, "epoch", (int64_t)l->epoch);
    output_add_text(o, "id", l->leader_id);
    output_add_text(o, "addr", l->addr);
    output_add_number(o, "started_unix_ms", l->started_unix_ms);
    output_add_number(o, "ended_unix_ms", l->ended_unix_ms);
    output_add_text(o, "reason", l->reason);
    return o;
}

static int run_history(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"EPOCH", "epoch", COLUMN_PLAIN},        {"LEADER", "id", COLUMN_PLAIN},
        {"ADDRESS", "addr", COLUMN_PLAIN},       {"FROM", "started_unix_ms", COLUMN_TIME},
        {"UNTIL", "ended_unix_ms", COLUMN_TIME}, {"WHY", "reason", COLUMN_PLAIN},
    };
    struct baton_history *history;
    struct baton_error err;
    if (baton_history(cli->api, NULL, (unsigned)history_limit, &history, &err) != 0)
        return cli_fail_api(&err);
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < history->count; i++)
        json_object_array_add(rows, leadership_json(&history->leaderships[i]));
    baton_result_free(history);
    output_list(cli, rows, columns, sizeof columns / sizeof *columns);
    return EXIT_OK;
}

const struct command command_history = {.name = "history",
                                        .words = "",
                                        .about = "Who led when, newest first.",
                                        .rows = history_rows,
                                        .row_count = 1,
                                        .run = run_history};
