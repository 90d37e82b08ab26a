#include "common/base/rpc_status.h"
#include "common/base/check.h"
#include <string.h>

struct row {
    enum rpc_status status;
    enum rpc_effect effect;
};

static struct row row_of(enum err_code code)
{
    switch (code) {
    case ERR_OK:
        return (struct row){RPC_OK, RPC_EFFECT_UNKNOWN};
    case ERR_NOT_LEADER:
    case ERR_ACTIVATING:
    case ERR_NO_LEADER:
    case ERR_DRAINING:
    case ERR_NOT_READY:
    case ERR_FENCED:
    case ERR_UNREACHABLE:
        return (struct row){RPC_UNAVAILABLE, RPC_EFFECT_NONE};
    case ERR_OUTCOME_UNKNOWN:
    case ERR_LOST:
        return (struct row){RPC_UNAVAILABLE, RPC_EFFECT_UNKNOWN};
    case ERR_OVERLOADED:
    case ERR_TOO_SLOW:
    case ERR_NO_SPACE:
    case ERR_TOO_MANY_WORKERS:
        return (struct row){RPC_RESOURCE_EXHAUSTED, RPC_EFFECT_NONE};
    case ERR_STALE_EPOCH:
    case ERR_BAD_EPOCH:
    case ERR_OTHER_CLUSTER:
    case ERR_NO_TARGET:
    case ERR_IN_TRANSFER:
    case ERR_RESTART_FIRST:
    case ERR_STALE_INCARNATION:
        return (struct row){RPC_FAILED_PRECONDITION, RPC_EFFECT_NONE};
    case ERR_KEY_NOT_FOUND:
    case ERR_UNKNOWN_SERVICE:
    case ERR_UNKNOWN_MEMBER:
    case ERR_UNKNOWN_WORKER:
        return (struct row){RPC_NOT_FOUND, RPC_EFFECT_NONE};
    case ERR_TOO_LARGE:
    case ERR_BAD_KEY:
    case ERR_BAD_REQUEST:
    case ERR_BAD_REQUEST_ID:
    case ERR_BAD_WORKER:
    case ERR_USAGE:
        return (struct row){RPC_INVALID_ARGUMENT, RPC_EFFECT_NONE};
    case ERR_REQUEST_ID_EXPIRED:
        return (struct row){RPC_OUT_OF_RANGE, RPC_EFFECT_UNKNOWN};
    case ERR_COMPACTED:
    case ERR_RESYNC:
        return (struct row){RPC_OUT_OF_RANGE, RPC_EFFECT_NONE};
    case ERR_NO_METHOD:
        return (struct row){RPC_UNIMPLEMENTED, RPC_EFFECT_NONE};
    case ERR_EPOCH_REGRESSION:
        return (struct row){RPC_DATA_LOSS, RPC_EFFECT_NONE};
    case ERR_TIMEOUT:
        return (struct row){RPC_DEADLINE_EXCEEDED, RPC_EFFECT_UNKNOWN};
    case ERR_CANCELLED:
        return (struct row){RPC_CANCELLED, RPC_EFFECT_UNKNOWN};
    case ERR_DENIED:
        return (struct row){RPC_PERMISSION_DENIED, RPC_EFFECT_NONE};
    case ERR_IN_USE:
        return (struct row){RPC_ALREADY_EXISTS, RPC_EFFECT_NONE};
    case ERR_CORRUPT:
        return (struct row){RPC_DATA_LOSS, RPC_EFFECT_UNKNOWN};
    case ERR_PROTOCOL:
    case ERR_IO:
    case ERR_INTERNAL:
        return (struct row){RPC_INTERNAL, RPC_EFFECT_UNKNOWN};
    case ERR_CODES:
        break;
    }
    UNREACHABLE_CASE();
}

enum rpc_status rpc_status_of(enum err_code code)
{
    return row_of(code).status;
}

enum rpc_effect rpc_effect_of(enum err_code code)
{
    return row_of(code).effect;
}

const char *rpc_status_str(int status)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    return status >= 0 && status <= RPC_UNAUTHENTICATED ? names[status] : "?";
}

static enum err_code code_of_status(int status)
{
    switch (status) {
    case RPC_OK:
        return ERR_OK;
    case RPC_CANCELLED:
        return ERR_CANCELLED;
    case RPC_INVALID_ARGUMENT:
    case RPC_ALREADY_EXISTS:
    case RPC_FAILED_PRECONDITION:
    case RPC_OUT_OF_RANGE:
        return ERR_BAD_REQUEST;
    case RPC_DEADLINE_EXCEEDED:
        return ERR_TIMEOUT;
    case RPC_NOT_FOUND:
        return ERR_KEY_NOT_FOUND;
    case RPC_PERMISSION_DENIED:
    case RPC_UNAUTHENTICATED:
        return ERR_DENIED;
    case RPC_RESOURCE_EXHAUSTED:
        return ERR_OVERLOADED;
    case RPC_UNIMPLEMENTED:
        return ERR_NO_METHOD;
    case RPC_UNAVAILABLE:
    case RPC_ABORTED:
        return ERR_LOST;
    case RPC_DATA_LOSS:
        return ERR_CORRUPT;
    case RPC_INTERNAL:
        return ERR_INTERNAL;
    default: /* UNKNOWN, and whatever a newer peer may say */
        return ERR_PROTOCOL;
    }
}

enum err_code rpc_code_of(int status, const char *reason)
{
    if (status == RPC_OK)
        return ERR_OK;
    for (int code = ERR_OK + 1; reason && code < ERR_CODES; code++)
        if (!strcmp(reason, err_word((enum err_code)code)))
            return (enum err_code)code;
    return code_of_status(status);
}
