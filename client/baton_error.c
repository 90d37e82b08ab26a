/* What errors say to users. */
#include "client/baton_parts.h"
#include "common/base/rpc_status.h"
#include <stdio.h>

static const char *hint_of(enum err_code code)
{
    switch ((int)code) {
    case ERR_NOT_LEADER:
    case ERR_ACTIVATING:
    case ERR_NO_LEADER:
    case ERR_DRAINING:
    case ERR_NOT_READY:
    case ERR_FENCED:
        return "a failover was under way all this time: call again, or give calls a longer "
               "timeout";
    case ERR_UNREACHABLE:
        return "nobody answers at the addresses: see that a proxy or a member runs there, and that "
               "no firewall is in between";
    case ERR_LOST:
    case ERR_OUTCOME_UNKNOWN:
        return "it may have taken effect: call again with the same request id to learn the outcome";
    case ERR_TIMEOUT:
        return "call again, a mutation with the same request id; or give calls a longer timeout";
    case ERR_OVERLOADED:
        return "the cluster has more to do than it takes: call again later, and less often";
    case ERR_NO_SPACE:
        return "etcd is full: its operators make room, see docs/operations.md";
    case ERR_STALE_EPOCH:
        return "it comes from a deposed leader: drop it";
    case ERR_BAD_EPOCH:
    case ERR_OTHER_CLUSTER:
        return "an address or a guard file is of another cluster, or the cluster was made anew: to "
               "follow it, use a guard that knows no epochs yet";
    case ERR_TOO_LARGE:
        return "split it: keys have at most 480 bytes, values 1 MiB, transactions 100 operations";
    case ERR_BAD_REQUEST_ID:
        return "a request id has 16 to 64 printable characters; another effect needs another one";
    case ERR_REQUEST_ID_EXPIRED:
        return "it is too long ago to know whether it took effect: read what is there before "
               "asking with a new request id";
    case ERR_NO_METHOD:
    case ERR_UNKNOWN_SERVICE:
    case ERR_PROTOCOL:
        return "is that a Baton of this version at the address?";
    case ERR_COMPACTED:
        return "that revision is history no more: begin with a snapshot";
    case ERR_RESYNC:
        return "the state was replaced since: begin with a snapshot";
    case ERR_TOO_SLOW:
        return "read faster, or follow less: it goes on behind what was received last";
    case ERR_UNKNOWN_MEMBER:
        return "baton_members lists the members there are";
    case ERR_UNKNOWN_WORKER:
        return "it expired or was deleted: register it again";
    case ERR_STALE_INCARNATION:
        return "another process has registered this address since: end this one";
    case ERR_TOO_MANY_WORKERS:
        return "delete workers that are gone for good, or raise the members' --max-workers";
    case ERR_CORRUPT:
        return "put back a copy of the file, or delete it if it may forget what it knew";
    case ERR_IN_USE:
        return "each process has a guard file of its own";
    default:
        return "";
    }
}

/* A peer that is newer may have reasons that this library does not know. */
static const char *reason_of(const struct err *e, const struct rpc_answer *a)
{
    bool newer = a && a->reason[0] && rpc_code_of(a->status, a->reason) == e->code;
    return newer ? a->reason : err_word(e->code);
}

void api_error(const struct err *e, const struct rpc_answer *a, struct baton_error *out)
{
    bool harmless = a ? a->not_executed : rpc_effect_of(e->code) == RPC_EFFECT_NONE;
    *out = (struct baton_error){.status = (enum baton_status)rpc_status_of(e->code),
                                .outcome = harmless ? BATON_NOT_EXECUTED : BATON_OUTCOME_UNKNOWN};
    snprintf(out->reason, sizeof out->reason, "%s", reason_of(e, a));
    snprintf(out->message, sizeof out->message, "%s", e->message);
    snprintf(out->hint, sizeof out->hint, "%s", hint_of(e->code));
}

int api_fail(const struct err *e, const struct rpc_answer *a, struct baton_error *err)
{
    if (err)
        api_error(e, a, err);
    return -1;
}
