/* Between Baton's values and those of gRPC C core; only for common/io/rpc*.c. */
#pragma once
#include "common/io/rpc_types.h"
#include <grpc/grpc.h>

/* The library is in use from the first open to the last close. Its log goes to log_debug. Any
 * thread. */
void rpc_core_open(void);
void rpc_core_close(void);

/* Deadlines: clock_boot_ms scale, INT64_MAX for none. */
gpr_timespec rpc_core_deadline(int64_t deadline_ms);
int64_t rpc_core_deadline_ms(gpr_timespec deadline);

static inline grpc_slice rpc_core_slice(struct bytes b)
{
    return grpc_slice_from_copied_buffer((const char *)b.data, b.len);
}
/* Borrowed; the slice must stay where it is, a short one holds its bytes inside. */
static inline struct bytes rpc_core_view(const grpc_slice *s)
{
    return bytes_of(GRPC_SLICE_START_PTR(*s), GRPC_SLICE_LENGTH(*s));
}

/* Around what goes through a completion queue: given before C core gets the tag, taken when it
 * hands it back. C core's own synchronisation is enough, but the thread sanitizer does not see it.
 */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define rpc_core_give(tag) __tsan_release(tag)
#define rpc_core_take(tag) __tsan_acquire(tag)
#else
#define rpc_core_give(tag) (void)(tag)
#define rpc_core_take(tag) (void)(tag)
#endif

#define RPC_METADATA_MAX 10

/* Metadata on its way out: owns the slices. All zero is empty. */
struct rpc_outgoing {
    size_t n;
    grpc_metadata items[RPC_METADATA_MAX];
};
/* The key must live for ever. */
void rpc_outgoing_add(struct rpc_outgoing *o, const char *key, struct bytes value);
void rpc_outgoing_add_all(struct rpc_outgoing *o, const struct rpc_metadata *items, size_t n);
void rpc_outgoing_clear(struct rpc_outgoing *o);

/* The first value under a key; data NULL when there is none. */
struct bytes rpc_core_find(const grpc_metadata_array *metadata, const char *key);

/* A message on its way out, made of one slice (which it takes), without asking the heap for the
 * buffer itself. */
void rpc_core_message_init(grpc_byte_buffer *b, grpc_slice message);
void rpc_core_message_close(grpc_byte_buffer *b);

/* The bytes of a message in one piece: those of the buffer itself, or a copy in *flat (free it). */
struct bytes rpc_core_contiguous(grpc_byte_buffer *b, uint8_t **flat);
