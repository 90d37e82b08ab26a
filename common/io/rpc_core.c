#include "common/io/rpc_core.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

static void forward_log(gpr_log_func_args *args)
{
    log_debug("grpc: %s:%d: %s", args->file, args->line, args->message);
}

/* absl::SetMutexDeadlockDetectionMode of the abseil that C core is built on. Debian builds it with
 * the check for lock cycles on; that costs a tenth of each call's CPU and finds only bugs of C
 * core's own. Weak: another abseil has another name for it, and then the check stays on. */
void rpc_core_absl_deadlock_detection(int mode) __asm__(
    "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE") __attribute__((weak));

void rpc_core_open(void)
{
    enum { ABSL_IGNORE = 0 };
    if (rpc_core_absl_deadlock_detection)
        rpc_core_absl_deadlock_detection(ABSL_IGNORE);
    gpr_set_log_function(forward_log);
    grpc_init();
}

void rpc_core_close(void)
{
    grpc_shutdown();
}

gpr_timespec rpc_core_deadline(int64_t deadline_ms)
{
    if (deadline_ms == INT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    int64_t left = deadline_ms - clock_boot_ms();
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(left > 0 ? left : 0, GPR_TIMESPAN));
}

int64_t rpc_core_deadline_ms(gpr_timespec deadline)
{
    if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0)
        return INT64_MAX;
    gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
    return clock_boot_ms() + left.tv_sec * 1000 + left.tv_nsec / 1000000;
}

void rpc_outgoing_add(struct rpc_outgoing *o, const char *key, struct bytes value)
{
    PRE(o->n < RPC_METADATA_MAX);
    grpc_metadata *item = &o->items[o->n++];
    item->key = grpc_slice_from_static_string(key);
    item->value = rpc_core_slice(value);
}

void rpc_outgoing_add_all(struct rpc_outgoing *o, const struct rpc_metadata *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rpc_outgoing_add(o, items[i].key, items[i].value);
}

void rpc_outgoing_clear(struct rpc_outgoing *o)
{
    for (size_t i = 0; i < o->n; i++)
        grpc_slice_unref(o->items[i].value);
    o->n = 0;
}

struct bytes rpc_core_find(const grpc_metadata_array *metadata, const char *key)
{
    struct bytes wanted = bytes_str(key);
    for (size_t i = 0; i < metadata->count; i++)
        if (bytes_equal(rpc_core_view(&metadata->metadata[i].key), wanted))
            return rpc_core_view(&metadata->metadata[i].value);
    return BYTES_NONE;
}

void rpc_core_message_init(grpc_byte_buffer *b, grpc_slice message)
{
    *b = (grpc_byte_buffer){.type = GRPC_BB_RAW};
    b->data.raw.compression = GRPC_COMPRESS_NONE;
    grpc_slice_buffer_init(&b->data.raw.slice_buffer);
    grpc_slice_buffer_add(&b->data.raw.slice_buffer, message);
}

void rpc_core_message_close(grpc_byte_buffer *b)
{
    grpc_slice_buffer_destroy(&b->data.raw.slice_buffer);
}

struct bytes rpc_core_contiguous(grpc_byte_buffer *b, uint8_t **flat)
{
    const grpc_slice_buffer *s = &b->data.raw.slice_buffer;
    if (s->count <= 1)
        return s->count ? rpc_core_view(&s->slices[0]) : BYTES_NONE;
    uint8_t *at = *flat = mem_alloc(s->length);
    for (size_t i = 0; i < s->count; i++) {
        struct bytes piece = rpc_core_view(&s->slices[i]);
        if (piece.len)
            memcpy(at, piece.data, piece.len);
        at += piece.len;
    }
    return bytes_of(*flat, s->length);
}
