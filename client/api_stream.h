/* A thread that follows a stream of changes, whoever leads: opens it, hears it, opens it anew. What
 * it was told comes to its kind in order, without a gap and without a repeat; see
 * client/core/stream_resume.h. */
#pragma once
#include "client/baton_parts.h"
#include "client/core/stream_resume.h"

struct api_stream;

/* A message as the stream sees it; `said` is the kind's own. */
struct api_message {
    struct stream_message place;
    const char *cluster;
    uint64_t epoch;
    void *said;
};

/* On the stream's thread, one at a time. */
struct api_stream_kind {
    const char *path, *thread;
    void (*request)(void *owner, const struct stream_resume *r, struct buf *out);
    /* PROTOCOL: it is no such message. What out points to may live in the arena and the bytes. */
    struct err (*decode)(void *owner, struct bytes message, struct arena *memory,
                         struct api_message *out);
    /* All but the first skip[] items of each kind; fresh: some of them are left. */
    void (*tell)(void *owner, const struct api_message *m, const size_t skip[STREAM_KINDS],
                 bool fresh);
    /* Of a deposed leader; NULL: nobody asks. */
    void (*rejected)(void *owner, uint64_t epoch, const struct baton_error *err);
};

/* What users of all streams are told; each may be NULL. */
struct api_stream_told {
    void (*connection)(void *user, const struct baton_error *err); /* NULL: connected */
    void (*failed)(void *user, const struct baton_error *err);     /* nothing comes after it */
    void *user;
};

/* What users ask of all streams: USAGE when it can never be had. */
struct err api_stream_check(size_t prefix_count, struct baton_bytes token);
/* Takes over resume. Blocks nothing: the thread connects. */
struct api_stream *api_stream_open(struct baton_client *client, const struct api_stream_kind *kind,
                                   void *owner, const struct api_stream_told *told,
                                   struct stream_resume *resume);
/* Waits until no callback runs or will run, then frees. Not from a callback. */
void api_stream_close(struct api_stream *s);
