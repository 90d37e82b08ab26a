#include "meta/core/prefixes.h"
#include <stdlib.h>

static int in_order(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

size_t prefixes_tidy(struct bytes *prefixes, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(prefixes, count, sizeof *prefixes, in_order);
    for (size_t i = 0; i < count; i++)
        if (!kept || !bytes_starts_with(prefixes[i], prefixes[kept - 1]))
            prefixes[kept++] = prefixes[i];
    return kept && !prefixes[0].len ? 0 : kept;
}

/* Whatever sorts between a prefix and a key that starts with it starts with it, too, and was
 * dropped: so only the last one that is not behind the key comes into question. */
bool prefixes_hold(const struct bytes *prefixes, size_t count, struct bytes key)
{
    size_t low = 0, high = count;
    if (!count)
        return true;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(prefixes[middle], key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && bytes_starts_with(key, prefixes[low - 1]);
}
