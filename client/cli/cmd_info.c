/* info. */
#include "client/cli/cluster_output.h"
#include <stdio.h>

static void print_types(struct cli *cli, const struct baton_cluster_info *info)
{
    if (info->type_count == 0)
        return;
    putchar('\n');
    output_list(cli, types_json(info), types_columns, TYPES_COLUMNS);
}

static int run_info(struct cli *cli, char **words, int count)
{
    static const struct column columns[] = {
        {"cluster", "cluster", COLUMN_PLAIN},
        {"leader", "leader", COLUMN_PLAIN},
        {"at", "leader_addr", COLUMN_PLAIN},
        {"epoch", "epoch", COLUMN_PLAIN},
        {"revision", "revision", COLUMN_PLAIN},
        {"members", "members", COLUMN_PLAIN},
        {"keys", "keys", COLUMN_PLAIN},
        {"workers", "workers", COLUMN_PLAIN},
        {"format level", "format_level", COLUMN_PLAIN},
    };
    struct baton_cluster_info *info;
    struct baton_error err;
    if (baton_cluster_info(cli->api, NULL, &info, &err) != 0)
        return cli_fail_api(&err);
    output_object(cli, info_json(info), columns, sizeof columns / sizeof *columns);
    if (!cli_json(cli))
        print_types(cli, info);
    baton_result_free(info);
    return EXIT_OK;
}

const struct command command_info = {
    .name = "info",
    .words = "",
    .about = "The cluster at a glance: leader, keys, workers by type.",
    .footer = "JSON: cluster, leader, leader_addr, epoch, revision, members, keys, workers, "
              "format_level, worker_types (type,\n"
              "starting, running, expiring, unschedulable, slots); and what the leader has done "
              "since its process began: commits,\n"
              "writes, reads, heartbeats, and streams that are open now.",
    .run = run_info};
