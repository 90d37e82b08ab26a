/* Deadlines of many calls: a wheel of buckets, each of WHEEL_STEP_MS. Setting and clearing cost the
 * same whatever their number; an entry fires at most one step late, never early. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WHEEL_STEP_MS 8
#define WHEEL_BUCKETS 1024

struct wheel_entry {
    struct wheel_entry *next, **link; /* link NULL: not set */
    int64_t at_ms;
};

struct wheel {
    struct wheel_entry *buckets[WHEEL_BUCKETS];
    int64_t step; /* the last one that was looked at */
    size_t count;
};

void wheel_init(struct wheel *w, int64_t now_ms);
void wheel_set(struct wheel *w, struct wheel_entry *e, int64_t at_ms); /* moves one that is set */
void wheel_clear(struct wheel *w, struct wheel_entry *e);
/* One entry that is due, taken off the wheel; NULL when there is none before now_ms. */
struct wheel_entry *wheel_pop(struct wheel *w, int64_t now_ms);
