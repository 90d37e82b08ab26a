#include "proxy/core/grpc_header.h"
#include <stdio.h>

static bool is(struct bytes name, const char *word)
{
    return memcmp(name.data, word, name.len) == 0;
}

static enum header_kind or_binary(struct bytes name)
{
    bool binary = name.len > 4 && memcmp(name.data + name.len - 4, "-bin", 4) == 0;
    return binary ? HEADER_BINARY : HEADER_PLAIN;
}

/* One row for each name, found by its length: at most a few comparisons for any header. */
static const struct name_row {
    const char *name;
    enum header_kind kind;
} name_rows[] = {
    {"te", HEADER_TE},
    {"via", HEADER_VIA},
    {"host", HEADER_HOST},
    {":path", HEADER_PATH},
    {":method", HEADER_METHOD},
    {":scheme", HEADER_SCHEME},
    {":status", HEADER_STATUS},
    {":authority", HEADER_AUTHORITY},
    {"grpc-status", HEADER_GRPC_STATUS},
    {"baton-epoch", HEADER_EPOCH},
    {"content-type", HEADER_CONTENT_TYPE},
    {"grpc-timeout", HEADER_GRPC_TIMEOUT},
    {"baton-leader", HEADER_LEADER},
    {"baton-outcome", HEADER_OUTCOME},
    {"baton-cluster", HEADER_CLUSTER},
    {"content-length", HEADER_CONTENT_LENGTH},
    {"x-forwarded-for", HEADER_FORWARDED_FOR},
    {"baton-request-id", HEADER_REQUEST_ID},
    {"baton-not-executed", HEADER_NOT_EXECUTED},
    {"grpc-retry-pushback-ms", HEADER_GRPC_PUSHBACK},
    {"x-forwarded-client-cert", HEADER_CLIENT_CERT},
    {"grpc-previous-rpc-attempts", HEADER_GRPC_ATTEMPTS},
};

#define NAME_LENGTH_MAX 26

/* For each length the first row with it and how many there are; the rows are sorted by length. */
static const struct {
    uint8_t first, count;
} rows_by_length[NAME_LENGTH_MAX + 1] = {
    [2] = {0, 1},   [3] = {1, 1},   [4] = {2, 1},   [5] = {3, 1},   [7] = {4, 3},   [10] = {7, 1},
    [11] = {8, 2},  [12] = {10, 3}, [13] = {13, 2}, [14] = {15, 1}, [15] = {16, 1}, [16] = {17, 1},
    [18] = {18, 1}, [22] = {19, 1}, [23] = {20, 1}, [26] = {21, 1},
};

enum header_kind header_classify(struct bytes name)
{
    if (name.len <= NAME_LENGTH_MAX) {
        const struct name_row *row = name_rows + rows_by_length[name.len].first;
        for (int n = rows_by_length[name.len].count; n > 0; n--, row++)
            if (is(name, row->name))
                return row->kind;
    }
    return or_binary(name);
}

bool grpc_is_content_type(struct bytes value)
{
    static const char want[] = "application/grpc";
    size_t n = sizeof want - 1;
    if (value.len < n || memcmp(value.data, want, n) != 0)
        return false;
    return value.len == n || value.data[n] == '+' || value.data[n] == ';';
}

bool grpc_number_parse(struct bytes value, uint64_t *out)
{
    uint64_t n = 0;
    if (value.len == 0 || value.len > 20)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        unsigned digit = value.data[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)digit, &n))
            return false;
    }
    *out = n;
    return true;
}

#define YEAR_MS (366LL * 24 * 3600 * 1000)

bool grpc_timeout_parse(struct bytes value, int64_t *out_ms)
{
    uint64_t n;
    if (value.len < 2 || value.len > 9 ||
        !grpc_number_parse(bytes_of(value.data, value.len - 1), &n))
        return false;
    int64_t ms;
    switch (value.data[value.len - 1]) {
    case 'H':
        ms = (int64_t)n * 3600 * 1000;
        break;
    case 'M':
        ms = (int64_t)n * 60 * 1000;
        break;
    case 'S':
        ms = (int64_t)n * 1000;
        break;
    case 'm':
        ms = (int64_t)n;
        break;
    case 'u':
        ms = ((int64_t)n + 999) / 1000;
        break;
    case 'n':
        ms = ((int64_t)n + 999999) / 1000000;
        break;
    default:
        return false;
    }
    *out_ms = ms < YEAR_MS ? ms : YEAR_MS;
    return true;
}

size_t grpc_timeout_format(int64_t left_ms, char *out)
{
    if (left_ms < 0)
        left_ms = 0;
    if (left_ms < 100000000)
        return (size_t)snprintf(out, 16, "%lldm", (long long)left_ms);
    return (size_t)snprintf(out, 16, "%lldS", (long long)(left_ms / 1000));
}

static bool is_base64_char(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
}

static bool is_base64(struct bytes s)
{
    size_t digits = s.len;
    while (digits > 0 && s.len - digits < 2 && s.data[digits - 1] == '=')
        digits--;
    for (size_t i = 0; i < digits; i++)
        if (!is_base64_char(s.data[i]))
            return false;
    bool padded = digits < s.len;
    return digits % 4 != 1 && (!padded || s.len % 4 == 0);
}

bool grpc_is_base64_list(struct bytes value)
{
    const uint8_t *at = value.data, *end = value.data + value.len;
    while (at < end) {
        const uint8_t *comma = memchr(at, ',', (size_t)(end - at));
        const uint8_t *stop = comma ? comma : end;
        if (!is_base64(bytes_of(at, (size_t)(stop - at))))
            return false;
        at = comma ? comma + 1 : end;
        while (at < end && *at == ' ')
            at++;
    }
    return true;
}
