/* The size of a seed's world, and how often each fault comes in it. */
#ifndef SIM_MIX_H
#define SIM_MIX_H

#include "sim/world/world.h"

/* From here on most seeds are small worlds: one or two short jobs, a few minutes, and a part of the
 * faults, each more often. A seed below, and every SIM_FULLth one above, is a full one of twenty
 * minutes. */
#define SIM_SMALL_FROM UINT64_C(100001)
#define SIM_FULL 16

/* minutes: as given; 0 = by the seed. */
void size_of_seed(uint64_t seed, int64_t minutes, struct world_conf *ret);

#define MIX_FAULTS (sizeof(struct faults_mix) / sizeof(int64_t))
int64_t *mix_at(struct faults_mix *m, size_t fault);
/* none, light, heavy, clocks, or NAME=PPM,... False: it is none of these. */
bool mix_parse(const char *text, struct faults_mix *ret);
void mix_text(const struct faults_mix *m, char *buf, size_t n);
/* text: as given; NULL = by the seed. */
void mix_of_seed(uint64_t seed, const char *text, struct faults_mix *ret);

#endif
