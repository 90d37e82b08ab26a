/* The descriptor set of all contracts (a serialised google.protobuf.FileDescriptorSet), built in.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

extern const uint8_t baton_desc[];
extern const size_t baton_desc_len;
