/* An exported state as a file: lines of JSON.
 *
 *     {"baton":"export","format":1,"cluster":ID,"epoch":N,"revision":N,"incarnation":N}
 *     {"key":K,"value":V,"revision":N,"create_revision":N,"version":N}        as of kv get -o json
 *     {"end":true,"keys":N,"sha256":HEX}
 *
 * The digest is that of all lines before it, so a file that was cut or changed is told from one
 * that is whole before anything is done with it. */
#pragma once
#include "client/cli/cli.h"
#include "common/io/digest.h"
#include <stdio.h>

struct export_head {
    char cluster[64];
    uint64_t epoch, incarnation;
    int64_t revision;
};

/* ---- writing; false: the file takes no more ---- */
struct export_writer {
    FILE *file;
    struct digest *digest;
    uint64_t keys;
};
bool export_begin(struct export_writer *w, FILE *file, const struct export_head *head);
bool export_add(struct export_writer *w, const struct baton_kv *item);
bool export_end(struct export_writer *w);
void export_writer_close(struct export_writer *w);

/* ---- reading: first the whole file is checked, then read again from its start ---- */
struct export_reader {
    FILE *file;
    long start; /* where the header stands */
    struct export_head head;
    uint64_t keys;
    char digest[DIGEST_HEX_MAX]; /* names the file */
    struct buf line;
    struct buf last_key;
    uint64_t at; /* line, for messages */
};
/* From where the file stands; it can be sought. CORRUPT says what is wrong with it, and where. */
struct err export_check(struct export_reader *r, FILE *file);
/* Back to the first key. */
struct err export_rewind(struct export_reader *r);
/* The next key; it lives in the arena. Not more often than there are keys. */
struct err export_next(struct export_reader *r, struct arena *memory, struct baton_kv *out);
void export_reader_close(struct export_reader *r);
