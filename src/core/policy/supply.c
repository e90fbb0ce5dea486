/* Fail-over to on-demand and return to spot: the rules are in supply.h. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/policy/supply.h"

#include <math.h>
#include <string.h>

void supply_policy_default(struct supply_policy *p)
{
	*p = (struct supply_policy){
		.patience_us = 600 * SPOT_US_PER_S,
		.patience_max_share_pm = 250,
		.return_hold_us = 300 * SPOT_US_PER_S,
		.return_probe_us = 300 * SPOT_US_PER_S,
		.return_margin_pm = 200,
		.moves_per_hour_max = 4,
		.changeover_us = 240 * SPOT_US_PER_S,
		.tight_patience_pm = 250,
	};
}

static int64_t slack_us(const struct supply_in *in, const struct supply_policy *p)
{
	if (in->deadline_us == 0) {
		return INT64_MAX;
	}
	return in->deadline_us - in->now_us - in->work_left_us - p->changeover_us;
}

static int64_t patience_us(const struct supply_in *in, const struct supply_policy *p, int64_t slack)
{
	/* While supply is tight everybody waits for the same machines, so a long wait rarely
	 * pays. */
	int64_t whole =
	    in->spot_tight ? p->patience_us / 1000 * p->tight_patience_pm : p->patience_us;

	return slack == INT64_MAX
	    ? whole
	    : MIN(slack <= 0 ? 0 : slack / 1000 * p->patience_max_share_pm, whole);
}

static enum supply_choice choose_spot(struct arena *a, const struct supply_in *in, int64_t slack,
    int64_t wait, const char **ret_why)
{
	bool on_demand = in->on_demand_allowed && in->on_demand_usable > 0;
	char text[32], waited[32];

	/* Pools are left to try, but all tries so far were refused. Trying all of them is waiting
	 * too. */
	if (on_demand && in->spot_refused > 0 && in->now_us - in->queued_us >= wait) {
		*ret_why = arena_printf(a,
		    "no spot for %s (%zu pools refused), patience is %s: fail over to on-demand",
		    format_duration(in->now_us - in->queued_us, waited), in->spot_refused,
		    format_duration(wait, text));
		return SUPPLY_ON_DEMAND;
	}

	if (on_demand && slack <= 0) {
		*ret_why = arena_printf(a,
		    "last safe moment: if spot were lost, on-demand would be %s too late",
		    format_duration(-slack, text));
		return SUPPLY_ON_DEMAND;
	}
	if (on_demand && in->on_demand_best_micros > 0 &&
	    in->on_demand_best_micros <= in->spot_best_micros) {
		*ret_why = arena_printf(a, "on-demand finishes for %.4f USD, spot for %.4f",
		    (double)in->on_demand_best_micros / 1e6, (double)in->spot_best_micros / 1e6);
		return SUPPLY_ON_DEMAND;
	}
	*ret_why = arena_printf(a,
	    "%zu spot pools suit; best finishes for %.4f USD, on-demand for %.4f", in->spot_usable,
	    (double)in->spot_best_micros / 1e6, (double)in->on_demand_best_micros / 1e6);
	return SUPPLY_SPOT;
}

enum supply_choice supply_choose(struct arena *a, const struct supply_in *in,
    const struct supply_policy *p, const char **ret_why, int64_t *ret_until_us)
{
	bool on_demand = in->on_demand_allowed && in->on_demand_usable > 0;
	int64_t slack = slack_us(in, p);
	int64_t wait = patience_us(in, p, slack);
	char waited[32], whole[32];

	*ret_until_us = in->now_us;
	if (in->spot_allowed && in->spot_usable > 0) {
		/* Losing spot costs one more changeover before on-demand can begin. */
		return choose_spot(a, in, slack == INT64_MAX ? slack : slack - p->changeover_us,
		    wait, ret_why);
	}
	if (!in->spot_allowed) {
		*ret_why = on_demand ? "spot is not allowed for this job, or nobody sells it"
				     : "no on-demand pool suits now";
		*ret_until_us = in->now_us + 30 * SPOT_US_PER_S;
		return on_demand ? SUPPLY_ON_DEMAND : SUPPLY_WAIT;
	}
	format_duration(in->now_us - in->queued_us, waited);
	format_duration(wait, whole);
	if (on_demand && in->now_us - in->queued_us >= wait) {
		*ret_why = arena_printf(a, "no spot for %s, patience is %s: fail over to on-demand",
		    waited, whole);
		return SUPPLY_ON_DEMAND;
	}
	*ret_until_us = MAX(in->queued_us + wait, in->now_us + SPOT_US_PER_S);
	*ret_why = in->on_demand_allowed
	    ? arena_printf(a, "no spot pool suits now; waiting up to %s before on-demand", whole)
	    : "no spot pool suits now and on-demand is not allowed";
	if (in->on_demand_allowed && in->on_demand_usable == 0) {
		*ret_why = "no pool suits now, neither spot nor on-demand";
		*ret_until_us = in->now_us + 15 * SPOT_US_PER_S;
	}
	return SUPPLY_WAIT;
}

