/* Workers, as they stand in the messages of more than one service. */
#pragma once
#include "client/include/baton/baton.h"
#include "common/base/arena.h"
#include <baton/v1/cluster.pb-c.h>

/* Copies; labels and resources come sorted by name. m NULL: all zero, with empty texts. */
struct baton_worker_info worker_convert(const Baton__V1__Worker *m, struct arena *memory);
struct baton_worker_info *worker_convert_all(Baton__V1__Worker *const *all, size_t count,
                                             struct arena *memory);
