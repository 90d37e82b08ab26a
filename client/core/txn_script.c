#include "client/core/txn_script.h"
#include "client/core/api_bytes.h"
#include <string.h>

#define WORDS_MAX 6

struct words {
    struct bytes at[WORDS_MAX]; /* each with a 0 behind it */
    size_t count;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One escape, behind the backslash. false: not known. */
static bool unescape(const char **at, struct buf *out)
{
    char c = *(*at)++;
    if (c == '"' || c == '\\') {
        buf_byte(out, (uint8_t)c);
    } else if (c == 'n' || c == 't') {
        buf_byte(out, c == 'n' ? '\n' : '\t');
    } else if (c == 'x') {
        int high = hex_digit((*at)[0]);
        int low = high < 0 ? -1 : hex_digit((*at)[1]);
        if (low < 0)
            return false;
        buf_byte(out, (uint8_t)(high * 16 + low));
        *at += 2;
    } else {
        return false;
    }
    return true;
}

/* A quoted word, behind its opening quote. */
static struct err take_quoted(const char **at, struct buf *out)
{
    while (**at != '"') {
        if (!**at)
            return err_make(ERR_USAGE, "a closing quote is missing");
        const char *here = (*at)++;
        if (*here != '\\') {
            buf_append(out, here, 1);
            continue;
        }
        if (!unescape(at, out))
            return err_make(ERR_USAGE, "'%.2s' is no escape; known are \\\" \\\\ \\n \\t \\xHH",
                            here);
    }
    (*at)++;
    if (**at && !is_blank(**at))
        return err_make(ERR_USAGE, "a blank is missing behind a quoted word");
    return OK_ERR;
}

static struct err take_word(const char **at, struct buf *out)
{
    if (**at == '"') {
        (*at)++;
        return take_quoted(at, out);
    }
    for (; **at && !is_blank(**at); (*at)++)
        buf_append(out, *at, 1);
    return OK_ERR;
}

static struct err split(const char *clause, struct arena *memory, struct words *out)
{
    struct buf word = {0};
    struct err e = OK_ERR;
    *out = (struct words){0};
    while (!err_is(&e)) {
        clause += strspn(clause, " \t\r\n");
        if (!*clause)
            break;
        buf_clear(&word);
        e = take_word(&clause, &word);
        if (!err_is(&e) && out->count == WORDS_MAX)
            e = err_make(ERR_USAGE, "too many words; quote those with blanks");
        if (!err_is(&e))
            out->at[out->count++] = arena_copy(memory, buf_view(&word));
    }
    buf_close(&word);
    return e;
}

static const char *text(struct bytes b)
{
    return b.data ? (const char *)b.data : "";
}

/* The place of a word in a list, -1: not there. */
static int place_of(struct bytes word, const char *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (bytes_equal(word, bytes_str(list[i])))
            return i;
    return -1;
}

static bool parse_number(struct bytes word, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < word.len; i++) {
        int digit = word.data[i] - '0';
        if (digit < 0 || digit > 9 || *out > (INT64_MAX - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
    return word.len > 0;
}

static struct err add_compare(struct txn_script *t, const struct words *w)
{
    static const char *const targets[] = {"value", "version", "create", "mod"};
    static const char *const relations[] = {"=", "!=", "<", ">"};
    if (w->count != 5)
        return err_make(ERR_USAGE,
                        "a comparison is: if KEY value|version|create|mod =|!=|<|> WHAT");
    int target = place_of(w->at[2], targets, 4), relation = place_of(w->at[3], relations, 4);
    if (target < 0)
        return err_make(ERR_USAGE, "'%.60s' cannot be compared; value, version, create, mod can",
                        text(w->at[2]));
    if (relation < 0)
        return err_make(ERR_USAGE, "'%.60s' is no comparison; =, !=, < and > are", text(w->at[3]));
    if (t->compare_count == TXN_CLAUSES_MAX)
        return err_make(ERR_USAGE, "more than %d comparisons", TXN_CLAUSES_MAX);
    struct baton_compare c = {.key = api_shown(w->at[1]),
                              .target = (enum baton_target)target,
                              .relation = (enum baton_relation)relation};
    if (c.target == BATON_TARGET_VALUE)
        c.value = api_shown(w->at[4]);
    else if (!parse_number(w->at[4], &c.number))
        return err_make(ERR_USAGE, "'%.60s' is no number that a %s can have", text(w->at[4]),
                        targets[target]);
    t->compares[t->compare_count++] = c;
    return OK_ERR;
}

/* The words from the name of the operation on. */
static struct err add_op(struct baton_op ops[TXN_CLAUSES_MAX], size_t *ops_count,
                         const struct bytes *w, size_t count)
{
    static const char *const names[] = {"get", "put", "del", "del-prefix"};
    static const struct {
        enum baton_op_kind kind;
        size_t words;
        const char *form;
    } forms[] = {{BATON_OP_GET, 2, "get KEY"},
                 {BATON_OP_PUT, 3, "put KEY VALUE"},
                 {BATON_OP_DELETE, 2, "del KEY"},
                 {BATON_OP_DELETE_PREFIX, 2, "del-prefix KEY"}};
    int which = count ? place_of(w[0], names, 4) : -1;
    if (which < 0)
        return err_make(ERR_USAGE, "'%.60s': if, get, put, del or del-prefix is wanted",
                        count ? text(w[0]) : "");
    if (count != forms[which].words)
        return err_make(ERR_USAGE, "'%s' takes other words: %s", names[which], forms[which].form);
    if (*ops_count == TXN_CLAUSES_MAX)
        return err_make(ERR_USAGE, "more than %d operations in a branch", TXN_CLAUSES_MAX);
    ops[(*ops_count)++] = (struct baton_op){.kind = forms[which].kind,
                                            .key = api_shown(w[1]),
                                            .value = api_shown(count == 3 ? w[2] : BYTES_NONE)};
    return OK_ERR;
}

/* A clause that is no comparison. */
static struct err add_branch_op(struct txn_script *t, const struct words *w)
{
    bool otherwise = bytes_equal(w->at[0], bytes_str("else"));
    size_t skip = otherwise || bytes_equal(w->at[0], bytes_str("then"));
    return add_op(otherwise ? t->else_ops : t->then_ops,
                  otherwise ? &t->else_count : &t->then_count, w->at + skip, w->count - skip);
}

struct err txn_script_add(struct txn_script *t, struct arena *memory, const char *clause)
{
    struct words w;
    struct err e = split(clause, memory, &w);
    if (err_is(&e))
        return err_wrap(e, "%.80s", clause);
    if (w.count == 0 || text(w.at[0])[0] == '#')
        return OK_ERR;
    e = bytes_equal(w.at[0], bytes_str("if")) ? add_compare(t, &w) : add_branch_op(t, &w);
    return err_is(&e) ? err_wrap(e, "%.80s", clause) : OK_ERR;
}

struct baton_txn txn_script_view(const struct txn_script *t)
{
    return (struct baton_txn){.compares = t->compares,
                              .compare_count = t->compare_count,
                              .then_ops = t->then_ops,
                              .then_count = t->then_count,
                              .else_ops = t->else_ops,
                              .else_count = t->else_count};
}
