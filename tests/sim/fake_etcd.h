/* An etcd in memory that answers what the cores say to it: every call is applied at once and in
 * order, as raft would. Delay, loss and lag are the business of who calls it. Keys keep all their
 * versions, so that a read at an old revision or a watch from one can be answered. */
#pragma once
#include "common/base/err.h"
#include "common/base/etcd_types.h"
#include "common/base/arena.h"

struct fake_version {
    int64_t revision, create_revision, version, lease;
    struct bytes value;
    bool deleted;
};

struct fake_key {
    struct bytes key;
    struct fake_version *versions; /* ascending revisions */
    size_t count, cap;
};

/* One change of one revision; key and version stay where they are until the etcd is closed. */
struct fake_change {
    struct fake_key *key;
    size_t version;
};

struct fake_revision {
    int64_t revision, at_us;
    size_t first, count; /* into changes */
};

struct fake_lease {
    int64_t id, ttl_ms, expires_us;
    bool alive;
};

struct fake_etcd {
    uint64_t cluster_id;
    int64_t revision, compacted;
    struct fake_key **keys; /* sorted */
    size_t key_count, key_cap;
    struct fake_change *changes;
    size_t change_count, change_cap;
    struct fake_revision *revisions; /* revision r stands at index r - 2 */
    size_t revision_count, revision_cap;
    struct fake_lease *leases;
    size_t lease_count, lease_cap;
    bool no_space;      /* puts and grants are refused */
    size_t max_ops;     /* of one branch; 0: no limit */
    int64_t min_ttl_ms; /* shorter ones are granted this */
    double clock_rate;  /* how fast its lease clock runs */
    int64_t now_us;     /* set by the caller before each call */
    void (*applied)(void *arg, const struct fake_revision *revision); /* after each new revision */
    void *arg;
    struct arena arena;
};

void fake_etcd_init(struct fake_etcd *e, uint64_t cluster_id);
void fake_etcd_close(struct fake_etcd *e);

/* Results own their arrays (fake_result_close); their slices live as long as the etcd. */
struct err fake_etcd_txn(struct fake_etcd *e, const struct etcd_txn *txn,
                         struct etcd_txn_result *out);
void fake_result_close(struct etcd_txn_result *result);
struct err fake_etcd_put(struct fake_etcd *e, struct bytes key, struct bytes value, int64_t lease);
int64_t fake_etcd_delete(struct fake_etcd *e, struct bytes key, struct bytes range_end);
/* The keys of a range as they stood at op->revision (0: now). */
void fake_etcd_range(const struct fake_etcd *e, const struct etcd_op *op,
                     struct etcd_op_result *out);
void fake_op_result_close(struct etcd_op_result *result);
/* The version of one key at `revision` (0: now), or NULL. */
const struct fake_version *fake_etcd_get(const struct fake_etcd *e, struct bytes key,
                                         int64_t revision);
/* The revision that changed or deleted the key last, up to `revision` (0: ever); 0: none did. */
int64_t fake_etcd_last_change(const struct fake_etcd *e, struct bytes key, int64_t revision);
/* The newest revision that was there at at_us. */
int64_t fake_etcd_revision_at(const struct fake_etcd *e, int64_t at_us);
const struct fake_revision *fake_etcd_log(const struct fake_etcd *e, int64_t revision);
struct etcd_event fake_etcd_event(const struct fake_etcd *e, const struct fake_revision *r,
                                  size_t i);
struct etcd_header fake_etcd_header(const struct fake_etcd *e);

/* Granting an id that lives is IN_USE. granted_ms says what it lives for. */
struct err fake_etcd_grant(struct fake_etcd *e, int64_t id, int64_t ttl_ms, int64_t *granted_ms);
int64_t fake_etcd_keepalive(struct fake_etcd *e, int64_t id); /* the TTL in ms, 0: no such lease */
bool fake_etcd_revoke(struct fake_etcd *e, int64_t id);
void fake_etcd_expire(struct fake_etcd *e); /* revokes the leases whose time is over */
void fake_etcd_reset_leases(
    struct fake_etcd *e); /* a new etcd leader gives each its whole TTL again */
