/* One connection to each peer, shared by all threads. */
#include "client/client_parts.h"
#include "common/base/mem.h"
#include <stdlib.h>
#include <string.h>

static struct client_channel *find(struct client *c, const char *addr)
{
    for (struct client_channel *ch = c->channels; ch; ch = ch->next)
        if (!strcmp(rpc_channel_addr(ch->rpc), addr))
            return ch;
    return NULL;
}

/* Unlinks the one that nobody uses for longest; NULL: there is none. */
static struct client_channel *take_idle(struct client *c)
{
    struct client_channel **oldest = NULL;
    for (struct client_channel **at = &c->channels; *at; at = &(*at)->next)
        if (!(*at)->users && (!oldest || (*at)->used < (*oldest)->used))
            oldest = at;
    if (!oldest)
        return NULL;
    struct client_channel *ch = *oldest;
    *oldest = ch->next;
    c->channel_count--;
    return ch;
}

static void free_one(struct client_channel *ch)
{
    if (ch)
        rpc_channel_free(ch->rpc);
    free(ch);
}

static struct client_channel *add(struct client *c, const char *addr)
{
    struct client_channel *ch = mem_alloc(sizeof *ch);
    ch->rpc = rpc_channel_new(addr);
    ch->next = c->channels;
    c->channels = ch;
    c->channel_count++;
    return ch;
}

/* Connections are closed here and nowhere else: a release may come on the thread that serves them.
 */
struct client_channel *client_channel_hold(struct client *c, const char *addr)
{
    struct client_channel *surplus = NULL;
    pthread_mutex_lock(&c->lock);
    struct client_channel *ch = find(c, addr);
    if (!ch && c->channel_count >= CLIENT_CHANNELS_MAX)
        surplus = take_idle(c);
    if (!ch)
        ch = add(c, addr);
    ch->users++;
    ch->used = ++c->uses;
    pthread_mutex_unlock(&c->lock);
    free_one(surplus);
    return ch;
}

void client_channel_release(struct client *c, struct client_channel *ch)
{
    pthread_mutex_lock(&c->lock);
    ch->users--;
    pthread_mutex_unlock(&c->lock);
}

void client_channels_free(struct client *c)
{
    while (c->channels) {
        struct client_channel *ch = c->channels;
        c->channels = ch->next;
        free_one(ch);
    }
}
