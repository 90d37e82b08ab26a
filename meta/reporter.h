/* Tells the leader each second how far this member's replica is, for ListMembers. A leader that
 * does not answer is asked again a second later: nothing depends on it. */
#pragma once

struct reporter;
struct board;

struct reporter *reporter_start(struct board *board, const char *member_id);
void reporter_stop(struct reporter *r);
