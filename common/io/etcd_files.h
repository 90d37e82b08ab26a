/* The certificates of a client of etcd, looked at before they are needed. */
#pragma once
#include "common/io/etcd.h"

/* USAGE names the file that cannot be read or does not hold what it should, a key that is not the
 * certificate's, and files that no endpoint needs. */
struct err etcd_files_check(const struct etcd_access *access);
