/* The list of endpoints as people write it. */
#include "common/io/etcd_internal.h"
#include "common/base/mem.h"
#include <stdlib.h>

/* The part of a URL, or "" when it has none. curl allocates with malloc. */
static char *part(CURLU *u, CURLUPart what)
{
    char *text = NULL;
    if (curl_url_get(u, what, &text, 0) != CURLUE_OK)
        return mem_strdup("");
    char *own = mem_strdup(text);
    curl_free(text);
    return own;
}

static const char *complaint(const char *scheme, const char *host, const char *rest[], int count)
{
    if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        return "say http:// or https://";
    if (!*host)
        return "it has no host";
    for (int i = 0; i < count; i++)
        if (*rest[i] && strcmp(rest[i], "/") != 0)
            return "only scheme, host and port belong there";
    return NULL;
}

/* *url: canonical, or NULL. */
static struct err parse_one(const char *text, char **url)
{
    static const char expected[] = "expected http://host:port";
    CURLU *u = curl_url();
    char *full = strstr(text, "://") ? mem_strdup(text) : mem_printf("http://%s", text);
    const char *wrong = NULL;
    CURLUcode code = curl_url_set(u, CURLUPART_URL, full, CURLU_NON_SUPPORT_SCHEME);
    free(full);
    char *scheme = part(u, CURLUPART_SCHEME), *host = part(u, CURLUPART_HOST);
    char *port = part(u, CURLUPART_PORT), *path = part(u, CURLUPART_PATH);
    char *query = part(u, CURLUPART_QUERY), *user = part(u, CURLUPART_USER);
    char *fragment = part(u, CURLUPART_FRAGMENT);
    const char *rest[] = {path, query, user, fragment};
    wrong = code ? curl_url_strerror(code) : complaint(scheme, host, rest, 4);
    *url = wrong ? NULL : mem_printf("%s://%s:%s", scheme, host, *port ? port : "2379");
    free(scheme), free(host), free(port), free(path), free(query), free(user), free(fragment);
    curl_url_cleanup(u);
    if (wrong)
        return err_make(ERR_USAGE, "etcd endpoint \"%s\": %s (%s)", text, wrong, expected);
    return OK_ERR;
}

static char *trim(char *word)
{
    word += strspn(word, " \t");
    for (size_t n = strlen(word); n && (word[n - 1] == ' ' || word[n - 1] == '\t'); n--)
        word[n - 1] = 0;
    return word;
}

struct err etcd_endpoints_parse(struct etcd_endpoints *out, const char *list)
{
    struct err e = OK_ERR;
    char *copy = mem_strdup(list ? list : ""), *rest = copy, *word;
    *out = (struct etcd_endpoints){0};
    while (!err_is(&e) && (word = strsep(&rest, ","))) {
        word = trim(word);
        if (out->count == ETCD_MAX_ENDPOINTS)
            e = err_make(ERR_USAGE, "more than %d etcd endpoints", ETCD_MAX_ENDPOINTS);
        else if (!*word)
            e = err_make(ERR_USAGE, "empty etcd endpoint in \"%s\"", list ? list : "");
        else
            e = parse_one(word, &out->urls[out->count]);
        out->count += !err_is(&e);
    }
    free(copy);
    if (err_is(&e))
        etcd_endpoints_close(out);
    return e;
}

void etcd_endpoints_close(struct etcd_endpoints *e)
{
    for (int i = 0; i < e->count; i++)
        free(e->urls[i]);
    *e = (struct etcd_endpoints){0};
}
