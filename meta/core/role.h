/* The roles of a member. */
#pragma once

enum role {
    ROLE_FOLLOWER,      /* not in the election's queue */
    ROLE_CANDIDATE,     /* in the queue, up to and with its takeover */
    ROLE_ACTIVATING,    /* its takeover won; drains what came before */
    ROLE_LEADER,        /* serves */
    ROLE_STEPPING_DOWN, /* serves no more; settles, stops its jobs, gives its key up */
};

const char *role_str(enum role role);
