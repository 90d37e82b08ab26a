/* Takes one registration of a member out of etcd: its record, its place in line, its lease. */
#pragma once
#include "meta/core/removal.h"

struct etcd_client;

/* Called exactly once, on the client's thread. UNKNOWN_MEMBER: it had left by itself. FENCED:
 * another process has registered under its id since. OUTCOME_UNKNOWN, UNREACHABLE: of etcd. */
typedef void remover_done(void *arg, const struct err *err);
void remover_start(struct etcd_client *etcd, const char *prefix, const struct removal *removal,
                   remover_done *done, void *arg);
