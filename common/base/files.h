/* Files that outlive a stop of the machine. */
#pragma once
#include "common/base/buf.h"
#include <sys/types.h>

/* What was made, renamed or removed in a folder is so for good. False: see errno. */
bool file_sync_folder(const char *dir);
/* Puts the bytes into dir/name as a whole, synced: a crash leaves the old file or the new one. A
 * file dir/name.new is in between. False: see errno. */
bool file_replace(const char *dir, const char *name, struct bytes content, mode_t mode);
