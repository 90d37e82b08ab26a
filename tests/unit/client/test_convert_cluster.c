/* The messages of the service of the workers, there and back. */
#include "client/convert_cluster.h"
#include "client/convert_item.h"
#include <baton/v1/cluster.pb-c.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <string.h>

static struct buf packed;
static struct arena memory;

static int forget(void **state)
{
    buf_close(&packed);
    arena_close(&memory);
    return 0;
}

/* ---- requests ---- */

static const struct baton_label zone_and_disk[] = {{"zone", "b"}, {"disk", "nvme"}};
static const struct baton_resource cores[] = {{"cores", 16}};

static void an_add_says_all(void **state)
{
    struct baton_worker_spec spec = {.type = "compute",
                                     .addr = "h1:7",
                                     .labels = zone_and_disk,
                                     .label_count = 2,
                                     .resources = cores,
                                     .resource_count = 1,
                                     .slot = true,
                                     .ttl_ms = 5000};
    cluster_encode_add(&spec, &packed);
    Baton__V1__AddWorkerRequest *m =
        baton__v1__add_worker_request__unpack(NULL, packed.len, packed.data);
    assert_non_null(m);
    assert_string_equal(m->type, "compute");
    assert_string_equal(m->addr, "h1:7");
    assert_int_equal(m->n_labels, 2);
    assert_string_equal(m->labels[1]->key, "disk");
    assert_string_equal(m->labels[1]->value, "nvme");
    assert_int_equal(m->n_resources, 1);
    assert_string_equal(m->resources[0]->key, "cores");
    assert_int_equal(m->resources[0]->value, 16);
    assert_true(m->slot);
    assert_int_equal(m->ttl_ms, 5000);
    baton__v1__add_worker_request__free_unpacked(m, NULL);
}

static void an_update_says_only_what_is_given(void **state)
{
    const char *const gone[] = {"old", "older"};
    struct baton_worker_change change = {.id = 3,
                                         .incarnation = 9,
                                         .set_labels = zone_and_disk,
                                         .set_label_count = 2,
                                         .remove_labels = gone,
                                         .remove_label_count = 2,
                                         .set_resources = cores,
                                         .set_resource_count = 1,
                                         .remove_resources = gone,
                                         .remove_resource_count = 1,
                                         .draining = BATON_OFF};
    cluster_encode_update(&change, &packed);
    Baton__V1__UpdateWorkerRequest *m =
        baton__v1__update_worker_request__unpack(NULL, packed.len, packed.data);
    assert_non_null(m);
    assert_int_equal(m->id, 3);
    assert_int_equal(m->incarnation, 9);
    assert_string_equal(m->set_labels[0]->key, "zone");
    assert_int_equal(m->n_remove_labels, 2);
    assert_string_equal(m->remove_labels[1], "older");
    assert_int_equal(m->set_resources[0]->value, 16);
    assert_int_equal(m->n_remove_resources, 1);
    assert_int_equal(m->cordoned, BATON__V1__TOGGLE__TOGGLE_KEEP);
    assert_int_equal(m->draining, BATON__V1__TOGGLE__TOGGLE_OFF);
    baton__v1__update_worker_request__free_unpacked(m, NULL);
    change = (struct baton_worker_change){.id = 3, .cordoned = BATON_ON};
    cluster_encode_update(&change, &packed);
    m = baton__v1__update_worker_request__unpack(NULL, packed.len, packed.data);
    assert_int_equal(m->n_set_labels + m->n_remove_labels + m->n_set_resources, 0);
    assert_int_equal(m->cordoned, BATON__V1__TOGGLE__TOGGLE_ON);
    baton__v1__update_worker_request__free_unpacked(m, NULL);
}

static void a_filter_says_all(void **state)
{
    struct baton_worker_filter filter = {.type = "compute",
                                         .labels = zone_and_disk,
                                         .label_count = 1,
                                         .state = BATON_WORKER_RUNNING,
                                         .schedulable_only = true,
                                         .after_id = 17,
                                         .limit = 50};
    cluster_encode_list(&filter, &packed);
    Baton__V1__ListWorkersRequest *m =
        baton__v1__list_workers_request__unpack(NULL, packed.len, packed.data);
    assert_non_null(m);
    assert_string_equal(m->type, "compute");
    assert_int_equal(m->n_labels, 1);
    assert_string_equal(m->labels[0]->value, "b");
    assert_int_equal(m->state, BATON__V1__WORKER_STATE__WORKER_STATE_RUNNING);
    assert_true(m->schedulable_only);
    assert_int_equal(m->after_id, 17);
    assert_int_equal(m->limit, 50);
    baton__v1__list_workers_request__free_unpacked(m, NULL);
    cluster_encode_list(&(struct baton_worker_filter){0}, &packed);
    assert_int_equal(packed.len, 0);
}

