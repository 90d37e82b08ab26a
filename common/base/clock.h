/* The only file that asks what time it is, but for the wait of queue.c, which is relative. */
#pragma once
#include <stdint.h>

int64_t clock_boot_ms(void); /* goes on while the host sleeps: leases and deadlines are counted in it */
int64_t clock_mono_us(void); /* for measuring how long something took */
int64_t clock_unix_ms(void); /* wall clock; shown to people, decides nothing */
