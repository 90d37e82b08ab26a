/* The guardian's processes, without an etcd: what it returns, what it passes on, what ends with it.
 */
#include "common/base/clock.h"
#include "meta/guardian.h"
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEADLINE_MS = 20000 };

static const struct guardian_config no_etcd = {.prefix = "/baton/test/"};

/* Runs guardian_run in a process of its own and gives its pid; `arg` is the write end of a pipe by
 * which the member may say something, the read end is ours. */
static pid_t start_guardian(int (*member)(struct guardian_link *, void *), int *said)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        _exit(guardian_run(&no_etcd, member, &ends[1]));
    }
    close(ends[1]);
    *said = ends[0];
    return pid;
}

static int wait_status(pid_t pid)
{
    int status = -1;
    int64_t until_ms = clock_boot_ms() + DEADLINE_MS;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && clock_boot_ms() < until_ms)
        poll(NULL, 0, 2);
    if (got == 0)
        kill(pid, SIGKILL);
    assert_int_equal(got, pid);
    return status;
}

/* What the member writes, or its end of the pipe being closed: -1. */
static int next_said(int said)
{
    unsigned char c;
    struct pollfd fd = {.fd = said, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, DEADLINE_MS), 1);
    ssize_t n = read(said, &c, 1);
    assert_true(n >= 0);
    return n ? c : -1;
}

static void say(void *arg, char c)
{
    if (write(*(int *)arg, &c, 1) != 1)
        _exit(99);
}

static int exits_with_7(struct guardian_link *link, void *arg)
{
    (void)link;
    (void)arg;
    return 7;
}

static int waits_for_ever(struct guardian_link *link, void *arg)
{
    (void)link;
    say(arg, 'r');
    while (pause() < 0) /* which it always is */
        ;
    return 0;
}

static void *heard;

static void on_term(int sig)
{
    say(heard, sig == SIGTERM ? 't' : 'i');
    if (sig == SIGTERM)
        _exit(0);
}

static int hears_signals(struct guardian_link *link, void *arg)
{
    heard = arg;
    signal(SIGTERM, on_term);
    signal(SIGINT, on_term);
    return waits_for_ever(link, arg);
}

static void close_the_gate(void *arg)
{
    say(arg, 'g');
}

static int aborts(struct guardian_link *link, void *arg)
{
    struct released release = {.epoch = 3, .nonce = "00000000000000000000000000000001"};
    prctl(PR_SET_DUMPABLE, 0);
    guardian_on_fatal_signal(link, close_the_gate, arg);
    guardian_tell(link, 42, &release);
    abort();
}

/* 1.5 MB of messages: no pipe takes so many. */
static int tells_a_guardian_that_is_stopped(struct guardian_link *link, void *arg)
{
    struct released release = {.epoch = 1, .nonce = "00000000000000000000000000000001"};
    kill(getppid(), SIGSTOP);
    for (int i = 0; i < 750; i++, release.epoch++)
        guardian_tell(link, 42, &release);
    say(arg, guardian_heard(link) ? 'h' : 'f');
    kill(getppid(), SIGCONT);
    while (!guardian_heard(link))
        poll(NULL, 0, 1);
    say(arg, 'h');
    return 7;
}

static void nobody_waits_for_a_guardian_that_is_stopped(void **state)
{
    int said;
    (void)state;
    pid_t pid = start_guardian(tells_a_guardian_that_is_stopped, &said);
    assert_int_equal(next_said(said), 'f');
    assert_int_equal(next_said(said), 'h');
    int status = wait_status(pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    close(said);
}

static void returns_the_members_status(void **state)
{
    int said;
    (void)state;
    int status = wait_status(start_guardian(exits_with_7, &said));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    close(said);
}

static void closes_the_gate_before_a_fatal_signal_ends_the_member(void **state)
{
    int said;
    (void)state;
    pid_t pid = start_guardian(aborts, &said);
    assert_int_equal(next_said(said), 'g');
    int status = wait_status(pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGABRT);
    close(said);
}

static void passes_signals_on_once(void **state)
{
    int said;
    (void)state;
    pid_t pid = start_guardian(hears_signals, &said);
    assert_int_equal(next_said(said), 'r');
    kill(pid, SIGINT);
    assert_int_equal(next_said(said), 'i');
    kill(pid, SIGTERM);
    assert_int_equal(next_said(said), 't');
    assert_int_equal(next_said(said), -1);
    int status = wait_status(pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(said);
}

static void takes_the_member_with_it(void **state)
{
    int said;
    (void)state;
    pid_t pid = start_guardian(waits_for_ever, &said);
    assert_int_equal(next_said(said), 'r');
    kill(pid, SIGKILL);
    assert_int_equal(next_said(said), -1); /* the member's end is closed: it is gone */
    assert_true(WIFSIGNALED(wait_status(pid)));
    close(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_members_status),
        cmocka_unit_test(nobody_waits_for_a_guardian_that_is_stopped),
        cmocka_unit_test(closes_the_gate_before_a_fatal_signal_ends_the_member),
        cmocka_unit_test(passes_signals_on_once),
        cmocka_unit_test(takes_the_member_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
