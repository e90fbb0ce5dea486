/*
 * CreateFleet of type instant (CreateFleet in the EC2 API reference; EC2 User Guide, "Instant
 * fleets"). One attempt over the pools of the overrides, in the order of the allocation strategy.
 * errorSet lists the refusal of each pool, with status 200. A fleet that lives on (request,
 * maintain) is refused.
 */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

#define POOLS_MAX 300 /* overrides of one fleet */

struct choice {
	struct form f; /* of its launch */
	/* "LaunchTemplateConfigs.1.Overrides.2.", "" = the template as it is */
	const char *at;
	const char *template_id, *version;
	double weight, priority;
	int64_t price, room;
	size_t order;
	/* its outcome */
	const char *code, *words;
	struct inst **made;
	size_t n;
};
struct fleet {
	const char *id;
	bool spot;
	const char *strategy;
	double target, least, got;
	bool one_type, one_zone;
	struct choice *list;
	size_t n;
};

/* ---- parameters ------------------------------------------------------------------------------ */

static const char *member_get(struct ec2 *e, const char *at, const char *name)
{
	return form_get(&e->form, arena_printf(e->rq->arena, "%s%s", at, name));
}

static bool has_below(const struct form *f, const char *prefix)
{
	for (size_t k = 0; k < f->n; k++) {
		if (str_prefix(f->items[k].name, prefix)) {
			return true;
		}
	}
	return false;
}

static double number_read(struct ec2 *e, const char *text, double dflt)
{
	char *end;
	double v = text ? strtod(text, &end) : dflt;

	if (text && (*end || end == text || !(v >= 0 && v < 1e6))) {
		ec2_fail(e, 400, "InvalidParameterValue", "Value (%s) is invalid.", text);
	}
	return v;
}

/* Writes the form of one override: its fields come before those of its template. */
static void override_form(struct ec2 *e, struct choice *c)
{
	static const char *const names[] = { "InstanceType", "SubnetId", "ImageId", "KeyName" };
	struct arena *a = e->rq->arena;
	const char *zone = member_get(e, c->at, "AvailabilityZone"),
		   *id = member_get(e, c->at, "AvailabilityZoneId");

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		form_put(&c->f, a, names[k], member_get(e, c->at, names[k]));
	}
	form_put(&c->f, a, "Placement.AvailabilityZone", zone);
	form_put(&c->f, a, "Placement.AvailabilityZoneId", id);
	c->weight = number_read(e, member_get(e, c->at, "WeightedCapacity"), 1);
	c->priority = number_read(e, member_get(e, c->at, "Priority"), 1e6 - 1);
	if (c->weight < 1) {
		ec2_fail(e, 400, "InvalidFleetConfig", "WeightedCapacity must be at least 1.");
	}
	if (has_below(&e->form, arena_printf(a, "%sInstanceRequirements.", c->at))) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "InstanceRequirements are not supported here; name instance types.");
	}
	form_accept(&e->form, arena_printf(a, "%sPlacement.*", c->at));
}

static void choice_add(struct ec2 *e, struct fleet *fl, const char *config, const char *at)
{
	struct arena *a = e->rq->arena;
	const char *spec = arena_printf(a, "%sLaunchTemplateSpecification.", config);
	struct choice *c = &fl->list[fl->n];
	const char *cap;

	if (fl->n >= POOLS_MAX) {
		ec2_fail(e, 400, "InvalidFleetConfig", "The fleet has more than %d overrides.",
		    POOLS_MAX);
		return;
	}
	*c = (struct choice){ .at = at, .weight = 1, .order = fl->n };
	c->version = member_get(e, spec, "Version");
	if (*at) {
		override_form(e, c);
	}
	c->template_id = template_under(e, member_get(e, spec, "LaunchTemplateId"),
	    member_get(e, spec, "LaunchTemplateName"), c->version, &c->f);
	if (!c->version) {
		ec2_fail(e, 400, "InvalidFleetConfig",
		    "The launch template specification must contain a version.");
	}
	cap = *at ? member_get(e, at, "MaxPrice") : NULL;
	if (has_below(&c->f, "InstanceMarketOptions.")) {
		ec2_fail(e, 400, "InvalidFleetConfig",
		    "A launch template with InstanceMarketOptions cannot be used in an EC2 Fleet.");
	}
	if (fl->spot) {
		form_put(&c->f, a, "InstanceMarketOptions.MarketType", "spot");
		form_put(&c->f, a, "InstanceMarketOptions.SpotOptions.MaxPrice", cap);
	}
	fl->n++;
}