/* Three messages that are two numbers each. */
static void ids_are_told_with_incarnations(void **state)
{
    static void (*const encode[])(uint64_t, uint64_t, struct buf *) = {
        cluster_encode_activate, cluster_encode_delete, cluster_encode_heartbeat};
    for (size_t i = 0; i < sizeof encode / sizeof *encode; i++) {
        encode[i](5, 6, &packed);
        assert_int_equal(packed.len, 4);
        assert_memory_equal(packed.data, "\x08\x05\x10\x06", 4);
    }
}

/* ---- answers ---- */

static void fill_worker(Baton__V1__Worker *w)
{
    static Baton__V1__Worker__LabelsEntry labels[2] = {BATON__V1__WORKER__LABELS_ENTRY__INIT,
                                                       BATON__V1__WORKER__LABELS_ENTRY__INIT};
    static Baton__V1__Worker__LabelsEntry *in_disorder[] = {&labels[0], &labels[1]};
    static Baton__V1__Worker__ResourcesEntry memory_entry =
        BATON__V1__WORKER__RESOURCES_ENTRY__INIT;
    static Baton__V1__Worker__ResourcesEntry *resources[] = {&memory_entry};
    labels[0].key = (char *)"zone";
    labels[0].value = (char *)"b";
    labels[1].key = (char *)"disk";
    labels[1].value = (char *)"nvme";
    memory_entry.key = (char *)"memory";
    memory_entry.value = UINT64_MAX;
    baton__v1__worker__init(w);
    w->id = 7;
    w->incarnation = 12;
    w->type = (char *)"compute";
    w->addr = (char *)"h1:7";
    w->n_labels = 2;
    w->labels = in_disorder;
    w->n_resources = 1;
    w->resources = resources;
    w->state = BATON__V1__WORKER_STATE__WORKER_STATE_RUNNING;
    w->draining = true;
    w->has_slot = true;
    w->slot = 4;
    w->slot_grant = 44;
    w->ttl_ms = 15000;
    w->silent_ms = 3;
    w->create_revision = 100;
    w->mod_revision = 200;
}

static void check_worker(const struct baton_worker_info *w)
{
    assert_int_equal(w->id, 7);
    assert_int_equal(w->incarnation, 12);
    assert_string_equal(w->type, "compute");
    assert_string_equal(w->addr, "h1:7");
    assert_int_equal(w->label_count, 2);
    assert_string_equal(w->labels[0].name, "disk");
    assert_string_equal(w->labels[1].value, "b");
    assert_int_equal(w->resource_count, 1);
    assert_true(w->resources[0].amount == UINT64_MAX);
    assert_int_equal(w->state, BATON_WORKER_RUNNING);
    assert_true(w->draining && !w->cordoned && w->has_slot);
    assert_int_equal(w->slot, 4);
    assert_int_equal(w->slot_grant, 44);
    assert_int_equal(w->ttl_ms, 15000);
    assert_int_equal(w->silent_ms, 3);
    assert_int_equal(w->create_revision, 100);
    assert_int_equal(w->mod_revision, 200);
}

/* The four answers with one worker are alike on the wire, too. */
static void changes_answer_with_the_worker(void **state)
{
    static struct err (*const decode[])(struct bytes, struct arena *, struct baton_workers *) = {
        cluster_decode_add, cluster_decode_activate, cluster_decode_update, cluster_decode_delete};
    Baton__V1__Worker w;
    Baton__V1__AddWorkerResponse m = BATON__V1__ADD_WORKER_RESPONSE__INIT;
    fill_worker(&w);
    m.revision = 201;
    m.worker = &w;
    item_pack(&m.base, &packed);
    for (size_t i = 0; i < sizeof decode / sizeof *decode; i++) {
        struct baton_workers out = {0};
        struct err e = decode[i](buf_view(&packed), &memory, &out);
        assert_int_equal(e.code, ERR_OK);
        assert_int_equal(out.revision, 201);
        assert_int_equal(out.count, 1);
        check_worker(out.workers);
    }
    m.worker = NULL;
    item_pack(&m.base, &packed);
    for (size_t i = 0; i < sizeof decode / sizeof *decode; i++) {
        struct baton_workers out = {0};
        assert_int_equal(decode[i](buf_view(&packed), &memory, &out).code, ERR_PROTOCOL);
    }
}

