/* What top shows, from given data: no clock, no terminal, no calls. */
#pragma once
#include "client/cli/cluster_output.h"

/* A look at the cluster. Its results belong to it. */
struct top_sample {
    int64_t at_ms, unix_ms;          /* when, by the clock of intervals and by that of the wall */
    struct baton_cluster_info *info; /* NULL: no leader answered */
    struct baton_members *members;   /* NULL: nobody answered */
    struct baton_error why;          /* why no leader did */
};

void top_sample_close(struct top_sample *s);

/* Who leads, out of what was answered; members that know no GetClusterInfo (of an older version)
 * tell it in their list. */
struct top_leader {
    const char *id, *addr; /* NULL: not known */
    uint64_t epoch;
    int64_t revision;
};

struct top_leader top_leader_of(const struct top_sample *s);

/* A second; known: both samples are of one leadership; counted: the leader counts what it does, and
 * did not begin anew. */
struct top_rates {
    bool known, counted;
    double revisions, commits, writes, reads, heartbeats;
};

struct top_rates top_rates_of(const struct top_sample *before, const struct top_sample *now);

struct top_view {
    const struct top_sample *now, *last; /* last: of what is missing now, what was answered last */
    int64_t unled_ms; /* since there was a leader; of no meaning while there is */
    struct top_rates rates;
};

/* Lines, each with its style in front. */
enum top_style { TOP_PLAIN = ' ', TOP_TITLE = 'T', TOP_ALARM = '!', TOP_HEADING = 'H' };
void top_frame(const struct top_view *v, struct buf *out);

/* The lines as they are. */
void top_text(struct bytes frame, struct buf *out);
/* As they fit on a terminal of that size, drawn over what was there. */
void top_screen(struct bytes frame, int width, int height, bool color, struct buf *out);
struct json_object *top_json(const struct top_view *v);
