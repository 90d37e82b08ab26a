/* A real etcd for tests: one node, free ports of 127.0.0.1, its own directory, dead when the test
 * is. */
#pragma once
#include <stdbool.h>

struct etcd_process;

/* Fails the test when etcd cannot be started. flags: further ones, NULL-ended, or NULL; kept by
 * reference. */
struct etcd_process *etcd_process_start(const char *const *flags);
/* With this client URL instead of one of its own choice; flags may name further ones. */
struct etcd_process *etcd_process_start_at(const char *url, const char *const *flags);
/* NULL is allowed. Kills it and removes its directory. */
void etcd_process_free(struct etcd_process *p);

const char *etcd_process_url(const struct etcd_process *p);   /* http://127.0.0.1:port */
void etcd_process_signal(struct etcd_process *p, int number); /* SIGSTOP, SIGCONT */
void etcd_process_kill(struct etcd_process *p, int number);   /* and waits until it is gone */
void etcd_process_restart(struct etcd_process *p); /* same ports, same data; was killed */
void etcd_process_wipe(
    struct etcd_process *p); /* was killed: forget all data, another cluster id */

/* A port of 127.0.0.1 that nobody listens on just now. */
int free_port(void);
