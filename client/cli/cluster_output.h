/* How members and the cluster are shown. */
#pragma once
#include "client/cli/output.h"

struct json_object *member_json(const struct baton_member *m);
struct json_object *info_json(const struct baton_cluster_info *info);

/* Its workers by type, and the table of them. */
struct json_object *types_json(const struct baton_cluster_info *info);
#define TYPES_COLUMNS 6
extern const struct column types_columns[TYPES_COLUMNS];
