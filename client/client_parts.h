/* How the files of the client see each other; only for client/client_*.c. */
#pragma once
#include "client/client.h"
#include "client/core/discovery.h"
#include "client/core/leader_view.h"
#include <pthread.h>

#define CLIENT_CHANNELS_MAX (LEADER_SEEDS_MAX + LEADER_LEARNT_MAX)

/* A connection that threads share. */
struct client_channel {
    struct rpc_channel *rpc;
    int users;
    uint64_t used; /* when it was taken last, by the client's count */
    struct client_channel *next;
};

struct client {
    int attempts_max;
    struct baton_guard *guard;
    bool owns_guard;
    pthread_mutex_t lock;   /* for what follows */
    pthread_cond_t changed; /* a round or the listing is over */
    struct leader_view view;
    struct discovery discovery;
    struct err round_error;          /* of the last round: why it found nobody */
    char answering[LEADER_ADDR_MAX]; /* who answered in it all the same; empty: nobody */
    int64_t members_due_ms;          /* when members are to be listed again */
    bool listing;
    struct client_channel *channels;
    size_t channel_count;
    uint64_t uses;
    struct rng rng;
};

/* The connection to an address, kept until it is released; any thread, without the lock. */
struct client_channel *client_channel_hold(struct client *c, const char *addr);
void client_channel_release(struct client *c, struct client_channel *ch);
void client_channels_free(struct client *c);

/* The leader's address, into addr; looks for it if need be. Errors say why nobody was found, and
 * mean that nothing has happened; addr is then the member that answered all the same, or empty. */
struct err client_find_leader(struct client *c, int64_t deadline_ms, char addr[LEADER_ADDR_MAX]);
/* What an answer of addr tells of the leadership; as_leader: it was asked as the leader. The
 * guard's word on the epoch it names. */
struct err client_learn(struct client *c, const char *addr, bool as_leader, const struct err *e,
                        const struct rpc_answer *a);
/* The call to addr failed: somebody else is to be asked. */
void client_forget(struct client *c, const char *addr);
/* Of a leader that has just answered: asks it in the background for the members, when that is due.
 */
void client_list_members(struct client *c, const char *addr);

/* The highest epoch seen as request metadata, so that a leader of a lower one looks whether it
 * still leads. 0 or 1, the number of entries; digits is where it lives. */
#define CLIENT_EPOCH_DIGITS 24
size_t client_epoch_of(struct client *c, char digits[CLIENT_EPOCH_DIGITS],
                       struct rpc_metadata *out);
