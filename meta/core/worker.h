/* A worker as it stands below state/workers/: one line of text like the records of record.h, so
 * that etcdctl shows it well. Keys there:
 *
 *     <id, 20 digits>   a worker; absent once it is gone
 *     counters          the last id, incarnation and grant given out
 *     gone              the workers that the last commit to take any out took out, a line each, so
 * that whoever follows the state learns what they were and why they went
 *
 * Decoding gives CORRUPT for what makes no sense, and keeps fields that this version does not know.
 */
#pragma once
#include "common/base/arena.h"
#include "common/base/err.h"

enum {
    WORKER_TYPE_MAX = 64,         /* characters of types and of names of labels and resources */
    WORKER_ADDR_MAX = 299,        /* characters */
    WORKER_LABELS_MAX = 64,       /* of one worker */
    WORKER_LABEL_MAX = 256,       /* bytes of a label's value */
    WORKER_RESOURCES_MAX = 32,    /* of one worker */
    WORKER_BYTES_MAX = 32 * 1024, /* of the line */
    WORKER_TTL_MIN_MS = 1000,
    WORKER_TTL_MAX_MS = 3600 * 1000,
    WORKER_KEY_DIGITS = 20,
    WORKER_SLOT_MAX = (1 << 24) - 1, /* far above --max-workers: slots are dense */
};
#define WORKER_COUNTERS_KEY "counters"
#define WORKER_GONE_KEY "gone"

/* Never written but in `gone`: how it went. */
enum worker_end { WORKER_LIVES, WORKER_DELETED, WORKER_EXPIRED };

struct worker_label {
    struct bytes name, value;
};
struct worker_resource {
    struct bytes name;
    uint64_t amount;
};

/* Slices are borrowed, or live in the arena that decoding was given. */
struct worker {
    uint64_t id;          /* from 1; never used twice */
    uint64_t incarnation; /* grows with each registration in the cluster */
    struct bytes type, addr;
    bool running; /* else it is starting */
    bool cordoned, draining;
    bool has_slot;
    uint32_t slot;
    uint64_t grant; /* of the slot; grows with each grant */
    uint64_t ttl_ms;
    enum worker_end end;
    const struct worker_label *labels; /* sorted by name, as resources */
    size_t label_count;
    const struct worker_resource *resources;
    size_t resource_count;
    struct bytes others; /* fields of other versions, as they stand there */
};

void worker_encode(const struct worker *w, struct buf *out);
struct err worker_decode(struct bytes line, struct arena *memory, struct worker *out);

/* The key below workers/, in decimal with leading zeros, so that keys sort by id. */
void worker_key(char out[WORKER_KEY_DIGITS + 1], uint64_t id);
/* false: no key of a worker. */
bool worker_key_id(struct bytes key, uint64_t *id);

struct worker_counters {
    uint64_t id, incarnation, grant; /* the last given out */
};
void worker_counters_encode(const struct worker_counters *c, struct buf *out);
struct err worker_counters_decode(struct bytes line, struct worker_counters *out);

/* The lines of `gone`, one after the other: false at the end. */
bool worker_gone_next(struct bytes *rest, struct bytes *line);

/* What users give, checked; BAD_WORKER names the field and the limit. */
struct err worker_check_name(struct bytes name, const char *what);
struct err worker_check_addr(struct bytes addr);
struct err worker_check_labels(const struct worker_label *labels, size_t count);
struct err worker_check_resources(const struct worker_resource *resources, size_t count);
struct err worker_check_ttl(uint64_t ttl_ms); /* 0 is allowed: the default */
