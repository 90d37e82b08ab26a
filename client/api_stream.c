#include "client/api_stream.h"
#include "client/client_stream.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include <stdlib.h>

#define PREFIXES_MAX 100
#define TOKEN_MAX 128
#define SEARCH_MS 2000 /* for a leader, before it looks whether it is to close */

struct api_stream {
    struct baton_client *client;
    const struct api_stream_kind *kind;
    void *owner;
    struct api_stream_told told;
    pthread_t thread;
    struct stream_resume resume; /* this and what follows: of the thread */
    struct rng rng;
    bool connected, down_told;
    struct buf message;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t woken;
    bool closing;
    struct client_stream *open;
};

/* ---- between the thread and who closes ---- */

static bool is_closing(struct api_stream *s)
{
    pthread_mutex_lock(&s->lock);
    bool closing = s->closing;
    pthread_mutex_unlock(&s->lock);
    return closing;
}

/* false: it is to close. */
static bool wait_ms(struct api_stream *s, int64_t ms)
{
    struct timespec until = clock_mono_after(ms);
    pthread_mutex_lock(&s->lock);
    while (!s->closing && pthread_cond_timedwait(&s->woken, &s->lock, &until) == 0)
        ;
    bool closing = s->closing;
    pthread_mutex_unlock(&s->lock);
    return !closing;
}

/* What is cancelled meanwhile is so from the start. */
static void show_open(struct api_stream *s, struct client_stream *open)
{
    pthread_mutex_lock(&s->lock);
    s->open = open;
    if (s->closing && open)
        client_stream_cancel(open);
    pthread_mutex_unlock(&s->lock);
}

/* ---- what users are told of the connection ---- */

static void tell_connected(struct api_stream *s)
{
    if (s->connected)
        return;
    s->connected = true;
    s->down_told = false;
    if (s->told.connection)
        s->told.connection(s->told.user, NULL);
}

static void tell_down(struct api_stream *s, const struct baton_error *err)
{
    s->connected = false;
    if (s->down_told)
        return;
    s->down_told = true;
    if (s->told.connection)
        s->told.connection(s->told.user, err);
}

/* ---- a message ---- */

static struct err admit(struct api_stream *s, const struct api_message *m)
{
    struct err e = client_admit(s->client->calls, m->cluster, m->epoch);
    if (e.code == ERR_STALE_EPOCH && s->kind->rejected) {
        struct baton_error told;
        api_error(&e, NULL, &told);
        s->kind->rejected(s->owner, m->epoch, &told);
    }
    return e;
}

static struct err take(struct api_stream *s, struct arena *memory)
{
    struct api_message m = {0};
    size_t skip[STREAM_KINDS];
    struct err e = s->kind->decode(s->owner, buf_view(&s->message), memory, &m);
    if (!err_is(&e))
        e = admit(s, &m);
    if (err_is(&e))
        return e;
    enum stream_verdict v = stream_resume_take(&s->resume, &m.place, skip);
    if (v == STREAM_BREAK)
        return err_make(ERR_PROTOCOL, "the stream does not go on from what was told before");
    tell_connected(s);
    if (!is_closing(s))
        s->kind->tell(s->owner, &m, skip, v == STREAM_TELL);
    return OK_ERR;
}

/* ---- one stream ---- */

static struct err silence(const struct client_stream *open)
{
    return err_make(ERR_LOST, "%s says nothing any more", client_stream_addr(open));
}

/* Until it ends; why. distrust: by what it said, or failed to say. */
static struct err hear(struct api_stream *s, struct client_stream *open, bool *distrust)
{
    struct err e = OK_ERR;
    for (;;) {
        struct arena memory = {0};
        /* from now on: what the user made of the last message took its time, too */
        int64_t deadline_ms = clock_boot_ms() + stream_resume_patience_ms(&s->resume);
        enum rpc_next next = client_stream_next(open, deadline_ms, &s->message, &e);
        if (next == RPC_NEXT_END)
            return err_is(&e) ? e : err_make(ERR_LOST, "the stream was ended by the member");
        e = next == RPC_NEXT_NOTHING ? silence(open) : take(s, &memory);
        arena_close(&memory);
        if (err_is(&e)) {
            *distrust = true;
            return e;
        }
    }
}

/* One stream from its opening to its end, or the search for a leader; false: it is all over. */
static bool run_once(struct api_stream *s)
{
    struct buf body = {0};
    struct client_stream *open = NULL;
    struct baton_error told;
    int64_t ms, pushback_ms = 0;
    bool distrust = false;
    s->kind->request(s->owner, &s->resume, &body);
    struct err e = client_stream_open(s->client->calls, s->kind->path, buf_view(&body),
                                      clock_boot_ms() + SEARCH_MS, &open);
    stream_resume_opened(&s->resume);
    if (!err_is(&e)) {
        show_open(s, open);
        e = hear(s, open, &distrust);
        show_open(s, NULL);
    }
    if (distrust)
        client_stream_distrust(open);
    bool ended = open && !distrust;
    api_error(&e, ended ? client_stream_answer(open) : NULL, &told);
    if (ended)
        pushback_ms = client_stream_answer(open)->pushback_ms;
    client_stream_free(open);
    buf_close(&body);
    if (is_closing(s))
        return false;
    if (stream_resume_ended(&s->resume, &e, pushback_ms, &s->rng, &ms) == STREAM_OVER) {
        if (s->told.failed)
            s->told.failed(s->told.user, &told);
        return false;
    }
    tell_down(s, &told);
    return wait_ms(s, ms);
}

static void *run(void *arg)
{
    struct api_stream *s = arg;
    while (!is_closing(s) && run_once(s))
        ;
    return NULL;
}

/* ---- opening and closing ---- */

struct err api_stream_check(size_t prefix_count, struct baton_bytes token)
{
    if (prefix_count > PREFIXES_MAX)
        return err_make(ERR_USAGE, "there are at most %d prefixes", PREFIXES_MAX);
    if (token.len > TOKEN_MAX)
        return err_make(ERR_USAGE, "this is no token: it is longer than %d bytes", TOKEN_MAX);
    return OK_ERR;
}

struct api_stream *api_stream_open(struct baton_client *client, const struct api_stream_kind *kind,
                                   void *owner, const struct api_stream_told *told,
                                   struct stream_resume *resume)
{
    struct api_stream *s = mem_alloc(sizeof *s);
    *s = (struct api_stream){
        .client = client, .kind = kind, .owner = owner, .told = *told, .resume = *resume};
    *resume = (struct stream_resume){0};
    rng_seed_os(&s->rng);
    pthread_mutex_init(&s->lock, NULL);
    thread_cond_init(&s->woken);
    s->thread = thread_start(kind->thread, run, s);
    return s;
}

void api_stream_close(struct api_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    if (s->open)
        client_stream_cancel(s->open);
    pthread_cond_broadcast(&s->woken);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->woken);
    pthread_mutex_destroy(&s->lock);
    stream_resume_close(&s->resume);
    buf_close(&s->message);
    free(s);
}
