/* Tells the leader each second how far this member's replica is, for ListMembers and for handing
 * over. A leader that does not answer is asked again a little later: nothing that must be right
 * depends on it. */
#pragma once

struct reporter;
struct board;

struct reporter *reporter_start(struct board *board, const char *member_id);
void reporter_stop(struct reporter *r);
