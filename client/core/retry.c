#include "client/core/retry.h"

/* All else is an answer to the request itself, or a limit that trying again would only strain. */
bool retry_may_pass(enum err_code code)
{
    switch ((int)code) {
    case ERR_NOT_LEADER:
    case ERR_ACTIVATING:
    case ERR_NO_LEADER:
    case ERR_DRAINING:
    case ERR_NOT_READY:
    case ERR_FENCED:
    case ERR_OUTCOME_UNKNOWN:
    case ERR_UNREACHABLE:
    case ERR_LOST:
    case ERR_STALE_EPOCH:
        return true;
    default:
        return false;
    }
}

enum retry_verdict retry_decide(const struct retry_call *call, const struct retry_outcome *last)
{
    if (!retry_may_pass(last->code))
        return RETRY_FINAL;
    if (call->attempts_max && last->attempts >= call->attempts_max)
        return RETRY_FINAL;
    bool harmless = last->not_executed || call->idempotent || call->has_request_id;
    return harmless ? RETRY_AGAIN : RETRY_FINAL;
}
