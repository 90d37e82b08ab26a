#include "common/base/metrics.h"
#include "common/base/metrics_cell.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void metrics_write_number(struct buf *out, double value)
{
    char text[64];
    if (isnan(value) || isinf(value)) {
        buf_str(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (fabs(value) < 1e15 && value == floor(value))
        snprintf(text, sizeof text, "%.0f", value);
    buf_str(out, text);
}

static void write_escaped(struct buf *out, const char *text, bool quotes)
{
    for (; *text; text++) {
        if (*text == '\n')
            buf_str(out, "\\n");
        else if (*text == '\\' || (quotes && *text == '"'))
            buf_printf(out, "\\%c", *text);
        else
            buf_byte(out, (uint8_t)*text);
    }
}

/* The cell's labels in braces, with le behind them when it is not NULL; nothing when there is none.
 */
static void write_labels(struct buf *out, const struct metric_cell *c, const char *le)
{
    size_t labels = metric_label_count(c->metric);
    for (size_t i = 0; i < labels; i++) {
        buf_printf(out, "%s%s=\"", i ? "," : "{", c->metric->labels[i]);
        write_escaped(out, c->values[i], true);
        buf_byte(out, '"');
    }
    if (le)
        buf_printf(out, "%sle=\"%s\"", labels ? "," : "{", le);
    if (labels || le)
        buf_byte(out, '}');
}

static void write_line(struct buf *out, const struct metric_cell *c, const char *suffix,
                       const char *le, double value)
{
    buf_printf(out, "%s%s", c->metric->name, suffix);
    write_labels(out, c, le);
    buf_byte(out, ' ');
    metrics_write_number(out, value);
    buf_byte(out, '\n');
}

/* The count is the sum of the buckets as they were read, so that the two always agree. */
static void write_histogram(struct buf *out, const struct metric_cell *c)
{
    uint64_t total = 0;
    size_t bounds = metric_bound_count(c->metric);
    for (size_t i = 0; i <= bounds; i++) {
        total += __atomic_load_n(&c->buckets[i], __ATOMIC_RELAXED);
        struct buf le = {0};
        metrics_write_number(&le, i < bounds ? c->metric->bounds[i] : INFINITY);
        write_line(out, c, "_bucket", (const char *)le.data, (double)total);
        buf_close(&le);
    }
    write_line(out, c, "_sum", NULL, cell_number(c));
    write_line(out, c, "_count", NULL, (double)total);
}

static void write_metric(struct buf *out, struct metric *m)
{
    if (!m->labels[0])
        metric_cell(m); /* without labels there is always something to show, if only 0 */
    buf_printf(out, "# HELP %s ", m->name);
    write_escaped(out, m->help, false);
    buf_printf(out, "\n# TYPE %s %s\n", m->name, metric_kind_str(m->kind));
    const struct metric_cell *c = __atomic_load_n(&m->cells, __ATOMIC_ACQUIRE);
    for (; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE)) {
        if (m->kind == METRIC_HISTOGRAM)
            write_histogram(out, c);
        else
            write_line(out, c, "", NULL, cell_number(c));
    }
}

void metrics_write(struct buf *out, struct metric *rows, size_t count)
{
    size_t process_count;
    struct metric *process = metrics_process_rows(&process_count);
    metrics_process_collect();
    for (size_t i = 0; i < count; i++)
        write_metric(out, &rows[i]);
    for (size_t i = 0; i < process_count; i++)
        write_metric(out, &process[i]);
}
