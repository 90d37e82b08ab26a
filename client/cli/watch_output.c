#include "client/cli/watch_output.h"
#include "client/cli/kv_output.h"
#include <inttypes.h>

static const char *word_of(const struct baton_changes *changes, const struct baton_event *e)
{
    return changes->snapshot ? "exists" : e->deleted ? "delete" : "put";
}

/* ---- for people ---- */

static void write_bytes(FILE *out, struct baton_bytes b)
{
    fwrite(b.data, 1, b.len, out);
}

static void print_line(FILE *out, const char *word, const struct baton_event *e)
{
    fprintf(out, "%s\t%" PRId64 "\t", word, e->kv.mod_revision);
    write_bytes(out, e->kv.key);
    if (!e->deleted) {
        fputc('\t', out);
        write_bytes(out, e->kv.value);
    }
    fputc('\n', out);
}

/* ---- JSON ---- */

/* token: that one may go on behind this line. */
static void print_json(FILE *out, const char *word, const struct baton_event *e,
                       struct baton_bytes token)
{
    struct json_object *o = json_object_new_object();
    output_add_text(o, "event", word);
    if (e->deleted) {
        output_add_bytes(o, "key", e->kv.key);
        output_add_number(o, "revision", e->kv.mod_revision);
    } else {
        kv_add(o, &e->kv, true);
    }
    if (token.len)
        output_add_base64(o, "token", token);
    output_json_to(out, o);
}

static void print_restart(FILE *out, const struct baton_changes *changes, bool json)
{
    if (!json) {
        fprintf(out, "restart\t%" PRId64 "\n", changes->revision);
        return;
    }
    struct json_object *o = json_object_new_object();
    output_add_text(o, "event", "restart");
    output_add_number(o, "revision", changes->revision);
    if (changes->count == 0 && changes->token.len)
        output_add_base64(o, "token", changes->token);
    output_json_to(out, o);
}

size_t watch_print(FILE *out, const struct baton_changes *changes, bool json, size_t most)
{
    size_t count = changes->count < most ? changes->count : most;
    if (changes->restart)
        print_restart(out, changes, json);
    for (size_t i = 0; i < count; i++) {
        const struct baton_event *e = &changes->events[i];
        struct baton_bytes token =
            i + 1 == changes->count ? changes->token : (struct baton_bytes){0};
        if (json)
            print_json(out, word_of(changes, e), e, token);
        else
            print_line(out, word_of(changes, e), e);
    }
    return count;
}
