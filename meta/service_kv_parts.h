/* What the files of the key-value service share. */
#pragma once
#include "meta/service_kv.h"

/* ---- service_kv_read.c ---- */
void kv_handle_get(struct rpc_call *call, void *ctx);
void kv_handle_range(struct rpc_call *call, void *ctx);
