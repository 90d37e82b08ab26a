/* Command line options as a table of rows: the table gives parsing, checking, --help and the docs.
 */
#pragma once
#include "common/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,     /* bool, --name */
    OPTION_STRING,   /* const char *, borrowed from argv or from the default */
    OPTION_INT,      /* int64_t, within min..max */
    OPTION_BYTES,    /* int64_t, with suffix KiB, MiB, GiB or none */
    OPTION_DURATION, /* int64_t in milliseconds: 250ms, 5s, 2m, 1h; a bare number means seconds */
    OPTION_CHOICE,   /* const char *, one of `choices` ("a|b|c") */
};

struct option_row {
    const char *group; /* heading in --help; NULL: the same as the row above */
    const char *name;  /* without the dashes */
    enum option_kind kind;
    void *target;
    const char *fallback; /* default, as a user would type it; NULL: none (target untouched) */
    const char *value;    /* how the value is called in --help: "HOST:PORT"; NULL for flags */
    const char *help;     /* one sentence */
    int64_t min, max;     /* of INT, BYTES and DURATION (in ms); both 0: any */
    const char *choices;
    bool required;
    const char *needs; /* name of the option without which this one means nothing; NULL: none */
};

struct option_set {
    const char *program; /* "baton-meta" */
    const char *usage;   /* what follows the program's name: "--etcd URL[,URL...] [options]" */
    const char *about;   /* one or two sentences */
    const char *footer;  /* printed after the options; may be NULL */
    const struct option_row *rows;
    size_t count;
};

/* Sets every target: fallbacks first, then argv. Understands --name VALUE, --name=VALUE, and -h,
 * --help,
 * --version (which set *show to OPTION_SHOW_HELP / OPTION_SHOW_VERSION and stop). Words that are no
 * option are left in argv[1..*argc-1], in order; everything after "--" is such a word. Errors name
 * the option and what it wants: "--ttl 0s: must be between 1s and 10m", and suggest a near name for
 * an unknown one; options that were given without the one they need are named together. */
enum option_show { OPTION_SHOW_NOTHING, OPTION_SHOW_HELP, OPTION_SHOW_VERSION };
struct err options_parse(const struct option_set *set, int *argc, char **argv,
                         enum option_show *show);
void options_help(const struct option_set *set, void *stdio_file);

/* "host:port", "[::1]:port" and ":port" apart; host_cap as given. USAGE errors name the address. */
struct err options_split_address(const char *addr, char *host, size_t host_cap, int *port);
