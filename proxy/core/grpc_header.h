/* The words of gRPC over HTTP/2 that the relay has to understand: names, timeouts, base64,
 * messages. */
#pragma once
#include "common/base/buf.h"

/* Headers that have a rule; everything else passes unchanged. */
enum header_kind {
    HEADER_PLAIN,
    HEADER_METHOD,
    HEADER_SCHEME,
    HEADER_PATH,
    HEADER_AUTHORITY,
    HEADER_STATUS,
    HEADER_HOST,
    HEADER_TE,
    HEADER_VIA,
    HEADER_CONTENT_TYPE,
    HEADER_CONTENT_LENGTH,
    HEADER_GRPC_TIMEOUT,
    HEADER_GRPC_ATTEMPTS,
    HEADER_GRPC_STATUS,
    HEADER_GRPC_PUSHBACK,
    HEADER_FORWARDED_FOR,
    HEADER_CLIENT_CERT,
    HEADER_REQUEST_ID,
    HEADER_NOT_EXECUTED,
    HEADER_OUTCOME,
    HEADER_LEADER,
    HEADER_EPOCH,
    HEADER_CLUSTER,
    HEADER_BINARY, /* ends in -bin */
};

enum header_kind header_classify(struct bytes name);
bool grpc_is_content_type(struct bytes value);
/* Milliseconds, rounded up; false when malformed. More than a year counts as a year. */
bool grpc_timeout_parse(struct bytes value, int64_t *out_ms);
/* What is left, in the finest unit that has at most 8 digits; returns the length. out holds 16. */
size_t grpc_timeout_format(int64_t left_ms, char *out);
/* Base64 with or without padding, several values parted by commas. */
bool grpc_is_base64_list(struct bytes value);
/* Decimal digits only; false: none, or past 64 bits. */
bool grpc_number_parse(struct bytes value, uint64_t *out);
