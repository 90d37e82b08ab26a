/* Watches: what was asked for, kept over streams, and how it is told. */
#include "client/convert_item.h"
#include "client/convert_watch.h"
#include "common/base/mem.h"
#include <stdlib.h>

struct baton_watch {
    struct baton_watch_options told; /* prefixes: copies */
    struct arena memory;
    struct api_stream *stream;
};

static void ask(void *owner, const struct stream_resume *r, struct buf *out)
{
    struct baton_watch *w = owner;
    watch_encode(w->told.prefixes, w->told.prefix_count, r, out);
}

static struct err decode(void *owner, struct bytes message, struct arena *memory,
                         struct api_message *out)
{
    return watch_decode(message, memory, out);
}

static void tell(void *owner, const struct api_message *m, const size_t skip[STREAM_KINDS],
                 bool fresh)
{
    struct baton_watch *w = owner;
    struct baton_changes *c = m->said;
    if (!fresh)
        return;
    if (m->place.kind == STREAM_PROGRESS) {
        if (w->told.progress)
            w->told.progress(w->told.user, c->revision);
        return;
    }
    c->events += skip[0];
    c->count -= skip[0];
    w->told.changed(w->told.user, c);
}

static const struct api_stream_kind watch_kind = {
    .path = WATCH_PATH, .thread = "baton-watch", .request = ask, .decode = decode, .tell = tell};

static struct err check(const struct baton_watch_options *o)
{
    if (!o || !o->changed)
        return err_make(ERR_USAGE, "a watch needs a function that is called with changes");
    if (o->start_revision < 0)
        return err_make(ERR_USAGE, "start_revision cannot be negative");
    return api_stream_check(o->prefix_count, o->token);
}

static enum stream_start start_of(const struct baton_watch_options *o)
{
    return o->token.len        ? STREAM_FROM_TOKEN
           : o->start_revision ? STREAM_FROM_REVISION
           : o->snapshot       ? STREAM_FROM_SNAPSHOT
                               : STREAM_FROM_NOW;
}

int baton_watch_open(struct baton_watch **out, struct baton_client *client,
                     const struct baton_watch_options *options, struct baton_error *err)
{
    struct err e = check(options);
    *out = NULL;
    if (err_is(&e))
        return api_fail(&e, NULL, err);
    struct stream_resume resume;
    struct baton_watch *w = mem_alloc(sizeof *w);
    w->told = *options;
    w->told.prefixes = item_keep_all(options->prefixes, options->prefix_count, &w->memory);
    stream_resume_init(&resume, start_of(options), options->start_revision,
                       api_bytes(options->token));
    *out = w;
    struct api_stream_told told = {options->connection, options->failed, options->user};
    w->stream = api_stream_open(client, &watch_kind, w, &told, &resume);
    return 0;
}

void baton_watch_close(struct baton_watch *watch)
{
    if (!watch)
        return;
    api_stream_close(watch->stream);
    arena_close(&watch->memory);
    free(watch);
}
