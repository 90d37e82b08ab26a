/* Calls that find the leader and outlive it. One thread at a time uses a client. */
#pragma once
#include "client/convert_member.h"
#include "common/io/rpc_client.h"

struct client;

struct client_config {
    const char *addresses; /* of proxies or members: host:port[,host:port...] */
    int attempts_max;      /* of one call; 0: as many as its deadline allows */
};

/* Connects to nobody yet. USAGE names the address that is wrong. */
struct err client_new(struct client **out, const struct client_config *cfg);
void client_free(struct client *c);

struct client_request {
    const char *path;
    struct bytes body;
    bool idempotent;   /* may run any number of times */
    bool keeps_ids;    /* the service executes a request id once: one is made, and kept over all
                          attempts */
    bool any_member;   /* whoever is reached may answer, known leader or not */
    bool as_addressed; /* goes to one of the addresses that were given, not to the leader */
};

/* One call, sent again where client/core/retry.h allows. deadline_ms is on the scale of
 * clock_boot_ms. The error is that of the last attempt and names the address it went to; out is its
 * answer. */
struct err client_call(struct client *c, const struct client_request *req, int64_t deadline_ms,
                       struct rpc_answer *out);
/* A server stream from whoever leads; it is looked for until deadline_ms, which also bounds the
 * wait. What goes wrong then is told by rpc_reader_next; *out is to be freed before the client. */
struct err client_open(struct client *c, const char *path, struct bytes body, int64_t deadline_ms,
                       struct rpc_reader **out);
/* The service answered with this revision: the next request ids name it. */
void client_saw_revision(struct client *c, int64_t revision);

/* The addresses it was made with. */
size_t client_seed_count(const struct client *c);
const char *client_seed(const struct client *c, size_t i);
/* One attempt of a call at one address, whoever leads. */
struct err client_call_at(struct client *c, const char *addr, const char *path, struct bytes body,
                          int64_t deadline_ms, struct rpc_answer *out);
/* What the peer at an address knows of the leadership, asked once. */
struct err client_ask(struct client *c, const char *addr, int64_t deadline_ms,
                      struct member_leader *out);