static void read_choices(struct ec2 *e, struct fleet *fl)
{
	struct arena *a = e->rq->arena;

	fl->list = arena_array(a, POOLS_MAX, sizeof(*fl->list));
	for (int k = 1; k <= 50 && !e->failed; k++) {
		const char *config = arena_printf(a, "LaunchTemplateConfigs.%d.", k);
		int overrides = 0;

		if (!has_below(&e->form, config)) {
			break;
		}
		for (int o = 1; o <= POOLS_MAX && !e->failed; o++) {
			const char *at = arena_printf(a, "%sOverrides.%d.", config, o);

			if (!has_below(&e->form, at)) {
				break;
			}
			choice_add(e, fl, config, at);
			overrides++;
		}
		if (overrides == 0) {
			choice_add(e, fl, config, "");
		}
	}
	if (fl->n == 0 && !e->failed) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter LaunchTemplateConfigs");
	}
}

static void read_target(struct ec2 *e, struct fleet *fl)
{
	const char *total = form_get(&e->form, "TargetCapacitySpecification.TotalTargetCapacity");
	const char *dflt =
	    form_get(&e->form, "TargetCapacitySpecification.DefaultTargetCapacityType");
	const char *spot = form_get(&e->form, "TargetCapacitySpecification.SpotTargetCapacity");
	const char *od = form_get(&e->form, "TargetCapacitySpecification.OnDemandTargetCapacity");
	const char *opts;

	form_get(&e->form, "TargetCapacitySpecification.TargetCapacityUnitType");
	if (!total) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter TotalTargetCapacity");
	}
	fl->target = number_read(e, total, 1);
	if (dflt && !str_same(dflt, "spot") && !str_same(dflt, "on-demand")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter DefaultTargetCapacityType is invalid.", dflt);
	}
	if (spot && od && number_read(e, spot, 0) > 0 && number_read(e, od, 0) > 0) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "Spot and On-Demand capacity in one fleet is not supported here.");
	}
	fl->spot = str_same(dflt, "spot") ? !(number_read(e, od, 0) >= fl->target)
					  : number_read(e, spot, 0) > 0;
	opts = fl->spot ? "SpotOptions." : "OnDemandOptions.";
	fl->strategy = member_get(e, opts, "AllocationStrategy");
	if (!fl->strategy) {
		fl->strategy = "lowest-price";
	}
	fl->one_type = str_same(member_get(e, opts, "SingleInstanceType"), "true");
	fl->one_zone = str_same(member_get(e, opts, "SingleAvailabilityZone"), "true");
	fl->least = number_read(e, member_get(e, opts, "MinTargetCapacity"), 0);
	if (fl->least > 0 && !fl->one_type && !fl->one_zone) {
		ec2_fail(e, 400, "InvalidFleetConfig",
		    "MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone.");
	}
	form_accept(&e->form, "SpotOptions.*");
	form_accept(&e->form, "OnDemandOptions.*");
}

/* ---- the order ------------------------------------------------------------------------------- */

static int by_strategy(const void *x, const void *y, void *ctx)
{
	const char *strategy = ctx;
	const struct choice *a = x, *b = y;
	int c = 0;

	if (str_suffix(strategy, "prioritized")) {
		c = (a->priority > b->priority) - (a->priority < b->priority);
	}
	if (c == 0 && str_prefix(strategy, "capacity-optimized")) {
		c = (a->room < b->room) - (a->room > b->room);
	}
	if (c == 0 &&
	    (str_same(strategy, "lowest-price") || str_prefix(strategy, "price-capacity"))) {
		c = (a->price > b->price) - (a->price < b->price);
	}
	return c ? c : (a->order > b->order) - (a->order < b->order);
}

/* Price per unit of capacity, and room, as the strategies see them. */
static void choice_look(struct ec2 *e, struct fleet *fl, struct choice *c)
{
	struct sim_reply rep;
	struct ec2 in = ec2_inner(e, &c->f, &rep);
	struct run r = { 0 };

	form_put(&in.form, e->rq->arena, "MinCount", "1");
	form_put(&in.form, e->rq->arena, "MaxCount", "1");
	run_read(&in, &r);
	if (!in.failed) {
		run_resolve(&in, &r);
	}
	if (!in.failed) {
		c->price = (int64_t)((double)price_at(&r.pool->price[r.side], sim_wall(e->sim)) /
		    c->weight);
		c->room = pool_free(r.pool, r.side);
	}
	if (!in.failed && fl->one_zone && !r.zone) {
		form_put(&c->f, e->rq->arena, "Placement.AvailabilityZone", r.pool->zone->name);
	}
	run_fini(&r);
}

