/* The state as a leader may answer from it. */
#pragma once
#include <stdint.h>

struct board;
struct store;
struct store_snapshot;

/* What a later leader wrote cannot be missing, because the gate is looked at before the snapshot is
 * taken, or because etcd has confirmed this leadership (`confirmed`, its epoch; 0: it was not
 * asked); and cannot be in it, because the gate's epoch is looked at again behind. *epoch is the
 * one it is answered under. NULL: not now. */
struct store_snapshot *leased_snapshot(struct board *board, struct store *store, uint64_t confirmed,
                                       uint64_t *epoch);
