/* etcd behind TLS: who is trusted, and that a refusal before the handshake sent nothing. */
#include "tests/lib/etcd_process.h"
#include "tests/lib/test_cert.h"
#include "common/io/etcd.h"
#include "common/io/etcd_internal.h"
#include "common/base/mem.h"
#include <ctype.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static enum err_code ask(const char *url, const char *ca_file, const char *cert_file,
                         const char *key_file)
{
    struct etcd_client *c;
    struct etcd_config cfg = {.access.endpoints = url,
                              .name = "etcd-tls",
                              .access.ca_file = ca_file,
                              .access.cert_file = cert_file,
                              .access.key_file = key_file};
    struct err e = etcd_client_new(&c, &cfg);
    assert_string_equal(e.message, "");
    for (int i = 0; i < 2; i++) { /* the second on the kept connection */
        struct etcd_reply reply;
        e = etcd_call_wait(c, ETCD_PATH_STATUS, bytes_str("{}"), 0, 10000, &reply);
        etcd_reply_close(&reply);
    }
    etcd_client_free(c);
    return e.code;
}

/* A txn in etcd's own encoding, as it goes over a connection of TLS. */
static enum err_code ask_grpc(const char *url, const char *ca_file, const char *cert_file,
                              const char *key_file, size_t len)
{
    struct etcd_client *c;
    struct etcd_config cfg = {.access = {.endpoints = url,
                                         .ca_file = ca_file,
                                         .cert_file = cert_file,
                                         .key_file = key_file,
                                         .transport = ETCD_GRPC},
                              .name = "etcd-tls"};
    struct err e = etcd_client_new(&c, &cfg);
    assert_string_equal(e.message, "");
    char *value = mem_alloc(len);
    struct etcd_op ops[] = {
        {.kind = ETCD_OP_PUT, .key = bytes_str("k"), .value = bytes_of(value, len)},
        {.kind = ETCD_OP_RANGE, .key = bytes_str("k")}};
    struct buf body = {0};
    etcd_encode_txn(&body, &(struct etcd_txn){.success = ops, .success_count = 2});
    for (int i = 0; i < 3 && !err_is(&e); i++) {
        struct etcd_reply reply;
        struct etcd_txn_result r = {0};
        e = etcd_call_wait(c, ETCD_PATH_TXN, buf_view(&body), 0, 10000, &reply);
        if (!err_is(&e)) {
            assert_int_equal(etcd_decode_txn(reply.body, &r).code, ERR_OK);
            assert_int_equal(r.results[1].kvs[0].value.len, len);
        }
        etcd_txn_result_close(&r);
        etcd_reply_close(&reply);
    }
    free(value);
    buf_close(&body);
    etcd_client_free(c);
    return e.code;
}

static void certificates_decide(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = mem_printf("%s/baton-tls-XXXXXX", tmp ? tmp : P_tmpdir);
    assert_non_null(mkdtemp(dir));
    char *cert = mem_printf("%s/cert.pem", dir), *key = mem_printf("%s/key.pem", dir);
    test_cert_write(cert, key);
    char *tls = mem_printf("https://127.0.0.1:%d", free_port());
    char *plain = mem_printf("http://127.0.0.1:%d", free_port());
    char *both = mem_printf("%s,%s", plain, tls);
    const char *flags[] = {"--cert-file",
                           cert,
                           "--key-file",
                           key,
                           "--trusted-ca-file",
                           cert,
                           "--client-cert-auth",
                           "--listen-client-urls",
                           both,
                           NULL};
    struct etcd_process *p = etcd_process_start_at(plain, flags);
    assert_int_equal(ask(plain, NULL, NULL, NULL), ERR_OK);
    assert_int_equal(ask(tls, cert, cert, key), ERR_OK);
    for (size_t len = 10; len <= 1000000; len *= 10) {
        assert_int_equal(ask_grpc(plain, NULL, NULL, NULL, len), ERR_OK);
        assert_int_equal(ask_grpc(tls, cert, cert, key, len), ERR_OK);
    }
    assert_int_equal(ask_grpc(tls, NULL, cert, key, 1), ERR_UNREACHABLE);
    assert_int_not_equal(ask_grpc(tls, cert, NULL, NULL, 1), ERR_OK);
    assert_int_equal(ask(tls, NULL, cert, key), ERR_UNREACHABLE);
    assert_int_equal(ask("https://localhost:1", cert, cert, key), ERR_UNREACHABLE);
    assert_int_not_equal(ask(tls, cert, NULL, NULL), ERR_OK);
    etcd_process_free(p);
    unlink(cert);
    unlink(key);
    rmdir(dir);
    free(dir), free(cert), free(key), free(tls), free(plain), free(both);
}

/* curl may say nothing of its own. */
static void a_refused_certificate_is_explained(void **state)
{
    char said[CURL_ERROR_SIZE] = "no luck", nothing[CURL_ERROR_SIZE] = "";
    transfer_explain(CURLE_PEER_FAILED_VERIFICATION, said);
    assert_string_equal(said, "no luck: its certificate must be valid now, name this host and be "
                              "signed by --etcd-ca");
    transfer_explain(CURLE_PEER_FAILED_VERIFICATION, nothing);
    assert_true(isalpha((unsigned char)nothing[0]));
    assert_non_null(strstr(nothing, ": its certificate must be valid now"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificates_decide),
        cmocka_unit_test(a_refused_certificate_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
