/* One line an event on stderr: time, level, program, message. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_init(const char *program, enum log_level lowest);
bool log_level_parse(const char *word, enum log_level *out);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

/* For lines that an outage would repeat for ever: true when the line may be printed now, at most
 * once in every_ms; *suppressed is how many were swallowed since. All zero to start. Any thread. */
struct log_limit {
    int64_t last_ms;
    uint64_t suppressed;
};
bool log_allowed(struct log_limit *limit, int64_t every_ms, uint64_t *suppressed);

#define log_limited(limit, level, fmt, ...)                                                        \
    do {                                                                                           \
        uint64_t swallowed_;                                                                       \
        if (log_allowed(limit, 5000, &swallowed_)) {                                               \
            if (swallowed_)                                                                        \
                log_line(level, fmt " (%llu more like this)", __VA_ARGS__,                         \
                         (unsigned long long)swallowed_);                                          \
            else                                                                                   \
                log_line(level, fmt, __VA_ARGS__);                                                 \
        }                                                                                          \
    } while (0)
