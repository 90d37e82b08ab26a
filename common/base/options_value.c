#include "common/base/options_value.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *suffix;
    int64_t factor;
};

/* Ascending, so that formatting takes the last one that divides. */
static const struct unit durations[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}, {NULL, 0}};
static const struct unit sizes[] = {
    {"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};
static const struct unit plain[] = {{"", 1}, {NULL, 0}};

static const struct unit *units_of(enum option_kind kind)
{
    return kind == OPTION_DURATION ? durations : kind == OPTION_BYTES ? sizes : plain;
}

static const char *wish_of(enum option_kind kind)
{
    switch (kind) {
    case OPTION_DURATION:
        return "wants a duration such as 250ms, 5s, 2m or 1h";
    case OPTION_BYTES:
        return "wants a size such as 4096, 64KiB, 16MiB or 1GiB";
    case OPTION_INT:
    case OPTION_FLAG:
    case OPTION_STRING:
    case OPTION_CHOICE:
        break;
    }
    return "wants a whole number";
}

/* Digits, with a sign where sign is allowed; the rest of the text is left in *end. */
static bool parse_digits(const char *text, int64_t *out, const char **end)
{
    bool negative = *text == '-';
    const char *p = text + negative;
    int64_t n = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
            return false;
    }
    *out = negative ? -n : n;
    *end = p;
    return true;
}

static bool parse_with_unit(enum option_kind kind, const char *text, int64_t *out)
{
    const char *suffix;
    int64_t n;
    if (!parse_digits(text, &n, &suffix))
        return false;
    if (kind == OPTION_DURATION && !*suffix)
        suffix = "s";
    for (const struct unit *u = units_of(kind); u->suffix; u++) {
        if (!strcmp(u->suffix, suffix))
            return !__builtin_mul_overflow(n, u->factor, out);
    }
    return false;
}

void option_format(enum option_kind kind, int64_t value, char *out, size_t cap)
{
    const struct unit *best = units_of(kind);
    if (kind == OPTION_DURATION && value == 0)
        best++;
    for (const struct unit *u = best; u->suffix && value; u++) {
        if (value % u->factor == 0)
            best = u;
    }
    snprintf(out, cap, "%" PRId64 "%s", value / best->factor, best->suffix);
}

static struct err set_number(const struct option_row *row, const char *text)
{
    int64_t n;
    if (!parse_with_unit(row->kind, text, &n))
        return err_make(ERR_USAGE, "--%s %s: %s", row->name, text, wish_of(row->kind));
    if ((row->min || row->max) && (n < row->min || n > row->max)) {
        char low[32], high[32];
        option_format(row->kind, row->min, low, sizeof low);
        option_format(row->kind, row->max, high, sizeof high);
        return err_make(ERR_USAGE, "--%s %s: must be between %s and %s", row->name, text, low,
                        high);
    }
    *(int64_t *)row->target = n;
    return OK_ERR;
}

static struct err set_flag(const struct option_row *row, const char *text)
{
    bool on = !strcmp(text, "true");
    if (!on && strcmp(text, "false") != 0)
        return err_make(ERR_USAGE, "--%s=%s: wants true or false, or no value at all", row->name,
                        text);
    *(bool *)row->target = on;
    return OK_ERR;
}

static bool choice_has(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *p = choices; len;) {
        size_t word = strcspn(p, "|");
        if (word == len && !memcmp(p, text, len))
            return true;
        if (!p[word])
            break;
        p += word + 1;
    }
    return false;
}

struct err option_set(const struct option_row *row, const char *text)
{
    switch (row->kind) {
    case OPTION_FLAG:
        return set_flag(row, text);
    case OPTION_CHOICE:
        if (!choice_has(row->choices, text))
            return err_make(ERR_USAGE, "--%s %s: must be one of %s", row->name, text, row->choices);
        break;
    case OPTION_STRING:
        break;
    case OPTION_INT:
    case OPTION_BYTES:
    case OPTION_DURATION:
        return set_number(row, text);
    }
    *(const char **)row->target = text;
    return OK_ERR;
}
