/* import: an exported state into another cluster, by transactions that anybody could send. How far
 * it is stands in a key beside what was imported, written in the same transactions: so no piece is
 * written twice, and an import that was stopped can be seen, and continued. */
#include "client/cli/export_file.h"
#include "client/cli/output.h"
#include "client/core/txn_script.h"
#include "common/base/clock.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_KEY "baton/import"

enum {
    PIECE_KEYS = TXN_CLAUSES_MAX - 1, /* the mark is written, too */
    PIECE_BYTES = 512 * 1024,
    MARK_MAX = 128,
    POLL_MS = 100,
};

static bool overwrite, check_only;

static const struct option_row rows[] = {
    {.group = "Options of import",
     .name = "overwrite",
     .kind = OPTION_FLAG,
     .target = &overwrite,
     .help = "Also into a cluster that holds keys: those of the file are set, others stay."},
    {.name = "check",
     .kind = OPTION_FLAG,
     .target = &check_only,
     .help = "Only say whether the file is whole; talk to no cluster."},
};

struct importing {
    struct cli *cli;
    struct export_reader reader;
    uint64_t done;       /* keys of the file that the cluster has */
    char mark[MARK_MAX]; /* as it stands in the cluster; "": it does not */
    size_t piece_max;    /* keys of a transaction, as the cluster takes them */
    struct arena memory; /* of the piece */
    struct baton_kv piece[PIECE_KEYS];
    size_t count;
};

/* ---- the file ---- */

/* What can be read twice: the file itself, or a copy of what comes through a pipe. */
static struct err open_input(FILE **out)
{
    struct stat st;
    char piece[65536];
    size_t n;
    *out = stdin;
    if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode))
        return OK_ERR;
    FILE *copy = tmpfile();
    if (!copy)
        return err_make(ERR_IO, "cannot keep what comes through the pipe: %s", strerror(errno));
    while ((n = fread(piece, 1, sizeof piece, stdin)) > 0)
        if (fwrite(piece, 1, n, copy) != n)
            break;
    if (ferror(stdin) || ferror(copy) || fflush(copy) != 0) {
        struct err e =
            err_make(ERR_IO, "cannot keep what comes through the pipe: %s", strerror(errno));
        fclose(copy);
        return e;
    }
    rewind(copy);
    *out = copy;
    return OK_ERR;
}

/* ---- the mark ---- */

static void make_mark(const struct importing *m, uint64_t done, char out[MARK_MAX])
{
    snprintf(out, MARK_MAX, "sha256=%s keys=%" PRIu64 " of=%" PRIu64, m->reader.digest, done,
             m->reader.keys);
}

/* Whether the mark is of this file, and how far it is. */
static bool is_mine(const struct importing *m, uint64_t *done)
{
    char digest[DIGEST_HEX_MAX], again[MARK_MAX];
    if (sscanf(m->mark, "sha256=%64s keys=%" SCNu64, digest, done) != 2)
        return false;
    make_mark(m, *done, again);
    return strcmp(again, m->mark) == 0 && *done <= m->reader.keys;
}

static struct err read_mark(struct importing *m)
{
    struct baton_kvs *got;
    struct baton_error err;
    if (baton_get(m->cli->api, NULL, api_text(MARK_KEY), NULL, &got, &err) != 0)
        return cli_err(&err);
    m->mark[0] = 0;
    if (got->kv_count)
        snprintf(m->mark, sizeof m->mark, "%.*s", (int)got->kvs[0].value.len,
                 (const char *)got->kvs[0].value.data);
    baton_result_free(got);
    return OK_ERR;
}

static struct err must_be_empty(struct importing *m)
{
    struct baton_kvs *all;
    struct baton_error err;
    struct baton_range range = {.count_only = true};
    if (baton_range(m->cli->api, NULL, &range, NULL, &all, &err) != 0)
        return cli_err(&err);
    uint64_t count = all->count;
    baton_result_free(all);
    if (count == 0)
        return OK_ERR;
    return err_make(ERR_IN_USE,
                    "the cluster holds %" PRIu64 " keys already: import into an empty one, or "
                    "with --overwrite",
                    count);
}

