/* Counters, gauges and histograms in Prometheus' text format. A program declares its metrics as one
 * table of static structs; cells (one for each set of label values) are made on first use. Updates
 * are atomic and cheap on a cell that the caller keeps; looking a cell up takes a lock. Any thread.
 */
#pragma once
#include "common/base/buf.h"
#include <stdint.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

#define METRIC_LABELS 4

struct metric_cell;

/* Declared static; `cells` belongs to metrics.c. Bounds of a histogram are upper ends, ascending,
 * ended by a 0; +Inf is added. Values of histograms are observed in the unit of the name (seconds,
 * bytes). */
struct metric {
    const char *name, *help;
    enum metric_kind kind;
    const char *labels[METRIC_LABELS]; /* NULL-ended when fewer */
    const double *bounds;
    size_t max_cells; /* 0: 256; a label set past it is counted under "other" */
    struct metric_cell *cells;
    size_t count;
};

/* The cell with these label values (as many as the metric has labels). Never NULL, lives for ever.
 */
struct metric_cell *metric_cell(struct metric *m, ...);
void cell_add(struct metric_cell *c, double amount);
void cell_set(struct metric_cell *c, double value);
void cell_observe(struct metric_cell *c, double value);
double cell_value(const struct metric_cell *c); /* of a counter or gauge */
/* A gauge that has nothing to say (a member that is gone) leaves the exposition until it is set
 * again. */
void cell_hide(struct metric_cell *c);

/* Shorthands for metrics without labels. */
void metric_add(struct metric *m, double amount);
void metric_set(struct metric *m, double value);
void metric_observe(struct metric *m, double value);

/* Appends the exposition of a table of metrics, then of the process itself (process_* and
 * baton_build_info). */
void metrics_write(struct buf *out, struct metric *const *table, size_t count);
