/* What a client does with the login. Any thread. */
#pragma once
#include "common/base/buf.h"
#include "common/io/etcd_login.h"
#include <stdbool.h>

/* True: *number is that of the newest token, which is in room; or 0 when etcd asks for none. False:
 * somebody has to authenticate. */
bool login_token(struct etcd_login *l, char room[ETCD_TOKEN_MAX], uint64_t *number);
/* A request with this token (0: without) was refused for it. */
void login_drop(struct etcd_login *l, uint64_t number);
/* Whether requests with this token are answered. A token from before etcd was restored makes it
 * wait for ever, so one that is never answered is dropped, too. */
void login_heard(struct etcd_login *l, uint64_t number);
void login_not_heard(struct etcd_login *l, uint64_t number);

/* The request that authenticates, to be wiped after use. DENIED: etcd refused the last one just
 * now, or the password cannot be read. */
struct err login_request(struct etcd_login *l, struct buf *body);
/* What came of it. */
void login_got(struct etcd_login *l, const char *token);
void login_refused(struct etcd_login *l, const struct err *why);
void login_not_asked(struct etcd_login *l); /* etcd asks for no user */
