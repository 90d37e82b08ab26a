/* Errors of a member go out with the leader that it knows. */
#pragma once
#include "common/io/rpc_server.h"
#include "meta/board.h"

/* The hints show what is in *known, which is filled in. */
struct rpc_hints refusal_hints(struct board *b, struct board_refusal *known);
void refusal_fail(struct board *b, struct rpc_call *call, const struct err *e);
/* Why this member takes no leader's work; `otherwise` when the board gives no reason any more. */
struct err refusal_why(struct board *b, const struct err *otherwise);
