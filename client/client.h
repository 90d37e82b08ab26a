/* Calls that find the leader and outlive it. Any number of threads use one client, which keeps one
 * connection to each peer; one thread at a time looks for the leader, for all. */
#pragma once
#include "client/convert_member.h"
#include "client/guard_file.h"
#include "common/io/rpc_client.h"

struct client;

struct client_config {
    const char *addresses; /* of proxies or members: host:port[,host:port...] */
    int attempts_max;      /* of one call; 0: as many as its deadline allows */
    struct baton_guard
        *guard; /* of everything a leader answers; borrowed; NULL: one of its own, in memory */
};

/* Connects to nobody yet. USAGE names the address that is wrong. */
struct err client_new(struct client **out, const struct client_config *cfg);
/* When no thread uses it and no stream is open. */
void client_free(struct client *c);

struct client_request {
    const char *path;
    struct bytes body;
    bool idempotent; /* may run any number of times */
    bool keeps_ids;  /* the service executes a request id once: it is kept over all attempts */
    const char *request_id; /* NULL: one is made */
    bool any_member;        /* whoever is reached may answer, known leader or not */
    bool as_addressed;      /* goes to one of the addresses, not to the leader */
};

/* One call, sent again where client/core/retry.h allows. deadline_ms is on the scale of
 * clock_boot_ms. The error is that of the last attempt and names the address it went to; out is its
 * answer, but for not_executed, which is said of all attempts. What a deposed leader answers is not
 * handed out. Blocks. */
struct err client_call(struct client *c, const struct client_request *req, int64_t deadline_ms,
                       struct rpc_answer *out);
/* The service answered with this revision: the next request ids name it. */
void client_saw_revision(struct client *c, int64_t revision);
/* Something of this epoch came, by another way than an answer of client_call: the guard's word on
 * it. STALE_EPOCH, OTHER_CLUSTER: it does not count. */
struct err client_admit(struct client *c, const char *cluster, uint64_t epoch);

/* The addresses it was made with. */
size_t client_seed_count(const struct client *c);
const char *client_seed(const struct client *c, size_t i);
/* One attempt of a call at one address, whoever leads. */
struct err client_call_at(struct client *c, const char *addr, const char *path, struct bytes body,
                          int64_t deadline_ms, struct rpc_answer *out);
/* What the first of all addresses says that knows a leader, else what another says; asks again
 * until somebody answers. */
struct err client_leader(struct client *c, int64_t deadline_ms, struct member_leader *out);
/* What the peer at an address knows of the leadership, asked once. */
struct err client_ask(struct client *c, const char *addr, int64_t deadline_ms,
                      struct member_leader *out);
