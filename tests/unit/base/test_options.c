#include "common/base/options.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *id, *level;
static int64_t ttl_ms, bytes, workers;
static const char *door;
static bool verbose;
static enum option_show show;
static char *args[16];
static int count;

static const struct option_row rows[] = {
    {"Member", "id", OPTION_STRING, &id, NULL, "NAME", "name of this member", .required = true},
    {NULL, "ttl", OPTION_DURATION, &ttl_ms, "5s", "TIME", "time to live", 1000, 600000},
    {"Limits", "bytes", OPTION_BYTES, &bytes, "64MiB", "SIZE", "most memory", 0, 1LL << 40},
    {NULL, "workers", OPTION_INT, &workers, "1", "N", "threads", 1, 64},
    {"Logging", "log-level", OPTION_CHOICE, &level, "info", NULL, "what is logged",
     .choices = "debug|info|warn|error"},
    {NULL, "verbose", OPTION_FLAG, &verbose, "false", NULL, "say more"},
    {NULL, "door", OPTION_STRING, &door, NULL, "NAME", "where to go in"},
    {NULL, "door-colour", OPTION_STRING, &level, NULL, "NAME", "of the door", .needs = "door"},
    {NULL, "door-wait", OPTION_DURATION, &ttl_ms, NULL, "TIME", "at the door", .needs = "door"},
};
static const struct option_set set = {"prog", "[options] WORD...",       "A program.", "The end.",
                                      rows,   sizeof rows / sizeof *rows};

/* Parses a line whose words are separated by single spaces. */
static struct err parse(const char *line)
{
    static char text[512];
    snprintf(text, sizeof text, "prog %s", line);
    count = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        args[count++] = word;
    args[count] = NULL;
    return options_parse(&set, &count, args, &show);
}

static void assert_usage(const char *line, const char *message)
{
    struct err e = parse(line);
    assert_int_equal(e.code, ERR_USAGE);
    assert_string_equal(e.message, message);
}

static void options_that_need_another_are_named_together(void **state)
{
    assert_usage("--id m1 --door-wait 5s", "--door-wait: means nothing without --door");
    assert_usage("--id m1 --door-wait 5s --door-colour red",
                 "--door-colour, --door-wait: mean nothing without --door");
    struct err e = parse("--id m1 --door-wait 5s --door front");
    assert_int_equal(e.code, ERR_OK);
}

static void fallbacks_hold_until_said_otherwise(void **state)
{
    struct err e = parse("--id m1");
    assert_int_equal(e.code, ERR_OK);
    assert_string_equal(id, "m1");
    assert_int_equal(ttl_ms, 5000);
    assert_int_equal(bytes, 64 << 20);
    assert_int_equal(workers, 1);
    assert_string_equal(level, "info");
    assert_false(verbose);
    assert_int_equal(show, OPTION_SHOW_NOTHING);
}

static void both_spellings_and_words_in_order(void **state)
{
    struct err e = parse("put --ttl=250s a --id m2 --verbose b - --bytes 3KiB -- --id x");
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(ttl_ms, 250000);
    assert_int_equal(bytes, 3072);
    assert_true(verbose);
    const char *expected[] = {"prog", "put", "a", "b", "-", "--id", "x"};
    assert_int_equal(count, 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(args[i], expected[i]);
    assert_null(args[7]);
}

static void units(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"1000ms", 1000}, {"2s", 2000}, {"3", 3000}, {"2m", 120000}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char line[64];
        snprintf(line, sizeof line, "--id m --ttl %s", good[i].text);
        assert_int_equal(parse(line).code, ERR_OK);
        assert_int_equal(ttl_ms, good[i].ms);
    }
    assert_int_equal(parse("--id m --verbose=false --bytes 1GiB").code, ERR_OK);
    assert_int_equal(bytes, 1 << 30);
    assert_false(verbose);
}

