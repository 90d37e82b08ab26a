#include "common/io/etcd_files.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

static struct err bad(const char *option, const char *path, const char *why)
{
    return err_make(ERR_USAGE, "--%s %s: %s", option, path, why);
}

/* Nobody is there to type one. */
static int no_passphrase(char *room, int size, int writing, void *arg)
{
    *(bool *)arg = true;
    return 0;
}

static struct err open_file(const char *option, const char *path, FILE **out)
{
    *out = fopen(path, "re");
    return *out ? OK_ERR : bad(option, path, strerror(errno));
}

static struct err read_cert(const char *option, const char *path, X509 **out)
{
    FILE *f;
    struct err e = open_file(option, path, &f);
    *out = NULL;
    if (err_is(&e))
        return e;
    *out = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    ERR_clear_error();
    return *out ? OK_ERR : bad(option, path, "holds no certificate in PEM");
}

static struct err read_key(const char *path, EVP_PKEY **out)
{
    FILE *f;
    bool locked = false;
    struct err e = open_file("etcd-key", path, &f);
    *out = NULL;
    if (err_is(&e))
        return e;
    *out = PEM_read_PrivateKey(f, NULL, no_passphrase, &locked);
    fclose(f);
    ERR_clear_error();
    if (*out)
        return OK_ERR;
    return bad("etcd-key", path,
               locked ? "is locked by a passphrase" : "holds no private key in PEM");
}

static struct err check_pair(const char *cert_file, const char *key_file)
{
    X509 *cert = NULL;
    EVP_PKEY *key = NULL;
    struct err e = read_cert("etcd-cert", cert_file, &cert);
    if (!err_is(&e))
        e = read_key(key_file, &key);
    if (!err_is(&e) && X509_check_private_key(cert, key) != 1)
        e = err_make(ERR_USAGE, "--etcd-key %s: is not the key of --etcd-cert %s", key_file,
                     cert_file);
    ERR_clear_error();
    X509_free(cert);
    EVP_PKEY_free(key);
    return e;
}

struct err etcd_files_check(const struct etcd_access *a)
{
    struct err e = OK_ERR;
    bool any = a->ca_file || a->cert_file || a->key_file;
    if (any && a->endpoints && !strstr(a->endpoints, "https://"))
        return err_make(ERR_USAGE,
                        "--etcd-ca, --etcd-cert and --etcd-key are for https:// endpoints, "
                        "and --etcd names none");
    if (a->ca_file) {
        X509 *ca;
        e = read_cert("etcd-ca", a->ca_file, &ca);
        X509_free(ca);
    }
    if (!err_is(&e) && a->cert_file && a->key_file)
        e = check_pair(a->cert_file, a->key_file);
    return e;
}
