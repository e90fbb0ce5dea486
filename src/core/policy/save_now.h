/*
 * Should a running job save now, since siblings of its machine were reclaimed? Pure. A save costs
 * its time at the machine's price. Without it a reclaim before the next planned save loses the work
 * since the last one, unless its notice leaves time for a save:
 *
 *     odds = 1 - exp(-nodes * (hazard_per_hour * hours + rise within those hours))
 *     loss = odds * (1 - notice_saves) * unsaved * price
 *
 * hours: until the next planned save, at most one. nodes: of a gang, since the loss of any rank
 * loses the work of all. Saves when the loss is above the cost.
 */
#ifndef CORE_SAVE_NOW_H
#define CORE_SAVE_NOW_H

#include "core/hazard/hazard.h"

struct save_now_in {
	double hazard_per_hour; /* usual */
	struct rise rise;
	int32_t nodes; /* 0 is one */
	int64_t price_micros; /* of all machines, per hour */
	int64_t unsaved_us; /* work since the last save */
	int64_t save_us; /* time of a save */
	int64_t next_us; /* until the next planned save; INT64_MAX = none */
	double notice_saves; /* share of reclaims whose notice leaves time for a save */
};
struct save_now_out {
	bool save;
	double hours, odds;
	int64_t cost_micros, loss_micros;
	const char *why; /* static */
};
void save_now_judge(const struct save_now_in *in, struct save_now_out *ret);

#endif
