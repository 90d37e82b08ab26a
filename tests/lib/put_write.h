/* A put for a replica, as the key-value service makes it. */
#pragma once
#include "common/base/mem.h"
#include "meta/replica.h"

/* Freed by `done`. One at a time: they share their operation. */
static inline struct write *put_write(const char *key, const char *value,
                                      void (*done)(struct write *w, const struct err *err,
                                                   const struct plan_answer *answer,
                                                   uint64_t epoch),
                                      void *user)
{
    static struct request_op op = {.kind = REQUEST_OP_PUT};
    struct write *w = mem_alloc(sizeof *w);
    op.key = bytes_str(key);
    op.value = bytes_str(value);
    w->request = (struct plan_request){
        .method = REQUEST_PUT, .then_ops = &op, .then_count = 1, .id_revision = -1};
    w->deadline_ms = INT64_MAX;
    w->done = done;
    w->user = user;
    return w;
}