/* ---- the launches ---------------------------------------------------------------------------- */

static void tag_all(struct ec2 *e, const struct fleet *fl, struct choice *c)
{
	struct arena *a = e->rq->arena;

	for (size_t k = 0; k < c->n; k++) {
		struct inst *i = c->made[k];

		inst_tag_set(&i->tags, &i->tags_n, "aws:ec2:fleet-id", fl->id);
		inst_tag_set(&i->tags, &i->tags_n, "aws:ec2launchtemplate:id", c->template_id);
		inst_tag_set(&i->tags, &i->tags_n, "aws:ec2launchtemplate:version", "1");
		for (int s = 1; s <= 3; s++) {
			const char *spec = arena_printf(a, "TagSpecification.%d.", s);

			if (!str_same(member_get(e, spec, "ResourceType"), "instance")) {
				continue;
			}
			for (int t = 1; t <= 50; t++) {
				const char *at = arena_printf(a, "%sTag.%d.", spec, t);
				const char *key = member_get(e, at, "Key"),
					   *value = member_get(e, at, "Value");

				if (key) {
					inst_tag_set(&i->tags, &i->tags_n, key, value ? value : "");
				}
			}
		}
	}
}

/* As many of the missing instances as the pool has. */
static void try_choice(struct ec2 *e, struct fleet *fl, struct choice *c, double least)
{
	struct arena *a = e->rq->arena;
	double missing = (fl->target - fl->got) / c->weight;
	int64_t want = (int64_t)missing + (missing > (double)(int64_t)missing ? 1 : 0);
	int64_t min = MAX((int64_t)(least / c->weight + 0.999), 1);
	struct sim_reply rep;
	struct ec2 in;
	struct run r = { 0 };

	form_put(&c->f, a, "MinCount", arena_printf(a, "%" PRId64, min));
	form_put(&c->f, a, "MaxCount", arena_printf(a, "%" PRId64, MAX(want, min)));
	in = ec2_inner(e, &c->f, &rep);
	run_read(&in, &r);
	if (!in.failed) {
		run_resolve(&in, &r);
	}
	if (!in.failed) {
		c->n = run_launch(&in, &r, &c->made);
	}
	c->code = in.failed ? rep.code : NULL;
	c->words = in.why;
	fl->got += (double)c->n * c->weight;
	tag_all(e, fl, c);
	run_fini(&r);
}

static void launch_all(struct ec2 *e, struct fleet *fl)
{
	for (size_t k = 0; k < fl->n; k++) {
		choice_look(e, fl, &fl->list[k]);
	}
	qsort_r(fl->list, fl->n, sizeof(*fl->list), by_strategy,
	    arena_strdup(e->rq->arena, fl->strategy));
	for (size_t k = 0; k < fl->n && fl->got < fl->target; k++) {
		/* One type or one zone: a pool that cannot hold enough is passed over. */
		bool one = fl->one_type || fl->one_zone;

		try_choice(e, fl, &fl->list[k], one ? fl->least : 0);
		if (one && fl->got > 0) {
			break;
		}
	}
}

/* ---- the reply ------------------------------------------------------------------------------- */

static void choice_xml(struct ec2 *e, const struct fleet *fl, const struct choice *c)
{
	static const char *const names[][2] = { { "InstanceType", "instanceType" },
		{ "MaxPrice", "maxPrice" }, { "SubnetId", "subnetId" },
		{ "AvailabilityZone", "availabilityZone" },
		{ "WeightedCapacity", "weightedCapacity" }, { "Priority", "priority" },
		{ "ImageId", "imageId" }, { "AvailabilityZoneId", "availabilityZoneId" } };
	struct sbuf *b = &e->out;

	x_open(b, "launchTemplateAndOverrides");
	x_open(b, "launchTemplateSpecification");
	x_text(b, "launchTemplateId", c->template_id);
	x_text(b, "version", "1");
	x_close(b, "launchTemplateSpecification");
	x_open(b, "overrides");
	for (size_t k = 0; k < ARRAY_LEN(names) && *c->at; k++) {
		x_text(b, names[k][1], member_get(e, c->at, names[k][0]));
	}
	x_close(b, "overrides");
	x_close(b, "launchTemplateAndOverrides");
	x_text(b, "lifecycle", fl->spot ? "spot" : "on-demand");
}

