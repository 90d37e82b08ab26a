/* The calls of the services, typed. Deadlines are on the scale of clock_boot_ms; what answers point
 * to lives in the arena. Errors as of client_call, and PROTOCOL. */
#pragma once
#include "client/client.h"
#include "client/client_stream.h"
#include "client/convert_maintenance.h"
#include "client/convert_member.h"

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
