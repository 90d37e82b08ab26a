/* The names of the deliberate bugs, and how to switch one on. Only in the build that has them. */
#pragma once
#include "meta/core/bug.h"

const char *bug_str(enum bug bug);
void bug_only(enum bug bug);
void bug_none(void);
