#include "common/base/log.h"
#include "common/base/clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *program_name = "";
static enum log_level lowest_level = LOG_INFO;
static const char *const level_words[] = {"debug", "info", "warn", "error"};

void log_init(const char *program, enum log_level lowest)
{
    program_name = program;
    lowest_level = lowest;
}

bool log_level_parse(const char *word, enum log_level *out)
{
    for (int i = 0; i < 4; i++)
        if (!strcmp(word, level_words[i])) {
            *out = (enum log_level)i;
            return true;
        }
    return false;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level < lowest_level)
        return;
    char line[1200];
    int64_t now = clock_unix_ms();
    time_t seconds = (time_t)(now / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03dZ %-5s %s: ", (int)(now % 1000),
                          level_words[level], program_name);
    va_list args;
    va_start(args, fmt);
    int more = vsnprintf(line + n, sizeof line - n - 1, fmt, args);
    va_end(args);
    if (more > 0)
        n += (size_t)more;
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    /* one write, so that lines of threads and processes do not mix; a full disk must not stop us */
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
}

bool log_allowed(struct log_limit *limit, int64_t every_ms, uint64_t *suppressed)
{
    int64_t now = clock_boot_ms();
    int64_t last = __atomic_load_n(&limit->last_ms, __ATOMIC_RELAXED);
    if ((last && now - last < every_ms) ||
        !__atomic_compare_exchange_n(&limit->last_ms, &last, now, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        __atomic_fetch_add(&limit->suppressed, 1, __ATOMIC_RELAXED);
        return false;
    }
    *suppressed = __atomic_exchange_n(&limit->suppressed, 0, __ATOMIC_RELAXED);
    return true;
}
