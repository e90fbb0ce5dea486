/* Simulates deadline policies over recorded supply. The model's rules are in the header. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/trace/trace.h"

#define JOB_TICKS_MAX 100000

static int64_t common_divisor(int64_t a, int64_t b)
{
	return b == 0 ? a : common_divisor(b, a % b);
}

struct trace_unit trace_unit_of(int64_t tick_us)
{
	int64_t whole = common_divisor(tick_us, SPOT_US_PER_HOUR);

	return (struct trace_unit){ tick_us / whole, SPOT_US_PER_HOUR / whole };
}

int64_t trace_unit_micros(const struct trace_unit *u, int64_t units)
{
	return units / u->den + (units % u->den * 2 >= u->den);
}

static int64_t ticks_up(int64_t us, int64_t tick_us)
{
	return (us + tick_us - 1) / tick_us;
}

static enum spot_rc check_gaps(const struct trace *supply, size_t n, struct spot_err *err)
{
	if (n == 0 || n > TRACE_POOLS_MAX) {
		return err_set(err, SPOT_INVALID, "%zu traces: 1 to %d are understood", n,
		    TRACE_POOLS_MAX);
	}
	for (size_t i = 1; i < n; i++) {
		if (supply[i].gap_us != supply[0].gap_us) {
			return err_set(err, SPOT_INVALID,
			    "%s has a sample each %" PRId64 " s, %s each %" PRId64
			    " s: zones of one market need the same gap",
			    supply[0].name, supply[0].gap_us / SPOT_US_PER_S, supply[i].name,
			    supply[i].gap_us / SPOT_US_PER_S);
		}
	}
	return SPOT_OK;
}

static size_t ticks_shortest(const struct trace *supply, const struct trace *const *prices,
    size_t n, const char **ret_name)
{
	size_t ticks = SIZE_MAX;

	assert(supply != NULL);
	for (size_t i = 0; i < 2 * n; i++) {
		const struct trace *t = i % 2 == 0 ? &supply[i / 2]
		    : prices != NULL               ? prices[i / 2]
						   : NULL;
		size_t own;

		if (t == NULL) {
			continue;
		}
		own = (size_t)ticks_up((int64_t)t->n * t->gap_us, supply[0].gap_us);
		*ret_name = own < ticks ? t->name : *ret_name;
		ticks = MIN(ticks, own);
	}
	return ticks;
}

static int32_t region_of(const struct trace *supply, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (strcmp(supply[k].region, supply[i].region) == 0) {
			return (int32_t)k;
		}
	}
	return (int32_t)i;
}

enum spot_rc trace_market_build(struct arena *a, const struct trace *supply,
    const struct trace *const *prices, size_t n, int64_t nodes, int64_t spot_micros,
    struct trace_market *ret, struct spot_err *err)
{
	enum spot_rc rc = check_gaps(supply, n, err);
	const char *ends_first = NULL;
	size_t ticks = ticks_shortest(supply, prices, n, &ends_first);
	uint8_t *up;
	int64_t *price;
	int32_t *regions;

	if (rc != SPOT_OK) {
		return rc;
	}
	up = arena_array(a, ticks * n, sizeof(*up));
	price = arena_array(a, ticks * n, sizeof(*price));
	regions = arena_array(a, n, sizeof(*regions));
	*ret = (struct trace_market){ .tick_us = supply[0].gap_us,
		.ticks = ticks,
		.pools_n = n,
		.up = up,
		.price_micros = price,
		.pool_up = arena_array(a, n, sizeof(*ret->pool_up)),
		.pool_price = arena_array(a, n, sizeof(*ret->pool_price)),
		.regions = regions,
		.ends_first = ends_first };
	for (size_t k = 0; k < n; k++) {
		const struct trace *p = prices != NULL ? prices[k] : NULL;
		int64_t *own = arena_array(a, ticks, sizeof(*own));

		regions[k] = region_of(supply, k);
		ret->pool_up[k] = trace_up(a, &supply[k], nodes);
		for (size_t i = 0; i < ticks; i++) {
			own[i] = p != NULL ? p->price_micros[(int64_t)i * ret->tick_us / p->gap_us]
					   : spot_micros;
			price[i * n + k] = own[i];
			up[i * n + k] = ret->pool_up[k][i];
		}
		ret->pool_price[k] = own;
	}
	return SPOT_OK;
}

/* Returns the ticks of a run. Only a job that needs all of its time may use the last piece of a
 * tick before the deadline. */
size_t trace_job_ticks(const struct trace_market *m, const struct trace_job *j)
{
	int64_t whole = j->deadline_us / m->tick_us;

	return (size_t)(whole * m->tick_us < j->work_us + j->changeover_us ? whole + 1 : whole);
}

