/* The parent process. It sees the member die at once, whatever it died of, and lets its leadership
 * go, so that the next one leads after milliseconds instead of a TTL. */
#pragma once
#include "common/base/err.h"
#include "common/io/etcd_login.h"
#include "meta/core/record.h"

struct etcd_access;

struct guardian_config {
    const struct etcd_access *etcd;        /* without its login; NULL: there is nothing to let go */
    const struct etcd_login_config *login; /* user NULL: none */
    const char *prefix;                    /* "/baton/<cluster>/" */
};

/* The member's end of the pipe to its guardian. */
struct guardian_link;

/* Before any thread, socket or signal handler. Forks: child_main runs in the child and its value is
 * the exit status; the parent waits in here and returns the status with which it should exit (128 +
 * signal when the child was killed). SIGTERM, SIGINT and SIGHUP go on to the child, which dies with
 * the parent. */
int guardian_run(const struct guardian_config *cfg,
                 int (*child_main)(struct guardian_link *link, void *arg), void *arg);

/* In the child, any one thread at a time. What to let go if this process dies from now on: the
 * election key of `lease` and the lease, and, when epoch is not 0, that leadership. lease 0:
 * nothing. Never waits: a guardian that does not read (it is stopped, but its child is not) has a
 * full pipe after a while, and what was told last is kept for guardian_heard. */
void guardian_tell(struct guardian_link *link, int64_t lease, const struct released *release);
/* In the same thread. False while what was told last does not get into the pipe: the guardian would
 * let go something older. */
bool guardian_heard(struct guardian_link *link);

/* In the child, any thread: the newest token of its login, so that the guardian need not ask for
 * one when every millisecond counts. A full pipe drops it: then it asks. */
void guardian_tell_token(struct guardian_link *link, const char *token);

/* In the child: a fatal signal first calls close_gate (async-signal-safe: it must stop all reads),
 * then tells the guardian, then kills the process as it would have without. A core dump takes
 * seconds; the successor need not wait for it. */
void guardian_on_fatal_signal(struct guardian_link *link, void (*close_gate)(void *arg), void *arg);
