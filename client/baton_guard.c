/* The epoch guard as users call it. */
#include "client/baton_parts.h"

int baton_guard_open(struct baton_guard **out, const char *path, struct baton_error *err)
{
    *out = NULL;
    struct err e = guard_open(out, path);
    return err_is(&e) ? api_fail(&e, NULL, err) : 0;
}

void baton_guard_close(struct baton_guard *guard)
{
    guard_close(guard);
}

int baton_guard_admit(struct baton_guard *guard, const char *cluster_id, uint64_t epoch,
                      struct baton_error *err)
{
    struct err e = guard_admit(guard, cluster_id ? cluster_id : "", epoch);
    return err_is(&e) ? api_fail(&e, NULL, err) : 0;
}

uint64_t baton_guard_epoch(struct baton_guard *guard)
{
    return guard_seen(guard).epoch;
}
