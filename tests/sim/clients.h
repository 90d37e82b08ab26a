/* Clients behind a proxy. An operation of a client is sent to whoever seems to lead, again and
 * again under the same request id, until an answer is definite; the proxy knows no more than a real
 * one does. */
#pragma once
#include "meta/core/plan.h"
#include "tests/sim/world.h"

enum { CLIENTS = 6, CLIENT_KEYS = 3 };

enum op_kind { OP_PUT, OP_CAS, OP_DELETE, OP_READ, OP_QUORUM_READ };

/* What a client wants, with all that is needed to judge the answers to it. */
struct op {
    int references;
    uint64_t number; /* of the world: part of its request id */
    int client;
    enum op_kind kind;
    char key[16], value[32], id[48];
    int64_t expected_mod; /* OP_CAS */
    int64_t floor;        /* reads: the newest change of the key that somebody knew when it began */
    int64_t began_us;
    bool done, maybe_done;     /* an attempt has an unknown outcome */
    unsigned attempts, copies; /* copies: that were sent, each to be answered for itself */
    struct plan_request plan;
    struct request_op then_op, else_op;
    struct request_compare compare;
};

/* One attempt at one member. */
struct request {
    struct op *op;
    uint64_t attempt;
    int member;
    uint64_t ticket; /* of a read that etcd confirms */
    struct request *next;
};

struct clients {
    struct op *current[CLIENTS]; /* NULL: thinking */
    uint64_t next_number;
    uint64_t completed, reads, quorum_reads, refused;
    int64_t seen_mod[CLIENT_KEYS]; /* what clients know of the keys, for OP_CAS */
    int64_t seen_revision;
    int64_t cut_until_us[MEMBERS]; /* no proxy reaches the member until then */
    uint64_t lose, duplicate;      /* millionths */
    uint64_t random_member;        /* millionths: asks somebody at random */
    int64_t think_us;
    bool stopped; /* no new operations */
};

struct clients *clients_new(struct world *w);
void clients_free(struct clients *c);
void clients_start(struct world *w);
/* Every operation that began has its answer. */
bool clients_idle(const struct world *w);

/* One operation, by hand: NULL key: a key at random. Borrowed until it is done. */
struct op *clients_begin(struct world *w, int client, enum op_kind kind, const char *key);
void op_hold(struct op *op);
void op_release(struct op *op);
/* As a client does: to whoever seems to lead, and again until it is done. */
void clients_attempt(struct world *w, struct op *op);
/* Sends one attempt of it to this member, and no more. */
void clients_send(struct world *w, struct op *op, int member);

/* ---- from the members: each request is answered exactly once, and is gone then ---- */
void request_answer(struct world *w, struct request *r, const struct plan_answer *answer,
                    uint64_t epoch);
/* The state of a key as it stood at `revision`. */
void request_answer_read(struct world *w, struct request *r, int64_t revision, uint64_t epoch);
/* `maybe`: it may have been done all the same. */
void request_refuse(struct world *w, struct request *r, enum err_code code, bool maybe);
void request_drop(void *request); /* its member died */
int clients_key_index(const char *key);
