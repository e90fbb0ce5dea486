/* The state of a plan while it is made: units put into pools, their cost and the room left. */
#include "base/base.h"
#include "core/fleet/fleet_priv.h"
#include "core/hazard/hazard.h"
#include <math.h>

double fleet_marginal(const struct fleet_model *m, const struct fleet_item *i)
{
	double together = m->delta[FLEET_LEVELS] * i->q * i->x;

	for (int l = 0; l < FLEET_LEVELS; l++) {
		together += m->delta[l] * m->groups[i->g[l]].s;
	}
	return i->c + 2 * m->kappa * i->q * together;
}

double fleet_gain(const struct fleet_model *m, const struct fleet_item *i)
{
	return fleet_marginal(m, i) - 2 * m->kappa * i->q * i->q;
}

void fleet_put(struct fleet_model *m, struct fleet_item *i, int32_t nodes)
{
	int32_t was = MAX(i->x - i->held, 0), now = MAX(i->x + nodes - i->held, 0);

	for (int k = 0; k < FLEET_KINDS; k++) {
		if (i->g[k] >= 0) {
			struct fleet_group *g = &m->groups[i->g[k]];

			g->used += k == FG_QUOTA ? i->need * (now - was) : nodes;
			g->s += i->q * nodes;
		}
	}
	m->pools += i->spread ? (i->x + nodes > 0) - (i->x > 0) : 0;
	i->x += nodes;
	m->total += i->w * nodes;
	m->floor_have += i->fw * nodes;
	m->added += now - was;
	m->added_other += i->fw == 0 ? now - was : 0;
}

enum fleet_limit fleet_blocked(const struct fleet_model *m, const struct fleet_item *i,
    int32_t *ret_group)
{
	static const struct {
		enum fleet_kind kind;
		enum fleet_limit limit;
	} order[] = { { FG_QUOTA, FLEET_QUOTA }, { FG_ZONE, FLEET_PER_ZONE },
		{ FG_REGION, FLEET_PER_REGION }, { FG_PROVIDER, FLEET_PER_PROVIDER },
		{ FG_GPU, FLEET_PER_GPU } };

	*ret_group = -1;
	if (i->x >= i->cap) {
		return FLEET_PER_POOL;
	}
	for (size_t k = 0; k < ARRAY_LEN(order); k++) {
		int32_t at = i->g[order[k].kind];
		const struct fleet_group *g = at >= 0 ? &m->groups[at] : NULL;
		int64_t takes = order[k].kind == FG_QUOTA ? i->need : 1;

		if (g != NULL && g->cap < FLEET_NONE && g->used + takes > g->cap) {
			*ret_group = at;
			return order[k].limit;
		}
	}
	return 0;
}

bool fleet_room(const struct fleet_model *m, const struct fleet_item *i)
{
	int32_t unused;

	return i->score != NULL && i->x >= i->held && fleet_blocked(m, i, &unused) == 0;
}

bool fleet_wanted(const struct fleet_model *m, const struct fleet_item *i)
{
	return m->total < m->want || (i->fw > 0 && m->floor_have < m->floor);
}

bool fleet_needless(const struct fleet_model *m, const struct fleet_item *i)
{
	return m->total - i->w >= m->want && (i->fw == 0 || m->floor_have - i->fw >= m->floor);
}

bool fleet_sane(const struct fleet_model *m)
{
	if (m->added == 0 || m->total < m->want + m->w_min) {
		return true;
	}
	for (size_t k = 0; k < m->n; k++) {
		if (m->items[k].x > m->items[k].held && fleet_needless(m, &m->items[k])) {
			return false;
		}
	}
	return true;
}

void fleet_value(const struct fleet_model *m, struct fleet_value *ret)
{
	*ret = (struct fleet_value){ .missing = MAX(m->want - m->total, 0),
		.floor_short = MAX(m->floor - m->floor_have, 0),
		.pools_short = MAX(m->pools_want - m->pools, 0) };
}

int fleet_value_compare(const struct fleet_value *a, const struct fleet_value *b)
{
	double near = 1e-9 * fmax(fabs(a->cost), fabs(b->cost));

	if (a->missing != b->missing) {
		return a->missing < b->missing ? -1 : 1;
	}
	if (a->floor_short != b->floor_short) {
		return a->floor_short < b->floor_short ? -1 : 1;
	}
	if (a->pools_short != b->pools_short) {
		return a->pools_short < b->pools_short ? -1 : 1;
	}
	return a->cost < b->cost - near ? -1 : a->cost > b->cost + near;
}

double fleet_cost(const struct fleet_model *m, double *ret_risk)
{
	double cost = 0, risk = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct fleet_item *x = &m->items[i];

		cost += x->c * x->x;
		risk += m->delta[FLEET_LEVELS] * x->q * x->q * x->x * x->x - x->q * x->q * x->x;
	}
	for (size_t i = 0; i < m->groups_n; i++) {
		const struct fleet_group *g = &m->groups[i];

		risk += g->kind <= FG_FAMILY ? m->delta[g->kind] * g->s * g->s : 0;
	}
	risk = fmax(risk, 0) * m->kappa;
	if (ret_risk != NULL) {
		*ret_risk = risk;
	}
	return cost + risk;
}
