/* A store in a directory of its own. */
#pragma once
#include "meta/store.h"
#include "tests/lib/state_fixture.h"
#include "tests/lib/temp_dir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Small address spaces, because sanitizers and several tests share the machine. */
enum { MAP_BYTES = 64 << 20 };

struct fixture {
    char *dir;
    struct store *store;
};

static inline struct err open_as(struct fixture *f, const char *boot_id, size_t map_bytes)
{
    return store_open(&f->store, &(struct store_config){.dir = f->dir,
                                                        .state_prefix = STATE_PREFIX,
                                                        .map_bytes = map_bytes,
                                                        .boot_id = boot_id});
}

static inline void open_ok(struct fixture *f, const char *boot_id)
{
    struct err e = open_as(f, boot_id, MAP_BYTES);
    if (err_is(&e))
        print_error("%s\n", e.message);
    assert_false(err_is(&e));
}

static inline void fixture_init(struct fixture *f)
{
    f->dir = temp_dir_new();
    open_ok(f, "boot-1");
}

static inline void fixture_close(struct fixture *f)
{
    store_close(f->store);
    temp_dir_free(f->dir);
}

static inline int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof *f);
    fixture_init(f);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

#define assert_ok(e)                                                                               \
    do {                                                                                           \
        struct err e_ = (e);                                                                       \
        if (err_is(&e_))                                                                           \
            print_error("%s\n", e_.message);                                                       \
        assert_false(err_is(&e_));                                                                 \
    } while (0)

static inline struct etcd_op put(const char *key, const char *value)
{
    return (struct etcd_op){.kind = ETCD_OP_PUT, .key = bytes_str(key), .value = bytes_str(value)};
}

static inline void put_key(struct fixture *f, int64_t revision, const char *user_key,
                           const char *value)
{
    char key[64];
    snprintf(key, sizeof key, STATE_PREFIX "kv/%s", user_key);
    struct etcd_op op = put(key, value);
    assert_ok(store_apply_ops(f->store, revision, &op, 1, bytes_str("record")));
}

static inline bool has(struct fixture *f, const char *key, struct etcd_kv *kv)
{
    struct store_snapshot *snap = store_snapshot_open(f->store);
    bool found = store_get(snap, bytes_str(key), kv);
    store_snapshot_close(snap);
    return found;
}

static inline int64_t revision_of(struct fixture *f)
{
    struct store_snapshot *snap = store_snapshot_open(f->store);
    int64_t revision = store_revision(snap);
    store_snapshot_close(snap);
    return revision;
}
