/* A listener on a free port of the loopback interface. */
#pragma once

/* *url, "http://127.0.0.1:PORT", is the caller's to free. */
int loopback_listen(char **url);
