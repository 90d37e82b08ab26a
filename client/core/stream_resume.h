/* Where a stream of changes goes on: what to ask for when it is opened again, and what of that was
 * told before, so that over any number of streams nothing is missing and nothing comes twice.
 *
 * What names the place, the token, moves with whole commits only. A stream that breaks within one
 * is opened at its beginning again, and what was told of it is skipped by count: members tell a
 * commit in one order always. A snapshot that breaks is asked for anew from its beginning, and says
 * restart. */
#pragma once
#include "common/base/backoff.h"
#include "common/base/buf.h"
#include "common/base/err.h"

/* Members say something each 10 s. */
#define STREAM_SILENCE_MS 25000
/* And at once when a stream begins. */
#define STREAM_FIRST_MS 10000

enum stream_start {
    STREAM_FROM_NOW,
    STREAM_FROM_REVISION,
    STREAM_FROM_TOKEN,
    STREAM_FROM_SNAPSHOT, /* the present state, then changes */
};

/* Items of a message are of up to two kinds, counted apart. */
enum { STREAM_KINDS = 2 };

struct stream_message {
    enum { STREAM_CHANGES, STREAM_SNAPSHOT, STREAM_PROGRESS } kind;
    int64_t revision;
    bool restart, more;
    struct bytes token; /* of a message without `more` */
    size_t items[STREAM_KINDS];
};

struct stream_resume {
    enum stream_start start;
    int64_t start_revision; /* of FROM_REVISION */
    struct buf token;       /* of FROM_TOKEN */
    int64_t revision;       /* all up to it was told */
    /* A commit of which a part was told; 0: none. */
    int64_t part;
    size_t told[STREAM_KINDS];
    /* Of the stream that is open. */
    bool heard;                /* something came */
    bool snapshot;             /* in the middle of one */
    int64_t seen_part;         /* the commit that its last message told a part of; 0: none */
    size_t seen[STREAM_KINDS]; /* of that commit */
    struct backoff backoff;
};

/* token: STREAM_FROM_TOKEN; copied. */
void stream_resume_init(struct stream_resume *r, enum stream_start start, int64_t start_revision,
                        struct bytes token);
void stream_resume_close(struct stream_resume *r);

/* A stream was opened that asks for r->start. */
void stream_resume_opened(struct stream_resume *r);
/* How long to wait for what comes next before the stream is given up. */
int64_t stream_resume_patience_ms(const struct stream_resume *r);

enum stream_verdict {
    STREAM_TELL,  /* all but the first skip[] items of each kind */
    STREAM_QUIET, /* nothing in it is new */
    STREAM_BREAK, /* it does not go on from what was told: the next stream begins with a snapshot */
};
/* A message came. The first of a stream says that it is served. */
enum stream_verdict stream_resume_take(struct stream_resume *r, const struct stream_message *m,
                                       size_t skip[STREAM_KINDS]);

/* How a stream, or the search for a leader, ended. */
enum stream_next {
    STREAM_AGAIN, /* after *wait_ms */
    STREAM_OVER,  /* what is asked for will never be had */
};
enum stream_next stream_resume_ended(struct stream_resume *r, const struct err *e,
                                     int64_t pushback_ms, struct rng *rng, int64_t *wait_ms);
