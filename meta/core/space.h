/* Room in etcd: whether Baton may put more into it. etcd's database file never shrinks by itself;
 * it takes no more writes once the *file* reaches the quota, and what was deleted and compacted
 * leaves pages in it that are used again. So what is in use is judged, and the file as well, with
 * less room left. Pure; one thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    SPACE_USED_FULL_PERCENT = 80, /* of the quota in use: puts are refused … */
    SPACE_USED_OPEN_PERCENT = 75, /* … until it is less than this */
    SPACE_FILE_FULL_PERCENT = 90, /* the file, likewise */
    SPACE_FILE_OPEN_PERCENT = 87,
};

/* What one endpoint of etcd says. */
struct space_sample {
    int64_t quota_bytes; /* 0: not known, or none */
    int64_t file_bytes, used_bytes;
};

/* All zero: nothing is known yet, and everything may be put. */
struct space {
    struct space_sample worst; /* of the last round: the fullest endpoint */
    bool full;                 /* refuse puts */
};

/* A round of samples, one for each endpoint that answered. none: nothing changes. */
void space_on_samples(struct space *s, const struct space_sample *samples, int count);
/* How many bytes may be written, at most, before the next round: what was written since may have
 * taken twice as much. INT64_MAX: no quota is known. */
int64_t space_room_bytes(const struct space *s);
