/*
 * Capacity reservations and capacity blocks: made through the control API (nobody buys here),
 * listed by DescribeCapacityReservations, used up by launches.
 *
 * Instances in a block begin to terminate 30 minutes before its end date (UserGuide/
 * capacity-blocks-monitor.html); from then on it takes no instance. Those in an on-demand
 * reservation go on past its end date. Either is expired at its end date. The owner of an
 * interruptible one may reclaim it at any time (interruptible-capacity-reservations.html).
 */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

struct reservation {
	struct reservation *next;
	char *id;
	struct pool *pool;
	struct sim *sim;
	int64_t total, made_us, ends_us; /* 0 = it has no end */
	bool open, block, interruptible, cancelled;
	char *owner; /* account; NULL = ours */
	struct loop_timer timer; /* until a block is cleared */
};

#define BLOCK_CLEARS_US (30 * 60 * SPOT_US_PER_S)
#define BLOCK_LENGTH_S (24 * 3600)
#define NOTICE_S 120

static struct reservation **reservations_of(struct sim *s)
{
	return &aws_controls(s)->reservations;
}

static int64_t reserved_used(const struct reservation *r)
{
	int64_t used = 0;

	for (const struct inst *i = r->sim->insts; i; i = i->next) {
		if (i->cloud == CLOUD_AWS && i->state != INST_GONE && i->state != INST_SHUTTING &&
		    str_same(i->own, r->id)) {
			used++;
		}
	}
	return used;
}

/* An owner who reclaims all of an interruptible one cancels it (capacity-owner-procedures.html). */
static const char *reserved_state(const struct reservation *r)
{
	if (r->interruptible && r->total == 0 && reserved_used(r) == 0) {
		return "cancelled";
	}
	return r->cancelled                                     ? "cancelled"
	    : r->ends_us != 0 && sim_wall(r->sim) >= r->ends_us ? "expired"
								: "active";
}

static bool block_cleared(const struct reservation *r)
{
	return r->block && sim_wall(r->sim) >= r->ends_us - BLOCK_CLEARS_US;
}

static void block_clear(struct loop_timer *t)
{
	const struct reservation *r = container_of(t, struct reservation, timer);

	for (struct inst *i = r->sim->insts; i; i = i->next) {
		/* No page names a state reason. */
		if (i->cloud == CLOUD_AWS && str_same(i->own, r->id)) {
			inst_end(i, "block_end", NULL, NULL);
		}
	}
}

static void block_ends(struct reservation *r, int64_t ends_us)
{
	r->ends_us = ends_us;
	loop_timer_set(&r->timer, MAX(ends_us - BLOCK_CLEARS_US - sim_wall(r->sim), 1));
}

int64_t reserved_free(const struct reservation *r)
{
	return MAX(r->total - reserved_used(r), 0);
}

static struct reservation *reservation_find(struct sim *s, const char *id)
{
	struct reservation *r = *reservations_of(s);

	while (r && !str_same(r->id, id)) {
		r = r->next;
	}
	return r;
}

const char *reserved_lifecycle(const struct inst *i)
{
	const struct reservation *r = i->own ? reservation_find(i->sim, i->own) : NULL;

	return r == NULL       ? NULL
	    : r->block         ? "capacity-block"
	    : r->interruptible ? "interruptible-capacity-reservation"
			       : NULL;
}

void reserved_mark(struct inst *i)
{
	const struct reservation *r = i->own ? reservation_find(i->sim, i->own) : NULL;

	i->lent = r != NULL && r->interruptible;
}

/* ---- launching ------------------------------------------------------------------------------- */

bool reserved_market(struct reserved_ask *ask, const char *market)
{
	ask->block = str_same(market, "capacity-block");
	ask->interruptible = str_same(market, "interruptible-capacity-reservation");
	return ask->block || ask->interruptible;
}