static void a_list_comes_whole(void **state)
{
    Baton__V1__Worker known, newer;
    Baton__V1__Worker *both[] = {&known, &newer};
    Baton__V1__ListWorkersResponse m = BATON__V1__LIST_WORKERS_RESPONSE__INIT;
    struct baton_workers out = {0};
    fill_worker(&known);
    baton__v1__worker__init(&newer);
    newer.id = 8;
    newer.state = (Baton__V1__WorkerState)99;
    m.revision = 300;
    m.n_workers = 2;
    m.workers = both;
    m.more = true;
    item_pack(&m.base, &packed);
    assert_int_equal(cluster_decode_list(buf_view(&packed), &memory, &out).code, ERR_OK);
    assert_int_equal(out.revision, 300);
    assert_int_equal(out.count, 2);
    assert_true(out.more);
    check_worker(&out.workers[0]);
    assert_int_equal(out.workers[1].state, BATON_WORKER_UNKNOWN);
    assert_string_equal(out.workers[1].type, "");
    assert_int_equal(out.workers[1].label_count, 0);
}

static void a_heartbeat_is_answered(void **state)
{
    Baton__V1__HeartbeatResponse m = BATON__V1__HEARTBEAT_RESPONSE__INIT;
    struct baton_worker_beat out = {0};
    m.ttl_ms = 15000;
    m.cordoned = true;
    item_pack(&m.base, &packed);
    assert_int_equal(cluster_decode_heartbeat(buf_view(&packed), &out).code, ERR_OK);
    assert_int_equal(out.ttl_ms, 15000);
    assert_true(out.cordoned && !out.draining);
}

static void the_cluster_at_a_glance(void **state)
{
    Baton__V1__GetClusterInfoResponse m = BATON__V1__GET_CLUSTER_INFO_RESPONSE__INIT;
    Baton__V1__GetClusterInfoResponse__WorkerType type =
        BATON__V1__GET_CLUSTER_INFO_RESPONSE__WORKER_TYPE__INIT;
    Baton__V1__GetClusterInfoResponse__WorkerType *types[] = {&type};
    Baton__V1__GetClusterInfoResponse__Activity activity =
        BATON__V1__GET_CLUSTER_INFO_RESPONSE__ACTIVITY__INIT;
    struct baton_cluster_info out;
    type.type = (char *)"compute";
    type.running = 5;
    type.slots = 2;
    activity.commits = 70;
    activity.streams = 3;
    m.cluster_id = (char *)"c";
    m.leader_id = (char *)"m1";
    m.epoch = 9;
    m.workers = 5;
    m.n_worker_types = 1;
    m.worker_types = types;
    item_pack(&m.base, &packed);
    assert_int_equal(cluster_decode_info(buf_view(&packed), &memory, &out).code, ERR_OK);
    assert_int_equal(out.commits, 0);
    m.activity = &activity;
    item_pack(&m.base, &packed);
    assert_int_equal(cluster_decode_info(buf_view(&packed), &memory, &out).code, ERR_OK);
    assert_string_equal(out.cluster_id, "c");
    assert_string_equal(out.leader_id, "m1");
    assert_string_equal(out.leader_addr, "");
    assert_int_equal(out.epoch, 9);
    assert_int_equal(out.workers, 5);
    assert_int_equal(out.type_count, 1);
    assert_string_equal(out.types[0].type, "compute");
    assert_int_equal(out.types[0].running, 5);
    assert_int_equal(out.types[0].slots, 2);
    assert_int_equal(out.commits, 70);
    assert_int_equal(out.streams, 3);
}

static void garbage_is_no_answer(void **state)
{
    struct bytes garbage = bytes_str("\xff\xff");
    struct baton_workers workers = {0};
    struct baton_worker_beat beat;
    struct baton_cluster_info info;
    assert_int_equal(cluster_decode_add(garbage, &memory, &workers).code, ERR_PROTOCOL);
    assert_int_equal(cluster_decode_list(garbage, &memory, &workers).code, ERR_PROTOCOL);
    assert_int_equal(cluster_decode_heartbeat(garbage, &beat).code, ERR_PROTOCOL);
    assert_int_equal(cluster_decode_info(garbage, &memory, &info).code, ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_add_says_all, forget),
        cmocka_unit_test_teardown(an_update_says_only_what_is_given, forget),
        cmocka_unit_test_teardown(a_filter_says_all, forget),
        cmocka_unit_test_teardown(ids_are_told_with_incarnations, forget),
        cmocka_unit_test_teardown(changes_answer_with_the_worker, forget),
        cmocka_unit_test_teardown(a_list_comes_whole, forget),
        cmocka_unit_test_teardown(a_heartbeat_is_answered, forget),
        cmocka_unit_test_teardown(the_cluster_at_a_glance, forget),
        cmocka_unit_test_teardown(garbage_is_no_answer, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
