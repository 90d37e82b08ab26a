/* Whether etcd lets this member do what it has to do, asked once when it starts. */
#pragma once
#include "common/io/etcd.h"

/* Blocking, for some seconds at most. DENIED when etcd says that the user, the password or the
 * user's permissions will not do; the message says what to change. OK also when no endpoint
 * answers: that may pass, and is said in the log. user: NULL for none. */
struct err access_check(const struct etcd_access *access, const char *user, const char *prefix);
