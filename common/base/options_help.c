#include "common/base/buf.h"
#include "common/base/options.h"
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 30, HELP_WIDTH = 96 };

/* Prints words from column on, and breaks lines before HELP_WIDTH. */
static void print_wrapped(FILE *f, const char *text, int indent, int column)
{
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word > HELP_WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', f);
            column++;
        }
        fprintf(f, "%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', f);
}

static void describe(const struct option_row *row, struct buf *out)
{
    buf_str(out, row->help);
    if (row->required)
        buf_str(out, " (required)");
    else if (row->fallback && row->fallback[0] && row->kind != OPTION_FLAG)
        buf_printf(out, " (default %s)", row->fallback);
}

static void print_row(FILE *f, const struct option_row *row)
{
    int column = fprintf(f, "  --%s", row->name);
    if (row->kind == OPTION_CHOICE)
        column += fprintf(f, " %s", row->choices);
    else if (row->kind != OPTION_FLAG)
        column += fprintf(f, " %s", row->value ? row->value : "VALUE");
    if (column > HELP_COLUMN - 2) {
        fputc('\n', f);
        column = 0;
    }
    fprintf(f, "%*s", HELP_COLUMN - column, "");
    struct buf text = {0};
    describe(row, &text);
    print_wrapped(f, (const char *)text.data, HELP_COLUMN, HELP_COLUMN);
    buf_close(&text);
}

void options_help(const struct option_set *set, void *stdio_file)
{
    FILE *f = stdio_file;
    fprintf(f, "Usage: %s %s\n\n", set->program, set->usage);
    print_wrapped(f, set->about, 0, 0);
    const char *group = "Options";
    bool headed = false;
    for (size_t i = 0; i < set->count; i++) {
        const struct option_row *row = &set->rows[i];
        if (row->group && (!headed || strcmp(row->group, group) != 0)) {
            group = row->group;
            headed = false;
        }
        if (!headed)
            fprintf(f, "\n%s:\n", group);
        headed = true;
        print_row(f, row);
    }
    fputs("\nOther:\n", f);
    fprintf(f, "%-*s%s\n", HELP_COLUMN, "  -h, --help", "print this and exit");
    fprintf(f, "%-*s%s\n", HELP_COLUMN, "  --version", "print the version and exit");
    if (set->footer)
        fprintf(f, "\n%s\n", set->footer);
}
