/* SHA-256, by the examples of FIPS 180-4. */
#include "common/io/digest.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void known_digests(void **state)
{
    char hex[DIGEST_HEX_MAX];
    struct digest *d = digest_new();
    digest_hex(d, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_add(d, bytes_str("a"));
    digest_add(d, BYTES_NONE);
    digest_add(d, bytes_str("bc"));
    digest_hex(d, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_hex(d, hex); /* it began anew */
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_free(d);
    digest_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_digests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
