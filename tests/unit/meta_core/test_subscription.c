/* What a subscriber asks for: limits, and which keys and workers it hears of. */
#include "meta/core/subscription.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct bytes all[SUBSCRIPTION_PREFIXES_MAX + 1];

static struct subscription of(unsigned topics)
{
    return (struct subscription){
        .kind = bytes_str("compute"), .topics = topics, .prefixes = all, .types = all};
}

static void refused(struct subscription s, const char *field)
{
    struct err e = subscription_check(&s);
    assert_int_equal(e.code, ERR_BAD_REQUEST);
    assert_non_null(strstr(e.message, field));
}

static void taken(struct subscription s)
{
    struct err e = subscription_check(&s);
    assert_false(err_is(&e));
}

static void kinds_are_names(void **state)
{
    char longest[SUBSCRIPTION_KIND_MAX + 2];
    memset(longest, 'k', sizeof longest);
    struct subscription s = of(TOPIC_LEADER);
    taken(s);
    s.kind = bytes_of(longest, SUBSCRIPTION_KIND_MAX);
    taken(s);
    s.kind.len++;
    refused(s, "kind");
    static const char *const bad[] = {"", "two words", "a/b", "\xc3\xa4"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        s.kind = bytes_str(bad[i]);
        refused(s, "kind");
    }
}

static void lists_belong_to_their_topics(void **state)
{
    struct subscription s = of(0);
    refused(s, "topics");
    s.topics = TOPIC_KEYS | 1u << 7;
    refused(s, "topics");
    s.topics = TOPIC_WORKERS | TOPIC_MEMBERS;
    s.prefix_count = 1;
    refused(s, "prefixes");
    s.topics = TOPIC_KEYS;
    s.prefix_count = SUBSCRIPTION_PREFIXES_MAX + 1;
    refused(s, "prefixes");
    s.prefix_count--;
    taken(s);
    s.type_count = 1;
    refused(s, "worker_types");
    s.topics |= TOPIC_WORKERS;
    refused(s, "worker type"); /* an empty one */
}

static void wishes_as_bytes(void **state)
{
    struct bytes prefixes[] = {bytes_str("q"), bytes_str("p"), bytes_str("p/")};
    struct bytes types[] = {bytes_str("compute")};
    struct subscription again, s = of(TOPIC_KEYS | TOPIC_WORKERS);
    struct arena memory = {0};
    struct buf wishes = {0}, others = {0};
    s.prefixes = prefixes;
    s.prefix_count = 3;
    s.types = types;
    s.type_count = 1;
    struct err e = subscription_check(&s);
    assert_false(err_is(&e));
    subscription_encode(&s, &wishes);
    subscription_decode(buf_view(&wishes), &memory, &again);
    memset(wishes.data, 0xee, wishes.len); /* nothing shows into them */
    assert_int_equal(again.topics, s.topics);
    assert_int_equal(again.prefix_count, 2);
    assert_true(bytes_equal(again.prefixes[0], bytes_str("p")));
    assert_true(bytes_equal(again.prefixes[1], bytes_str("q")));
    assert_int_equal(again.type_count, 1);
    assert_true(bytes_equal(again.types[0], bytes_str("compute")));
    buf_clear(&wishes);
    subscription_encode(&s, &wishes);
    s.kind = bytes_str("other");
    s.token = bytes_str("since");
    subscription_encode(&s, &others);
    assert_true(bytes_equal(buf_view(&wishes), buf_view(&others)));
    buf_close(&wishes);
    buf_close(&others);
    arena_close(&memory);
}

static void prefixes_within_others_are_dropped(void **state)
{
    struct bytes list[] = {bytes_str("b/2"), bytes_str("a"),  bytes_str("b/"), bytes_str("ab"),
                           bytes_str("b"),   bytes_str("c/"), bytes_str("b")};
    size_t count = prefixes_tidy(list, COUNT(list));
    assert_int_equal(count, 3);
    assert_true(bytes_equal(list[0], bytes_str("a")) && bytes_equal(list[1], bytes_str("b")) &&
                bytes_equal(list[2], bytes_str("c/")));
    static const char *const held[] = {"a", "a\xff", "b", "b/9", "c/", "c/x"};
    static const char *const others[] = {"", "A", "c", "c.", "c0", "d"};
    for (size_t i = 0; i < COUNT(held); i++)
        assert_true(prefixes_hold(list, count, bytes_str(held[i])));
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(prefixes_hold(list, count, bytes_str(others[i])));
    assert_int_equal(prefixes_tidy(list, 0), 0);
    assert_true(prefixes_hold(list, 0, bytes_str("a")));
    list[1] = BYTES_NONE; /* starts every key */
    assert_int_equal(prefixes_tidy(list, 3), 0);
}

static void what_is_wanted(void **state)
{
    struct bytes prefixes[] = {bytes_str("p/"), bytes_str("p/1")};
    struct bytes types[] = {bytes_str("compute"), bytes_str("store")};
    struct subscription s = of(TOPIC_KEYS);
    taken(s);
    assert_true(subscription_wants_key(&s, bytes_str("any")));
    assert_false(subscription_wants_worker(&s, bytes_str("compute")));
    s.prefixes = prefixes;
    s.prefix_count = COUNT(prefixes);
    struct err e = subscription_check(&s);
    assert_false(err_is(&e));
    assert_true(subscription_wants_key(&s, bytes_str("p/2")));
    assert_false(subscription_wants_key(&s, bytes_str("q")));
    s = of(TOPIC_WORKERS);
    taken(s);
    assert_true(subscription_wants_worker(&s, bytes_str("any")));
    assert_false(subscription_wants_key(&s, bytes_str("any")));
    s.types = types;
    s.type_count = COUNT(types);
    taken(s);
    assert_true(subscription_wants_worker(&s, bytes_str("store")));
    assert_false(subscription_wants_worker(&s, bytes_str("stor")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_names), cmocka_unit_test(lists_belong_to_their_topics),
        cmocka_unit_test(wishes_as_bytes), cmocka_unit_test(prefixes_within_others_are_dropped),
        cmocka_unit_test(what_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