size_t trace_starts(const struct trace_market *m, const struct trace_job *j)
{
	size_t n = trace_job_ticks(m, j);

	return n <= m->ticks ? m->ticks - n + 1 : 0;
}

enum spot_rc trace_job_check(const struct trace_market *m, const struct trace_job *j,
    struct spot_err *err)
{
	char need[32], have[32];

	if (j->work_us <= 0 || j->changeover_us < 0 || j->on_demand_micros <= 0 ||
	    j->transfer_micros < 0) {
		return err_set(err, SPOT_INVALID,
		    "work and on-demand price must be above 0, changeover and transfer fee not "
		    "below");
	}
	if (j->work_us + j->changeover_us > j->deadline_us) {
		return err_set(err, SPOT_INVALID,
		    "the deadline of %s cannot be kept even on demand: work and one changeover "
		    "need %s",
		    format_duration(j->deadline_us, have),
		    format_duration(j->work_us + j->changeover_us, need));
	}
	if (trace_job_ticks(m, j) > JOB_TICKS_MAX) {
		return err_set(err, SPOT_TOO_LARGE, "a run of %zu ticks; at most %d are simulated",
		    trace_job_ticks(m, j), JOB_TICKS_MAX);
	}
	if (trace_starts(m, j) == 0) {
		return err_set(err, SPOT_INVALID,
		    "the trace is too short: %s ends after %s, the deadline is %s", m->ends_first,
		    format_duration((int64_t)m->ticks * m->tick_us, have),
		    format_duration(j->deadline_us, need));
	}
	return SPOT_OK;
}

int64_t trace_on_demand_cost(const struct trace_market *m, const struct trace_job *j)
{
	struct trace_unit u = trace_unit_of(m->tick_us);

	return trace_unit_micros(&u,
	    ticks_up(j->work_us + j->changeover_us, m->tick_us) * j->on_demand_micros * u.num);
}

struct run {
	const struct trace_market *m;
	const struct trace_job *j;
	struct trace_unit unit;
	struct policy_view view;
	/* a copy of this tick's, so a policy cannot read the future */
	uint8_t *up;
	int64_t *price;
	int64_t spot, on_demand, transfer; /* in units */
	bool done;
	struct trace_run *out;
};

/* Returns the tracks of the pools before the start, then the others. */
static const struct policy_track *tracks_of(struct arena *a, const struct trace_market *m,
    size_t start, const struct policy_track *history, size_t history_n, size_t *ret_n)
{
	struct policy_track *t = arena_array(a, m->pools_n + history_n + 1, sizeof(*t));
	size_t n = 0;

	for (size_t k = 0; start > 0 && k < m->pools_n; k++) {
		t[n++] = (struct policy_track){ .pool = (int32_t)k,
			.tick_us = m->tick_us,
			.n = start,
			.up = m->pool_up[k],
			.price_micros = m->pool_price[k] };
	}
	if (history_n > 0) {
		memcpy(t + n, history, history_n * sizeof(*t));
	}
	*ret_n = n + history_n;
	return t;
}

static void see_tick(struct run *r, size_t tick, size_t i)
{
	size_t n = r->m->pools_n;

	memcpy(r->up, r->m->up + tick * n, n * sizeof(*r->up));
	memcpy(r->price, r->m->price_micros + tick * n, n * sizeof(*r->price));
	r->view.elapsed_us = (int64_t)i * r->m->tick_us;
	if (r->view.held == POLICY_SPOT && !r->up[r->view.held_pool]) {
		r->view.held = POLICY_WAIT;
		r->view.changeover_left_us = 0;
	}
}

static void start_instance(struct run *r, const struct policy_choice *c)
{
	struct policy_view *v = &r->view;

	if (c->act == v->held && (c->act != POLICY_SPOT || c->pool == v->held_pool)) {
		return;
	}
	v->held = c->act;
	v->held_pool = c->act == POLICY_SPOT ? c->pool : 0;
	v->changeover_left_us = c->act == POLICY_WAIT ? 0 : r->j->changeover_us;
	r->out->changeovers += c->act != POLICY_WAIT;
	if (c->act == POLICY_SPOT) {
		if (v->last_pool != SIZE_MAX &&
		    r->m->regions[v->last_pool] != r->m->regions[c->pool]) {
			r->transfer += r->j->transfer_micros * r->unit.den;
		}
		v->last_pool = c->pool;
	}
}

