/* Allocation that aborts when memory is out: limits, not error paths, bound memory. Free with
 * free(). */
#pragma once
#include <stddef.h>

void *mem_alloc(size_t size); /* zeroed */
void *mem_array(size_t count, size_t size);
void *mem_resize(void *old, size_t size);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);
void *mem_dup(const void *p, size_t size);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
