/* A worker: registers with the cluster, and works while the cluster knows of it.
 *
 *     cc worker.c $(pkg-config --cflags --libs baton) -o worker
 *     ./worker 127.0.0.1:5680 compute 10.0.0.7:7000
 *
 * The last word is where its peers reach it; whoever registers the same one again replaces it. Ends
 * with its input (^D), and leaves the cluster. */
#include <baton/baton.h>
#include <stdio.h>

/* From here until `stop` is called nobody else has this id, or slot. A real worker starts its
 * threads here. What must never be done by two looks at baton_worker_may_work before each step,
 * too: a process may be paused at any moment, and learns of it late. */
static void run(void *user, const struct baton_worker_info *self)
{
    (void)user;
    printf("worker %llu of incarnation %llu: working\n", (unsigned long long)self->id,
           (unsigned long long)self->incarnation);
    fflush(stdout);
}

/* The work has to have stopped when this returns. */
static void stop(void *user, enum baton_stop_reason reason)
{
    (void)user;
    static const char *const why[] = {
        [BATON_STOP_LOST_TOUCH] = "no heartbeat was answered in time",
        [BATON_STOP_FORGOTTEN] = "the cluster has forgotten it, it registers anew",
        [BATON_STOP_REPLACED] = "another process has registered this address",
        [BATON_STOP_CLOSED] = "it is done",
    };
    printf("stopped: %s\n", why[reason]);
    fflush(stdout);
}

/* What operators ask for with `batonctl worker cordon` and `drain`. */
static void wanted(void *user, bool cordoned, bool draining)
{
    (void)user;
    printf("%s\n", draining   ? "asked to give its work back"
                   : cordoned ? "gets no new work"
                              : "welcome again");
    fflush(stdout);
}

/* Over for good: it must not register again by itself. */
static void failed(void *user, const struct baton_error *err)
{
    (void)user;
    fprintf(stderr, "no worker any more: %s (%s)\n", err->message, err->reason);
}

static int work(struct baton_client *client, const char *type, const char *addr)
{
    struct baton_error err;
    struct baton_worker *worker;
    struct baton_worker_options options = {
        .spec = {.type = type, .addr = addr},
        .run = run,
        .stop = stop,
        .wanted = wanted,
        .failed = failed,
    };
    if (baton_worker_open(&worker, client, &options, &err) != 0) {
        fprintf(stderr, "worker: %s (%s)\n", err.message, err.reason);
        return 1;
    }
    while (getchar() != EOF)
        ;
    baton_worker_close(worker, 0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s ADDRESSES TYPE HOST:PORT\n", argv[0]);
        return 2;
    }
    struct baton_error err;
    struct baton_client *client;
    struct baton_options options = {.addresses = argv[1]};
    if (baton_client_new(&client, &options, &err) != 0) {
        fprintf(stderr, "%s (%s)\n", err.message, err.reason);
        return 1;
    }
    int status = work(client, argv[2], argv[3]);
    baton_client_free(client);
    return status;
}
