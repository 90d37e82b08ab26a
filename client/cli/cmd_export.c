/* export: the whole state, as lines of JSON on stdout. */
#include "client/cli/export_file.h"
#include "client/core/retry.h"
#include "common/base/clock.h"
#include <errno.h>
#include <unistd.h>

enum { PAUSE_MS = 50 }; /* before the leader is looked for again */

struct exporting {
    struct cli *cli;
    struct client_stream *stream;
    struct export_writer writer;
    bool begun, ended;
};

static struct err cannot_write(void)
{
    return err_make(ERR_IO, "cannot write the export: %s", strerror(errno));
}

static struct err begin(struct exporting *x, const struct maintenance_part *part)
{
    struct export_head head = {
        .epoch = part->epoch, .incarnation = part->incarnation, .revision = part->revision};
    snprintf(head.cluster, sizeof head.cluster, "%s", part->cluster);
    if (x->begun)
        return err_make(ERR_PROTOCOL, "a second header");
    x->begun = true;
    return export_begin(&x->writer, stdout, &head) ? OK_ERR : cannot_write();
}

static struct err end(struct exporting *x, const struct maintenance_part *part)
{
    if (part->keys != x->writer.keys)
        return err_make(ERR_PROTOCOL, "%llu keys came, and there are %llu",
                        (unsigned long long)x->writer.keys, (unsigned long long)part->keys);
    x->ended = true;
    return export_end(&x->writer) ? OK_ERR : cannot_write();
}

static struct err take(struct exporting *x, const struct maintenance_part *part)
{
    if (part->kind == MAINTENANCE_HEADER)
        return begin(x, part);
    if (!x->begun || x->ended)
        return err_make(ERR_PROTOCOL, "a part of the export in the wrong place");
    if (part->kind == MAINTENANCE_END)
        return end(x, part);
    for (size_t i = 0; i < part->item_count; i++)
        if (!export_add(&x->writer, &part->items[i]))
            return cannot_write();
    return OK_ERR;
}

static void show_progress(const struct exporting *x, bool last)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%llu keys%s", (unsigned long long)x->writer.keys, last ? "\n" : "");
}

/* Part after part; --timeout is for each. */
static struct err read_parts(struct exporting *x)
{
    struct buf message = {0};
    struct arena memory = {0};
    struct err e = OK_ERR;
    bool more = true;
    while (more && !err_is(&e)) {
        struct maintenance_part part;
        switch (client_stream_next(x->stream, cli_deadline(x->cli), &message, &e)) {
        case RPC_NEXT_MESSAGE:
            arena_clear(&memory);
            e = maintenance_decode_part(buf_view(&message), &memory, &part);
            if (!err_is(&e))
                e = take(x, &part);
            show_progress(x, false);
            break;
        case RPC_NEXT_NOTHING:
            e = err_make(ERR_TIMEOUT, "nothing came for %lld ms (--timeout)",
                         (long long)x->cli->timeout_ms);
            break;
        case RPC_NEXT_END:
            more = false;
            break;
        }
    }
    if (!err_is(&e) && !x->ended)
        e = err_make(ERR_PROTOCOL, "the export ended too early");
    arena_close(&memory);
    buf_close(&message);
    return e;
}

static struct err export_once(struct exporting *x, int64_t deadline_ms)
{
    struct err e = client_export(x->cli->client, deadline_ms, &x->stream);
    if (err_is(&e))
        return e;
    e = read_parts(x);
    client_stream_free(x->stream);
    return e;
}

static int run_export(struct cli *cli, char **words, int count)
{
    struct exporting x = {.cli = cli};
    int64_t deadline_ms = cli_deadline(cli);
    struct err e = export_once(&x, deadline_ms);
    /* what was not begun has a leader to be found yet */
    while (retry_may_pass(e.code) && !x.begun && clock_pause(PAUSE_MS, deadline_ms))
        e = export_once(&x, deadline_ms);
    if (x.begun)
        show_progress(&x, true);
    export_writer_close(&x.writer);
    return err_is(&e) ? cli_fail(&e) : EXIT_OK;
}

const struct command command_export = {
    .name = "export",
    .words = "",
    .about = "Write every key, as of one moment, to stdout: for `batonctl import`.",
    .footer = "Lines of JSON: a header (cluster, epoch, revision), one line for each key as of kv "
              "get, and an end with\ntheir number and a digest, without which a file is not "
              "whole. --timeout is for each piece that is\nwaited for. Read it at once: an export "
              "whose reader pauses for 10 s is ended.",
    .run = run_export};
