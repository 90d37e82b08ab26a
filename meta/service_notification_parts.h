/* Inside of the notification service: service_notification.c takes subscriptions,
 * service_notification_kind.c says what their streams are told. */
#pragma once
#include "meta/fanout.h"
#include "meta/service_notification.h"
#include "meta/service_notification_members.h"
#include <pthread.h>
#include <stdatomic.h>

struct service_notification {
    struct service_notification_config cfg;
    struct fanout_kind kind;
    pthread_mutex_t lock; /* for the table */
    struct member_table table;
    _Atomic bool table_old; /* something may have changed since it was looked at */
};

/* ---- service_notification_kind.c ---- */
void notification_kind_fill(struct service_notification *s);
