/* baton.v1.NotificationService: streams of the fan-out that tell keys, workers, members and the
 * leader. */
#pragma once
#include "common/io/rpc_server.h"

struct board;
struct fanout;
struct service_lead;
struct service_member;
struct service_notification;

/* Borrowed until service_notification_stop. */
struct service_notification_config {
    struct service_lead *lead;
    struct board *board;
    struct fanout *fanout;
    struct service_member *members; /* for their list */
    const char *member_id, *addr;   /* of this member */
};

struct service_notification *
service_notification_new(const struct service_notification_config *cfg);
/* After the fan-out has stopped. */
void service_notification_free(struct service_notification *s);

/* The list of members, or the role of one, may have changed. Any thread, also under a lock. */
void service_notification_changed(struct service_notification *s);

#define SERVICE_NOTIFICATION_METHODS 1
void service_notification_methods(struct service_notification *s,
                                  struct rpc_method methods[SERVICE_NOTIFICATION_METHODS]);