void reserved_read(struct ec2 *e, struct reserved_ask *ask)
{
	static const char at[] = "CapacityReservationSpecification.";
	struct arena *a = e->rq->arena;

	ask->preference =
	    form_get(&e->form, arena_printf(a, "%sCapacityReservationPreference", at));
	ask->id = form_get(&e->form,
	    arena_printf(a, "%sCapacityReservationTarget.CapacityReservationId", at));
	if (ask->preference && ask->id) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "You cannot specify CapacityReservationPreference and "
		    "CapacityReservationTarget in the same request.");
	}
	if (ask->preference && !str_same(ask->preference, "open") &&
	    !str_same(ask->preference, "none") &&
	    !str_same(ask->preference, "capacity-reservations-only")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter CapacityReservationPreference is invalid.",
		    ask->preference);
	}
	if (ask->spot && (ask->preference || ask->id)) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "Capacity reservations cannot be used with Spot requests.");
	}
	if ((ask->block || ask->interruptible) && !ask->id && !e->failed) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter CapacityReservationTarget");
	}
}

static const struct reservation *target_find(struct ec2 *e, const struct reserved_ask *ask,
    const struct pool *p)
{
	const struct reservation *r = reservation_find(e->sim, ask->id);

	if (!r || !str_same(r->pool->region->name, e->rq->region)) {
		ec2_fail(e, 400, "InvalidCapacityReservationId.NotFound",
		    "The capacity reservation '%s' does not exist", ask->id);
		return NULL;
	}
	if (!str_same(reserved_state(r), "active")) {
		ec2_fail(e, 400, "CapacityReservationNotActive",
		    "The capacity reservation '%s' is not in the active state.", r->id);
	}
	if (r->pool != p) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The instance type or Availability Zone does not match the capacity "
		    "reservation "
		    "'%s'.",
		    r->id);
	}
	if (r->block != ask->block || r->interruptible != ask->interruptible) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "The market type does not match the type of the capacity reservation '%s'.",
		    r->id);
	}
	return r;
}

/* By default whatever open reservation matches is used up, without being asked. */
static const struct reservation *any_open(struct ec2 *e, const struct pool *p, int64_t n)
{
	for (const struct reservation *r = *reservations_of(e->sim); r; r = r->next) {
		if (r->open && str_same(reserved_state(r), "active") && r->pool == p &&
		    reserved_free(r) >= n) {
			return r;
		}
	}
	return NULL;
}

const char *reserved_choose(struct ec2 *e, const struct reserved_ask *ask, const struct pool *p,
    int64_t n)
{
	const struct reservation *r = NULL;

	if (ask->spot || str_same(ask->preference, "none")) {
		return NULL;
	}
	if (ask->id) {
		r = target_find(e, ask, p);
		if (r && !e->failed && (block_cleared(r) || reserved_free(r) < n)) {
			ec2_fail(e, 400, "ReservationCapacityExceeded",
			    "The requested reservation does not have sufficient compatible and "
			    "available capacity for this request.");
		}
	} else {
		r = any_open(e, p, n);
		if (!r && str_same(ask->preference, "capacity-reservations-only")) {
			ec2_fail(e, 400, "ReservationCapacityExceeded",
			    "No open capacity reservation matches.");
		}
	}
	return r && !e->failed ? r->id : NULL;
}

/* ---- DescribeCapacityReservations ------------------------------------------------------------ */

static const char *owner_of(const struct reservation *r)
{
	return r->owner ? r->owner : AWS_ACCOUNT;
}

static const char *field_get(struct ec2 *e, const struct reservation *r, const char *name)
{
	if (str_same(name, "instance-type")) {
		return r->pool->type->name;
	}
	if (str_same(name, "availability-zone")) {
		return r->pool->zone->name;
	}
	if (str_same(name, "state")) {
		return reserved_state(r);
	}
	if (str_same(name, "instance-match-criteria")) {
		return r->open ? "open" : "targeted";
	}
	if (str_same(name, "instance-platform")) {
		return "Linux/UNIX";
	}
	if (str_same(name, "tenancy")) {
		return "default";
	}
	if (str_same(name, "end-date-type")) {
		return r->ends_us != 0 ? "limited" : "unlimited";
	}
	if (str_same(name, "interruptible")) {
		return r->interruptible ? "true" : "false";
	}
	(void)e;
	return str_same(name, "owner-id") ? owner_of(r) : NULL;
}

