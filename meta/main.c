/* baton-meta: one member of a cluster. */
#include "common/base/log.h"
#include "meta/guardian.h"
#include "meta/member.h"
#include "meta/metrics_rows.h"
#include "meta/options.h"
#include <stdio.h>

static int child_main(struct guardian_link *link, void *arg)
{
    return member_run(arg, link);
}

int main(int argc, char **argv)
{
    static struct meta_options options;
    enum option_show show = OPTION_SHOW_NOTHING;
    if (metrics_doc_asked(argc, argv, meta_metrics, META_METRICS))
        return 0;
    struct err e = meta_options_parse(&options, argc, argv, &show);
    if (err_is(&e)) {
        fprintf(stderr, "baton-meta: %s\n", e.message);
        return 2;
    }
    if (show == OPTION_SHOW_HELP) {
        meta_options_help();
        return 0;
    }
    if (show == OPTION_SHOW_VERSION) {
        puts("baton-meta " BATON_VERSION);
        return 0;
    }
    enum log_level level = LOG_INFO;
    log_level_parse(options.log_level, &level);
    log_init(options.id, level);
    return guardian_run(&(struct guardian_config){.etcd = options.etcd ? &options.access : NULL,
                                                  .login = &options.login,
                                                  .prefix = options.prefix},
                        child_main, &options);
}
