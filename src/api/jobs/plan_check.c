/* Warnings and the note of a plan, and the check whether submitting its file would be refused. */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"
#include "base/text/text.h"

static void warn_add(struct areq *q, struct planned *p, const char *text)
{
	const char **all = arena_array(q->arena, p->warnings_n + 1, sizeof(*all));

	for (size_t i = 0; i < p->warnings_n; i++) {
		all[i] = p->warnings[i];
	}
	all[p->warnings_n++] = text;
	p->warnings = all;
}

/* A budget that does not pay for the work is said now, not when it is used up. Work that nobody
 * declared is a guess, and no reason. */
static void budget_warn(struct areq *q, struct planned *p)
{
	const struct score *best = p->spec->budget_micros > 0 && p->spec->work_s > 0
	    ? plan_best(p, SPOT_MARKET_NONE)
	    : NULL;
	struct score whole;

	if (best == NULL) {
		return;
	}
	whole = plan_whole(p, best);
	if (whole.total_micros <= p->spec->budget_micros) {
		return;
	}
	warn_add(q, p,
	    arena_printf(q->arena,
		"budget: %.4f USD do not pay for this work. The best offer now, %s %s %s %s at "
		"%.4f USD/h, is expected to need %.4f USD to the end. The job would save, stop and "
		"be parked before that: set budget to %.4f USD or more, or correct 'work'",
		(double)p->spec->budget_micros / 1e6, best->offer->provider,
		*best->offer->zone ? best->offer->zone : best->offer->region,
		best->offer->instance_type, spot_market_name(best->offer->market),
		(double)best->price_micros / 1e6, (double)whole.total_micros / 1e6,
		(double)whole.total_micros / 1e6));
}

/* Warns of parts that need an object store when there is none, or another cloud's. A job that saves
 * runs all the same. One with mounts is planned, and refused at submit. */
static void store_warn(struct areq *q, struct planned *p)
{
	const char *store = q->api->conf.store;
	struct spot_err err = { 0 };

	if (store && jobspec_store_check(p->spec, store, &err) != SPOT_OK) {
		warn_add(q, p, arena_strdup(q->arena, err.text));
	}
	if (store && !*store && p->spec->checkpoint.path) {
		warn_add(q, p,
		    "checkpoint: the daemon has no object store ([checkpoint] store of its "
		    "configuration file). Saves are lost with the machine, and after a reclaim "
		    "the job begins anew");
	}
}

/* The tier is a wish: the places that cannot have it are offered all the same. */
static void network_warn(struct areq *q, struct planned *p)
{
	if (p->spec->together) {
		warn_add(q, p,
		    p->spec->num_nodes > 1
			? "network_tier: best places the machines close to each other on AWS, "
			  "Google Cloud and Azure. On other providers it has no effect"
			: "network_tier: best has no effect on a job of one node");
	}
}

void plan_warnings(struct areq *q, struct planned *p)
{
	network_warn(q, p);
	store_warn(q, p);
	budget_warn(q, p);
}

static json_t *baseline_of(const struct score *s)
{
	return json_pack("{s:o, s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:f, s:I}", "pool",
	    json_sprintf("p%d", s->offer->pool_id), "gpu", s->offer->gpu_name, "gpu_milli",
	    s->offer->gpu_milli, "provider", s->offer->provider, "region", s->offer->region,
	    "instance_type", s->offer->instance_type, "market", spot_market_name(s->offer->market),
	    "price_micros", (json_int_t)s->offer->price_micros, "hours", s->hours, "total_micros",
	    (json_int_t)s->total_micros);
}

json_t *plan_baseline(const struct planned *p)
{
	const struct score *cheapest = plan_cheapest_listed(p),
			   *on_demand = plan_best(p, SPOT_MARKET_ON_DEMAND);
	json_t *doc = json_object();

	json_object_set_new(doc, "cheapest", cheapest ? baseline_of(cheapest) : json_null());
	json_object_set_new(doc, "on_demand", on_demand ? baseline_of(on_demand) : json_null());
	return doc;
}

/* The first GPU asked for whose name nobody knows; NULL: all are known. */
static const char *strange_gpu(const struct job_spec *s)
{
	for (size_t i = 0; i < s->asks_n; i++) {
		for (size_t k = 0; k < s->asks[i].gpus_n; k++) {
			if (!gpu_perf_find(s->asks[i].gpus[k].gpu)) {
				return s->asks[i].gpus[k].gpu;
			}
		}
	}
	return NULL;
}

/* Suits, and has no room for all of them. */
static const struct refused *refused_for_quota(const struct planned *p)
{
	for (size_t i = 0; i < p->all.ranking.refused_n; i++) {
		if (p->all.ranking.refused[i].why == REFUSED_QUOTA) {
			return &p->all.ranking.refused[i];
		}
	}
	return NULL;
}

