/* The table of the proxy's metrics, filled from what the workers counted whenever somebody asks. */
#pragma once
#include "proxy/server.h"

/* HTTP thread only: it remembers what it published last. */
void admin_metrics_write(const struct server *s, struct buf *out);
