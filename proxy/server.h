/* The main thread: listens, accepts, gives each connection to the worker with the fewest, and ends
 * it all on SIGTERM. */
#pragma once
#include "proxy/worker.h"

struct server;

/* Listens and starts the workers. IN_USE, DENIED or USAGE errors name the address. */
struct err server_start(struct proxy_shared *shared, struct server **out);
size_t server_worker_count(const struct server *s);
struct worker *server_worker(const struct server *s, size_t i);
bool server_is_draining(const struct server *s); /* any thread */
/* Client connections: how many may be open, and how many were refused for it. Any thread. */
size_t server_max_clients(const struct server *s);
uint64_t server_refused_clients(const struct server *s);
/* Until everything has ended after SIGTERM or SIGINT. False: a second signal cut calls off. */
bool server_run(struct server *s);
void server_stop(struct server *s); /* instead of server_run: ends the workers at once */
void server_free(struct server *s); /* after one of the two */