int64_t return_pause_us(const struct supply_policy *p, int32_t refused)
{
	const struct backoff pauses = { .first_us = p->return_probe_us,
		.cap_us = MAX(SPOT_US_PER_HOUR, p->return_probe_us) };

	return backoff_wait_us(&pauses, refused, NULL);
}

/* Returns the cost of the move: both machines are paid while the other boots and is held. Work done
 * here meanwhile saves work there, at most at the speed here. The total of the other already
 * contains one start. */
static int64_t move_cost(const struct return_in *in, const struct supply_policy *p)
{
	double both_h = (double)(p->changeover_us + p->return_hold_us) / (double)SPOT_US_PER_HOUR;
	double start_h = (double)p->changeover_us / (double)SPOT_US_PER_HOUR,
	       speed = in->speed > 0 ? in->speed : 1;
	double there_h = both_h * (1 - 1 / speed) - start_h;

	return (int64_t)fmax((double)in->here_price_micros * both_h +
		(double)in->there_price_micros * there_h,
	    0);
}

struct return_in return_pair(int64_t now_us, const struct score *here, const struct score *there)
{
	return (struct return_in){
		.now_us = now_us,
		.work_left_us = (int64_t)(here->hours * (double)SPOT_US_PER_HOUR),
		.here_total_micros = here->total_micros,
		.there_total_micros = there != NULL ? there->total_micros : 0,
		.there_price_micros = there != NULL ? there->price_micros : 0,
		.here_price_micros = here->price_micros,
		.speed = there != NULL ? there->throughput / here->throughput : 0,
	};
}

/* Returns the saving beyond the cost and the margin. */
static double move_gain(int64_t saving, int64_t cost, const struct supply_policy *p)
{
	return (double)saving - (double)cost * (double)(1000 + p->return_margin_pm) / 1000;
}

double return_share(const struct offer *o, const struct offer *const *refused, size_t n)
{
	int halves = 0;

	for (size_t i = 0; i < n; i++) {
		if (refused[i]->pool_id == o->pool_id) {
			halves += 2;
		} else if (strcmp(refused[i]->region, o->region) == 0 &&
		    strcmp(refused[i]->gpu_name, o->gpu_name) == 0 &&
		    strcmp(refused[i]->provider, o->provider) == 0) {
			halves += 1;
		}
	}
	return exp2(-halves / 2.0);
}

const struct score *return_probe(const struct score *const *there, size_t n,
    const struct score *here, const struct offer *const *refused, size_t refused_n,
    const struct supply_policy *p)
{
	const struct score *best = NULL;
	double most = 0;

	for (size_t i = 0; i < n; i++) {
		struct return_in in = return_pair(0, here, there[i]);
		double gain =
		    move_gain(in.here_total_micros - in.there_total_micros, move_cost(&in, p), p);

		gain = gain > most ? gain * return_share(there[i]->offer, refused, refused_n) : 0;
		if (gain > most) {
			most = gain;
			best = there[i];
		}
	}
	return best;
}

void return_decide(struct arena *a, const struct return_in *in, const struct supply_policy *p,
    struct return_out *ret)
{
	int64_t pause = return_pause_us(p, in->probes_refused);

	*ret = (struct return_out){ .again_us = in->now_us + pause };
	ret->saving_micros = in->here_total_micros - in->there_total_micros;
	ret->cost_micros = move_cost(in, p);
	if (in->there_total_micros <= 0) {
		ret->why = "no spot pool suits";
		return;
	}
	if (in->moves_last_hour >= p->moves_per_hour_max) {
		ret->why =
		    arena_printf(a, "%d moves in the last hour: the limit", in->moves_last_hour);
		return;
	}
	if (in->last_probe_us > 0 && in->now_us - in->last_probe_us < pause) {
		ret->again_us = in->last_probe_us + pause;
		ret->why = "the last probe for spot is too recent";
		return;
	}
	if (in->last_move_us > 0 && in->now_us - in->last_move_us < p->return_hold_us) {
		ret->again_us = in->last_move_us + p->return_hold_us;
		ret->why = "it moved only just now";
		return;
	}
	if (in->there_tight) {
		ret->why = "supply there is tight: it goes back when that has eased";
		return;
	}
	if (ret->saving_micros <= 0 || move_gain(ret->saving_micros, ret->cost_micros, p) <= 0) {
		ret->why = arena_printf(a, "saves %.4f USD, the move costs %.4f: not worth it",
		    (double)ret->saving_micros / 1e6, (double)ret->cost_micros / 1e6);
		return;
	}
	ret->move = true;
	ret->why = arena_printf(a, "saves %.4f USD over the remaining work, the move costs %.4f",
	    (double)ret->saving_micros / 1e6, (double)ret->cost_micros / 1e6);
}
