/* The roles of a member, and what its seat in the election waits for. */
#pragma once

enum role {
    ROLE_FOLLOWER,      /* not in the election's queue */
    ROLE_CANDIDATE,     /* in the queue, up to and with its takeover */
    ROLE_ACTIVATING,    /* its takeover won; drains what came before */
    ROLE_LEADER,        /* serves */
    ROLE_STEPPING_DOWN, /* serves no more; settles, stops its jobs, gives its key up */
};

const char *role_str(enum role role);

enum seat {
    SEAT_NONE,        /* no lease; waits for its turn to ask for one */
    SEAT_GRANTING,    /* waits for a lease */
    SEAT_REGISTERING, /* waits for the member's own record */
    SEAT_EVICTING,    /* waits for the end of the lease of its own former process */
    SEAT_OUT,         /* waits until it may stand */
    SEAT_ENQUEUING,   /* waits for its election key */
    SEAT_QUEUED,      /* waits to be first in line */
    SEAT_READING,     /* waits for its own key and `commit`, read anew */
    SEAT_WAITING,     /* waits until the old leader can no longer read */
    SEAT_TAKING,      /* waits for the takeover */
    SEAT_LEADING,     /* waits for a reason to stop */
    SEAT_LEAVING,     /* waits until its key is gone */
    SEAT_REVOKING,    /* waits until its lease is gone */
    SEAT_GONE,        /* nothing more to do */
    SEATS
};
