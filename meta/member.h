/* One member, put together: runs from start to exit in the guardian's child. */
#pragma once

struct meta_options;
struct guardian_link;

/* Returns the exit status: 0 after a clean shutdown, 1 when something went wrong, which is logged.
 */
int member_run(const struct meta_options *options, struct guardian_link *guardian);
