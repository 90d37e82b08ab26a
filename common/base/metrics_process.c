#include "common/base/metrics_cell.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The first bytes of a file under /proc, 0-terminated; empty when it cannot be read. */
static const char *read_proc(const char *path, char *out, size_t cap)
{
    size_t n = 0;
    FILE *f = fopen(path, "re");
    if (f) {
        n = fread(out, 1, cap - 1, f);
        fclose(f);
    }
    out[n] = 0;
    return out;
}

/* Field of /proc/self/stat counted as in proc(5), from 3 on; the name before them may hold
 * anything. */
static double stat_field(int field)
{
    char text[1024];
    const char *p = strrchr(read_proc("/proc/self/stat", text, sizeof text), ')');
    for (int i = 2; p && i < field; i++)
        p = strchr(p + 1, ' ');
    return p ? strtod(p + 1, NULL) : 0;
}

static double start_time_seconds(void)
{
    char line[256];
    double boot = 0;
    FILE *f = fopen("/proc/stat", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (!strncmp(line, "btime ", 6))
            boot = strtod(line + 6, NULL);
    }
    if (f)
        fclose(f);
    return boot + stat_field(22) / (double)sysconf(_SC_CLK_TCK);
}

/* Field of /proc/self/statm: 0 is all, 1 what is resident. */
static double memory_bytes(int field)
{
    char text[256];
    const char *p = read_proc("/proc/self/statm", text, sizeof text);
    for (int i = 0; p && i < field; i++)
        p = strchr(p + 1, ' ');
    return p ? strtod(p, NULL) * (double)sysconf(_SC_PAGESIZE) : 0;
}

static double cpu_seconds(void)
{
    struct rusage u = {0};
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double open_fds(void)
{
    double n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    for (const struct dirent *d = readdir(dir); d; d = readdir(dir))
        n += d->d_name[0] != '.';
    closedir(dir);
    return n - 1; /* the directory itself */
}

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

enum {
    CPU_SECONDS,
    RESIDENT_BYTES,
    VIRTUAL_BYTES,
    VIRTUAL_MAX_BYTES,
    OPEN_FDS,
    MAX_FDS,
    THREADS,
    START_TIME,
    BUILD_INFO,
    ROWS
};

static struct metric rows[ROWS] = {
    [CPU_SECONDS] = {.group = "The process",
                     .name = "process_cpu_seconds_total",
                     .help = "User and system CPU time spent.",
                     .unit = "seconds"},
    [RESIDENT_BYTES] = {.name = "process_resident_memory_bytes",
                        .help = "Resident memory; of a member the mapped state is part of it.",
                        .kind = METRIC_GAUGE,
                        .unit = "bytes"},
    [VIRTUAL_BYTES] = {.name = "process_virtual_memory_bytes",
                       .help = "Address space in use; of a member the whole map of the state.",
                       .kind = METRIC_GAUGE,
                       .unit = "bytes"},
    [VIRTUAL_MAX_BYTES] = {.name = "process_virtual_memory_max_bytes",
                           .help = "Most address space that may be in use; -1: no limit.",
                           .kind = METRIC_GAUGE,
                           .unit = "bytes"},
    [OPEN_FDS] = {.name = "process_open_fds",
                  .help = "Open file descriptors.",
                  .kind = METRIC_GAUGE},
    [MAX_FDS] = {.name = "process_max_fds",
                 .help = "Most file descriptors that may be open.",
                 .kind = METRIC_GAUGE},
    [THREADS] = {.name = "process_threads",
                 .help = "Threads of the process.",
                 .kind = METRIC_GAUGE},
    [START_TIME] = {.name = "process_start_time_seconds",
                    .help = "When the process started, in seconds since 1970.",
                    .kind = METRIC_GAUGE,
                    .unit = "seconds"},
    [BUILD_INFO] = {.name = "baton_build_info",
                    .help = "Always 1; the labels say which version runs and what built it.",
                    .kind = METRIC_GAUGE,
                    .labels = {"version", "compiler"}},
};

struct metric *metrics_process_rows(size_t *count)
{
    *count = ROWS;
    return rows;
}

static double limit_of(int resource)
{
    struct rlimit limit = {0};
    getrlimit(resource, &limit);
    return limit.rlim_cur == RLIM_INFINITY ? -1 : (double)limit.rlim_cur;
}

void metrics_process_collect(void)
{
    metric_raise(&rows[CPU_SECONDS], cpu_seconds());
    metric_set(&rows[RESIDENT_BYTES], memory_bytes(1));
    metric_set(&rows[VIRTUAL_BYTES], memory_bytes(0));
    metric_set(&rows[VIRTUAL_MAX_BYTES], limit_of(RLIMIT_AS));
    metric_set(&rows[OPEN_FDS], open_fds());
    metric_set(&rows[MAX_FDS], limit_of(RLIMIT_NOFILE));
    metric_set(&rows[THREADS], stat_field(20));
    metric_set(&rows[START_TIME], start_time_seconds());
    cell_set(metric_cell(&rows[BUILD_INFO], BATON_VERSION, COMPILER), 1);
}
