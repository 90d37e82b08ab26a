/* gRPC for the client of etcd: curl makes the connections (names, TLS, time limits), the HTTP/2
 * library speaks over them. One link to an endpoint carries all its requests; one that has fallen
 * silent gets a successor and goes on for what is under way on it. Everything on the client's
 * thread. Callbacks of the library only note what happened; h2_turn reports it. */
#pragma once
#include "common/io/etcd_internal.h"

/* Whether t goes this way: it is in etcd's own encoding, and its endpoint takes that. */
bool h2_takes(const struct transfer *t);
/* Sends it once there is a link. Reports it over, or starts it anew when the endpoint turns out to
 * speak JSON only. */
void h2_start(struct transfer *t);
/* Takes it off its link, and tells etcd that nobody waits any more. */
void h2_drop(struct transfer *t);

/* The result of curl for a connection; false: it is none of ours. */
bool h2_connected(struct etcd_client *c, CURL *easy, CURLcode rc);
/* Ends what is over or late, and writes what is due; when to come again. */
int64_t h2_turn(struct etcd_client *c);
/* What to wait for, into c->fds; how many. */
unsigned h2_poll(struct etcd_client *c);
/* What has come, as c->fds says. */
void h2_read(struct etcd_client *c);
void h2_close(struct etcd_client *c); /* nothing runs any more */
