/* Messages of the member service <-> the library's values. */
#pragma once
#include "client/include/baton/baton.h"
#include "common/base/arena.h"
#include "common/base/err.h"

#define MEMBER_GET_LEADER "/baton.v1.ClusterMemberService/GetLeaderAddr"
#define MEMBER_LIST "/baton.v1.ClusterMemberService/ListMembers"
#define MEMBER_TRANSFER "/baton.v1.ClusterMemberService/TransferLeadership"
#define MEMBER_REMOVE "/baton.v1.ClusterMemberService/RemoveMember"
#define MEMBER_GET_RESTORE "/baton.v1.ClusterMemberService/GetRestore"
#define MEMBER_RECOVER "/baton.v1.ClusterMemberService/Recover"
#define MEMBER_HISTORY "/baton.v1.ClusterMemberService/GetHistory"

/* Texts are cut at these sizes; none that a member sends is longer. */
struct member_leader {
    bool known;
    char id[64], addr[264], member_id[64], cluster[64];
    uint64_t epoch, age_ms;
    int64_t revision;
};

/* What a member has seen of its cluster, and whether it refuses what etcd holds. */
struct member_restore {
    char id[68], cluster[40], reason[256];
    bool refused, ran_before;
    uint64_t epoch, seq, incarnation;
    int64_t revision, started_unix_ms;
};

struct member_recovered {
    uint64_t incarnation, epoch_floor;
    bool written; /* false: nothing had to be done */
};

struct Baton__V1__Member;
struct Baton__V1__LeaderState;

/* Members and leader, as they stand in the messages of more than one service. out->cluster_id is
 * left as it is. */
void member_convert_all(struct Baton__V1__Member *const *from, size_t count, struct arena *memory,
                        struct baton_members *out);
void member_convert_leader(const struct Baton__V1__LeaderState *m, struct baton_leader *out);

/* PROTOCOL when the bytes are no such message. What they point to lives in the arena. */
struct err member_decode_leader(struct bytes message, struct member_leader *out);
struct err member_decode_list(struct bytes message, struct arena *memory,
                              struct baton_members *out);
struct err member_decode_history(struct bytes message, struct arena *memory,
                                 struct baton_history *out);
struct err member_decode_transfer(struct bytes message, struct baton_transferred *out);
/* The one that is removed. */
struct err member_decode_removed(struct bytes message, struct arena *memory,
                                 struct baton_members *out);
struct err member_decode_restore(struct bytes message, struct member_restore *out);
struct err member_decode_recovered(struct bytes message, struct member_recovered *out);
void member_encode_recover(uint64_t epoch_above, uint64_t incarnation_above, struct buf *out);
void member_encode_transfer(const char *target, struct buf *out);
void member_encode_remove(const char *id, struct buf *out);
void member_encode_history(uint32_t limit, struct buf *out);
