/* batonctl: the command line of a Baton cluster. */
#include "client/cli/cli.h"
#include "common/base/log.h"

int main(int argc, char **argv)
{
    log_init("batonctl", LOG_WARN);
    return cli_main(argc, argv);
}
