#include "client/convert_member.h"
#include <baton/v1/member.pb-c.h>
#include <stdio.h>

static struct err garbled(const char *what)
{
    return err_make(ERR_PROTOCOL, "the answer is no %s; are both programs of one version?", what);
}

static const char *keep(struct arena *memory, const char *text)
{
    return (const char *)arena_copy(memory, bytes_str(text)).data;
}

void member_convert_leader(const Baton__V1__LeaderState *m, struct baton_leader *out)
{
    *out =
        (struct baton_leader){.known = m->known, .epoch = m->epoch, .age_ms = (int64_t)m->age_ms};
    snprintf(out->cluster_id, sizeof out->cluster_id, "%s", m->cluster_id);
    snprintf(out->id, sizeof out->id, "%s", m->id);
    snprintf(out->addr, sizeof out->addr, "%s", m->addr);
}

struct err member_decode_leader(struct bytes message, struct member_leader *out)
{
    Baton__V1__LeaderState *m = baton__v1__leader_state__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("LeaderState");
    *out = (struct member_leader){
        .known = m->known, .epoch = m->epoch, .age_ms = m->age_ms, .revision = m->revision};
    snprintf(out->id, sizeof out->id, "%s", m->id);
    snprintf(out->addr, sizeof out->addr, "%s", m->addr);
    snprintf(out->member_id, sizeof out->member_id, "%s", m->member_id);
    snprintf(out->cluster, sizeof out->cluster, "%s", m->cluster_id);
    baton__v1__leader_state__free_unpacked(m, NULL);
    return OK_ERR;
}

static void fill_member(const Baton__V1__Member *from, struct arena *memory,
                        struct baton_member *out)
{
    bool known = (unsigned)from->role <= BATON_STEPPING_DOWN;
    *out = (struct baton_member){.id = keep(memory, from->id),
                                 .addr = keep(memory, from->addr),
                                 .http_addr = keep(memory, from->http_addr),
                                 .version = keep(memory, from->version),
                                 .instance = keep(memory, from->instance),
                                 .role = known ? (enum baton_role)from->role : BATON_ROLE_UNKNOWN,
                                 .epoch = from->epoch,
                                 .started_unix_ms = from->started_unix_ms,
                                 .applied_revision = from->applied_revision,
                                 .lag = from->lag};
}

void member_convert_all(Baton__V1__Member *const *from, size_t count, struct arena *memory,
                        struct baton_members *out)
{
    struct baton_member *members = arena_array(memory, count, sizeof *members);
    for (size_t i = 0; i < count; i++)
        fill_member(from[i], memory, &members[i]);
    out->members = members;
    out->count = count;
}

