/* The election thread: drives meta/core/election.h with etcd and with what the watches see. */
#pragma once
#include "common/base/err.h"
#include "meta/core/election.h"

struct candidate;
struct etcd_client;
struct etcd_access;
struct guardian_link;

/* Called on the election thread, in the order in which things happen; they must not wait for etcd.
 */
struct candidate_hooks {
    void (*publish)(void *ctx, enum role role, uint64_t epoch);
    /* A takeover won: drain up to takeover_revision, then post ELECTION_ACTIVATED. Copied by the
     * callee. */
    void (*lead)(void *ctx, const struct leadership *l);
    /* No reader may pass any more when it returns. Before step_down, and before others are told. */
    void (*close_gate)(void *ctx, uint64_t epoch);
    /* Settle what is in flight, stop the leader's jobs, then post ELECTION_SETTLED. */
    void (*step_down)(void *ctx, uint64_t epoch, const char *why);
    void (*drained)(void *ctx);
    /* An operator has taken this member out; the election drains already. */
    void (*removed)(void *ctx);
    /* What etcd answered does not go on from what was seen: to be looked into. It holds until HOLD.
     */
    void (*suspect)(void *ctx, const struct err *e);
    /* This member cannot go on: another one with its id is alive, … */
    void (*fatal)(void *ctx, const struct err *e);
};

struct candidate_config {
    const struct etcd_access *etcd;
    const char *prefix; /* "/baton/<cluster>/" */
    struct member_info self;
    int64_t ttl_ms;
    uint64_t etcd_cluster_id;  /* see election_config */
    struct released dead;      /* see election_config */
    const char *former_starts; /* likewise */
    struct candidate_hooks hooks;
    void *ctx;
    struct guardian_link *guardian; /* NULL: none */
};

/* Strings are copied. USAGE for endpoints that make no sense. */
struct err candidate_start(struct candidate **out, const struct candidate_config *cfg);
/* Any thread; copies the event and fills in now_ms. For all kinds that come "from the watches, the
 * live table and the replica", and DRAIN. */
void candidate_post(struct candidate *c, const struct election_event *event);
/* ELECTION_RECORD_SEEN with the bytes of `commit` (empty: it is not there). */
void candidate_see_record(struct candidate *c, struct bytes value, int64_t revision,
                          int64_t received_ms);
/* How a handover ended, told once, on the election thread. err OK: resigned from `epoch`, and the
 * candidate of the lease `first` is first in line (0: not told). */
typedef void candidate_transferred(void *arg, const struct err *err, uint64_t epoch, int64_t first);
/* Hands over as it was planned under this epoch. An error (IN_TRANSFER) leaves `done` uncalled. Any
 * thread. */
struct err candidate_transfer(struct candidate *c, uint64_t epoch, const struct handover *to,
                              candidate_transferred *done, void *arg);
bool candidate_is_transferring(struct candidate *c);
/* The client that the election asks with; it answers what is open in candidate_stop. */
struct etcd_client *candidate_etcd(struct candidate *c);
/* Whose election key ELECTION_LIVE_CHANGED speaks about; 0: none now. Any thread. */
int64_t candidate_lease(const struct candidate *c);
/* Joins the threads; gives nothing back (post ELECTION_DRAIN and wait for `drained` first). */
void candidate_stop(struct candidate *c);
