#include "meta/core/resume.h"
#include "meta/core/wire.h"

enum { FORM = 1 };

void resume_encode(const struct resume *r, struct buf *out)
{
    buf_byte(out, FORM);
    wire_put_bytes(out, bytes_str(r->cluster_id));
    wire_put_number(out, r->incarnation);
    wire_put_number(out, (uint64_t)r->revision);
}

struct err resume_decode(struct bytes token, struct resume *out)
{
    struct bytes id;
    uint64_t form, revision;
    *out = (struct resume){0};
    if (wire_get_number(&token, &form) && form == FORM && wire_get_bytes(&token, &id) &&
        id.len <= CLUSTER_ID_MAX && wire_get_number(&token, &out->incarnation) &&
        wire_get_number(&token, &revision) && revision <= INT64_MAX && token.len == 0) {
        memcpy(out->cluster_id, id.data, id.len);
        out->revision = (int64_t)revision;
        return OK_ERR;
    }
    return err_make(ERR_BAD_REQUEST, "resume_token: give back a token as it was received");
}
