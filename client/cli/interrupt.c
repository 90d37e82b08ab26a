#include "client/cli/interrupt.h"
#include "common/base/check.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static int ends[2] = {-1, -1};
static volatile sig_atomic_t came;

/* A pipe that is full wakes as well. */
void interrupt_wake(void)
{
    ssize_t n = write(ends[1], "", 1);
    (void)n;
}

static void on_interrupt(int signal_number)
{
    int kept = errno;
    came = 1;
    interrupt_wake();
    errno = kept;
}

void interrupt_begin(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND | SA_RESTART};
    int made = pipe2(ends, O_CLOEXEC | O_NONBLOCK);
    INVARIANT(made == 0);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_came(void)
{
    return came;
}

int interrupt_fd(void)
{
    return ends[0];
}

bool interrupt_wait(int64_t ms)
{
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    char drop[64];
    if (!came)
        poll(&fd, 1, (int)ms);
    while (read(ends[0], drop, sizeof drop) > 0)
        ;
    return came;
}
