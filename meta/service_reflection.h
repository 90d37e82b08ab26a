/* Server reflection, v1 and v1alpha: which services this server has, and the contracts built into
 * the program. It says the same on every member. */
#pragma once
#include "common/io/rpc_server.h"

struct service_reflection;

/* The methods are those of the whole server, these two included: borrowed until
 * service_reflection_free, and may be filled in until the server starts. */
struct service_reflection *service_reflection_new(const struct rpc_method *methods, size_t count);
/* After the RPC server is freed. */
void service_reflection_free(struct service_reflection *s);

#define SERVICE_REFLECTION_METHODS 2
void service_reflection_methods(struct service_reflection *s,
                                struct rpc_method methods[SERVICE_REFLECTION_METHODS]);
