/* Messages unpacked into an arena, and never freed one by one. */
#pragma once
#include "common/base/arena.h"
#include <protobuf-c/protobuf-c.h>

/* NULL: no valid message of that type. What it shows lives in the arena. */
ProtobufCMessage *convert_unpack(const ProtobufCMessageDescriptor *type, struct bytes body,
                                 struct arena *memory);
