/* Between the messages of KvService.Watch and the plain values of the fan-out. */
#pragma once
#include "common/base/err.h"
#include "common/base/etcd_types.h"
#include "meta/fanout.h"

struct arena;

enum { WATCH_PREFIXES_MAX = 100 };

/* What a watch asks for; the slices live in the arena. */
struct watch_request {
    struct bytes *prefixes; /* sorted, none starts with another; none at all: every key */
    size_t prefix_count;
    int64_t start_revision; /* 0: from now on */
    struct bytes resume_token;
    bool snapshot;
};
/* BAD_REQUEST, BAD_KEY. */
struct err convert_watch(struct bytes body, struct arena *memory, struct watch_request *out);

enum watch_kind { WATCH_EVENTS, WATCH_SNAPSHOT, WATCH_PROGRESS };

struct watch_message {
    enum watch_kind kind;
    int64_t revision;
    const struct etcd_event *events; /* of users' keys as they see them */
    size_t count;
    bool restart, more;
};
void convert_watch_message(const struct fanout_view *v, const struct watch_message *m,
                           struct arena *memory, struct buf *out);
