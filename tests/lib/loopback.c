#include "tests/lib/loopback.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int loopback_listen(char **url)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    POST(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
    POST(listen(fd, 16) == 0 && getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    *url = mem_printf("http://127.0.0.1:%d", ntohs(a.sin_port));
    return fd;
}
