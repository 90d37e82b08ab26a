#include "meta/identity.h"
#include "common/base/files.h"
#include "common/base/rng.h"
#include "meta/store_boot.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 600, LINE_BYTES = 512, ID_DIGITS = 32 };
#define FORMAT "1"

static void path_of(char out[PATH_BYTES], const struct identity *id, const char *name)
{
    snprintf(out, PATH_BYTES, "%s/%s", id->dir, name);
}

static struct err cannot(const struct identity *id, const char *what, int why)
{
    switch (why) {
    case EACCES:
    case EPERM:
    case EROFS:
        return err_make(ERR_DENIED,
                        "data directory %s: cannot %s: %s; give it to this user or choose another",
                        id->dir, what, strerror(why));
    case ENOSPC:
    case EDQUOT:
        return err_make(ERR_NO_SPACE, "data directory %s: cannot %s: the disk is full", id->dir,
                        what);
    default:
        return err_make(ERR_IO, "data directory %s: cannot %s: %s", id->dir, what, strerror(why));
    }
}

/* ---- the lock ---- */

/* The lock excludes only processes of the same file, on the same machine: of the same place. */
static struct err find_place(struct identity *id)
{
    char boot_id[64];
    struct stat st;
    store_boot_id(boot_id);
    if (fstat(id->lock_fd, &st) != 0)
        return cannot(id, "lock it", errno);
    snprintf(id->place, sizeof id->place, "%s/%llu/%llu", boot_id, (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return OK_ERR;
}

static struct err lock_dir(struct identity *id)
{
    char path[PATH_BYTES];
    if (mkdir(id->dir, 0700) != 0 && errno != EEXIST)
        return cannot(id, "make it", errno);
    path_of(path, id, "lock");
    id->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (id->lock_fd < 0)
        return cannot(id, "lock it", errno);
    if (flock(id->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return find_place(id);
    if (errno == EWOULDBLOCK)
        return err_make(
            ERR_IN_USE,
            "data directory %s is in use by another process: stop that one, or give each "
            "member a directory of its own",
            id->dir);
    return cannot(id, "lock it", errno);
}

/* ---- the file: lines of name=value ---- */

struct field {
    const char *name;
    char *value;
    size_t cap;
};

enum { FIELDS = 8 };

static void list_fields(struct identity *id, struct field out[FIELDS])
{
    out[0] = (struct field){"mode", id->mode, sizeof id->mode};
    out[1] = (struct field){"cluster", id->cluster, sizeof id->cluster};
    out[2] = (struct field){"cluster_id", id->cluster_id, sizeof id->cluster_id};
    out[3] = (struct field){"etcd_cluster_id", id->etcd_cluster_id, sizeof id->etcd_cluster_id};
    out[4] = (struct field){"instance", id->instance, sizeof id->instance};
    out[5] = (struct field){"starts", id->starts, sizeof id->starts};
    out[6] = (struct field){"place", id->place, sizeof id->place};
    out[7] = (struct field){"copied", id->copied, sizeof id->copied};
}

static struct err senseless(const struct identity *id, const char *why)
{
    return err_make(
        ERR_CORRUPT,
        "%s/identity: %s; if the directory is of no more use, remove it and start again", id->dir,
        why);
}

/* Unknown names are of a later version and are passed over. */
static bool take_line(char *line, const struct field *fields)
{
    line[strcspn(line, "\n")] = 0;
    char *value = strchr(line, '=');
    if (!value)
        return false;
    *value++ = 0;
    if (strcmp(line, "format") == 0)
        return strcmp(value, FORMAT) == 0;
    for (int i = 0; i < FIELDS; i++)
        if (strcmp(line, fields[i].name) == 0)
            return (size_t)snprintf(fields[i].value, fields[i].cap, "%s", value) < fields[i].cap;
    return true;
}

static struct err read_file(struct identity *id, bool *exists)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    struct field fields[FIELDS];
    path_of(path, id, "identity");
    FILE *f = fopen(path, "re");
    *exists = f != NULL;
    if (!f)
        return errno == ENOENT ? OK_ERR : cannot(id, "read its identity", errno);
    list_fields(id, fields);
    bool ok = true;
    while (ok && fgets(line, sizeof line, f))
        ok = take_line(line, fields);
    fclose(f);
    if (!ok)
        return senseless(id, "it makes no sense to this version");
    if (!id->mode[0] || !id->cluster[0] || !id->instance[0])
        return senseless(id, "it is cut short");
    return OK_ERR;
}

static struct err write_file(struct identity *id)
{
    struct field fields[FIELDS];
    struct buf lines = {0};
    list_fields(id, fields);
    buf_str(&lines, "format=" FORMAT "\n");
    for (int i = 0; i < FIELDS; i++)
        buf_printf(&lines, "%s=%s\n", fields[i].name, fields[i].value);
    bool ok = file_replace(id->dir, "identity", buf_view(&lines), 0666);
    struct err e = ok ? OK_ERR : cannot(id, "write its identity", errno);
    buf_close(&lines);
    return e;
}

/* ---- claims ---- */

static struct err check_claim(const struct identity *id, const char *mode, const char *cluster)
{
    if (strcmp(id->mode, mode) != 0)
        return err_make(ERR_USAGE,
                        "data directory %s belongs to a member in %s mode, not %s: choose another "
                        "directory; batonctl export | import moves a state",
                        id->dir, id->mode, mode);
    if (strcmp(id->cluster, cluster) != 0)
        return err_make(
            ERR_USAGE,
            "data directory %s belongs to cluster '%s', not '%s': choose another directory",
            id->dir, id->cluster, cluster);
    return OK_ERR;
}

static bool same_boot(const char *a, const char *b)
{
    size_t len = strcspn(a, "/");
    return len && strncmp(a, b, len + 1) == 0;
}

/* What was read is of `place`, where it was written. Somewhere else on this machine it is a copy,
 * so it is another directory. */
static void compare_place(struct identity *id, const char *place, struct rng *rng)
{
    if (strcmp(id->place, place) == 0)
        return;
    if (same_boot(id->place, place))
        rng_hex(rng, id->instance, ID_DIGITS);
    snprintf(id->place, sizeof id->place, "%s", place);
    id->starts[0] = 0;
    snprintf(id->copied, sizeof id->copied, "yes");
}

static void add_start(struct identity *id, struct rng *rng)
{
    char former[STARTS_BYTES];
    memcpy(former, id->starts, sizeof former);
    rng_hex(rng, id->start_id, ID_DIGITS);
    size_t room = sizeof id->starts - ID_DIGITS - 2; /* the oldest one falls off */
    if (strlen(former) > room)
        former[room] = 0;
    snprintf(id->starts, sizeof id->starts, "%s%s%s", id->start_id, former[0] ? "," : "", former);
}

static struct err claim(struct identity *id, const char *mode, const char *cluster)
{
    bool exists;
    char place[sizeof id->place];
    struct rng rng;
    memcpy(place, id->place, sizeof place);
    id->place[0] = 0;
    struct err e = read_file(id, &exists);
    if (!err_is(&e) && exists)
        e = check_claim(id, mode, cluster);
    if (err_is(&e))
        return e;
    rng_seed_os(&rng);
    if (exists) {
        compare_place(id, place, &rng);
    } else {
        snprintf(id->mode, sizeof id->mode, "%s", mode);
        snprintf(id->cluster, sizeof id->cluster, "%s", cluster);
        memcpy(id->place, place, sizeof place);
        rng_hex(&rng, id->instance, ID_DIGITS);
    }
    add_start(id, &rng);
    return write_file(id);
}

struct err identity_settle(struct identity *id)
{
    if (!id->copied[0])
        return OK_ERR;
    id->copied[0] = 0;
    return write_file(id);
}

struct err identity_open(struct identity *id, const char *dir, const char *mode,
                         const char *cluster)
{
    *id = (struct identity){.lock_fd = -1};
    if (strlen(dir) >= sizeof id->dir || strlen(cluster) >= sizeof id->cluster)
        return err_make(ERR_USAGE, "the name of the data directory or of the cluster is too long");
    snprintf(id->dir, sizeof id->dir, "%s", dir);
    struct err e = lock_dir(id);
    if (!err_is(&e))
        e = claim(id, mode, cluster);
    if (err_is(&e))
        identity_close(id);
    return e;
}

void identity_close(struct identity *id)
{
    if (id->lock_fd >= 0)
        close(id->lock_fd);
    id->lock_fd = -1;
}

struct err identity_confirm(struct identity *id, const char *cluster_id)
{
    bool known = id->cluster_id[0] != 0;
    if (!cluster_id && known)
        return err_make(
            ERR_USAGE,
            "data directory %s belongs to cluster id %s, and this etcd holds nothing of "
            "cluster '%s': restore etcd or name the right one in --etcd; to begin anew, "
            "empty the directory",
            id->dir, id->cluster_id, id->cluster);
    if (!cluster_id || (known && strcmp(id->cluster_id, cluster_id) == 0))
        return OK_ERR;
    if (known)
        return err_make(ERR_USAGE,
                        "data directory %s belongs to cluster id %s, and etcd holds %s: start the "
                        "member with its own etcd, or with an empty directory",
                        id->dir, id->cluster_id, cluster_id);
    if ((size_t)snprintf(id->cluster_id, sizeof id->cluster_id, "%s", cluster_id) >=
        sizeof id->cluster_id)
        return err_make(ERR_PROTOCOL, "the cluster id '%.40s' is too long", cluster_id);
    return write_file(id);
}

struct err identity_note_etcd(struct identity *id, uint64_t etcd_cluster_id)
{
    char told[sizeof id->etcd_cluster_id];
    snprintf(told, sizeof told, "%llu", (unsigned long long)etcd_cluster_id);
    if (strcmp(told, id->etcd_cluster_id) == 0)
        return OK_ERR;
    memcpy(id->etcd_cluster_id, told, sizeof told);
    return write_file(id);
}
