/* What baton-meta counts. Any thread. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"
#include "meta/core/commit.h"

struct board;
struct store;

void meta_count_commit(size_t requests, int64_t spent_us);
void meta_count_outcome(enum commit_outcome_kind kind);
void meta_count_etcd_error(enum err_code code);
void meta_count_foreign_write(void);
void meta_count_replayed(void);
void meta_count_role(const char *role);
/* From winning a takeover to serving. */
void meta_observe_activation(int64_t spent_ms);
void meta_count_rpc(const char *method, int status);

/* Appends the exposition, with the gauges as they are now. */
void meta_metrics_write(struct buf *out, struct board *board, struct store *store);