/* Where to begin: at the start, or where an earlier import of this file stopped. */
static struct err find_start(struct importing *m)
{
    struct err e = read_mark(m);
    if (err_is(&e))
        return e;
    if (is_mine(m, &m->done)) {
        fprintf(stderr,
                "batonctl: an import of this file stopped after %" PRIu64 " keys; going on\n",
                m->done);
        return OK_ERR;
    }
    m->done = 0;
    if (overwrite)
        return OK_ERR;
    if (!m->mark[0])
        return must_be_empty(m);
    return err_make(ERR_IN_USE,
                    "an import of another file stopped half way (its key %s says: %s): repeat "
                    "that one, or use --overwrite",
                    MARK_KEY, m->mark);
}

/* ---- the transactions ---- */

/* Only if the mark stands as it was seen. */
static struct err send(struct importing *m, const struct baton_op *ops, size_t count)
{
    struct baton_txn_result *a;
    struct baton_error err;
    struct baton_compare same = {.key = api_text(MARK_KEY),
                                 .target = m->mark[0] ? BATON_TARGET_VALUE : BATON_TARGET_VERSION,
                                 .relation = BATON_EQUAL,
                                 .value = api_text(m->mark)};
    struct baton_txn txn = {
        .compares = &same, .compare_count = 1, .then_ops = ops, .then_count = count};
    if (baton_txn(m->cli->api, NULL, &txn, &a, &err) != 0)
        return cli_err(&err);
    bool succeeded = a->succeeded;
    baton_result_free(a);
    return succeeded ? OK_ERR
                     : err_make(ERR_IN_USE, "somebody else changed the key " MARK_KEY
                                            ": does another import run?");
}

static struct err send_part(struct importing *m, size_t from, size_t count)
{
    struct baton_op ops[PIECE_KEYS + 1];
    char next[MARK_MAX];
    make_mark(m, m->done + count, next);
    ops[0] =
        (struct baton_op){.kind = BATON_OP_PUT, .key = api_text(MARK_KEY), .value = api_text(next)};
    for (size_t i = 0; i < count; i++)
        ops[i + 1] = (struct baton_op){
            .kind = BATON_OP_PUT, .key = m->piece[from + i].key, .value = m->piece[from + i].value};
    struct err e = send(m, ops, count + 1);
    if (err_is(&e))
        return e;
    memcpy(m->mark, next, sizeof next);
    m->done += count;
    return OK_ERR;
}

/* A cluster that takes fewer operations in a commit gets smaller pieces. */
static struct err send_piece(struct importing *m)
{
    struct err e = OK_ERR;
    for (size_t from = 0; from < m->count && !err_is(&e);) {
        size_t left = m->count - from, n = left < m->piece_max ? left : m->piece_max;
        e = send_part(m, from, n);
        if (e.code == ERR_TOO_LARGE && n > 1) {
            m->piece_max = n / 2;
            e = OK_ERR;
        } else {
            from += n;
        }
    }
    return e;
}

/* As much as goes into one transaction. */
static struct err read_piece(struct importing *m)
{
    size_t bytes = 0;
    struct err e = OK_ERR;
    arena_clear(&m->memory);
    m->count = 0;
    while (m->count < PIECE_KEYS && m->done + m->count < m->reader.keys && bytes < PIECE_BYTES &&
           !err_is(&e)) {
        struct baton_kv *item = &m->piece[m->count];
        e = export_next(&m->reader, &m->memory, item);
        if (err_is(&e))
            return e;
        if (bytes_equal(api_bytes(item->key), bytes_str(MARK_KEY)))
            return err_make(ERR_CORRUPT, "the file holds the key " MARK_KEY
                                         ": it was exported while an import was not finished");
        bytes += item->key.len + item->value.len;
        m->count++;
    }
    return e;
}

static void show_progress(const struct importing *m, bool last)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " keys%s", m->done, m->reader.keys,
                last ? "\n" : "");
}

static struct err skip_done(struct importing *m)
{
    struct err e = export_rewind(&m->reader);
    for (uint64_t i = 0; i < m->done && !err_is(&e); i++) {
        arena_clear(&m->memory);
        e = export_next(&m->reader, &m->memory, &m->piece[0]);
    }
    return e;
}

static struct err import_keys(struct importing *m)
{
    struct err e = skip_done(m);
    while (m->done < m->reader.keys && !err_is(&e)) {
        e = read_piece(m);
        if (!err_is(&e))
            e = send_piece(m);
        show_progress(m, m->done == m->reader.keys);
    }
    return e;
}

/* ---- the end ---- */

