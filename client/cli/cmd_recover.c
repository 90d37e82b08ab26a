/* recover: the cluster goes on from what etcd holds, after etcd was restored from a snapshot. */
#include "client/cli/output.h"
#include "common/base/clock.h"
#include <stdio.h>
#include <string.h>

enum { ASK_MS = 2000, MEMBERS_MAX = 64 };

static bool accept_restore;
static int64_t epoch_above;

static const struct option_row recover_rows[] = {
    {.group = "Options of recover",
     .name = "accept-restore",
     .kind = OPTION_FLAG,
     .target = &accept_restore,
     .help = "Without it nothing is done: what was written after the snapshot is lost for good."},
    {.name = "epoch-above",
     .kind = OPTION_INT,
     .target = &epoch_above,
     .fallback = "0",
     .value = "N",
     .min = 0,
     .max = INT64_MAX / 2,
     .help = "Go on above this epoch too: for what no member knows any more, as when all data "
             "directories were lost."},
};

/* What was asked, and what came back. */
struct found {
    const char *addr;
    struct err err;
    struct member_restore said;
};

static struct json_object *found_json(const struct found *f)
{
    struct json_object *o = json_object_new_object();
    output_add_text(o, "addr", f->addr);
    output_add_text(o, "member", f->said.id);
    output_add_flag(o, "refuses", f->said.refused);
    output_add_flag(o, "ran_before", f->said.ran_before);
    output_add_number(o, "epoch", (int64_t)f->said.epoch);
    output_add_number(o, "commit", (int64_t)f->said.seq);
    output_add_number(o, "incarnation", (int64_t)f->said.incarnation);
    output_add_number(o, "started_unix_ms", f->said.started_unix_ms);
    output_add_text(o, "cluster", f->said.cluster);
    output_add_text(o, "error", err_is(&f->err) ? f->err.message : f->said.reason);
    return o;
}

/* In a JSON output there is but one value, made at the end. */
static struct json_object *show_found(const struct cli *cli, const struct found *all, size_t count)
{
    static const struct column columns[] = {
        {"ADDRESS", "addr", COLUMN_PLAIN},          {"MEMBER", "member", COLUMN_PLAIN},
        {"REFUSES", "refuses", COLUMN_PLAIN},       {"EPOCH", "epoch", COLUMN_PLAIN},
        {"COMMIT", "commit", COLUMN_PLAIN},         {"INCARNATION", "incarnation", COLUMN_PLAIN},
        {"RAN BEFORE", "ran_before", COLUMN_PLAIN}, {"STARTED", "started_unix_ms", COLUMN_TIME},
    };
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < count; i++)
        json_object_array_add(rows, found_json(&all[i]));
    if (cli_json(cli))
        return rows;
    output_list(cli, rows, columns, sizeof columns / sizeof *columns);
    return NULL;
}

static size_t ask_all(struct cli *cli, struct found *all)
{
    size_t count = client_seed_count(cli->client);
    count = count < MEMBERS_MAX ? count : MEMBERS_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t soon = clock_boot_ms() + ASK_MS, last = cli_deadline(cli);
        all[i].addr = client_seed(cli->client, i);
        all[i].err =
            client_restore(cli->client, all[i].addr, soon < last ? soon : last, &all[i].said);
    }
    return count;
}

/* ---- whether it may be done ---- */

static struct err check_one(const struct found *f, const struct found *first)
{
    if (err_is(&f->err))
        return err_make(f->err.code,
                        "%s: %s; each address of --addr must be a member's, and answer. Leave out "
                        "one that is gone for good",
                        f->addr, f->err.message);
    if (f != first && strcmp(f->said.cluster, first->said.cluster) != 0)
        return err_make(ERR_USAGE, "%s and %s are members of different clusters", f->addr,
                        first->addr);
    if (f->said.ran_before)
        return err_make(
            ERR_RESTART_FIRST,
            "member %s at %s ran before etcd was restored: stop all members, start them "
            "again, and then recover",
            f->said.id, f->addr);
    return OK_ERR;
}

static struct err check_all(const struct found *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct err e = check_one(&all[i], &all[0]);
        if (err_is(&e))
            return e;
        for (size_t j = 0; j < i; j++)
            if (strcmp(all[i].said.id, all[j].said.id) == 0)
                return err_make(ERR_USAGE,
                                "%s and %s both lead to member %s: name each member once, and no "
                                "proxy",
                                all[j].addr, all[i].addr, all[i].said.id);
    }
    return OK_ERR;
}

