/* Inside of the metrics: what one cell holds. Numbers are read and written with atomic operations
 * only. */
#pragma once
#include "common/base/metrics.h"
#include <stdbool.h>

struct metric_cell {
    struct metric_cell *next; /* set once, after the cell is complete */
    const struct metric *metric;
    char *values[METRIC_LABELS]; /* of the labels, owned */
    double number;               /* of counters and gauges; the sum of a histogram */
    uint64_t *buckets;           /* of histograms: one for each bound and one for +Inf */
};

size_t metric_label_count(const struct metric *m);
size_t metric_bound_count(const struct metric *m);
double cell_number(const struct metric_cell *c);
const char *metric_kind_str(enum metric_kind kind);
/* The rows of process_* and baton_build_info, with their values as they are now. */
struct metric *metrics_process_rows(size_t *count);
void metrics_process_collect(void);
/* One number as Prometheus reads it: the shortest form that gives the same double. */
void metrics_write_number(struct buf *out, double value);
