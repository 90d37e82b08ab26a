/* The only file that asks what time it is. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

int64_t
clock_boot_ms(void); /* goes on while the host sleeps: leases and deadlines are counted in it */
/* Waits that long; false, at once, when the deadline (of clock_boot_ms) would pass meanwhile. */
bool clock_pause(int64_t ms, int64_t deadline_ms);
int64_t clock_mono_us(void); /* for measuring how long something took */
int64_t clock_unix_ms(void); /* wall clock; shown to people, decides nothing */
/* For pthread_cond_timedwait on CLOCK_MONOTONIC: the moment ms from now. */
struct timespec clock_mono_after(int64_t ms);
