/* Tables of metrics as a page for people, in Markdown. */
#include "common/base/check.h"
#include "common/base/metrics_cell.h"
#include <stdio.h>
#include <string.h>

const char *metric_kind_str(enum metric_kind kind)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    return kinds[kind];
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && !memcmp(text + len - n, end, n);
}

/* What Prometheus asks of names: counters end in _total, and before that, or at the end, stands the
 * unit. */
static void check_name(const struct metric *m)
{
    static const char *const units[] = {"_seconds", "_bytes"};
    size_t len = strlen(m->name);
    bool total = ends_with(m->name, len, "_total");
    PRE(total == (m->kind == METRIC_COUNTER));
    len -= total ? strlen("_total") : 0;
    PRE(!m->unit || ends_with(m->name, len, m->unit));
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        PRE(m->unit || !ends_with(m->name, len, units[i]));
    PRE((m->kind == METRIC_HISTOGRAM) == (m->bounds != NULL));
}

static void write_kind(struct buf *out, const struct metric *m)
{
    buf_printf(out, "%s", metric_kind_str(m->kind));
    if (m->kind != METRIC_HISTOGRAM)
        return;
    buf_str(out, ", ");
    metrics_write_number(out, m->bounds[0]);
    buf_str(out, " to ");
    metrics_write_number(out, m->bounds[metric_bound_count(m) - 1]);
}

static void write_row(struct buf *out, const struct metric *m)
{
    check_name(m);
    buf_printf(out, "| `%s` | ", m->name);
    write_kind(out, m);
    buf_printf(out, " | %s | ", m->unit ? m->unit : "");
    for (size_t i = 0; i < metric_label_count(m); i++)
        buf_printf(out, "%s`%s`", i ? ", " : "", m->labels[i]);
    buf_printf(out, " | %s |\n", m->help);
}

void metrics_doc(struct buf *out, const struct metric *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].group)
            buf_printf(out,
                       "\n### %s\n\n| name | type | unit | labels | what it says |\n"
                       "|---|---|---|---|---|\n",
                       rows[i].group);
        write_row(out, &rows[i]);
    }
}

bool metrics_doc_asked(int argc, char **argv, const struct metric *rows, size_t count)
{
    struct buf out = {0};
    size_t process_count;
    const struct metric *process = metrics_process_rows(&process_count);
    if (argc != 2 || strcmp(argv[1], "--metrics-doc") != 0)
        return false;
    metrics_doc(&out, rows, count);
    metrics_doc(&out, process, process_count);
    fwrite(out.data, 1, out.len, stdout);
    buf_close(&out);
    return true;
}
