/* A server for tests that answers HTTP requests as a script says, one connection after the other.
 */
#pragma once

struct http_script;

/* An answer is sent as it stands, with what SCRIPT_ asks for at its end. */
#define SCRIPT_KEEP ""        /* keep the connection */
#define SCRIPT_CLOSE "\x01"   /* close it */
#define SCRIPT_SILENT "\x02"  /* keep it open and say nothing more until the script is freed */
#define SCRIPT_ENDLESS "\x03" /* go on with 'x' until the client closes */

/* answers: NULL-ended, one for each request; after the last: silent. Kept by reference. */
struct http_script *http_script_start(const char *const *answers);
void http_script_free(struct http_script *s);
const char *http_script_url(const struct http_script *s);
int http_script_requests(const struct http_script *s); /* whole ones that came */
