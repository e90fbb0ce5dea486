/* Parses a pool's record as the database writes it: numbers separated by blanks, in the order of
 * migrations/. Table pool_record has six of them, pool_habit.record the rest, once computed for the
 * pool. */
#include "base/base.h"
#include "core/hazard/hazard.h"

#include <math.h>

#define NUMBERS 27
#define NUMBERS_FIRST 6

static size_t numbers_parse(const char *text, double *ret, size_t most)
{
	size_t n = 0;

	while (n < most) {
		char *end;

		ret[n] = strtod(text, &end);
		if (end == text || !isfinite(ret[n])) {
			break;
		}
		text = end;
		n++;
	}
	return n;
}

const struct offer_record *offer_record_parse(struct arena *a, const char *text)
{
	double v[NUMBERS] = { 0 };
	size_t n = text == NULL ? 0 : numbers_parse(text, v, NUMBERS);
	struct offer_record *r;

	if (n < NUMBERS_FIRST) {
		return NULL;
	}
	r = arena_alloc(a, sizeof(*r));
	*r = (struct offer_record){ .node_hours = v[0],
		.reclaims = v[1],
		.launches = v[2],
		.refusals = v[3],
		.recent_hours = v[4],
		.recent_reclaims = v[5] };
	if (n < NUMBERS) {
		return r;
	}
	r->reclaim_hours = v[6] > 0 ? r->reclaims / v[6] : 0;
	r->hour_reclaims = v[7];
	r->reclaim_cos = v[8];
	r->reclaim_sin = v[9];
	r->hour_nodes = v[10];
	r->node_cos = v[11];
	r->node_sin = v[12];
	r->node_cos2 = v[13];
	r->node_sin2 = v[14];
	memcpy(r->joint_chances, v + 15, sizeof(r->joint_chances));
	memcpy(r->joint_hits, v + 19, sizeof(r->joint_hits));
	memcpy(r->joint_alone, v + 23, sizeof(r->joint_alone));
	return r;
}
