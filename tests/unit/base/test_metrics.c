#include "common/base/metrics.h"
#include "common/base/thread.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void assert_written(struct metric *m, const char *expected)
{
    struct buf out = {0};
    metrics_write(&out, m, 1);
    const char *process = strstr((const char *)out.data, "# HELP process_cpu_seconds_total");
    assert_non_null(process);
    out.data[process - (const char *)out.data] = 0;
    assert_string_equal((const char *)out.data, expected);
    buf_close(&out);
}

static void without_labels(void **state)
{
    static struct metric m = {.name = "a_total", .help = "Counts\nthings."};
    assert_written(&m, "# HELP a_total Counts\\nthings.\n# TYPE a_total counter\na_total 0\n");
    metric_add(&m, 2);
    metric_add(&m, 0.5);
    assert_true(cell_value(metric_cell(&m)) == 2.5);
    assert_written(&m, "# HELP a_total Counts\\nthings.\n# TYPE a_total counter\na_total 2.5\n");
}

static void labels_are_escaped_and_cells_kept(void **state)
{
    static struct metric m = {
        .name = "b", .help = "B.", .kind = METRIC_GAUGE, .labels = {"x", "y"}};
    struct metric_cell *c = metric_cell(&m, "1", "a\"b\\c\n");
    assert_ptr_equal(c, metric_cell(&m, "1", "a\"b\\c\n"));
    cell_set(c, 1e6);
    cell_set(metric_cell(&m, "2", ""), 0.1);
    assert_written(&m, "# HELP b B.\n# TYPE b gauge\nb{x=\"1\",y=\"a\\\"b\\\\c\\n\"} 1000000\n"
                       "b{x=\"2\",y=\"\"} 0.1\n");
}

static void cleared_gauges_come_back(void **state)
{
    static struct metric m = {
        .name = "g", .help = "G.", .kind = METRIC_GAUGE, .labels = {"member"}, .max_cells = 2};
    for (int round = 0; round < 5; round++) { /* those that are gone take no room */
        char name[16], text[128];
        snprintf(name, sizeof name, "m%d", round);
        cell_set(metric_cell(&m, name), 3);
        snprintf(text, sizeof text, "# HELP g G.\n# TYPE g gauge\ng{member=\"m%d\"} 3\n", round);
        assert_written(&m, text);
        metric_clear(&m);
        assert_written(&m, "# HELP g G.\n# TYPE g gauge\n");
    }
}

static void totals_of_elsewhere(void **state)
{
    static const double bounds[] = {0.5, 1, 0};
    static struct metric m = {.name = "t_total", .help = "T."};
    static struct metric h = {
        .name = "u_seconds", .help = "U.", .kind = METRIC_HISTOGRAM, .bounds = bounds};
    metric_raise(&m, 5);
    metric_raise(&m, 4);
    assert_written(&m, "# HELP t_total T.\n# TYPE t_total counter\nt_total 5\n");
    cell_set_histogram(metric_cell(&h), (const uint64_t[]){1, 0, 2}, 7.5);
    assert_written(&h, "# HELP u_seconds U.\n# TYPE u_seconds histogram\n"
                       "u_seconds_bucket{le=\"0.5\"} 1\nu_seconds_bucket{le=\"1\"} 1\n"
                       "u_seconds_bucket{le=\"+Inf\"} 3\nu_seconds_sum 7.5\nu_seconds_count 3\n");
}

static void histogram(void **state)
{
    static const double bounds[] = {0.005, 0.1, 2, 0};
    static struct metric m = {.name = "h_seconds",
                              .help = "H.",
                              .kind = METRIC_HISTOGRAM,
                              .labels = {"op"},
                              .bounds = bounds};
    struct metric_cell *c = metric_cell(&m, "put");
    cell_observe(c, 0.005);
    cell_observe(c, 0.05);
    cell_observe(c, 7);
    assert_written(&m, "# HELP h_seconds H.\n# TYPE h_seconds histogram\n"
                       "h_seconds_bucket{op=\"put\",le=\"0.005\"} 1\n"
                       "h_seconds_bucket{op=\"put\",le=\"0.1\"} 2\n"
                       "h_seconds_bucket{op=\"put\",le=\"2\"} 2\n"
                       "h_seconds_bucket{op=\"put\",le=\"+Inf\"} 3\n"
                       "h_seconds_sum{op=\"put\"} 7.055\nh_seconds_count{op=\"put\"} 3\n");
}

