#include "meta/leased.h"
#include "meta/board.h"
#include "meta/store.h"

static struct store_snapshot *snapshot_of(struct board *board, struct store *store, uint64_t epoch)
{
    struct store_snapshot *snap = store_snapshot_open(store);
    if (board_still_reads(board, epoch))
        return snap;
    store_snapshot_close(snap);
    return NULL;
}

struct store_snapshot *leased_snapshot(struct board *board, struct store *store, uint64_t confirmed,
                                       uint64_t *epoch)
{
    struct store_snapshot *snap = NULL;
    *epoch = confirmed;
    if (confirmed)
        return snapshot_of(board, store, confirmed);
    while (!snap && (*epoch = board_read_epoch(board)))
        snap = snapshot_of(board, store, *epoch);
    return snap;
}