static void reservation_xml(struct ec2 *e, const struct reservation *r)
{
	struct sbuf *b = &e->out;
	struct arena *a = e->rq->arena;

	x_open(b, "item");
	x_text(b, "capacityReservationId", r->id);
	x_text(b, "ownerId", owner_of(r));
	x_text(b, "capacityReservationArn",
	    arena_printf(a, "arn:aws:ec2:%s:%s:capacity-reservation/%s", e->rq->region, owner_of(r),
		r->id));
	x_text(b, "availabilityZoneId", r->pool->zone->id);
	x_text(b, "instanceType", r->pool->type->name);
	x_text(b, "instancePlatform", "Linux/UNIX");
	x_text(b, "availabilityZone", r->pool->zone->name);
	x_text(b, "tenancy", "default");
	x_int(b, "totalInstanceCount", r->total);
	x_int(b, "availableInstanceCount", reserved_free(r));
	x_bool(b, "ebsOptimized", false);
	x_bool(b, "ephemeralStorage", false);
	x_text(b, "state", field_get(e, r, "state"));
	x_text(b, "startDate", aws_time_ms(a, r->made_us));
	x_text(b, "endDateType", field_get(e, r, "end-date-type"));
	if (r->ends_us != 0) {
		x_text(b, "endDate", aws_time_ms(a, r->ends_us));
	}
	x_text(b, "instanceMatchCriteria", field_get(e, r, "instance-match-criteria"));
	x_text(b, "createDate", aws_time_ms(a, r->made_us));
	x_text(b, "reservationType", r->block ? "capacity-block" : "default");
	x_bool(b, "interruptible", r->interruptible);
	if (r->interruptible) {
		x_open(b, "interruptionInfo");
		x_text(b, "interruptionType", "adhoc");
		x_close(b, "interruptionInfo");
	}
	x_close(b, "item");
}

void ec2_describe_reservations(struct ec2 *e)
{
	static const char *const known[] = { "instance-type", "owner-id", "instance-platform",
		"availability-zone", "tenancy", "state", "instance-match-criteria", "end-date-type",
		"interruptible", NULL };
	const char **ids;
	size_t ids_n = form_list(&e->form, e->rq->arena, "CapacityReservationId", &ids), n;
	struct ec2_page page;
	struct ec2_filter *f;
	int64_t at = 0;

	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 1, 1000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	ec2_begin(e);
	x_open(&e->out, "capacityReservationSet");
	for (const struct reservation *r = *reservations_of(e->sim); r; r = r->next) {
		bool show = str_same(r->pool->region->name, e->rq->region) &&
		    ec2_match_any(ids, ids_n, r->id);

		for (size_t k = 0; k < n && show; k++) {
			show = ec2_filter_hits(&f[k], field_get(e, r, f[k].name));
		}
		if (show && at++ >= page.at && at <= page.at + page.size) {
			reservation_xml(e, r);
		}
	}
	x_close(&e->out, "capacityReservationSet");
	if (at > page.at + page.size) {
		x_text(&e->out, "nextToken", ec2_next_token(e, page.at + page.size));
	}
}

/* ---- the control API ------------------------------------------------------------------------- */

/* In seconds from now; a block always ends. */
static void end_set(struct reservation *r, const json_t *doc, struct spot_err *err)
{
	double in_s = json_f64(doc, "ends_in_s", r->block ? BLOCK_LENGTH_S : 0, err);
	int64_t at = sim_wall(r->sim) + (int64_t)(in_s * 1e6);

	if (r->block) {
		block_ends(r, at);
	} else if (in_s > 0) {
		r->ends_us = at;
	}
}

static json_t *reservation_change(struct sim *s, const json_t *doc, const char *id, bool cancel,
    struct spot_err *err)
{
	struct reservation *r = reservation_find(s, id);

