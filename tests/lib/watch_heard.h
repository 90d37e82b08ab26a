/* What a watch of a test has heard. */
#pragma once
#include "common/base/queue.h"
#include "common/io/etcd.h"

struct heard {
    int lines;
    struct queue *end; /* gets the struct when the stream has ended, with `why` */
    struct err why;
};

static inline void heard_line(void *arg, struct etcd_watch_line *line)
{
    ((struct heard *)arg)->lines++;
}

static inline void heard_end(void *arg, struct err why)
{
    struct heard *h = arg;
    h->why = why;
    queue_push_always(h->end, h);
}
