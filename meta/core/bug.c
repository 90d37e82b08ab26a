#include "meta/core/bug.h"

#ifdef BATON_TEST_BUGS
unsigned bug_mask;
#endif