	if (!r) {
		err_set(err, SPOT_INVALID, "reservation: no '%s'", id);
		return NULL;
	}
	if (r->interruptible) {
		err_set(err, SPOT_INVALID,
		    "reservation: '%s' is interruptible; its owner can only reclaim it", id);
		return NULL;
	}
	if (cancel) {
		r->cancelled = true;
	} else {
		end_set(r, doc, err); /* an extension keeps the id */
	}
	return json_object();
}

/* The owner takes capacity back: unused first, then that of running instances, which are warned.
 * It is closed to launches at once. */
static json_t *reservation_reclaim(struct sim *s, const json_t *doc, const char *id,
    struct spot_err *err)
{
	struct reservation *r = reservation_find(s, id);
	int64_t count = json_i64(doc, "count", INT64_MAX, err), over;
	double notice_s = json_f64(doc, "notice_s", NOTICE_S, err);
	json_t *ids;

	if (!r || !r->interruptible || count < 1 || err->rc != SPOT_OK) {
		err_set(err, SPOT_INVALID, "reservation: no interruptible '%s', or no count", id);
		return NULL;
	}
	r->total -= MIN(count, r->total);
	over = reserved_used(r) - r->total;
	ids = json_array();
	for (struct inst *i = s->insts; i && over > 0; i = i->next) {
		if (i->lent && str_same(i->own, r->id) && i->state != INST_GONE &&
		    i->state != INST_SHUTTING) {
			inst_reclaim(i, (int64_t)(notice_s * 1e6), 0, false);
			json_array_append_new(ids, json_string(i->id));
			over--;
		}
	}
	return json_pack("{s:o}", "instances", ids);
}

static void kind_read(struct reservation *r, const json_t *doc, struct spot_err *err)
{
	const char *owner = json_str(doc, "owner", NULL, err);

	r->block = json_bool(doc, "block", false, err);
	r->interruptible = json_bool(doc, "interruptible", false, err);
	r->open = !r->block && !r->interruptible && json_bool(doc, "open", false, err);
	r->owner = owner ? dup_text(owner) : NULL;
	if (r->interruptible && (r->block || json_object_get(doc, "ends_in_s"))) {
		err_set(err, SPOT_INVALID,
		    "reservation: an interruptible one is no block and has no end");
	}
}

json_t *reserved_post(struct sim *s, const json_t *doc, struct arena *a, struct spot_err *err)
{
	const char *region = json_str(doc, "region", "", err),
		   *zone = json_str(doc, "zone", "", err);
	const char *type = json_str(doc, "type", "", err), *id = json_str(doc, "cancel", NULL, err),
		   *extend = json_str(doc, "extend", NULL, err),
		   *reclaim = json_str(doc, "reclaim", NULL, err);
	int64_t count = json_i64(doc, "count", 1, err);
	const struct zone *z = market_zone(s->market, region, zone);
	struct reservation *r;

	if (id || extend) {
		return reservation_change(s, doc, id ? id : extend, id != NULL, err);
	}
	if (reclaim) {
		return reservation_reclaim(s, doc, reclaim, err);
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		abort();
	}
	kind_read(r, doc, err);
	r->pool = z ? market_pool(s->market, CLOUD_AWS, region, z, type) : NULL;
	if (!r->pool && err->rc == SPOT_OK) {
		err_set(err, SPOT_INVALID, "reservation: region, zone and type name no pool");
	}
	if (err->rc != SPOT_OK) {
		free(r->owner);
		free(r);
		return NULL;
	}
	r->sim = s;
	loop_timer_init(&r->timer, s->loop, block_clear);
	r->id = dup_text(sim_id(s, a, "cr-0", 8));
	r->total = count;
	r->made_us = sim_wall(s);
	end_set(r, doc, err);
	r->next = *reservations_of(s);
	*reservations_of(s) = r;
	return json_pack("{s:s}", "id", r->id);
}

void reserved_free_all(struct aws_controls *c)
{
	while (c->reservations) {
		struct reservation *r = c->reservations;

		c->reservations = r->next;
		loop_timer_stop(&r->timer);
		free(r->id);
		free(r->owner);
		free(r);
	}
}
