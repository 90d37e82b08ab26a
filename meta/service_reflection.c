#include "meta/service_reflection.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/base/rpc_status.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "meta/core/descriptors.h"
#include "proto/baton_desc.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* v1alpha has the same messages and numbers as v1, so one set of types reads and writes both. */
typedef Grpc__Reflection__V1__ServerReflectionRequest Request;
typedef Grpc__Reflection__V1__ServerReflectionResponse Response;
#define ASKS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWERS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

enum { STREAMS_MAX = 1000, REQUEST_MAX_BYTES = 16 * 1024 };

struct service_reflection {
    struct descriptors contracts;
    const struct rpc_method *methods;
    size_t count;
    _Atomic int streams;
};

/* One stream: a request is answered, and the answer written, before the next one is fetched. */
struct session {
    struct service_reflection *owner;
    bool answered; /* the answer may still be on its way */
};

/* ---- answers: they fill in what lives as long as one request is dealt with ---- */

struct answer {
    Response response;
    Grpc__Reflection__V1__ErrorResponse error;
    Grpc__Reflection__V1__FileDescriptorResponse files;
    Grpc__Reflection__V1__ExtensionNumberResponse extensions;
    Grpc__Reflection__V1__ListServiceResponse list;
    struct arena memory;
};

static void answer_error(struct answer *a, enum rpc_status status, const char *what,
                         struct bytes name)
{
    char *text = arena_raw(&a->memory, 300);
    snprintf(text, 300, "%s: %.*s", what, (int)(name.len < 200 ? name.len : 200),
             name.len ? (const char *)name.data : "");
    grpc__reflection__v1__error_response__init(&a->error);
    a->error.error_code = (int32_t)status;
    a->error.error_message = text;
    a->response.message_response_case = ANSWERS(ERROR_RESPONSE);
    a->response.error_response = &a->error;
}

static void answer_file(struct answer *a, const struct descriptors *d,
                        const struct descriptor_file *file)
{
    const struct descriptor_file **found =
        arena_array(&a->memory, d->file_count, sizeof(const struct descriptor_file *));
    size_t n = descriptors_with_imports(d, file, found);
    ProtobufCBinaryData *contents = arena_array(&a->memory, n, sizeof *contents);
    for (size_t i = 0; i < n; i++)
        contents[i] = (ProtobufCBinaryData){.len = found[i]->content.len,
                                            .data = (uint8_t *)found[i]->content.data};
    grpc__reflection__v1__file_descriptor_response__init(&a->files);
    a->files.n_file_descriptor_proto = n;
    a->files.file_descriptor_proto = contents;
    a->response.message_response_case = ANSWERS(FILE_DESCRIPTOR_RESPONSE);
    a->response.file_descriptor_response = &a->files;
}

static void answer_file_named(struct answer *a, const struct descriptors *d, struct bytes name)
{
    const struct descriptor_file *file = descriptors_find_file(d, name);
    if (file)
        answer_file(a, d, file);
    else
        answer_error(a, RPC_NOT_FOUND, "there is no such file", name);
}

static void answer_file_of(struct answer *a, const struct descriptors *d, struct bytes name)
{
    const struct descriptor_symbol *symbol = descriptors_find_symbol(d, name);
    if (symbol)
        answer_file(a, d, &d->files[symbol->file]);
    else
        answer_error(a, RPC_NOT_FOUND, "there is no such symbol", name);
}

/* No message of ours has extensions; that of an unknown one is another matter. */
static void answer_extensions(struct answer *a, const struct descriptors *d, char *type)
{
    const struct descriptor_symbol *symbol = descriptors_find_symbol(d, bytes_str(type));
    if (!symbol || symbol->kind != DESCRIPTOR_MESSAGE) {
        answer_error(a, RPC_NOT_FOUND, "there is no such message", bytes_str(type));
        return;
    }
    grpc__reflection__v1__extension_number_response__init(&a->extensions);
    a->extensions.base_type_name = type;
    a->response.message_response_case = ANSWERS(ALL_EXTENSION_NUMBERS_RESPONSE);
    a->response.all_extension_numbers_response = &a->extensions;
}

/* "pkg.Service" of "/pkg.Service/Method". */
static struct bytes service_of(const char *path)
{
    return bytes_of(path + 1, strcspn(path + 1, "/"));
}

static int compare_names(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Sorted, each once, into names with room for s->count. */
static size_t list_services(const struct service_reflection *s, struct bytes *names)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        names[i] = service_of(s->methods[i].path);
    qsort(names, s->count, sizeof *names, compare_names);
    for (size_t i = 0; i < s->count; i++)
        if (n == 0 || !bytes_equal(names[i], names[n - 1]))
            names[n++] = names[i];
    return n;
}

