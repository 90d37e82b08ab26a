/* `worker add --run`: being a worker until interrupted. */
#pragma once
#include "client/cli/cli.h"

/* The exit code. */
int worker_run(struct cli *cli, const struct baton_worker_spec *spec);
