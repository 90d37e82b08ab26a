/* Between the messages of baton.v1.NotificationService and plain values. */
#pragma once
#include "baton/v1/notification.pb-c.h"
#include "common/base/arena.h"
#include "common/base/etcd_types.h"
#include "meta/core/subscription.h"

/* What it shows lives in the arena. BAD_REQUEST. */
struct err convert_subscribe(struct bytes body, struct arena *memory, struct subscription *out);

/* ---- notifications ----
 *
 * What is told of one state goes into as many messages of about NOTIFICATION_BYTES as it takes; all
 * but the last one say `more`. */

enum { NOTIFICATION_BYTES = 1024 * 1024 };

/* What all of them say; borrowed. */
struct notification_head {
    const char *cluster_id;
    uint64_t epoch;
    int64_t version;
    bool snapshot; /* a part of the state, not a change */
    bool restart;  /* of the first one: it is the first part */
};

/* All zero but for the head and the sink is one that tells nothing yet. */
struct notification {
    struct notification_head head;
    /* How a finished message leaves. */
    void (*sink)(void *arg, struct bytes message);
    void *arg;
    /* inside */
    struct buf body;
    bool has_news; /* something was told, in this message or one before */
};

void notification_key(struct notification *n, const struct etcd_kv *kv, bool deleted);
void notification_worker(struct notification *n, Baton__V1__Worker *worker, bool gone,
                         bool expired);
/* An encoded MemberTable. */
void notification_members(struct notification *n, struct bytes table);
void notification_leader(struct notification *n, const Baton__V1__LeaderState *leader);
/* Sends the last message; of one without news as progress. token empty: the state goes on in
 * another notification. */
void notification_end(struct notification *n, struct bytes token);