static void answer_list(struct answer *a, const struct service_reflection *s)
{
    struct bytes *names = arena_array(&a->memory, s->count, sizeof *names);
    size_t n = list_services(s, names);
    Grpc__Reflection__V1__ServiceResponse *rows = arena_array(&a->memory, n, sizeof *rows);
    Grpc__Reflection__V1__ServiceResponse **list =
        arena_array(&a->memory, n, sizeof(Grpc__Reflection__V1__ServiceResponse *));
    for (size_t i = 0; i < n; i++) {
        grpc__reflection__v1__service_response__init(&rows[i]);
        rows[i].name = (char *)arena_copy(&a->memory, names[i]).data;
        list[i] = &rows[i];
    }
    grpc__reflection__v1__list_service_response__init(&a->list);
    a->list.n_service = n;
    a->list.service = list;
    a->response.message_response_case = ANSWERS(LIST_SERVICES_RESPONSE);
    a->response.list_services_response = &a->list;
}

static void decide(const struct service_reflection *s, Request *m, struct answer *a)
{
    const struct descriptors *d = &s->contracts;
    switch (m->message_request_case) {
    case ASKS(FILE_BY_FILENAME):
        answer_file_named(a, d, bytes_str(m->file_by_filename));
        break;
    case ASKS(FILE_CONTAINING_SYMBOL):
        answer_file_of(a, d, bytes_str(m->file_containing_symbol));
        break;
    case ASKS(FILE_CONTAINING_EXTENSION):
        answer_error(a, RPC_NOT_FOUND, "no message has extensions",
                     bytes_str(m->file_containing_extension->containing_type));
        break;
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        answer_extensions(a, d, m->all_extension_numbers_of_type);
        break;
    case ASKS(LIST_SERVICES):
        answer_list(a, s);
        break;
    case ASKS(_NOT_SET):
    default: /* the generated enum has a member that only sets its size */
        answer_error(a, RPC_INVALID_ARGUMENT, "the request asks for nothing that is known",
                     BYTES_NONE);
        break;
    }
}

/* ---- streams ---- */

static void end(struct rpc_call *call, struct session *session, const struct err *e)
{
    atomic_fetch_sub(&session->owner->streams, 1);
    free(session);
    rpc_stream_end(call, e, NULL);
}

/* One answer fits into a stream's queue that is empty, whatever its size. */
static void reply(struct rpc_call *call, struct session *session, Request *m)
{
    struct answer a = {0};
    struct buf out = {0};
    grpc__reflection__v1__server_reflection_response__init(&a.response);
    a.response.valid_host = m->host;
    a.response.original_request = m;
    decide(session->owner, m, &a);
    buf_reserve(&out,
                grpc__reflection__v1__server_reflection_response__get_packed_size(&a.response));
    out.len = grpc__reflection__v1__server_reflection_response__pack(&a.response, out.data);
    session->answered = true;
    rpc_stream_send(call, buf_view(&out));
    buf_close(&out);
    arena_close(&a.memory);
}

static void on_request(struct rpc_call *call, struct session *session)
{
    struct bytes body = rpc_call_body(call);
    Request *m = NULL;
    if (body.len <= REQUEST_MAX_BYTES)
        m = grpc__reflection__v1__server_reflection_request__unpack(NULL, body.len, body.data);
    if (m) {
        reply(call, session, m);
        grpc__reflection__v1__server_reflection_request__free_unpacked(m, NULL);
    } else {
        struct err e = err_make(ERR_BAD_REQUEST,
                                "reflection: the request is no ServerReflectionRequest, or has "
                                "more than %d bytes",
                                REQUEST_MAX_BYTES);
        end(call, session, &e);
    }
}

static void on_event(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    struct session *session = user;
    switch (event) {
    case RPC_STREAM_REQUEST:
        on_request(call, session);
        break;
    case RPC_STREAM_WRITABLE:
        if (session->answered && rpc_stream_pending(call) == 0) {
            session->answered = false;
            rpc_stream_receive(call);
        }
        break;
    case RPC_STREAM_NO_MORE:
    case RPC_STREAM_GONE:
        end(call, session, NULL);
        break;
    }
}

static void handle(struct rpc_call *call, void *ctx)
{
    struct service_reflection *s = ctx;
    if (atomic_fetch_add(&s->streams, 1) >= STREAMS_MAX) {
        atomic_fetch_sub(&s->streams, 1);
        struct err e =
            err_make(ERR_OVERLOADED,
                     "this member serves %d streams of reflection already: end some", STREAMS_MAX);
        rpc_stream_end(call, &e, NULL);
        return;
    }
    struct session *session = mem_alloc(sizeof *session);
    session->owner = s;
    rpc_stream_begin(call, on_event, session, NULL, 0);
}

struct service_reflection *service_reflection_new(const struct rpc_method *methods, size_t count)
{
    struct service_reflection *s = mem_alloc(sizeof *s);
    struct err e = descriptors_load(&s->contracts, bytes_of(baton_desc, baton_desc_len));
    INVARIANT(!err_is(&e)); /* built in */
    s->methods = methods;
    s->count = count;
    return s;
}

void service_reflection_free(struct service_reflection *s)
{
    if (!s)
        return;
    descriptors_close(&s->contracts);
    free(s);
}

void service_reflection_methods(struct service_reflection *s,
                                struct rpc_method methods[SERVICE_REFLECTION_METHODS])
{
    methods[0] = (struct rpc_method){"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                                     RPC_BIDI_STREAM, handle, s};
    methods[1] =
        (struct rpc_method){"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                            RPC_BIDI_STREAM, handle, s};
}