static bool has_seen_more(const struct member_restore *a, const struct member_restore *b)
{
    if (a->refused != b->refused)
        return a->refused;
    return a->epoch != b->epoch ? a->epoch > b->epoch : a->seq > b->seq;
}

/* Who is to write it: of those that refuse, the one that has seen most. */
struct plan {
    const struct found *by;
    uint64_t epoch, incarnation; /* the highest that anybody has seen */
};

static struct plan plan_for(const struct found *all, size_t count)
{
    struct plan p = {.by = &all[0]};
    for (size_t i = 0; i < count; i++) {
        const struct member_restore *said = &all[i].said;
        if (has_seen_more(said, &p.by->said))
            p.by = &all[i];
        p.epoch = said->epoch > p.epoch ? said->epoch : p.epoch;
        p.incarnation = said->incarnation > p.incarnation ? said->incarnation : p.incarnation;
    }
    return p;
}

/* ---- doing it ---- */

static int finish(const struct cli *cli, struct json_object *rows,
                  const struct member_recovered *done)
{
    static const struct column columns[] = {{"recovered", "recovered", COLUMN_PLAIN},
                                            {"incarnation", "incarnation", COLUMN_PLAIN},
                                            {"epochs above", "epoch_floor", COLUMN_PLAIN}};
    struct json_object *o = json_object_new_object();
    output_add_flag(o, "recovered", done->written);
    output_add_number(o, "incarnation", (int64_t)done->incarnation);
    output_add_number(o, "epoch_floor", (int64_t)done->epoch_floor);
    if (rows)
        json_object_object_add(o, "members", rows);
    output_object(cli, o, columns, sizeof columns / sizeof *columns);
    return EXIT_OK;
}

static int explain(struct json_object *rows, uint64_t epoch)
{
    struct json_object *o = rows ? json_object_new_object() : NULL;
    if (o) {
        output_add_flag(o, "recovered", false);
        json_object_object_add(o, "members", rows);
        output_json(o);
    }
    fprintf(stderr,
            "batonctl: nothing was done. With --accept-restore the cluster goes on from what etcd "
            "holds now, above epoch %llu:\n"
            "  - what was written after the snapshot is lost for good; clients may have been told "
            "that it was done\n"
            "  - no member may still run that ran before the restore, not even paused: stop all of "
            "them and start them again first\n"
            "  - name all members in --addr; one that is left out and has seen a higher epoch goes "
            "on refusing\n",
            (unsigned long long)epoch);
    return EXIT_USAGE;
}

static int run_recover(struct cli *cli, char **words, int count)
{
    static struct found all[MEMBERS_MAX];
    size_t members = ask_all(cli, all);
    struct json_object *rows = show_found(cli, all, members);
    struct member_recovered done = {0};
    struct err e = check_all(all, members);
    struct plan p = plan_for(all, members);
    if (!err_is(&e) && !p.by->said.refused && (uint64_t)epoch_above <= p.epoch) {
        fprintf(stderr,
                "batonctl: no member refuses what etcd holds: there is nothing to recover\n");
        done.incarnation = p.incarnation;
        return finish(cli, rows, &done);
    }
    if (!err_is(&e) && !accept_restore)
        return explain(rows, p.epoch > (uint64_t)epoch_above ? p.epoch : (uint64_t)epoch_above);
    if (!err_is(&e))
        e = client_recover(cli->client, p.by->addr,
                           p.epoch > (uint64_t)epoch_above ? p.epoch : (uint64_t)epoch_above,
                           p.incarnation, cli_deadline(cli), &done);
    if (!err_is(&e))
        return finish(cli, rows, &done);
    json_object_put(rows);
    return cli_fail(&e);
}

const struct command command_recover = {
    .name = "recover",
    .words = "",
    .about = "Goes on from what etcd holds, after it was restored from a snapshot.",
    .footer = "--addr names all members. Stop all of them and start them again before: "
              "docs/operations.md tells it step by step. May be repeated.",
    .rows = recover_rows,
    .row_count = sizeof recover_rows / sizeof *recover_rows,
    .run = run_recover};
