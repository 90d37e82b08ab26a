/* What the members' services offer besides the library's own calls, for operators. Deadlines are on
 * the scale of clock_boot_ms; what answers point to lives in the arena. Errors as of client_call,
 * and PROTOCOL. */
#pragma once
#include "client/client.h"
#include "client/client_stream.h"
#include "client/convert_maintenance.h"
#include "client/convert_member.h"

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