static void reply_fleet(struct ec2 *e, const struct fleet *fl)
{
	struct sbuf *b = &e->out;

	ec2_begin(e);
	x_text(b, "fleetId", fl->id);
	x_open(b, "errorSet");
	for (size_t k = 0; k < fl->n; k++) {
		const struct choice *c = &fl->list[k];

		if (!c->code) {
			continue;
		}
		x_open(b, "item");
		choice_xml(e, fl, c);
		x_text(b, "errorCode", c->code);
		x_text(b, "errorMessage", c->words);
		x_close(b, "item");
	}
	x_close(b, "errorSet");
	x_open(b, "fleetInstanceSet");
	for (size_t k = 0; k < fl->n; k++) {
		const struct choice *c = &fl->list[k];

		if (c->n == 0) {
			continue;
		}
		x_open(b, "item");
		choice_xml(e, fl, c);
		x_open(b, "instanceIds");
		for (size_t i = 0; i < c->n; i++) {
			x_text(b, "item", c->made[i]->id);
		}
		x_close(b, "instanceIds");
		x_text(b, "instanceType", c->made[0]->pool->type->name);
		x_close(b, "item");
	}
	x_close(b, "fleetInstanceSet");
}

/* ---- the call -------------------------------------------------------------------------------- */

static void read_fleet(struct ec2 *e, struct fleet *fl)
{
	const char *type = form_get(&e->form, "Type");

	type = type ? type : "maintain";
	if (str_same(type, "request") || str_same(type, "maintain")) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "Fleets of type %s are not supported here; use type instant.", type);
	} else if (!str_same(type, "instant")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter Type is invalid.", type);
	}
	if (form_get(&e->form, "ValidUntil") || form_get(&e->form, "ValidFrom") ||
	    form_get(&e->form, "ExcessCapacityTerminationPolicy")) {
		ec2_fail(e, 400, "InvalidFleetConfig",
		    "ValidFrom, ValidUntil and ExcessCapacityTerminationPolicy are not supported "
		    "for "
		    "fleets of type instant.");
	}
	form_get(&e->form, "TerminateInstancesWithExpiration");
	form_get(&e->form, "ReplaceUnhealthyInstances");
	form_get(&e->form, "Context");
	form_accept(&e->form, "TagSpecification.*");
	read_target(e, fl);
	if (!e->failed) {
		read_choices(e, fl);
	}
	/* Members of a structure without any influence here. */
	form_accept(&e->form, "LaunchTemplateConfigs.*.Overrides.*.MetadataOptions.*");
	form_accept(&e->form, "LaunchTemplateConfigs.*.Overrides.*.IamInstanceProfile.*");
	form_accept(&e->form, "LaunchTemplateConfigs.*.Overrides.*.BlockDeviceMapping.*");
}

void ec2_create_fleet(struct ec2 *e)
{
	const char *token = form_get(&e->form, "ClientToken");
	struct launch_token *t = NULL;
	struct fleet fl = { 0 };

	read_fleet(e, &fl);
	if (!ec2_ready(e)) {
		return;
	}
	if (token && *token) {
		t = token_find(e->sim,
		    arena_printf(e->rq->arena, "fleet|%s|%s", e->rq->region, token), true);
	}
	/* A fleet that got nothing has used up its token too; another request with it is
	 * refused. */
	if (t && t->hash) {
		if (!str_same(t->hash, form_hash(e))) {
			ec2_fail(e, 400, "IdempotentParameterMismatch",
			    "Arguments on this idempotent request are inconsistent with arguments "
			    "used "
			    "in previous request(s).");
		} else {
			sbuf_puts(&e->out, t->reply);
		}
		return;
	}
	fl.id = arena_printf(e->rq->arena, "fleet-%s", sim_id(e->sim, e->rq->arena, "0", 16));
	launch_all(e, &fl);
	reply_fleet(e, &fl);
	for (size_t k = 0; k < fl.n; k++) {
		free(fl.list[k].made);
	}
	if (t && !e->sim->pretend) {
		t->hash = dup_text(form_hash(e));
		sbuf_putc(&e->out, '\0');
		t->reply = dup_text(e->out.p);
		e->out.n--;
	}
}

/* Fleets of type instant are listed only by their ids, and only for a short time; none is kept
 * here. */
void ec2_describe_fleets(struct ec2 *e)
{
	const char **ids;
	size_t n = form_list(&e->form, e->rq->arena, "FleetId", &ids);

	form_accept(&e->form, "Filter.*");
	form_accept(&e->form, "MaxResults");
	form_accept(&e->form, "NextToken");
	if (!ec2_ready(e)) {
		return;
	}
	if (n > 0) {
		ec2_fail(e, 400, "InvalidFleetId.NotFound", "The fleet ID '%s' does not exist",
		    ids[0]);
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "fleetSet");
	x_close(&e->out, "fleetSet");
}
