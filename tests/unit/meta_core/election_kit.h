/* Drives one election by hand: what it asks of etcd is answered from a few keys that the test sets.
 */
#pragma once
#include "meta/core/election.h"
#include "tests/unit/meta_core/fence_kit.h"

#define KIT_INSTANCE "11111111111111111111111111111111"
#define KIT_START "22222222222222222222222222222222"

struct drive {
    struct election *e;
    int64_t now_ms;
    struct election_effects out; /* of the last step */
    struct fence_txn asked;      /* a copy of the last call's txn */
    struct election_call call;   /* the last one */
    size_t calls;                /* of the last step */
    /* what etcd holds */
    int64_t own_revision; /* 0: no key */
    bool first;
    struct record_bytes commit, cluster;
    struct released released;
};

struct drive *drive_new(const struct election_config *config); /* NULL: the usual one */
void drive_free(struct drive *d);
struct election_config drive_config(void);

void drive_event(struct drive *d, struct election_event event);
void drive_tick(struct drive *d, int64_t now_ms);
/* Answers to the last call. */
void drive_error(struct drive *d, enum err_code code);
void drive_granted(struct drive *d, int64_t ttl_ms);
void drive_succeeded(struct drive *d, int64_t revision);
void drive_failed(struct drive *d); /* a guard: with its reads, from what etcd holds */
void drive_read(struct drive *d);   /* reads alone */

/* Up to its key in the queue, the first read asked for. */
void drive_to_queue(struct drive *d);
/* First in line behind an empty etcd, takeover won at revision 20. */
void drive_to_lead(struct drive *d);

const struct election_action *drive_action(const struct drive *d, enum election_action_kind kind);
int drive_position(const struct drive *d, enum election_action_kind kind); /* -1: not there */
bool drive_asks(const struct drive *d, const char *key_below); /* the last call writes there */
struct record drive_takeover(const struct drive *d); /* the record that the last call puts */

/* Events of the watches and of the replica. */
void drive_see(struct drive *d, const struct record_bytes *bytes, int64_t received_ms);
void drive_look(struct drive *d, int64_t create_revision, bool first, int64_t revision);
void drive_epoch(struct drive *d, enum election_event_kind kind); /* of epoch 1 */

/* From tick to tick, reads answered, until the takeover is sent: when that is; -1: it is not. */
int64_t drive_takeover_time(struct drive *d);
/* Of somebody else's leadership, epoch 5. */
struct record_bytes drive_old_record(int64_t ttl_ms, uint64_t seq);
