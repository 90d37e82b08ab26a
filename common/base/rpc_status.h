/* The only mapping between errors and gRPC status codes, see docs/api.md. */
#pragma once
#include "common/base/err.h"

/* The status numbers of the gRPC protocol. */
enum rpc_status {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_DATA_LOSS = 15,
    RPC_UNAUTHENTICATED = 16,
};

/* What an error says about the effect of the request that met it. */
enum rpc_effect {
    RPC_EFFECT_NONE,    /* certainly nothing happened: baton-not-executed: 1 */
    RPC_EFFECT_UNKNOWN, /* it may have happened: baton-outcome: unknown */
};

enum rpc_status rpc_status_of(enum err_code code);
enum rpc_effect rpc_effect_of(enum err_code code);
const char *
rpc_status_str(int status); /* "UNAVAILABLE"; "?" for a number that gRPC does not know */

/* Back again: the code that a peer's status and its baton-reason word (NULL or unknown: none) stand
 * for. */
enum err_code rpc_code_of(int status, const char *reason);
