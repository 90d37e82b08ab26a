/* How workers are shown, and how people write their labels. */
#pragma once
#include "client/cli/output.h"

const char *worker_state_word(enum baton_worker_state state);
/* "running" and so on; "all" and what is no state are UNKNOWN. */
enum baton_worker_state worker_state_of(const char *word);

/* Everything, as JSON. */
struct json_object *worker_json(const struct baton_worker_info *w);
/* A result of one worker: as JSON with the revision, or as a table; consumes it. */
int worker_print(struct cli *cli, struct baton_workers *result);
/* All of them, as JSON or with a line for each; consumes the array, which is of worker_entry. */
void worker_print_list(struct cli *cli, struct json_object *list);
/* One for such an array. */
struct json_object *worker_entry(const struct cli *cli, const struct baton_worker_info *w);

/* "NAME=VALUE[,NAME=VALUE...]", into the arena; USAGE names the part that is wrong. text NULL:
 * none. */
struct err worker_parse_labels(const char *text, struct arena *memory, struct baton_label **out,
                               size_t *count);
/* "NAME=AMOUNT[,...]" likewise. */
struct err worker_parse_resources(const char *text, struct arena *memory,
                                  struct baton_resource **out, size_t *count);
/* A number from 1 on; USAGE says what it is not: "worker id 'x' is no number from 1 on". */
struct err worker_parse_number(const char *what, const char *text, uint64_t *out);