static void label_sets_are_bounded(void **state)
{
    static struct metric m = {.name = "c_total", .help = "C.", .labels = {"peer"}, .max_cells = 2};
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        cell_add(metric_cell(&m, name), 1);
    }
    assert_written(&m, "# HELP c_total C.\n# TYPE c_total counter\nc_total{peer=\"p0\"} 1\n"
                       "c_total{peer=\"p1\"} 1\nc_total{peer=\"other\"} 98\n");
}

static struct metric shared = {.name = "s_total", .help = "S.", .labels = {"n"}};

static void *count_along(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i % 10);
        cell_add(metric_cell(&shared, name), 1);
    }
    return NULL;
}

static void threads_lose_nothing(void **state)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start("count", count_along, NULL);
    struct buf out = {0};
    metrics_write(&out, &shared, 1);
    buf_close(&out);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    double sum = 0;
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        sum += cell_value(metric_cell(&shared, name));
    }
    assert_int_equal((int)sum, 80000);
    assert_int_equal(shared.count, 10);
}

static double sample(const struct buf *out, const char *name)
{
    char start[128];
    double value = -1;
    snprintf(start, sizeof start, "\n%s ", name);
    const char *line = strstr((const char *)out->data, start);
    assert_non_null(line);
    assert_int_equal(sscanf(line + strlen(start), "%lf", &value), 1);
    return value;
}

static void process_tells_about_itself(void **state)
{
    struct buf out = {0};
    metrics_write(&out, NULL, 0);
    assert_true(sample(&out, "process_cpu_seconds_total") >= 0);
    assert_true(sample(&out, "process_resident_memory_bytes") > 100000);
    assert_true(sample(&out, "process_open_fds") >= 3);
    assert_true(sample(&out, "process_max_fds") >= 3);
    assert_true(sample(&out, "process_threads") >= 1);
    assert_true(sample(&out, "process_start_time_seconds") > 1e9);
    assert_true(sample(&out, "process_virtual_memory_bytes") > 100000);
    assert_non_null(
        strstr((const char *)out.data, "\nbaton_build_info{version=\"" BATON_VERSION "\""));
    buf_close(&out);
}

static void documentation(void **state)
{
    static const double bounds[] = {0.5, 1, 0};
    static const struct metric rows[] = {
        {.group = "One",
         .name = "a_bytes_total",
         .help = "A.",
         .unit = "bytes",
         .labels = {"x", "y"}},
        {.name = "b_seconds",
         .help = "B.",
         .kind = METRIC_HISTOGRAM,
         .unit = "seconds",
         .bounds = bounds},
    };
    struct buf out = {0};
    metrics_doc(&out, rows, 2);
    assert_string_equal((const char *)out.data,
                        "\n### One\n\n| name | type | unit | labels | what it says |\n"
                        "|---|---|---|---|---|\n"
                        "| `a_bytes_total` | counter | bytes | `x`, `y` | A. |\n"
                        "| `b_seconds` | histogram, 0.5 to 1 | seconds |  | B. |\n");
    buf_close(&out);
    assert_false(metrics_doc_asked(1, (char *[]){"x", NULL}, rows, 2));
    assert_false(metrics_doc_asked(2, (char *[]){"x", "--help", NULL}, rows, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_labels),
        cmocka_unit_test(labels_are_escaped_and_cells_kept),
        cmocka_unit_test(cleared_gauges_come_back),
        cmocka_unit_test(totals_of_elsewhere),
        cmocka_unit_test(documentation),
        cmocka_unit_test(histogram),
        cmocka_unit_test(label_sets_are_bounded),
        cmocka_unit_test(threads_lose_nothing),
        cmocka_unit_test(process_tells_about_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
