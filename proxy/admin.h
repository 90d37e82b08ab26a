/* What the proxy tells over HTTP: /metrics, /healthz, /readyz, /status. */
#pragma once
#include "common/io/http_admin.h"
#include "proxy/server.h"

struct admin;

/* Nothing is started when the address is "off"; *out is NULL then. */
struct err admin_start(const char *addr, const struct server *server,
                       const struct proxy_shared *shared, struct admin **out);
void admin_stop(struct admin *a); /* before the server is freed; NULL is fine */
