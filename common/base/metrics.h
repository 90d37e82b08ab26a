/* Counters, gauges and histograms in Prometheus' text format. A program declares its metrics as one
 * table of rows, which gives the exposition and docs/metrics.md; cells (one for each set of label
 * values) are made on first use. Updates are atomic and cheap on a cell that the caller keeps;
 * looking a cell up compares strings, and adding one takes a lock. Any thread, where nothing else
 * is said. */
#pragma once
#include "common/base/buf.h"
#include <stdbool.h>
#include <stdint.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

#define METRIC_LABELS 4

struct metric_cell;

/* A row, declared static; `cells` and `count` belong to metrics.c. Bounds of a histogram are upper
 * ends, ascending, ended by a 0; +Inf is added. Values are counted in the unit of the name. */
struct metric {
    const char *group; /* heading in the documentation; NULL: the same as the row above */
    const char *name, *help;
    enum metric_kind kind;
    const char *unit; /* "seconds", "bytes", …; NULL: things of which the name speaks */
    const char *labels[METRIC_LABELS]; /* NULL-ended when fewer */
    const double *bounds;
    size_t max_cells; /* 0: 256; a label set past it is counted under "other" */
    struct metric_cell *cells;
    size_t count;
};

/* The cell with these label values (as many as the metric has labels). Never NULL, lives for ever
 * (but see metric_clear). */
struct metric_cell *metric_cell(struct metric *m, ...);
void cell_add(struct metric_cell *c, double amount);
void cell_set(struct metric_cell *c, double value);
void cell_observe(struct metric_cell *c, double value);
double cell_value(const struct metric_cell *c); /* of a counter or gauge */
/* A counter that shows what is counted elsewhere: a total that is lower than the last one is
 * ignored. One thread for each cell. */
void cell_raise(struct metric_cell *c, double total);
/* The same for a histogram: a count for each bound and one for +Inf, not summed up, and the sum of
 * all values. */
void cell_set_histogram(struct metric_cell *c, const uint64_t *buckets, double sum);
/* Forgets all cells, so that only what is set from now on is shown: for gauges of things that come
 * and go. Only for a metric that one thread alone uses, the one that writes it. */
void metric_clear(struct metric *m);

/* Shorthands for metrics without labels. */
void metric_add(struct metric *m, double amount);
void metric_set(struct metric *m, double value);
void metric_observe(struct metric *m, double value);
void metric_raise(struct metric *m, double total);

/* Appends the exposition of a table, then of the process itself (process_* and baton_build_info).
 * One thread at a time. */
void metrics_write(struct buf *out, struct metric *rows, size_t count);

/* The same tables for people, in Markdown: a heading for each group, a line for each metric. */
void metrics_doc(struct buf *out, const struct metric *rows, size_t count);
/* Prints them when a program is called with --metrics-doc and nothing else, as scripts/metrics-doc
 * does; true: it was, and has done its work. */
bool metrics_doc_asked(int argc, char **argv, const struct metric *rows, size_t count);
