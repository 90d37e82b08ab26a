/* Faults by chance. Each seed draws which kinds it has and how often, so that some worlds know only
 * one kind and others many at once. */
#pragma once
#include "tests/sim/world.h"

struct chaos;

struct world_options chaos_options(uint64_t seed, bool traced);
/* From now until chaos_stop. */
struct chaos *chaos_start(struct world *w);
/* Everything is well again: whoever is dead is started, all connections work. Frees. */
void chaos_stop(struct world *w, struct chaos *c);
