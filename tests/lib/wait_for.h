/* The only way tests in C wait: for a condition, with a deadline. */
#pragma once
#include "common/base/clock.h"
#include <unistd.h>

enum { WAIT_FOR_MS = 30000 }; /* of a condition that comes true at once on an idle machine */

/* In a cmocka test. */
#define WAIT_FOR(condition)                                                                        \
    for (int64_t until_ = clock_boot_ms() + WAIT_FOR_MS; !(condition);) {                          \
        assert_true(clock_boot_ms() < until_);                                                     \
        usleep(1000);                                                                              \
    }
