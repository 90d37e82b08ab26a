#include "meta/convert_unpack.h"

static void *take(void *arena, size_t size)
{
    return arena_raw(arena, size);
}

static void give_back(void *arena, void *piece)
{
}

ProtobufCMessage *convert_unpack(const ProtobufCMessageDescriptor *type, struct bytes body,
                                 struct arena *memory)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = give_back, .allocator_data = memory};
    return protobuf_c_message_unpack(type, &allocator, body.len, body.data);
}
