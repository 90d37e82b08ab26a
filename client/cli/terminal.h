/* The terminal of a command that draws. */
#pragma once
#include <stdbool.h>

/* Is what is printed seen at once by somebody? */
bool terminal_is(void);
/* A screen of its own, without a cursor; keys come one by one, and none makes a signal. A change of
 * its size wakes who waits for interrupts (interrupt_wake). */
void terminal_begin(void);
/* As it was. */
void terminal_end(void);
/* Columns and lines; 80 x 24 when it does not say. */
void terminal_size(int *width, int *height);
/* May it be told to use colors? Not with NO_COLOR (no-color.org) or on a dumb one. */
bool terminal_has_color(void);
/* Until a key, an interrupt or wake-up, or this long. The key, or 0; what is no tty has none. */
int terminal_wait_key(int ms);
