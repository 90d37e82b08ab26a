#include "common/base/options.h"
#include "common/base/check.h"
#include "common/base/options_value.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row *find_row(const struct option_set *set, const char *name, size_t len)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strlen(set->rows[i].name) == len && !memcmp(set->rows[i].name, name, len))
            return &set->rows[i];
    }
    return NULL;
}

/* How many letters must be added, dropped or changed to make b of a (Levenshtein). */
static size_t letters_apart(const char *a, size_t a_len, const char *b)
{
    size_t row[64];
    size_t b_len = strlen(b);
    if (a_len >= 64 || b_len >= 64)
        return 64;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            size_t moved = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = changed < moved ? changed : moved;
        }
    }
    return row[b_len];
}

static struct err unknown_option(const struct option_set *set, const char *word)
{
    const char *name = word + strspn(word, "-");
    size_t len = strcspn(name, "=");
    const char *near = NULL;
    size_t best = len / 3 + 1;
    for (size_t i = 0; i < set->count; i++) {
        size_t apart = letters_apart(name, len, set->rows[i].name);
        if (apart <= best) {
            best = apart;
            near = set->rows[i].name;
        }
    }
    int shown = (int)(len + (size_t)(name - word));
    if (near)
        return err_make(ERR_USAGE, "%.*s: no such option; did you mean --%s?", shown, word, near);
    return err_make(ERR_USAGE, "%.*s: no such option; %s --help lists them", shown, word,
                    set->program);
}

static enum option_show show_of(const char *word)
{
    if (!strcmp(word, "-h") || !strcmp(word, "--help"))
        return OPTION_SHOW_HELP;
    return strcmp(word, "--version") ? OPTION_SHOW_NOTHING : OPTION_SHOW_VERSION;
}

static struct err set_fallbacks(const struct option_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct option_row *row = &set->rows[i];
        struct err e = row->fallback ? option_set(row, row->fallback) : OK_ERR;
        if (err_is(&e))
            return e;
    }
    return OK_ERR;
}

/* The value of the option at argv[*at]: behind '=', or the next word, which is then used up. */
static struct err find_value(const struct option_row *row, int argc, char **argv, int *at,
                             const char **out)
{
    const char *equals = strchr(argv[*at], '=');
    if (equals) {
        *out = equals + 1;
        return OK_ERR;
    }
    if (row->kind == OPTION_FLAG) {
        *out = "true";
        return OK_ERR;
    }
    if (*at + 1 >= argc || !strncmp(argv[*at + 1], "--", 2))
        return err_make(ERR_USAGE, "--%s: wants a value (%s)", row->name,
                        row->value ? row->value : "VALUE");
    *out = argv[++*at];
    return OK_ERR;
}

static struct err take_option(const struct option_set *set, int argc, char **argv, int *at,
                              bool *seen)
{
    const char *name = argv[*at] + 2;
    const struct option_row *row =
        argv[*at][1] == '-' ? find_row(set, name, strcspn(name, "=")) : NULL;
    if (!row)
        return unknown_option(set, argv[*at]);
    const char *value = NULL;
    struct err e = find_value(row, argc, argv, at, &value);
    if (err_is(&e))
        return e;
    seen[row - set->rows] = true;
    return option_set(row, value);
}

static struct err check_required(const struct option_set *set, const bool *seen)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->rows[i].required && !seen[i])
            return err_make(ERR_USAGE, "--%s is required; %s --help explains it", set->rows[i].name,
                            set->program);
    }
    return OK_ERR;
}

static bool was_given(const struct option_set *set, const bool *seen, const char *name)
{
    const struct option_row *row = find_row(set, name, strlen(name));
    return row && seen[row - set->rows];
}

/* All that miss the same one are named, so that nobody learns of them one by one. */
static struct err check_needed(const struct option_set *set, const bool *seen)
{
    const char *needed = NULL;
    char names[160] = "";
    size_t len = 0, count = 0;
    for (size_t i = 0; i < set->count && len < sizeof names; i++) {
        const char *needs = set->rows[i].needs;
        if (!seen[i] || !needs || was_given(set, seen, needs) || (needed && strcmp(needed, needs)))
            continue;
        needed = needs;
        len += (size_t)snprintf(names + len, sizeof names - len, "%s--%s", count++ ? ", " : "",
                                set->rows[i].name);
    }
    if (!needed)
        return OK_ERR;
    return err_make(ERR_USAGE, "%s: %s nothing without --%s", names, count > 1 ? "mean" : "means",
                    needed);
}

struct err options_parse(const struct option_set *set, int *argc, char **argv,
                         enum option_show *show)
{
    enum { ROWS_MAX = 256 };
    bool seen[ROWS_MAX] = {false};
    PRE(set->count <= ROWS_MAX);
    *show = OPTION_SHOW_NOTHING;
    struct err e = set_fallbacks(set);
    int words = *argc > 0 ? 1 : 0, at = words;
    for (; at < *argc && !err_is(&e); at++) {
        if (!strcmp(argv[at], "--")) {
            at++;
            break;
        }
        if (argv[at][0] != '-' || !argv[at][1]) {
            argv[words++] = argv[at];
            continue;
        }
        *show = show_of(argv[at]);
        if (*show != OPTION_SHOW_NOTHING)
            return OK_ERR;
        e = take_option(set, *argc, argv, &at, seen);
    }
    if (err_is(&e))
        return e;
    while (at < *argc)
        argv[words++] = argv[at++];
    if (words < *argc)
        argv[words] = NULL;
    *argc = words;
    e = check_required(set, seen);
    return err_is(&e) ? e : check_needed(set, seen);
}

static struct err bad_address(const char *addr)
{
    return err_make(ERR_USAGE, "%s: is no address; write HOST:PORT, [IPV6]:PORT or :PORT", addr);
}

struct err options_split_address(const char *addr, char *host, size_t host_cap, int *port)
{
    const char *colon = strrchr(addr, ':');
    if (!colon)
        return bad_address(addr);
    const char *begin = addr, *end = colon;
    if (*addr == '[') {
        if (end == addr + 1 || end[-1] != ']')
            return bad_address(addr);
        begin++;
        end--;
    } else if (memchr(addr, ':', (size_t)(colon - addr))) {
        return bad_address(addr);
    }
    size_t len = (size_t)(end - begin);
    size_t digits = strspn(colon + 1, "0123456789");
    if (len >= host_cap || digits == 0 || digits > 5 || colon[1 + digits] ||
        strtol(colon + 1, NULL, 10) > 65535)
        return bad_address(addr);
    memcpy(host, begin, len);
    host[len] = 0;
    *port = (int)strtol(colon + 1, NULL, 10);
    return OK_ERR;
}
