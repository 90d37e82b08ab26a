#include "tests/lib/test_cert.h"
#include "common/base/check.h"
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    POST(ext && X509_add_ext(cert, ext, -1));
    X509_EXTENSION_free(ext);
}

static X509 *make_cert(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"127.0.0.1", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509_set_pubkey(cert, key);
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert, NID_subject_alt_name, "IP:127.0.0.1");
    add_extension(cert, NID_ext_key_usage, "serverAuth,clientAuth");
    POST(X509_sign(cert, key, EVP_sha256()));
    return cert;
}

void test_cert_write(const char *cert_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    POST(key);
    X509 *cert = make_cert(key);
    FILE *cert_file = fopen(cert_path, "w"), *key_file = fopen(key_path, "w");
    POST(cert_file && PEM_write_X509(cert_file, cert));
    POST(key_file && PEM_write_PrivateKey(key_file, key, NULL, NULL, 0, NULL, NULL));
    fclose(cert_file);
    fclose(key_file);
    X509_free(cert);
    EVP_PKEY_free(key);
}
