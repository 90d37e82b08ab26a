#include "meta/core/space.h"
#include <stddef.h>

enum { ROOM_TO_PERCENT = 95, ROOM_MIN_PARTS = 256, GROWTH = 2 };

static bool is_above(int64_t bytes, int64_t quota, int percent)
{
    return bytes / percent >= quota / 100;
}

/* The limits are 10 % apart, so a file counts as much as what is in use and 10 % more. */
static int64_t fill(const struct space_sample *s)
{
    const int64_t apart = SPACE_FILE_FULL_PERCENT - SPACE_USED_FULL_PERCENT;
    int64_t unit = s->quota_bytes / 100 + 1;
    int64_t used = s->used_bytes / unit, file = s->file_bytes / unit - apart;
    return used > file ? used : file;
}

static bool is_full(const struct space_sample *s, bool was_full)
{
    int used = was_full ? SPACE_USED_OPEN_PERCENT : SPACE_USED_FULL_PERCENT;
    int file = was_full ? SPACE_FILE_OPEN_PERCENT : SPACE_FILE_FULL_PERCENT;
    return is_above(s->used_bytes, s->quota_bytes, used) ||
           is_above(s->file_bytes, s->quota_bytes, file);
}

void space_on_samples(struct space *s, const struct space_sample *samples, int count)
{
    const struct space_sample *worst = NULL;
    for (int i = 0; i < count; i++) {
        const struct space_sample *sample = &samples[i];
        bool first = !worst || worst->quota_bytes <= 0;
        if (first || (sample->quota_bytes > 0 && fill(sample) > fill(worst)))
            worst = sample;
    }
    if (!worst)
        return;
    s->worst = *worst;
    s->full = worst->quota_bytes > 0 && is_full(worst, s->full);
}

int64_t space_room_bytes(const struct space *s)
{
    int64_t quota = s->worst.quota_bytes;
    if (quota <= 0)
        return INT64_MAX;
    int64_t room = (quota / 100 * ROOM_TO_PERCENT - s->worst.file_bytes) / GROWTH;
    int64_t least = quota / ROOM_MIN_PARTS;
    return room > least ? room : least;
}
