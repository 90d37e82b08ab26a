/* Interrupts (SIGINT, SIGTERM) of commands that run until they are told to end. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* From now on they are noted; the second one ends the program at once. Once, before the wait. */
void interrupt_begin(void);
bool interrupt_came(void);
/* Wakes who waits, as an interrupt does, but is none; any thread. */
void interrupt_wake(void);
/* Until an interrupt, a wake-up, or this long (-1: for ever), or a little less. true: an interrupt
 * came. */
bool interrupt_wait(int64_t ms);
/* Readable from the first interrupt or wake-up on, for poll; interrupt_wait empties it. */
int interrupt_fd(void);
