/*
 * instances.bulkInsert, zonal and regional: one parent operation, a child operation per VM, all or
 * nothing below minCount. Quota is looked at up front (page "Troubleshoot bulk VM creation").
 */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define COUNT_MAX 1000
#define RUNNING_MAX 10

struct pick {
	struct gcp_want want;
	int64_t rank, cap, made; /* cap: maxCount of the zone */
	size_t zone;
};
struct bulk {
	struct gcp_call *c;
	const json_t *props;
	const char *scope, *group;
	struct zone **zones;
	int64_t *caps, *made; /* by zone */
	size_t zones_n;
	struct pick *picks;
	size_t picks_n, picks_cap;
	int64_t count, min_count, created;
	const char *pattern;
	const char **names;
	size_t names_n;
	struct gcp_op *parent;
	struct inst **insts;
	const char *shape;
};

static bool invalid_fail(struct gcp_call *c, const char *field, const char *value, const char *why)
{
	gcp_fail(c, 400, "invalid", "Invalid value for field 'resource.%s': '%s'. %s", field,
	    value ? value : "", why);
	return false;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool pattern_valid(const char *p)
{
	const char *first = strchr(p, '#'), *end;

	if (!first) {
		return false;
	}
	end = first + strspn(first, "#");
	return end - first <= 18 && !strchr(end, '#') && p[0] >= 'a' && p[0] <= 'z' &&
	    strlen(p) <= 63;
}

/* Numbering goes on after the biggest number in use. */
static int64_t pattern_next(struct bulk *b)
{
	const char *first = strchr(b->pattern, '#');
	size_t head = (size_t)(first - b->pattern), n = strspn(first, "#"),
	       tail = strlen(first + n);
	int64_t most = 0, v;

	for (const struct inst *i = b->c->sim->insts; i; i = i->next) {
		size_t len = i->name ? strlen(i->name) : 0;
		const char *digits;

		if (i->cloud != CLOUD_GCP || !gcp_vm(i)->exists || len <= head + tail ||
		    strncmp(i->name, b->pattern, head) != 0 ||
		    !str_same(i->name + len - tail, first + n)) {
			continue;
		}
		digits = arena_strndup(b->c->a, i->name + head, len - head - tail);
		digits += strspn(digits, "0");
		if (parse_i64(digits, 1, INT64_MAX, &v)) {
			most = MAX(most, v);
		}
	}
	return most + 1;
}

static bool read_names(struct bulk *b)
{
	struct gcp_call *c = b->c;
	json_t *per = json_object_get(c->body, "perInstanceProperties"), *one;
	const char *key;
	size_t k = 0;

	b->pattern = gcp_text(c->body, "namePattern");
	if (!b->pattern == !json_object_size(per)) {
		return invalid_fail(c, "namePattern", b->pattern,
		    "Exactly one of namePattern and perInstanceProperties is required.");
	}
	b->names = arena_array(c->a, (size_t)b->count + 1, sizeof(*b->names));
	if (b->pattern) {
		const char *first = strchr(b->pattern, '#');
		int64_t next;

		if (!pattern_valid(b->pattern)) {
			return invalid_fail(c, "namePattern", b->pattern,
			    "Must have one run of at most 18 '#' characters.");
		}
		next = pattern_next(b);
		for (; k < (size_t)b->count; k++) {
			b->names[k] = arena_printf(c->a, "%.*s%0*" PRId64 "%s",
			    (int)(first - b->pattern), b->pattern, (int)strspn(first, "#"),
			    next + (int64_t)k, first + strspn(first, "#"));
		}
		return true;
	}
	if (json_object_size(per) != (size_t)b->count) {
		return invalid_fail(c, "perInstanceProperties", "",
		    "Must have as many entries as count.");
	}
	json_object_foreach (per, key, one) {
		b->names[k] = gcp_text(one, "name") ? gcp_text(one, "name") : key;
		if (!gcp_name_valid(b->names[k])) {
			return invalid_fail(c, "perInstanceProperties", key,
			    "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'");
		}
		for (size_t z = 0; z < b->zones_n; z++) {
			if (!gcp_vm_find(c->sim, b->zones[z]->name, b->names[k])) {
				continue;
			}
			gcp_fail(c, 409, "alreadyExists",
			    "The resource '" GCP_P "zones/%s/instances/%s' already exists",
			    b->zones[z]->name, b->names[k]);
			return false;
		}
		k++;
	}
	return true;
}

/* ---- zones ----------------------------------------------------------------------------------- */

static bool ai_zone(const char *name)
{
	return strlen(gcp_last(name)) > 2 && strstr(name, "-ai") != NULL;
}

static bool zone_listed(const json_t *zones, const char *name)
{
	size_t k;
	json_t *one;

	json_array_foreach (zones, k, one) {
		const char *z = gcp_text(one, "zone");

		if (z && str_same(gcp_last(z), name)) {
			return true;
		}
	}
	return false;
}

static void read_zones(struct bulk *b, const struct zone *only, const struct region *r)
{
	struct gcp_call *c = b->c;
	const json_t *policy = json_object_get(c->body, "locationPolicy");
	const json_t *zones = json_object_get(policy, "zones"),
		     *locations = json_object_get(policy, "locations");

	b->zones = arena_array(c->a, c->g->zones_n, sizeof(struct zone *));
	b->caps = arena_array(c->a, c->g->zones_n, sizeof(*b->caps));
	b->made = arena_array(c->a, c->g->zones_n, sizeof(*b->made));
	for (size_t k = 0; k < c->g->zones_n; k++) {
		struct zone *z = c->g->zones[k].zone;
		const json_t *place =
		    json_object_get(locations, arena_printf(c->a, "zones/%s", z->name));

		if ((only && z != only) || (r && z->region != r)) {
			continue;
		}
		if (r &&
		    (str_same(gcp_text(place, "preference"), "DENY") ||
			(json_array_size(zones) > 0 ? !zone_listed(zones, z->name)
						    : ai_zone(z->name)))) {
			continue;
		}
		b->caps[b->zones_n] =
		    gcp_i64(json_object_get(place, "constraints"), "maxCount", INT64_MAX);
		b->zones[b->zones_n++] = z;
	}
}

/* ---- machines -------------------------------------------------------------------------------- */

static const char *pool_type(struct bulk *b, const char *machine)
{
	const json_t *one = json_array_get(json_object_get(b->props, "guestAccelerators"), 0);

	if (!str_prefix(machine, "n1-") || !gcp_text(one, "acceleratorType")) {
		return machine;
	}
	return arena_printf(b->c->a, "%s+%sx%" PRId64, machine,
	    gcp_last(gcp_text(one, "acceleratorType")), gcp_i64(one, "acceleratorCount", 0));
}

static bool add_machine(struct bulk *b, const char *machine, int64_t rank)
{
	struct gcp_call *c = b->c;
	const char *type = pool_type(b, machine);

	if (!gcp_type_named(c->g, type)) {
		return invalid_fail(c, "instanceProperties.machineType", machine,
		    "Machine type does not exist.");
	}
	for (size_t k = 0; k < b->zones_n; k++) {
		struct pick *p;

		if (!market_pool(c->sim->market, CLOUD_GCP, b->zones[k]->region->name, b->zones[k],
			type)) {
			continue;
		}
		b->picks = arena_grow(c->a, b->picks, b->picks_n, &b->picks_cap, sizeof(*b->picks));
		p = &b->picks[b->picks_n++];
		*p = (struct pick){ .rank = rank,
			.zone = k,
			.want = { .props = b->props,
			    .bulk = true,
			    .machine = machine,
			    .zone = b->zones[k] } };
		if (!gcp_check(c, &p->want, "resource.instanceProperties")) {
			return false;
		}
	}
	return true;
}

static int by_rank(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool read_machines(struct bulk *b)
{
	struct gcp_call *c = b->c;
	json_t *all = json_object_get(json_object_get(c->body, "instanceFlexibilityPolicy"),
	    "instanceSelections");
	const char *machine = gcp_text(b->props, "machineType"), *key;
	json_t *one, *name;
	size_t k;

	if (!machine == !json_object_size(all)) {
		return invalid_fail(c, "instanceProperties.machineType", machine,
		    "Either machineType or instanceFlexibilityPolicy is required.");
	}
	if (machine && !add_machine(b, machine, 0)) {
		return false;
	}
	json_object_foreach (all, key, one) {
		json_array_foreach (json_object_get(one, "machineTypes"), k, name) {
			if (!add_machine(b, json_string_value(name), gcp_i64(one, "rank", 0))) {
				return false;
			}
		}
	}
	if (b->picks_n == 0) {
		return invalid_fail(c, "instanceProperties.machineType", machine ? machine : "",
		    "The machine type does not exist in any zone of the request.");
	}
	qsort(b->picks, b->picks_n, sizeof(*b->picks), by_rank);
	return true;
}

/* ---- making ---------------------------------------------------------------------------------- */

static struct gcp_op *child_op(struct bulk *b, const struct pick *p, const char *name)
{
	const char *scope = arena_printf(b->c->a, "zones/%s", p->want.zone->name);
	struct gcp_op *op = gcp_op_new(b->c->sim, "insert", scope, b->c->email,
	    gcp_link(b->c->a, "%s/instances/%s", scope, name), NULL);

	op->group = dup_text(b->group);
	return op;
}

/* One VM from the first pick with room; zone < 0: any. */
static bool make_one(struct bulk *b, int64_t zone)
{
	struct sim *s = b->c->sim;

	for (size_t k = 0; k < b->picks_n; k++) {
		struct pick *p = &b->picks[k];
		const char *words;
		struct gcp_op *op;
		json_t *error;
		int http;

		if ((zone >= 0 && p->zone != (size_t)zone) ||
		    b->made[p->zone] >= b->caps[p->zone]) {
			continue;
		}
		error = gcp_shortage(s, &p->want, &http, &words);
		if (error) {
			json_decref(error);
			continue;
		}
		p->want.name = b->names[b->created];
		op = child_op(b, p, p->want.name);
		b->insts[b->created++] = gcp_vm_make(b->c, &p->want, op);
		b->made[p->zone]++;
		gcp_op_after(op, s->conf.boot_us / 2, NULL);
		return true;
	}
	return false;
}

static int64_t room_in(struct bulk *b, size_t zone)
{
	int64_t room = 0;

	for (size_t k = 0; k < b->picks_n; k++) {
		if (b->picks[k].zone == zone) {
			room += pool_free(b->picks[k].want.pool, b->picks[k].want.side);
		}
	}
	return MIN(room, b->caps[zone]);
}

static void make_all(struct bulk *b)
{
	size_t best = 0, next = 0, idle = 0;

	if (str_same(b->shape, "ANY")) {
		while (b->created < b->count && make_one(b, -1))
			;
	} else if (str_same(b->shape, "BALANCED")) {
		while (b->created < b->count && idle < b->zones_n) {
			idle = make_one(b, (int64_t)(next++ % b->zones_n)) ? 0 : idle + 1;
		}
	} else {
		for (size_t k = 1; k < b->zones_n; k++) {
			if (room_in(b, k) > room_in(b, best)) {
				best = k;
			}
		}
		while (b->created < b->count && make_one(b, (int64_t)best))
			;
	}
}

/* The VMs that could not be made: a child operation each, with its reason. */
static void record_failures(struct bulk *b)
{
	for (int64_t k = b->created; k < b->count; k++) {
		struct pick *p = &b->picks[(size_t)k % b->picks_n];
		const char *words;
		int http;
		json_t *error = gcp_shortage(b->c->sim, &p->want, &http, &words);
		struct gcp_op *op;

		if (!error) {
			continue; /* the zone's maxCount or the single zone was the limit */
		}
		op = child_op(b, p, b->names[k]);
		gcp_op_error(op, http, words, error);
		gcp_op_after(op, b->c->sim->conf.boot_us / 2, NULL);
		books_launch(b->c->sim, CLOUD_GCP, b->names[k], p->want.zone->name,
		    b->parent->request_id, p->want.pool, p->want.side, gcp_text(error, "code"),
		    NULL, 0, false);
	}
}

static void put_metadata(struct bulk *b, bool rolled_back)
{
	json_t *map = json_object();

	for (size_t k = 0; k < b->zones_n; k++) {
		json_t *o;

		if (b->made[k] == 0 && b->zones_n > 1 && k > 0) {
			continue;
		}
		o = json_pack("{s:s, s:I, s:I}", "status",
		    rolled_back ? "ROLLING_BACK" : "CREATING", "targetVmCount",
		    (json_int_t)(b->zones_n > 1 ? b->made[k] : b->count), "createdVmCount",
		    (json_int_t)b->made[k]);
		if (b->zones_n == 1 && b->count > b->made[k]) {
			json_object_set_new(o, "failedToCreateVmCount",
			    json_integer(b->count - b->made[k]));
		}
		if (rolled_back && b->made[k]) {
			json_object_set_new(o, "deletedVmCount", json_integer(b->made[k]));
		}
		json_object_set_new(map, arena_printf(b->c->a, "zones/%s", b->zones[k]->name), o);
	}
	b->parent->metadata = json_pack("{s:o}", "perLocationStatus", map);
}

static void parent_ends(struct gcp_op *op)
{
	const char *zone;
	json_t *o;

	json_object_foreach (json_object_get(op->metadata, "perLocationStatus"), zone, o) {
		json_object_set_new(o, "status", json_string("DONE"));
	}
}

static void roll_back(struct bulk *b)
{
	for (int64_t k = 0; k < b->created; k++) {
		gcp_vm(b->insts[k])->stop_at_end = false;
		inst_end(b->insts[k], "api", "rolled back", "minCount was not reached");
	}
	gcp_op_error(b->parent, 400, "BAD REQUEST",
	    json_pack("{s:s, s:o}", "code", "VM_MIN_COUNT_NOT_REACHED", "message",
		json_sprintf("Requested minimum count of %" PRId64 " VMs could not be created.",
		    b->min_count)));
}

/* Quota for the least that is asked must be there before anything is made. */
static bool quota_up_front(struct bulk *b)
{
	int64_t limit;
	const char *region, *metric = NULL;

	for (size_t k = 0; k < b->picks_n; k++) {
		metric = gcp_quota_passed(b->c->sim, &b->picks[k].want, &limit, &region);
		if (!metric) {
			return true;
		}
	}
	gcp_fail(b->c, 403, "quotaExceeded", "Quota '%s' exceeded.  Limit: %" PRId64 ".0 %s%s.",
	    metric, limit, region ? "in region " : "globally", region ? region : "");
	return false;
}

static void bulk_run(struct bulk *b, const char *request)
{
	struct gcp_call *c = b->c;

	b->group = gcp_u64(c->a, gcp_new_id(c->sim));
	b->parent = gcp_op_new(c->sim, "bulkInsert", b->scope, c->email,
	    gcp_link(c->a, "%s", b->scope), NULL);
	b->parent->request_id = dup_text(request);
	b->parent->group = dup_text(b->group);
	b->insts = arena_array(c->a, (size_t)b->count + 1, sizeof(struct inst *));
	make_all(b);
	record_failures(b);
	put_metadata(b, b->created < b->min_count);
	for (int64_t k = 0; k < b->created; k++) {
		books_launch(c->sim, CLOUD_GCP, b->insts[k]->name, b->insts[k]->pool->zone->name,
		    request, b->insts[k]->pool, b->insts[k]->side, NULL, &b->insts[k], 1, false);
	}
	if (b->created < b->min_count) {
		roll_back(b);
	}
	gcp_op_after(b->parent, c->sim->conf.boot_us, parent_ends);
	gcp_reply(c, gcp_op_json(b->parent, c->a));
}

/* "Troubleshoot bulk VM creation": so many operations at a time. */
static bool within_running(struct gcp_call *c)
{
	int n = 0;

	for (const struct gcp_op *op = c->g->ops; op; op = op->next) {
		n += !op->done && str_same(op->type, "bulkInsert");
	}
	if (n < RUNNING_MAX || !c->sim->conf.throttle) {
		return true;
	}
	gcp_fail(c, 403, "rateLimitExceeded", "Rate Limit Exceeded");
	return false;
}

/* ---- methods --------------------------------------------------------------------------------- */

static void bulk_insert(struct gcp_call *c, const char *scope, const struct zone *z,
    const struct region *r)
{
	struct bulk b = { .c = c, .scope = scope };
	const char *request, *machine;

	b.props = json_object_get(c->body, "instanceProperties");
	b.count = gcp_i64(c->body, "count", 0);
	b.min_count = gcp_i64(c->body, "minCount", b.count);
	b.shape = gcp_text(json_object_get(c->body, "locationPolicy"), "targetShape");
	if (!gcp_request_id(c, scope, &request) || !within_running(c)) {
		return;
	}
	if (b.count < 1 || b.count > COUNT_MAX || b.min_count < 1 || b.min_count > b.count) {
		invalid_fail(c, "count", "",
		    "count must be from 1 to 1000 and minCount from 1 to count.");
		return;
	}
	if (b.shape && !str_same(b.shape, "ANY") && !str_same(b.shape, "ANY_SINGLE_ZONE") &&
	    !str_same(b.shape, "BALANCED")) {
		invalid_fail(c, "locationPolicy.targetShape", b.shape,
		    "Must be ANY, ANY_SINGLE_ZONE or BALANCED.");
		return;
	}
	if (!b.props) {
		invalid_fail(c, "instanceProperties", "", "instanceProperties is required.");
		return;
	}
	machine = gcp_text(b.props, "machineType");
	if (machine && strchr(machine, '/')) { /* only the bare name is taken here */
		struct gcp_op *op = gcp_op_new(c->sim, "bulkInsert", scope, c->email,
		    gcp_link(c->a, "%s", scope), NULL);

		op->request_id = dup_text(request);
		gcp_op_error(op, 500, "INTERNAL SERVER ERROR",
		    json_pack("{s:s, s:s}", "code", "INTERNAL_ERROR", "message",
			"Internal error. Please try again or contact Google Support."));
		gcp_op_after(op, c->sim->conf.boot_us / 2, NULL);
		gcp_reply(c, gcp_op_json(op, c->a));
		return;
	}
	read_zones(&b, z, r);
	if (b.zones_n == 0) {
		invalid_fail(c, "locationPolicy", "", "No zone is left.");
	} else if (read_names(&b) && read_machines(&b) && quota_up_front(&b)) {
		bulk_run(&b, request);
	}
}

void gcp_bulk_zone(struct gcp_call *c)
{
	const struct zone *z = gcp_zone(c->sim, c->arg[1]);

	if (z) {
		bulk_insert(c, arena_printf(c->a, "zones/%s", z->name), z, NULL);
	} else {
		gcp_fail(c, 400, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.",
		    c->arg[1]);
	}
}

void gcp_bulk_region(struct gcp_call *c)
{
	const struct region *r = market_region(c->sim->market, CLOUD_GCP, c->arg[1]);

	if (r) {
		bulk_insert(c, arena_printf(c->a, "regions/%s", r->name), NULL, r);
	} else {
		gcp_fail(c, 400, "invalid",
		    "Invalid value for field 'region': '%s'. Unknown region.", c->arg[1]);
	}
}
