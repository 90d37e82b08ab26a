#include "common/base/metrics.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/base/metrics_cell.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_DEFAULT = 256 };

/* Held to add a cell; finding one walks a list that only ever grows at its end. */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

size_t metric_label_count(const struct metric *m)
{
    size_t n = 0;
    while (n < METRIC_LABELS && m->labels[n])
        n++;
    return n;
}

size_t metric_bound_count(const struct metric *m)
{
    size_t n = 0;
    while (m->bounds && m->bounds[n] != 0)
        n++;
    return n;
}

static struct metric_cell *find(struct metric *m, const char *const *values, size_t labels)
{
    struct metric_cell *c = __atomic_load_n(&m->cells, __ATOMIC_ACQUIRE);
    for (; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE)) {
        size_t same = 0;
        while (same < labels && !strcmp(c->values[same], values[same]))
            same++;
        if (same == labels)
            return c;
    }
    return NULL;
}

static struct metric_cell *append(struct metric *m, const char *const *values, size_t labels)
{
    struct metric_cell *c = mem_alloc(sizeof *c);
    c->metric = m;
    for (size_t i = 0; i < labels; i++)
        c->values[i] = mem_strdup(values[i]);
    if (m->kind == METRIC_HISTOGRAM)
        c->buckets = mem_array(metric_bound_count(m) + 1, sizeof *c->buckets);
    struct metric_cell **end = &m->cells;
    while (*end)
        end = &(*end)->next;
    __atomic_store_n(end, c, __ATOMIC_RELEASE);
    m->count++;
    return c;
}

static struct metric_cell *find_or_add(struct metric *m, const char *const *values, size_t labels)
{
    static const char *const other[METRIC_LABELS] = {"other", "other", "other", "other"};
    pthread_mutex_lock(&adding);
    struct metric_cell *c = find(m, values, labels);
    if (!c && m->count >= (m->max_cells ? m->max_cells : CELLS_DEFAULT)) {
        values = other;
        c = find(m, values, labels);
    }
    if (!c)
        c = append(m, values, labels);
    pthread_mutex_unlock(&adding);
    return c;
}

struct metric_cell *metric_cell(struct metric *m, ...)
{
    const char *values[METRIC_LABELS];
    size_t labels = metric_label_count(m);
    va_list args;
    va_start(args, m);
    for (size_t i = 0; i < labels; i++) {
        values[i] = va_arg(args, const char *);
        PRE(values[i]);
    }
    va_end(args);
    struct metric_cell *c = find(m, values, labels);
    return c ? c : find_or_add(m, values, labels);
}

double cell_number(const struct metric_cell *c)
{
    double value;
    __atomic_load(&c->number, &value, __ATOMIC_RELAXED);
    return value;
}

static void add(double *number, double amount)
{
    double before, after;
    __atomic_load(number, &before, __ATOMIC_RELAXED);
    do {
        after = before + amount;
    } while (!__atomic_compare_exchange(number, &before, &after, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
}

void cell_add(struct metric_cell *c, double amount)
{
    PRE(c->metric->kind != METRIC_HISTOGRAM);
    PRE(c->metric->kind != METRIC_COUNTER || amount >= 0);
    add(&c->number, amount);
}

void cell_set(struct metric_cell *c, double value)
{
    PRE(c->metric->kind == METRIC_GAUGE);
    __atomic_store(&c->number, &value, __ATOMIC_RELAXED);
}

void cell_observe(struct metric_cell *c, double value)
{
    PRE(c->metric->kind == METRIC_HISTOGRAM);
    size_t i = 0;
    while (c->metric->bounds && c->metric->bounds[i] != 0 && value > c->metric->bounds[i])
        i++;
    __atomic_fetch_add(&c->buckets[i], 1, __ATOMIC_RELAXED);
    add(&c->number, value);
}

double cell_value(const struct metric_cell *c)
{
    PRE(c->metric->kind != METRIC_HISTOGRAM);
    return cell_number(c);
}

void cell_raise(struct metric_cell *c, double total)
{
    PRE(c->metric->kind == METRIC_COUNTER);
    if (total > cell_number(c))
        __atomic_store(&c->number, &total, __ATOMIC_RELAXED);
}

void cell_set_histogram(struct metric_cell *c, const uint64_t *buckets, double sum)
{
    PRE(c->metric->kind == METRIC_HISTOGRAM);
    for (size_t i = 0; i <= metric_bound_count(c->metric); i++)
        __atomic_store_n(&c->buckets[i], buckets[i], __ATOMIC_RELAXED);
    __atomic_store(&c->number, &sum, __ATOMIC_RELAXED);
}

void metric_clear(struct metric *m)
{
    struct metric_cell *next;
    for (struct metric_cell *c = m->cells; c; c = next) {
        next = c->next;
        for (size_t i = 0; i < METRIC_LABELS; i++)
            free(c->values[i]);
        free(c->buckets);
        free(c);
    }
    m->cells = NULL;
    m->count = 0;
}

void metric_add(struct metric *m, double amount)
{
    PRE(!m->labels[0]);
    cell_add(metric_cell(m), amount);
}

void metric_set(struct metric *m, double value)
{
    PRE(!m->labels[0]);
    cell_set(metric_cell(m), value);
}

void metric_observe(struct metric *m, double value)
{
    PRE(!m->labels[0]);
    cell_observe(metric_cell(m), value);
}

void metric_raise(struct metric *m, double total)
{
    PRE(!m->labels[0]);
    cell_raise(metric_cell(m), total);
}
