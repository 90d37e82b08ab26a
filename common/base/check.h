/* Preconditions and invariants. They stay on in release builds; bad input is never one of them. */
#pragma once

_Noreturn void check_failed(const char *kind, const char *expr, const char *file, int line);

#define CHECK_(kind, expr) ((expr) ? (void)0 : check_failed(kind, #expr, __FILE__, __LINE__))
#define PRE(expr) CHECK_("precondition", expr)
#define POST(expr) CHECK_("postcondition", expr)
#define INVARIANT(expr) CHECK_("invariant", expr)
#define UNREACHABLE_CASE() check_failed("unreachable", "case", __FILE__, __LINE__)
