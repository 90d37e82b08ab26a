/* May the cache on disk be believed? LMDB runs without sync, so a stop of the process loses
 * nothing, but a stop of the machine may leave anything. A small synced file next to the cache
 * names the boot of the machine in which it was opened, and is read before LMDB is. */
#pragma once
#include "common/base/err.h"
#include <stdbool.h>

/* The kernel's id of this boot; "" when it has none to tell: then only a clean close is believed.
 */
void store_boot_id(char out[64]);
/* True: closed cleanly, or opened in this boot. */
bool store_boot_trusts(const char *dir, const char *boot_id);
/* Written and synced before the cache is opened, and again after it was synced and closed. */
struct err store_boot_mark(const char *dir, const char *boot_id, bool closed);
/* The next start throws the cache away. */
void store_boot_distrust(const char *dir);
