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

static double resident_bytes(void)
{
    char text[256];
    const char *p = strchr(read_proc("/proc/self/statm", text, sizeof text), ' ');
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

static double max_fds(void)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return (double)limit.rlim_cur;
}

static void write_one(struct buf *out, const char *name, const char *kind, const char *help,
                      double value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s ", name, help, name, kind, name);
    metrics_write_number(out, value);
    buf_byte(out, '\n');
}

void metrics_write_process(struct buf *out)
{
    write_one(out, "process_cpu_seconds_total", "counter", "User and system CPU time spent.",
              cpu_seconds());
    write_one(out, "process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes());
    write_one(out, "process_open_fds", "gauge", "Open file descriptors.", open_fds());
    write_one(out, "process_max_fds", "gauge", "Most file descriptors that may be open.",
              max_fds());
    write_one(out, "process_threads", "gauge", "Threads of the process.", stat_field(20));
    write_one(out, "process_start_time_seconds", "gauge",
              "When the process started, in seconds since 1970.", start_time_seconds());
    buf_str(out, "# HELP baton_build_info Always 1; the label says which version runs.\n"
                 "# TYPE baton_build_info gauge\n"
                 "baton_build_info{version=\"" BATON_VERSION "\"} 1\n");
}
