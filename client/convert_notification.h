/* Messages of subscriptions <-> the library's values. */
#pragma once
#include "client/api_stream.h"

#define NOTIFICATION_PATH "/baton.v1.NotificationService/Subscribe"

/* Asks for what the options name, from where the last stream ended. Replaces what out held. */
void notification_encode(const struct baton_subscribe_options *o, const struct stream_resume *r,
                         struct buf *out);
/* PROTOCOL when the bytes are no such message. out->said: a struct baton_notification in the arena.
 */
struct err notification_decode(struct bytes message, struct arena *memory, struct api_message *out);