static void mistakes_are_named(void **state)
{
    assert_usage("--ttl 5s", "--id is required; prog --help explains it");
    assert_usage("--id m --ttl 0s", "--ttl 0s: must be between 1s and 10m");
    assert_usage("--id m --ttl 5d", "--ttl 5d: wants a duration such as 250ms, 5s, 2m or 1h");
    assert_usage("--id m --ttl 99999999999999999999s",
                 "--ttl 99999999999999999999s: wants a duration such as 250ms, 5s, 2m or 1h");
    assert_usage("--id m --ttl 9999999999999999m",
                 "--ttl 9999999999999999m: wants a duration such as 250ms, 5s, 2m or 1h");
    assert_usage("--id m --bytes 5MB",
                 "--bytes 5MB: wants a size such as 4096, 64KiB, 16MiB or 1GiB");
    assert_usage("--id m --bytes 2000GiB", "--bytes 2000GiB: must be between 0 and 1024GiB");
    assert_usage("--id m --workers x", "--workers x: wants a whole number");
    assert_usage("--id m --workers -1", "--workers -1: must be between 1 and 64");
    assert_usage("--id m --log-level loud",
                 "--log-level loud: must be one of debug|info|warn|error");
    assert_usage("--id m --log-level info|warn",
                 "--log-level info|warn: must be one of debug|info|warn|error");
    assert_usage("--id m --verbose=maybe",
                 "--verbose=maybe: wants true or false, or no value at all");
    assert_usage("--id", "--id: wants a value (NAME)");
    assert_usage("--id --ttl 5s", "--id: wants a value (NAME)");
}

static void unknown_options_get_a_near_name(void **state)
{
    assert_usage("--id m --tll=5s", "--tll: no such option; did you mean --ttl?");
    assert_usage("--id m --worker 5", "--worker: no such option; did you mean --workers?");
    assert_usage("--id m -ttl", "-ttl: no such option; did you mean --ttl?");
    assert_usage("--id m --xyzzy", "--xyzzy: no such option; prog --help lists them");
}

static void help_and_version_stop(void **state)
{
    assert_int_equal(parse("--help").code, ERR_OK);
    assert_int_equal(show, OPTION_SHOW_HELP);
    assert_int_equal(parse("word -h --nonsense").code, ERR_OK);
    assert_int_equal(show, OPTION_SHOW_HELP);
    assert_int_equal(parse("--version").code, ERR_OK);
    assert_int_equal(show, OPTION_SHOW_VERSION);
}

static void help_shows_every_row(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    options_help(&set, f);
    fclose(f);
    assert_non_null(strstr(text, "Usage: prog [options] WORD...\n\nA program.\n\nMember:\n"));
    assert_non_null(strstr(text, "  --id NAME                   name of this member (required)\n"));
    assert_non_null(
        strstr(text, "  --ttl TIME                  time to live (default 5s)\n\nLimits"));
    assert_non_null(strstr(text, "  --log-level debug|info|warn|error\n"
                                 "                              what is logged (default info)\n"));
    assert_non_null(strstr(text, "  --verbose                   say more\n"));
    assert_non_null(strstr(text, "\nThe end.\n"));
    free(text);
}

static void addresses(void **state)
{
    char host[32];
    int port = -1;
    assert_int_equal(options_split_address("db.example:5690", host, sizeof host, &port).code, 0);
    assert_string_equal(host, "db.example");
    assert_int_equal(port, 5690);
    assert_int_equal(options_split_address("[::1]:0", host, sizeof host, &port).code, 0);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 0);
    assert_int_equal(options_split_address(":65535", host, sizeof host, &port).code, 0);
    assert_string_equal(host, "");
    assert_int_equal(port, 65535);
    static const char *const bad[] = {"",           "host",     "host:",   "host:x",
                                      "host:65536", "::1:80",   "[::1]",   "[]:1x",
                                      "h:-1",       "h:123456", "[::1:80", "h:80 more"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = options_split_address(bad[i], host, sizeof host, &port);
        assert_int_equal(e.code, ERR_USAGE);
        assert_non_null(strstr(e.message, bad[i]));
    }
    assert_int_equal(
        options_split_address("a-host-name-that-is-too-long-for-it:1", host, sizeof host, &port)
            .code,
        ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_need_another_are_named_together),
        cmocka_unit_test(fallbacks_hold_until_said_otherwise),
        cmocka_unit_test(both_spellings_and_words_in_order),
        cmocka_unit_test(units),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(unknown_options_get_a_near_name),
        cmocka_unit_test(help_and_version_stop),
        cmocka_unit_test(help_shows_every_row),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
