/* A certificate for 127.0.0.1 that is its own CA, for tests. */
#pragma once

/* Writes an unencrypted key and the certificate as PEM. Fails the test when it cannot. */
void test_cert_write(const char *cert_path, const char *key_path);
