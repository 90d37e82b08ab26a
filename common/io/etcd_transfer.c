/* One POST by curl. */
#include "common/io/etcd_internal.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/etcd_h2.h"
#include "common/io/etcd_login_parts.h"
#include "common/io/etcd_pb.h"
#include <stdlib.h>
#include <utlist.h>

/* curl sends a POST again, without saying so, when a kept connection breaks before the first byte
 * of the answer. etcd would do it twice. curl asks here each time before it sends. */
static int before_send(void *arg, char *ip, char *local_ip, int port, int local_port)
{
    struct transfer *t = arg;
    if (t->sends > 0) {
        t->sends++;
        return CURL_PREREQFUNC_ABORT;
    }
    t->sends = 1;
    return CURL_PREREQFUNC_OK;
}

static size_t on_write(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    size_t len = size * count;
    return t->kind->on_data(t, (const uint8_t *)data, len) ? len : len + 1;
}

static struct curl_slist *header_list(const char *const *headers, const char *token)
{
    struct curl_slist *list = NULL;
    for (; *headers; headers++)
        list = curl_slist_append(list, *headers);
    if (*token) {
        char line[ETCD_TOKEN_MAX + 32]; /* without "Bearer", which etcd does not know */
        snprintf(line, sizeof line, "Authorization: %s", token);
        list = curl_slist_append(list, line);
        explicit_bzero(line, sizeof line);
    }
    return list;
}

void transfer_set_connection(const struct etcd_client *c, CURL *easy, int64_t connect_ms)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 5L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 2L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    if (c->access.ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, c->access.ca_file);
    if (c->access.cert_file)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, c->access.cert_file);
    if (c->access.key_file)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, c->access.key_file);
}

static void set_times(struct transfer *t, int64_t left_ms)
{
    int64_t connect_ms = t->client->connect_timeout_ms;
    if (t->until_ms && left_ms < connect_ms)
        connect_ms = left_ms;
    transfer_set_connection(t->client, t->easy, connect_ms);
    if (t->until_ms)
        curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
}

static void set_request_options(struct transfer *t, const char *token, struct bytes body)
{
    char *url = mem_printf("%s%s", t->client->endpoints.urls[t->endpoint], t->path);
    curl_easy_setopt(t->easy, CURLOPT_URL, url);
    free(url);
    t->headers = header_list(t->kind->headers, token);
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
    if (body.len) {
        curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, (char *)body.data);
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    }
    curl_easy_setopt(t->easy, CURLOPT_PREREQFUNCTION, before_send);
    curl_easy_setopt(t->easy, CURLOPT_PREREQDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE, 65536L);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->detail);
    curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
}

void transfer_start(struct transfer *t)
{
    struct etcd_client *c = t->client;
    char token[ETCD_TOKEN_MAX] = "";
    t->endpoint = t->wanted == ETCD_ANY ? c->current : t->wanted;
    int64_t left_ms = t->until_ms - clock_boot_ms();
    if (c->stopping) {
        t->kind->on_over(t, 0, err_make(ERR_CANCELLED, "the etcd client is being stopped"));
        return;
    }
    if (t->until_ms && left_ms <= 0) {
        t->kind->on_over(t, 0, err_make(ERR_UNREACHABLE, "out of time before it could be sent"));
        return;
    }
    if (c->access.login && !t->anonymous && !login_token(c->access.login, token, &t->token)) {
        auth_park(t);
        return;
    }
    t->sends = 0;
    t->answered_in_grpc = false;
    t->detail[0] = 0;
    if (h2_takes(t)) {
        h2_start(t);
        return;
    }
    struct bytes body = buf_view(&t->request);
    if (etcd_is_frame(body)) {
        buf_clear(&t->json);
        if (!etcd_pb_to_json(t->path, body, &t->json)) {
            t->kind->on_over(t, 0, err_make(ERR_BAD_REQUEST, "this cannot be said in JSON"));
            return;
        }
        body = buf_view(&t->json);
    }
    t->easy = curl_easy_init();
    POST(t->easy);
    set_times(t, left_ms);
    set_request_options(t, token, body);
    DL_APPEND(c->running, t);
    POST(curl_multi_add_handle(c->multi, t->easy) == CURLM_OK);
}

static void detach(struct transfer *t)
{
    DL_DELETE(t->client->running, t);
    curl_multi_remove_handle(t->client->multi, t->easy);
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    t->easy = NULL;
    t->headers = NULL;
}

void transfer_abort(struct transfer *t, struct err why)
{
    if (t->parked) {
        auth_fail(t, why);
        return;
    }
    if (t->link)
        h2_drop(t);
    else
        detach(t);
    t->kind->on_over(t, 0, why);
}

void transfer_explain(CURLcode rc, char detail[CURL_ERROR_SIZE])
{
    if (rc != CURLE_PEER_FAILED_VERIFICATION)
        return;
    if (!detail[0])
        snprintf(detail, CURL_ERROR_SIZE, "%s", curl_easy_strerror(rc));
    size_t len = strlen(detail);
    snprintf(detail + len, CURL_ERROR_SIZE - len,
             ": its certificate must be valid now, name this host and be signed by --etcd-ca");
}

/* Only what was never handed to the network is certain not to have happened. */
static struct err curl_error(struct transfer *t, CURLcode rc)
{
    const char *url = t->client->endpoints.urls[t->endpoint];
    transfer_explain(rc, t->detail);
    const char *text = t->detail[0] ? t->detail : curl_easy_strerror(rc);
    if (t->sends == 0)
        return err_make(ERR_UNREACHABLE, "etcd at %s: %s", url, text);
    if (t->sends > 1)
        return err_make(ERR_LOST, "etcd at %s: the connection broke before an answer came", url);
    if (strstr(text, "alert") && strstr(text, "certificate"))
        return err_make(ERR_LOST,
                        "etcd at %s refuses the certificate of --etcd-cert, or wants one: %s", url,
                        text);
    return err_make(ERR_LOST, "etcd at %s: no whole answer: %s", url, text);
}

void transfer_done(struct transfer *t, CURLcode rc)
{
    long http_status = 0;
    struct err why = OK_ERR;
    if (rc == CURLE_OK)
        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &http_status);
    else
        why = curl_error(t, rc);
    detach(t);
    t->kind->on_over(t, (int)http_status, why);
}

void transfer_close(struct transfer *t)
{
    PRE(!t->easy && !t->link);
    buf_close(&t->request);
    buf_close(&t->json);
}