static const char *gang_note(struct areq *q, struct planned *p)
{
	int n = p->spec->num_nodes;
	const struct refused *x = refused_for_quota(p);
	const struct score *best = plan_best(p, SPOT_MARKET_NONE);
	struct score whole;

	if (best == NULL && x != NULL) {
		return arena_printf(q->arena, "no zone has room for %d nodes together: %s", n,
		    refusal_words(q->arena, &p->all.ranking, x));
	}
	if (best == NULL && p->all.gang_n > 0) {
		return arena_printf(q->arena, "no zone can give %d nodes together now: %s", n,
		    p->all.gang[0].refused);
	}
	if (best == NULL) {
		return arena_printf(q->arena, "none of %zu pools suits; see refused",
		    p->market.offers_n);
	}
	whole = plan_whole(p, best);
	if (whole.hours > p->within_h) {
		return arena_printf(q->arena,
		    "%d nodes on the fastest pool need %.1f hours and would miss the deadline", n,
		    whole.hours);
	}
	return "";
}

const char *plan_note(struct areq *q, struct planned *p)
{
	const struct score *best;

	if (p->spec->num_nodes > 1 && p->market.offers_n > 0) {
		return gang_note(q, p);
	}
	if (p->market.offers_n == 0 && strange_gpu(p->spec)) {
		return arena_printf(q->arena,
		    "no pool has a GPU named %s, and none of that name is known: GET /v1/gpus "
		    "(spotctl gpus) has the names",
		    strange_gpu(p->spec));
	}
	if (p->market.offers_n == 0) {
		return "no pool with these GPUs is known yet: prices may still be arriving (GET "
		       "/v1/providers)";
	}
	best = plan_best(p, SPOT_MARKET_NONE);
	if (best == NULL) {
		return arena_printf(q->arena, "none of %zu pools suits; see refused",
		    p->market.offers_n);
	}
	if (best->hours > p->within_h) {
		return arena_printf(q->arena,
		    "the fastest offer needs %.1f hours and would miss the deadline", best->hours);
	}
	return "";
}

/* ---- at submit ------------------------------------------------------------------------------- */

bool plan_team_refused(struct areq *q, const char *team, struct spot_err *err)
{
	if (!*q->who.team || q->who.scope >= SCOPE_LEAD || strcmp(team, q->who.team) == 0) {
		return false;
	}
	err_set(err, SPOT_DENIED,
	    "token '%s' is limited to team '%s', and the job belongs to team '%s'; ask a lead",
	    q->who.name, q->who.team, *team ? team : "(none)");
	return true;
}

/* A deadline that cannot be met is refused now, with the one that can be; not missed on Friday. */
static bool deadline_refused(const struct planned *p, struct spot_err *err)
{
	const struct job_spec *s = p->spec;
	char end[TIME_TEXT_MAX], took[32];
	struct score f;
	int64_t need;

	if (s->deadline_us == 0 || s->work_s <= 0 || !placement_soonest(&p->facts, &p->all, &f)) {
		return false;
	}
	need = (int64_t)(f.hours * (double)SPOT_US_PER_HOUR) +
	    p->policy.rank.restart_s * SPOT_US_PER_S;
	if (p->begin_us + need <= s->deadline_us) {
		return false;
	}
	err_set(err, SPOT_INVALID,
	    "cannot be met: the fastest offer (%s %s %s %s at %.4f USD/h) takes %s including its "
	    "start. It finishes at %s for about %.2f USD. Set a later deadline, ask for faster "
	    "GPUs, or correct 'work'",
	    f.offer->provider, *f.offer->zone ? f.offer->zone : f.offer->region,
	    f.offer->instance_type, spot_market_name(f.offer->market), (double)f.price_micros / 1e6,
	    format_duration(need, took), format_time_s(p->begin_us + need, end),
	    (double)f.total_micros / 1e6);
	return true;
}

/* No pool can ever take it, as far as every provider has told its pools. A fleet has its own. */
static bool pools_refused(const struct planned *p, struct spot_err *err)
{
	const char *never;

	if (!p->market_known || p->spec->fleet != NULL) {
		return false;
	}
	if (p->market.offers_n == 0) {
		const char *gpu = strange_gpu(p->spec);

		err_set(err, SPOT_INVALID,
		    "no pool of any provider has %s%s%s: ask for a GPU that is sold (spotctl gpus "
		    "has the names, spotctl prices what is sold)",
		    gpu ? "a GPU named " : "such a GPU", gpu ? gpu : "",
		    gpu ? ", and none of that name is known" : "");
		return true;
	}
	never = p->answer != NULL ? p->answer->never : placement_never(&p->in, p->spec);
	if (never != NULL) {
		err_set(err, SPOT_INVALID, "%s", never);
	}
	return never != NULL;
}

bool plan_refused(struct areq *q, const struct planned *p, struct spot_err *err,
    const char **ret_field)
{
	*ret_field = NULL;
	if (q->api->conf.store &&
	    jobspec_store_check(p->spec, q->api->conf.store, err) != SPOT_OK) {
		return true;
	}
	if (plan_team_refused(q, *p->spec->team ? p->spec->team : q->who.team, err)) {
		return true;
	}
	if (deadline_refused(p, err)) {
		*ret_field = "config.spotctl.deadline";
		return true;
	}
	if (pools_refused(p, err)) {
		*ret_field = "resources";
		return true;
	}
	return false;
}
