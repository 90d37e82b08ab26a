/* The calls of the services, typed. Deadlines are on the scale of clock_boot_ms; what answers point
 * to lives in the arena. Errors as of client_call, and PROTOCOL. */
#pragma once
#include "client/client.h"
#include "client/client_stream.h"
#include "client/convert_kv.h"
#include "client/convert_maintenance.h"
#include "client/convert_member.h"

/* A STALE read is answered by a member at one of the client's addresses, not by the leader. */
struct err client_kv_get(struct client *c, struct bytes key, struct kv_freshness freshness,
                         int64_t deadline_ms, struct arena *memory, struct kv_answer *out);
struct err client_kv_range(struct client *c, const struct kv_range *range, int64_t deadline_ms,
                           struct arena *memory, struct kv_answer *out);
struct err client_kv_put(struct client *c, struct bytes key, struct bytes value,
                         int64_t deadline_ms, struct arena *memory, struct kv_answer *out);
/* must_exist: KEY_NOT_FOUND when nothing was there. */
struct err client_kv_delete(struct client *c, struct bytes key, bool prefix, bool must_exist,
                            int64_t deadline_ms, struct arena *memory, struct kv_answer *out);
struct err client_kv_txn(struct client *c, const struct kv_txn *txn, int64_t deadline_ms,
                         struct arena *memory, struct kv_answer *out);

/* What the first of the addresses says that knows a leader, else what another says. */
struct err client_leader(struct client *c, int64_t deadline_ms, struct member_leader *out);
/* Of the leader when one is known, else of any member. */
struct err client_members(struct client *c, int64_t deadline_ms, struct arena *memory,
                          struct member_list *out);
struct err client_history(struct client *c, uint32_t limit, int64_t deadline_ms,
                          struct arena *memory, struct member_history *out);

/* Neither is repeated once it may have happened. target "": whoever is first in line. */
struct err client_transfer(struct client *c, const char *target, int64_t deadline_ms,
                           struct arena *memory, struct member_transfer *out);
/* UNKNOWN_MEMBER for an id that is not listed. */
struct err client_remove_member(struct client *c, const char *id, int64_t deadline_ms,
                                struct arena *memory, struct member_info *out);

/* Of the member at an address, asked once; see member.proto. */
struct err client_restore(struct client *c, const char *addr, int64_t deadline_ms,
                          struct member_restore *out);
struct err client_recover(struct client *c, const char *addr, uint64_t epoch_above,
                          uint64_t incarnation_above, int64_t deadline_ms,
                          struct member_recovered *out);

/* The state of the cluster, part by part; see maintenance.proto. */
struct err client_export(struct client *c, int64_t deadline_ms, struct client_stream **out);
/* May be repeated; see maintenance.proto. */
struct err client_raise_epoch(struct client *c, uint64_t above, int64_t deadline_ms,
                              struct maintenance_raised *out);