/* Until the leadership that comes after the raised floor serves. */
static struct err wait_for_epoch(struct importing *m, uint64_t floor, struct baton_leader *leader)
{
    int64_t deadline_ms = cli_deadline(m->cli);
    struct baton_error err;
    for (;;) {
        struct err e = OK_ERR;
        if (baton_leader(m->cli->api, NULL, leader, &err) != 0)
            e = cli_err(&err);
        else if (leader->known && leader->epoch > floor)
            return OK_ERR;
        if (clock_boot_ms() >= deadline_ms)
            return err_is(&e) ? e
                              : err_make(ERR_NO_LEADER,
                                         "all keys are imported, but no leader with an epoch above "
                                         "%" PRIu64 " is known yet: repeat the command",
                                         floor);
        poll(NULL, 0, POLL_MS);
    }
}

/* Epochs go on above those of the file, and above those that were seen here before the import. */
static struct err raise_epoch(struct importing *m, struct baton_leader *leader)
{
    struct maintenance_raised raised;
    struct baton_error err;
    if (baton_leader(m->cli->api, NULL, leader, &err) != 0)
        return cli_err(&err);
    uint64_t above = leader->epoch > m->reader.head.epoch ? leader->epoch : m->reader.head.epoch;
    struct err e = client_raise_epoch(m->cli->client, above, cli_deadline(m->cli), &raised);
    return err_is(&e) ? e : wait_for_epoch(m, raised.epoch_floor, leader);
}

static struct err remove_mark(struct importing *m)
{
    struct baton_op op = {.kind = BATON_OP_DELETE, .key = api_text(MARK_KEY)};
    return m->mark[0] ? send(m, &op, 1) : OK_ERR;
}

static void report(struct importing *m, const struct baton_leader *leader)
{
    static const struct column columns[] = {
        {"keys", "keys", COLUMN_PLAIN},           {"cluster", "cluster", COLUMN_PLAIN},
        {"epoch", "epoch", COLUMN_PLAIN},         {"exported from", "from_cluster", COLUMN_PLAIN},
        {"at epoch", "from_epoch", COLUMN_PLAIN}, {"at revision", "from_revision", COLUMN_PLAIN}};
    struct json_object *o = json_object_new_object();
    output_add_number(o, "keys", (int64_t)m->reader.keys);
    if (leader) {
        output_add_text(o, "cluster", leader->cluster_id);
        output_add_number(o, "epoch", (int64_t)leader->epoch);
    }
    output_add_text(o, "from_cluster", m->reader.head.cluster);
    output_add_number(o, "from_epoch", (int64_t)m->reader.head.epoch);
    output_add_number(o, "from_revision", m->reader.head.revision);
    output_object(m->cli, o, columns, sizeof columns / sizeof *columns);
}

static struct err import(struct importing *m)
{
    struct baton_leader leader;
    struct err e = find_start(m);
    if (!err_is(&e))
        e = import_keys(m);
    if (!err_is(&e))
        e = raise_epoch(m, &leader);
    if (!err_is(&e))
        e = remove_mark(m);
    if (!err_is(&e))
        report(m, &leader);
    return e;
}

static int run_import(struct cli *cli, char **words, int count)
{
    static struct importing m; /* large */
    FILE *file;
    m.cli = cli;
    m.piece_max = PIECE_KEYS;
    struct err e = open_input(&file);
    if (err_is(&e))
        return cli_fail(&e);
    e = export_check(&m.reader, file);
    if (!err_is(&e) && check_only)
        report(&m, NULL);
    else if (!err_is(&e))
        e = import(&m);
    export_reader_close(&m.reader);
    arena_close(&m.memory);
    if (file != stdin)
        fclose(file);
    return err_is(&e) ? cli_fail(&e) : EXIT_OK;
}

const struct command command_import = {
    .name = "import",
    .words = "",
    .about = "Read what `batonctl export` wrote from stdin, and set its keys.",
    .footer = "The file is checked as a whole before anything is written. Only into a cluster "
              "without keys, unless\n--overwrite is given. Stopped half way it leaves the key "
              "baton/import, which says how far it came;\nrepeated with the same file it goes on "
              "from there. At the end the cluster is led anew, with an epoch\nabove that of the "
              "file. Keys get revisions of their own. JSON: keys, cluster, epoch, from_cluster,\n"
              "from_epoch, from_revision.",
    .rows = rows,
    .row_count = 2,
    .run = run_import};