/* Runs one tick on the held instance. */
static void pass_tick(struct run *r)
{
	struct policy_view *v = &r->view;
	int64_t lost = MIN(v->changeover_left_us, r->m->tick_us), rest = r->j->work_us - v->done_us;

	if (v->held == POLICY_WAIT) {
		r->out->wait_ticks++;
		return;
	}
	if (v->held == POLICY_SPOT) {
		r->spot += r->price[v->held_pool] * r->unit.num;
		r->out->spot_ticks++;
	} else {
		r->on_demand += r->j->on_demand_micros * r->unit.num;
		r->out->on_demand_ticks++;
	}
	v->changeover_left_us -= lost;
	if (rest <= r->m->tick_us - lost) {
		r->done = true;
		r->out->finish_us = v->elapsed_us + lost + rest;
		v->done_us = r->j->work_us;
		return;
	}
	v->done_us += r->m->tick_us - lost;
}

/* Past the deadline the rest runs on demand, without the policy. */
static void finish_late(struct run *r)
{
	int64_t left = r->j->work_us - r->view.done_us;

	if (r->view.held != POLICY_ON_DEMAND) {
		r->view.changeover_left_us = r->j->changeover_us;
		r->out->changeovers++;
	}
	left += r->view.changeover_left_us;
	r->out->finish_us = r->view.elapsed_us + r->m->tick_us + left;
	r->on_demand += ticks_up(left, r->m->tick_us) * r->j->on_demand_micros * r->unit.num;
	/* their ticks are after the end of the log */
}

static enum spot_rc refuse_choice(const struct policy *p, size_t tick,
    const struct policy_choice *c, struct spot_err *err)
{
	return err_set(err, SPOT_INTERNAL,
	    "policy %s chose what it cannot have in tick %zu: %s of pool %zu", p->name, tick,
	    c->act == POLICY_SPOT ? "spot" : "something unknown", c->pool);
}

static void close_run(struct run *r)
{
	struct trace_run *o = r->out;

	o->cost_micros = trace_unit_micros(&r->unit, r->spot + r->on_demand + r->transfer);
	o->spot_micros = trace_unit_micros(&r->unit, r->spot);
	o->on_demand_micros = trace_unit_micros(&r->unit, r->on_demand);
	o->transfer_micros = trace_unit_micros(&r->unit, r->transfer);
	o->missed = o->finish_us > r->j->deadline_us;
}

enum spot_rc trace_run_policy(struct arena *a, const struct trace_market *m,
    const struct trace_job *j, size_t start, const struct policy *p,
    const struct policy_track *history, size_t history_n, bool want_steps, struct trace_run *ret,
    struct spot_err *err)
{
	struct policy_setup s = { .work_us = j->work_us,
		.deadline_us = j->deadline_us,
		.changeover_us = j->changeover_us,
		.tick_us = m->tick_us,
		.on_demand_micros = j->on_demand_micros,
		.pools_n = m->pools_n,
		.regions = m->regions,
		.transfer_micros = j->transfer_micros };
	struct trace_run out = { .start = start };
	struct run r = { .m = m,
		.j = j,
		.unit = trace_unit_of(m->tick_us),
		.out = &out,
		.up = arena_array(a, m->pools_n, sizeof(*r.up)),
		.price = arena_array(a, m->pools_n, sizeof(*r.price)) };
	size_t n = trace_job_ticks(m, j), tracks_n;
	const struct policy_track *tracks = tracks_of(a, m, start, history, history_n, &tracks_n);
	void *state = p->begin(a, &s, tracks, tracks_n);

	r.view = (struct policy_view){ .held = POLICY_WAIT,
		.last_pool = SIZE_MAX,
		.up = r.up,
		.price_micros = r.price };
	out.steps = want_steps ? arena_array(a, n, sizeof(*out.steps)) : NULL;
	for (size_t i = 0; i < n && !r.done; i++) {
		struct policy_choice c = { .act = POLICY_WAIT };
		struct policy_view seen;

		see_tick(&r, start + i, i);
		seen = r.view;
		p->decide(state, &seen, &c);
		if (c.act < POLICY_WAIT || c.act > POLICY_ON_DEMAND ||
		    (c.act == POLICY_SPOT && (c.pool >= m->pools_n || !r.up[c.pool]))) {
			return refuse_choice(p, start + i, &c, err);
		}
		if (want_steps) {
			out.steps[i] =
			    (struct trace_step){ c.act, c.act == POLICY_SPOT ? (int32_t)c.pool : -1,
				    r.view.done_us, c.why };
		}
		start_instance(&r, &c);
		pass_tick(&r);
	}
	if (!r.done) {
		finish_late(&r);
	}
	close_run(&r);
	*ret = out;
	return SPOT_OK;
}
