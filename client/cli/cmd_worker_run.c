#include "client/cli/cmd_worker_run.h"
#include "client/cli/interrupt.h"
#include "client/cli/worker_output.h"
#include <inttypes.h>
#include <stdatomic.h>

/* Callbacks run on a thread of the library, one at a time; the main thread waits. */
struct running {
    bool json;
    _Atomic bool over; /* it cannot go on: code says how it ends */
    int code;
};

static struct json_object *event_json(const char *event)
{
    struct json_object *o = json_object_new_object();
    output_add_text(o, "event", event);
    return o;
}

static void on_run(void *user, const struct baton_worker_info *self)
{
    struct running *r = user;
    if (r->json) {
        struct json_object *o = event_json("run");
        json_object_object_add(o, "worker", worker_json(self));
        output_json(o);
    } else {
        printf("run as worker %" PRIu64 ", incarnation %" PRIu64, self->id, self->incarnation);
        if (self->has_slot)
            printf(", slot %" PRIu32 " by grant %" PRIu64, self->slot, self->slot_grant);
        putchar('\n');
    }
    fflush(stdout);
}

static void on_stop(void *user, enum baton_stop_reason reason)
{
    static const char *const words[] = {
        [BATON_STOP_LOST_TOUCH] = "lost-touch",
        [BATON_STOP_FORGOTTEN] = "forgotten",
        [BATON_STOP_REPLACED] = "replaced",
        [BATON_STOP_CLOSED] = "closed",
    };
    struct running *r = user;
    if (r->json) {
        struct json_object *o = event_json("stop");
        output_add_text(o, "reason", words[reason]);
        output_json(o);
    } else {
        printf("stop: %s\n", words[reason]);
    }
    fflush(stdout);
}

static void on_wanted(void *user, bool cordoned, bool draining)
{
    struct running *r = user;
    if (r->json) {
        struct json_object *o = event_json("wanted");
        output_add_flag(o, "cordoned", cordoned);
        output_add_flag(o, "draining", draining);
        output_json(o);
    } else {
        printf("wanted: %s\n", draining   ? "give back the work"
                               : cordoned ? "no new work"
                                          : "all is well");
    }
    fflush(stdout);
}

static void on_failed(void *user, const struct baton_error *err)
{
    struct running *r = user;
    r->code = cli_fail_api(err);
    r->over = true;
    interrupt_wake();
}

int worker_run(struct cli *cli, const struct baton_worker_spec *spec)
{
    struct running r = {.json = cli_json(cli)};
    struct baton_worker_options options = {.spec = *spec,
                                           .run = on_run,
                                           .stop = on_stop,
                                           .wanted = on_wanted,
                                           .failed = on_failed,
                                           .user = &r};
    struct baton_worker *worker;
    struct baton_error err;
    interrupt_begin();
    if (baton_worker_open(&worker, cli->api, &options, &err) != 0)
        return cli_fail_api(&err);
    while (!r.over && !interrupt_wait(-1))
        ;
    baton_worker_close(worker, cli->timeout_ms); /* the second interrupt does not wait */
    return r.over ? r.code : EXIT_OK;
}
