#include "client/cli/cluster_output.h"

static const char *role_word(enum baton_role role)
{
    static const char *const words[] = {"unknown",    "follower", "candidate",
                                        "activating", "leader",   "stepping-down"};
    return words[role];
}

struct json_object *member_json(const struct baton_member *m)
{
    struct json_object *o = json_object_new_object();
    output_add_text(o, "id", m->id);
    output_add_text(o, "addr", m->addr);
    output_add_text(o, "role", role_word(m->role));
    output_add_number(o, "epoch", (int64_t)m->epoch);
    output_add_number(o, "applied_revision", m->applied_revision);
    output_add_number(o, "lag", m->lag);
    output_add_text(o, "http_addr", m->http_addr);
    output_add_text(o, "version", m->version);
    output_add_number(o, "started_unix_ms", m->started_unix_ms);
    return o;
}

static struct json_object *type_json(const struct baton_worker_type *t)
{
    struct json_object *o = json_object_new_object();
    output_add_text(o, "type", t->type);
    output_add_number(o, "starting", t->starting);
    output_add_number(o, "running", t->running);
    output_add_number(o, "expiring", t->expiring);
    output_add_number(o, "unschedulable", t->unschedulable);
    output_add_number(o, "slots", t->slots);
    return o;
}

struct json_object *types_json(const struct baton_cluster_info *info)
{
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < info->type_count; i++)
        json_object_array_add(list, type_json(&info->types[i]));
    return list;
}

struct json_object *info_json(const struct baton_cluster_info *info)
{
    struct json_object *o = json_object_new_object();
    output_add_text(o, "cluster", info->cluster_id);
    output_add_text(o, "leader", info->leader_id);
    output_add_text(o, "leader_addr", info->leader_addr);
    output_add_number(o, "epoch", (int64_t)info->epoch);
    output_add_number(o, "revision", info->revision);
    output_add_number(o, "members", info->members);
    output_add_number(o, "keys", (int64_t)info->keys);
    output_add_number(o, "workers", (int64_t)info->workers);
    output_add_number(o, "format_level", info->format_level);
    output_add_number(o, "commits", (int64_t)info->commits);
    output_add_number(o, "writes", (int64_t)info->writes);
    output_add_number(o, "reads", (int64_t)info->reads);
    output_add_number(o, "heartbeats", (int64_t)info->heartbeats);
    output_add_number(o, "streams", (int64_t)info->streams);
    json_object_object_add(o, "worker_types", types_json(info));
    return o;
}

const struct column types_columns[TYPES_COLUMNS] = {
    {"WORKERS", "type", COLUMN_PLAIN},
    {"STARTING", "starting", COLUMN_PLAIN},
    {"RUNNING", "running", COLUMN_PLAIN},
    {"EXPIRING", "expiring", COLUMN_PLAIN},
    {"UNSCHEDULABLE", "unschedulable", COLUMN_PLAIN},
    {"SLOTS", "slots", COLUMN_PLAIN},
};
