/* Subscriptions: what was asked for, kept over streams, and how it is told. */
#include "client/convert_item.h"
#include "client/convert_notification.h"
#include "common/base/mem.h"
#include <stdlib.h>

#define ALL_TOPICS ((unsigned)(BATON_MEMBERS | BATON_LEADERS | BATON_WORKERS | BATON_KEYS))

struct baton_subscription {
    struct baton_subscribe_options told; /* what it points to: copies */
    struct arena memory;
    struct api_stream *stream;
};

static void ask(void *owner, const struct stream_resume *r, struct buf *out)
{
    struct baton_subscription *s = owner;
    notification_encode(&s->told, r, out);
}

static struct err decode(void *owner, struct bytes message, struct arena *memory,
                         struct api_message *out)
{
    return notification_decode(message, memory, out);
}

static void tell(void *owner, const struct api_message *m, const size_t skip[STREAM_KINDS],
                 bool fresh)
{
    struct baton_subscription *s = owner;
    struct baton_notification *n = m->said;
    bool beside = n->members || n->leader;
    if (m->place.kind == STREAM_PROGRESS && !beside) {
        if (fresh && s->told.progress)
            s->told.progress(s->told.user, n->version);
        return;
    }
    if (!fresh && !beside)
        return;
    n->keys += skip[0];
    n->key_count -= skip[0];
    n->workers += skip[1];
    n->worker_count -= skip[1];
    if (!fresh) { /* in the middle of a commit that another stream began to tell */
        n->more = true;
        n->token = (struct baton_bytes){0};
    }
    s->told.notified(s->told.user, n);
}

static void rejected(void *owner, uint64_t epoch, const struct baton_error *err)
{
    struct baton_subscription *s = owner;
    if (s->told.rejected)
        s->told.rejected(s->told.user, epoch, err);
}

static const struct api_stream_kind notification_kind = {.path = NOTIFICATION_PATH,
                                                         .thread = "baton-subscribe",
                                                         .request = ask,
                                                         .decode = decode,
                                                         .tell = tell,
                                                         .rejected = rejected};

static struct err check(const struct baton_subscribe_options *o)
{
    if (!o || !o->notified)
        return err_make(ERR_USAGE, "a subscription needs a function that is called with news");
    if (!o->kind)
        return err_make(ERR_USAGE, "a subscription needs a kind, as \"compute\"");
    if (!o->topics || o->topics & ~ALL_TOPICS)
        return err_make(ERR_USAGE, "topics: one or more of enum baton_topic");
    for (size_t i = 0; i < o->worker_type_count; i++)
        if (!o->worker_types[i])
            return err_make(ERR_USAGE, "a type of workers is NULL");
    return api_stream_check(o->prefix_count, o->token);
}

static void keep(struct baton_subscription *s, const struct baton_subscribe_options *o)
{
    const char **types = arena_array(&s->memory, o->worker_type_count, sizeof *types);
    for (size_t i = 0; i < o->worker_type_count; i++)
        types[i] = item_keep_text(o->worker_types[i], &s->memory);
    s->told = *o;
    s->told.kind = item_keep_text(o->kind, &s->memory);
    s->told.prefixes = item_keep_all(o->prefixes, o->prefix_count, &s->memory);
    s->told.worker_types = types;
}

int baton_subscribe(struct baton_subscription **out, struct baton_client *client,
                    const struct baton_subscribe_options *options, struct baton_error *err)
{
    struct err e = check(options);
    *out = NULL;
    if (err_is(&e))
        return api_fail(&e, NULL, err);
    struct stream_resume resume;
    struct baton_subscription *s = mem_alloc(sizeof *s);
    keep(s, options);
    stream_resume_init(&resume, options->token.len ? STREAM_FROM_TOKEN : STREAM_FROM_SNAPSHOT, 0,
                       api_bytes(options->token));
    *out = s;
    struct api_stream_told told = {options->connection, options->failed, options->user};
    s->stream = api_stream_open(client, &notification_kind, s, &told, &resume);
    return 0;
}

void baton_subscription_close(struct baton_subscription *subscription)
{
    if (!subscription)
        return;
    api_stream_close(subscription->stream);
    arena_close(&subscription->memory);
    free(subscription);
}
