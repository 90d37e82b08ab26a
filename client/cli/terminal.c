#include "client/cli/terminal.h"
#include "client/cli/interrupt.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static bool has_keys; /* and `before` is how it was */

bool terminal_is(void)
{
    return isatty(STDOUT_FILENO);
}

static void on_resize(int signal_number)
{
    interrupt_wake();
}

static void say(const char *what)
{
    ssize_t n = write(STDOUT_FILENO, what, strlen(what));
    (void)n;
}

void terminal_begin(void)
{
    struct sigaction resize = {.sa_handler = on_resize, .sa_flags = SA_RESTART};
    sigaction(SIGWINCH, &resize, NULL);
    has_keys = tcgetattr(STDIN_FILENO, &before) == 0;
    if (has_keys) {
        struct termios raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    }
    say("\033[?1049h\033[?25l");
}

void terminal_end(void)
{
    say("\033[?25h\033[?1049l");
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

void terminal_size(int *width, int *height)
{
    struct winsize size = {0};
    bool told = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    *width = told ? size.ws_col : 80;
    *height = told ? size.ws_row : 24;
}

bool terminal_has_color(void)
{
    const char *no = getenv("NO_COLOR"), *kind = getenv("TERM");
    return !(no && *no) && kind && *kind && strcmp(kind, "dumb") != 0;
}

int terminal_wait_key(int ms)
{
    struct pollfd fds[] = {{.fd = interrupt_fd(), .events = POLLIN},
                           {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN}};
    char key = 0;
    poll(fds, 2, ms);
    interrupt_wait(0);
    bool there = fds[1].revents & (POLLIN | POLLHUP | POLLERR);
    if (there && read(STDIN_FILENO, &key, 1) != 1)
        has_keys = false;
    return (unsigned char)key;
}
