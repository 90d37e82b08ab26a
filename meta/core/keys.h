/* The names of all keys in etcd, below the prefix "/baton/<cluster>/". */
#pragma once
#include "common/base/buf.h"

enum {
    CLUSTER_NAME_MAX = 64, /* characters */
    PREFIX_MAX = 80,       /* room for a prefix */
    KEY_MAX = 320,         /* room for any key but those below state/kv/ */
};

/* "/baton/<cluster>/"; false when the name is empty, too long, or has other characters than
 * letters, digits,
 * '-', '_' and '.'. */
bool keys_prefix(char out[PREFIX_MAX], const char *cluster);

/* Each writes a whole key into out, with a 0 behind it, and shows it. */
struct bytes keys_cluster(char out[KEY_MAX], const char *prefix);
struct bytes keys_live(char out[KEY_MAX],
                       const char *prefix); /* "…live/", the prefix of all below */
struct bytes keys_elections(char out[KEY_MAX], const char *prefix); /* "…live/election/" */
struct bytes keys_election(char out[KEY_MAX], const char *prefix,
                           int64_t lease);                        /* lowercase hex */
struct bytes keys_members(char out[KEY_MAX], const char *prefix); /* "…live/members/" */
struct bytes keys_member(char out[KEY_MAX], const char *prefix, const char *id);
struct bytes keys_released(char out[KEY_MAX], const char *prefix);
struct bytes keys_removed(char out[KEY_MAX], const char *prefix, const char *id);
struct bytes keys_state(char out[KEY_MAX], const char *prefix); /* "…state/" */
struct bytes keys_commit(char out[KEY_MAX], const char *prefix);
struct bytes keys_histories(char out[KEY_MAX], const char *prefix); /* "…state/history/" */
struct bytes keys_history(char out[KEY_MAX], const char *prefix,
                          uint64_t epoch);                                  /* sorts by epoch */
struct bytes keys_dedups(char out[KEY_MAX], const char *prefix);            /* "…state/dedup/" */
struct bytes keys_dedup(char out[KEY_MAX], const char *prefix, uint64_t n); /* sorts by n */
struct bytes keys_dedup_floor(char out[KEY_MAX], const char *prefix);       /* sorts behind all n */
struct bytes keys_kvs(char out[KEY_MAX], const char *prefix);               /* "…state/kv/" */
/* Nobody ever puts it: deleting it under a guard asks whether the guard holds and changes nothing.
 */
struct bytes keys_probe(char out[KEY_MAX], const char *prefix);

/* What stands in a key behind `start` (one of the prefixes above); false when it is no such key. */
bool keys_rest(struct bytes key, struct bytes start, struct bytes *rest);
bool keys_rest_number(struct bytes key, struct bytes start,
                      uint64_t *n); /* of history and dedup keys */
bool keys_rest_lease(struct bytes key, struct bytes start, int64_t *lease); /* of election keys */
