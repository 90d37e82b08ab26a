/* Up to when this member may answer reads from its local state. Pure and without a lock: its owner
 * holds one. A reader looks before it takes its snapshot. All zero is a gate that was never opened.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct read_gate {
    uint64_t epoch; /* the open one; 0: closed */
    uint64_t last;  /* highest epoch that was ever opened or closed: it stays so */
    int64_t deadline_ms;
};

/* To be called once the local state holds the takeover of `epoch`. Nothing for an epoch that is not
 * higher than any opened or closed before. Readers pass only after read_gate_extend. */
void read_gate_open(struct read_gate *g, uint64_t epoch);
/* The deadline only grows, and only for the open epoch: late answers change nothing. */
void read_gate_extend(struct read_gate *g, uint64_t epoch, int64_t deadline_ms);
/* Final for this epoch and those below, opened before or not. */
void read_gate_close(struct read_gate *g, uint64_t epoch);
/* The epoch under which a read may be answered from a snapshot taken from now on, or 0. */
uint64_t read_gate_epoch(const struct read_gate *g, int64_t now_ms);
/* 0 when closed or past. */
int64_t read_gate_left_ms(const struct read_gate *g, int64_t now_ms);
