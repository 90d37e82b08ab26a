#include "common/base/clock.h"
#include <poll.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_boot_ms(void)
{
    return read_ns(CLOCK_BOOTTIME) / 1000000;
}

bool clock_pause(int64_t ms, int64_t deadline_ms)
{
    if (clock_boot_ms() + ms >= deadline_ms)
        return false;
    poll(NULL, 0, (int)ms);
    return true;
}

int64_t clock_mono_us(void)
{
    return read_ns(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_unix_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000;
}

struct timespec clock_mono_after(int64_t ms)
{
    int64_t ns = read_ns(CLOCK_MONOTONIC) + ms * 1000000;
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}
