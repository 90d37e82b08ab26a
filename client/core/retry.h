/* The one rule about sending a call again. It looks at what is certain, never at message text. */
#pragma once
#include "common/base/err.h"
#include <stdint.h>

/* What protects a call from taking effect twice. */
struct retry_call {
    bool idempotent;     /* its method may run any number of times */
    bool has_request_id; /* the members execute an id once */
    int attempts_max;    /* 0: until the deadline */
};

/* How the last attempt went. */
struct retry_outcome {
    enum err_code code;
    bool not_executed; /* certainly nothing happened: not sent, or the peer says so */
    int attempts;      /* so far, this one included */
};

enum retry_verdict {
    RETRY_FINAL, /* this is the answer */
    RETRY_AGAIN, /* send it again, with the same request id, to whoever leads now */
};

/* Is the error about who leads and who can be reached, rather than about the request? Then another
 * address, or the same one later, may do better. */
bool retry_may_pass(enum err_code code);
enum retry_verdict retry_decide(const struct retry_call *call, const struct retry_outcome *last);
