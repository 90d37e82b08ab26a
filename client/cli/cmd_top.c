/* top. */
#include "client/cli/interrupt.h"
#include "client/cli/terminal.h"
#include "client/cli/top_frame.h"
#include "common/base/clock.h"
#include <stdio.h>

static int64_t interval_ms, frames;

static const struct option_row top_rows[] = {
    {.group = "Options of top",
     .name = "interval",
     .kind = OPTION_DURATION,
     .target = &interval_ms,
     .fallback = "1s",
     .value = "TIME",
     .min = 100,
     .max = 3600000,
     .help = "Between two looks at the cluster."},
    {.name = "count",
     .kind = OPTION_INT,
     .target = &frames,
     .fallback = "0",
     .value = "N",
     .min = 0,
     .max = INT32_MAX,
     .help = "End after so many; 0: on a terminal at q, else after one."},
};

/* What is seen, and what is shown of the past while nobody leads. */
struct top {
    struct top_sample now;
    struct top_sample last; /* before now: what was answered last, and when (of the leader) */
    struct top_rates rates;
    struct buf frame, drawn;
};

#define LOOK_MS 1000

/* A list that names a leader only to those who ask an older one goes with why nobody said more. */
static void keep_last(struct top *t)
{
    bool led = top_leader_of(&t->now).id != NULL;
    if (led) {
        baton_result_free(t->last.info);
        t->last.info = t->now.info;
        t->last.at_ms = t->now.at_ms;
        t->last.why = t->now.why;
    }
    if (t->now.members) {
        baton_result_free(t->last.members);
        t->last.members = t->now.members;
    }
    t->now = (struct top_sample){0};
}

/* Calls are short: while nobody leads, the picture has to move on. */
static void look(struct cli *cli, struct top *t)
{
    struct baton_call brief = {.timeout_ms = LOOK_MS};
    keep_last(t);
    baton_cluster_info(cli->api, &brief, &t->now.info, &t->now.why);
    baton_members(cli->api, &brief, &t->now.members, NULL);
    t->now.at_ms = clock_boot_ms();
    t->now.unix_ms = clock_unix_ms();
    t->rates = top_rates_of(&t->last, &t->now);
}

static struct top_view view_of(const struct top *t)
{
    return (struct top_view){.now = &t->now,
                             .last = &t->last,
                             .unled_ms = t->now.at_ms - t->last.at_ms,
                             .rates = t->rates};
}

static void print_frame(const struct cli *cli, struct top *t)
{
    struct top_view v = view_of(t);
    if (cli_json(cli)) {
        output_json(top_json(&v));
    } else {
        top_frame(&v, &t->frame);
        top_text(buf_view(&t->frame), &t->drawn);
        fwrite(t->drawn.data, 1, t->drawn.len, stdout);
    }
    fflush(stdout);
}

static void draw_frame(struct top *t, bool color)
{
    int width, height;
    struct top_view v = view_of(t);
    terminal_size(&width, &height);
    top_frame(&v, &t->frame);
    top_screen(buf_view(&t->frame), width, height, color, &t->drawn);
    fwrite(t->drawn.data, 1, t->drawn.len, stdout);
    fflush(stdout);
}

static bool ends(int key)
{
    const int interrupt = 3, end_of_file = 4;
    return key == 'q' || key == 'Q' || key == interrupt || key == end_of_file;
}

/* Until the next look is due: keys, and a new size, which is drawn at once. false: it is over. */
static bool stay(struct top *t, bool color)
{
    int64_t until = t->now.at_ms + interval_ms;
    for (int64_t left = interval_ms; left > 0; left = until - clock_boot_ms()) {
        draw_frame(t, color);
        if (ends(terminal_wait_key((int)left)) || interrupt_came())
            return false;
    }
    return true;
}

static void run_on_terminal(struct cli *cli, struct top *t)
{
    bool color = terminal_has_color();
    int64_t shown = 0;
    terminal_begin();
    do {
        look(cli, t);
        shown++;
    } while (stay(t, color) && (!frames || shown < frames));
    terminal_end();
}

static bool wait_interval(const struct top *t)
{
    int64_t until = t->now.at_ms + interval_ms;
    for (int64_t left = interval_ms; left > 0; left = until - clock_boot_ms())
        if (interrupt_wait(left))
            return false;
    return true;
}

/* An interval before the first one, too, so that each has rates. */
static void run_plain(struct cli *cli, struct top *t)
{
    look(cli, t);
    for (int64_t left = frames ? frames : 1; left > 0 && wait_interval(t); left--) {
        look(cli, t);
        print_frame(cli, t);
    }
}

static int run_top(struct cli *cli, char **words, int count)
{
    struct top t = {.last.at_ms = clock_boot_ms()};
    bool drawn = terminal_is() && !cli_json(cli);
    interrupt_begin();
    if (drawn)
        run_on_terminal(cli, &t);
    else
        run_plain(cli, &t);
    bool ok = drawn || top_leader_of(&t.now).id;
    keep_last(&t);
    top_sample_close(&t.last);
    buf_close(&t.frame);
    buf_close(&t.drawn);
    return ok ? EXIT_OK : EXIT_UNAVAILABLE;
}

const struct command command_top = {
    .name = "top",
    .words = "",
    .about = "Watch the leader, the members, the workers and what they do.",
    .footer =
        "On a terminal it is drawn anew each --interval until q; elsewhere --count views are "
        "printed, one after each interval.\n"
        "It goes on while nobody leads, and says so. Rates are of the leader. JSON: an object a "
        "line: unix_ms, leader (id, addr,\n"
        "epoch, revision; null while nobody leads), error, members (as of members), info (as of "
        "info; null when nobody could\n"
        "say), per_second (commits, writes, reads, heartbeats, revisions; null when the leader has "
        "just changed). Exit code 4\n"
        "when nobody led in the last view that was printed. NO_COLOR is heeded.",
    .rows = top_rows,
    .row_count = sizeof top_rows / sizeof *top_rows,
    .run = run_top};
