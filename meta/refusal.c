#include "meta/refusal.h"

struct rpc_hints refusal_hints(struct board *b, struct board_refusal *known)
{
    board_refusal(b, known);
    return (struct rpc_hints){
        .leader = known->leader_addr, .epoch = known->epoch, .cluster = known->cluster_id};
}

void refusal_fail(struct board *b, struct rpc_call *call, const struct err *e)
{
    struct board_refusal known;
    struct rpc_hints hints = refusal_hints(b, &known);
    rpc_fail(call, e, &hints);
}

struct err refusal_why(struct board *b, const struct err *otherwise)
{
    struct board_refusal known;
    board_refusal(b, &known);
    return err_is(&known.err) ? known.err : *otherwise;
}