struct err member_decode_list(struct bytes message, struct arena *memory, struct baton_members *out)
{
    Baton__V1__ListMembersResponse *m =
        baton__v1__list_members_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("ListMembersResponse");
    out->cluster_id = keep(memory, m->cluster_id);
    member_convert_all(m->members, m->n_members, memory, out);
    baton__v1__list_members_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err member_decode_removed(struct bytes message, struct arena *memory,
                                 struct baton_members *out)
{
    Baton__V1__RemoveMemberResponse *m =
        baton__v1__remove_member_response__unpack(NULL, message.len, message.data);
    out->cluster_id = "";
    if (m && m->member)
        member_convert_all(&m->member, 1, memory, out);
    struct err e = m && m->member ? OK_ERR : garbled("RemoveMemberResponse");
    baton__v1__remove_member_response__free_unpacked(m, NULL);
    return e;
}

struct err member_decode_transfer(struct bytes message, struct baton_transferred *out)
{
    Baton__V1__TransferLeadershipResponse *m =
        baton__v1__transfer_leadership_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("TransferLeadershipResponse");
    out->epoch = m->epoch;
    snprintf(out->target, sizeof out->target, "%s", m->target_id);
    baton__v1__transfer_leadership_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err member_decode_history(struct bytes message, struct arena *memory,
                                 struct baton_history *out)
{
    Baton__V1__GetHistoryResponse *m =
        baton__v1__get_history_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("GetHistoryResponse");
    struct baton_leadership *all = arena_array(memory, m->n_leaderships, sizeof *all);
    for (size_t i = 0; i < m->n_leaderships; i++) {
        const Baton__V1__Leadership *from = m->leaderships[i];
        all[i] = (struct baton_leadership){.epoch = from->epoch,
                                           .leader_id = keep(memory, from->leader_id),
                                           .addr = keep(memory, from->addr),
                                           .reason = keep(memory, from->reason),
                                           .started_unix_ms = from->started_unix_ms,
                                           .ended_unix_ms = from->ended_unix_ms};
    }
    out->cluster_id = keep(memory, m->cluster_id);
    out->leaderships = all;
    out->count = m->n_leaderships;
    baton__v1__get_history_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err member_decode_restore(struct bytes message, struct member_restore *out)
{
    Baton__V1__GetRestoreResponse *m =
        baton__v1__get_restore_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("GetRestoreResponse");
    *out = (struct member_restore){.refused = m->refused,
                                   .ran_before = m->ran_before,
                                   .epoch = m->epoch,
                                   .seq = m->seq,
                                   .incarnation = m->incarnation,
                                   .revision = m->revision,
                                   .started_unix_ms = m->started_unix_ms};
    snprintf(out->id, sizeof out->id, "%s", m->member_id);
    snprintf(out->cluster, sizeof out->cluster, "%s", m->cluster_id);
    snprintf(out->reason, sizeof out->reason, "%s", m->reason);
    baton__v1__get_restore_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err member_decode_recovered(struct bytes message, struct member_recovered *out)
{
    Baton__V1__RecoverResponse *m =
        baton__v1__recover_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("RecoverResponse");
    *out = (struct member_recovered){
        .incarnation = m->incarnation, .epoch_floor = m->epoch_floor, .written = m->written};
    baton__v1__recover_response__free_unpacked(m, NULL);
    return OK_ERR;
}

void member_encode_recover(uint64_t epoch_above, uint64_t incarnation_above, struct buf *out)
{
    Baton__V1__RecoverRequest m = BATON__V1__RECOVER_REQUEST__INIT;
    m.accept_restore = true;
    m.epoch_above = epoch_above;
    m.incarnation_above = incarnation_above;
    buf_clear(out);
    buf_reserve(out, baton__v1__recover_request__get_packed_size(&m));
    out->len = baton__v1__recover_request__pack(&m, out->data);
}

void member_encode_history(uint32_t limit, struct buf *out)
{
    Baton__V1__GetHistoryRequest m = BATON__V1__GET_HISTORY_REQUEST__INIT;
    m.limit = limit;
    buf_clear(out);
    buf_reserve(out, baton__v1__get_history_request__get_packed_size(&m));
    out->len = baton__v1__get_history_request__pack(&m, out->data);
}

void member_encode_transfer(const char *target, struct buf *out)
{
    Baton__V1__TransferLeadershipRequest m = BATON__V1__TRANSFER_LEADERSHIP_REQUEST__INIT;
    m.target_id = (char *)target;
    buf_clear(out);
    buf_reserve(out, baton__v1__transfer_leadership_request__get_packed_size(&m));
    out->len = baton__v1__transfer_leadership_request__pack(&m, out->data);
}

void member_encode_remove(const char *id, struct buf *out)
{
    Baton__V1__RemoveMemberRequest m = BATON__V1__REMOVE_MEMBER_REQUEST__INIT;
    m.id = (char *)id;
    buf_clear(out);
    buf_reserve(out, baton__v1__remove_member_request__get_packed_size(&m));
    out->len = baton__v1__remove_member_request__pack(&m, out->data);
}
