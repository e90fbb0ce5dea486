#include "base/base.h"
#include "aws_priv.h"

/*
 * Capacity that is paid for already: on-demand capacity reservations and capacity blocks
 * (UserGuide/ec2-capacity-reservations.html, capacity-blocks-using.html). They are used, never
 * bought. The launch itself looks up its reservation. A pool is a type in a zone and does not name
 * one. Only with reservations = on.
 *
 * A capacity block ends its machines from 30 minutes before its end date (capacity-blocks-
 * monitor.html). Those in an on-demand reservation run on after its end date
 * (capacity-reservations-using.html). Their price is not the pool's then, so for us it ends, too.
 *
 * The owner of an interruptible reservation lends it and reclaims it at any time, with two minutes
 * of notice (interruptible-capacity-reservations.html). These are pools of their own market.
 */

#define ACTION "DescribeCapacityReservations"
#define PAGE "1000"
#define BLOCK_CLEARS_US (30 * 60 * SPOT_US_PER_S)

bool aws_reservation_read(const struct xml *item, struct aws_reservation *ret)
{
	struct aws_reservation r = { .id = xml_text(item, "capacityReservationId", ""),
		.type = xml_text(item, "instanceType", ""),
		.owner = xml_text(item, "ownerId", ""),
		.zone = xml_text(item, "availabilityZoneId", ""),
		.zone_name = xml_text(item, "availabilityZone", "") };

	r.block = strcmp(xml_text(item, "reservationType", "default"), "capacity-block") == 0;
	/* A machine of another platform does not match; "Linux/UNIX" covers Ubuntu and Amazon's. */
	if (!aws_id_ok(r.id, "cr-") || *r.type == '\0' ||
	    (*r.zone == '\0' && *r.zone_name == '\0') ||
	    strcmp(xml_text(item, "state", ""), "active") != 0 ||
	    strcmp(xml_text(item, "instancePlatform", ""), "Linux/UNIX") != 0 ||
	    strcmp(xml_text(item, "tenancy", "default"), "default") != 0) {
		return false;
	}
	if (!parse_i64(xml_text(item, "totalInstanceCount", ""), 0, INT32_MAX, &r.total) ||
	    !parse_i64(xml_text(item, "availableInstanceCount", ""), 0, INT32_MAX, &r.free)) {
		return false;
	}
	r.interruptible = strcmp(xml_text(item, "interruptible", "false"), "true") == 0;
	if (strcmp(xml_text(item, "endDateType", "unlimited"), "limited") == 0 || r.block) {
		r.ends_us = aws_time(xml_text(item, "endDate", ""));
		r.ends_us -= r.ends_us != 0 && r.block ? BLOCK_CLEARS_US : 0;
	}
	*ret = r;
	return true;
}

bool aws_reservation_at(const struct aws_reservation *r, const struct spot_pool_key *pool,
    const char *zone_name)
{
	return r->interruptible == (pool->market == SPOT_MARKET_INTERRUPTIBLE) &&
	    strcmp(r->type, pool->instance_type) == 0 &&
	    (*r->zone != '\0' ? str_same(r->zone, pool->zone) : str_same(r->zone_name, zone_name));
}

enum spot_step aws_reservations_send(struct aws *self, struct spot_call *c, const char *region,
    const char *type)
{
	const struct call_state *st = c->state;
	struct query q;

	query_begin(&q, c->arena, ACTION, EC2_VERSION);
	query_filter(&q, 1, "state", "active");
	if (type != NULL) {
		query_filter(&q, 2, "instance-type", type);
	}
	query_add(&q, "MaxResults", PAGE);
	if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, region, ACTION, AWS_LIMIT_DESCRIBE, false);
}

enum spot_step aws_reservations_reply(struct aws *self, struct spot_call *c, const struct xml **ret,
    bool *ret_more)
{
	const struct xml *doc;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, ACTION, ACTION "Response", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	*ret = xml_at(doc, "capacityReservationSet");
	if (*ret == NULL) {
		return aws_bad_reply(c, ACTION, "no capacityReservationSet");
	}
	*ret_more = aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad);
	return bad ? aws_bad_reply(c, ACTION, "the page token repeats") : SPOT_STEP_NONE;
}

bool aws_reservation_better(const struct aws_reservation *x, const struct aws_reservation *than)
{
	int64_t a = x->ends_us != 0 ? x->ends_us : INT64_MAX,
		b = than->ends_us != 0 ? than->ends_us : INT64_MAX;

	if (a != b) {
		return a > b;
	}
	return x->block != than->block ? x->block : strcmp(x->id, than->id) < 0;
}

bool aws_reservation_open(const struct aws_reservation *r, int64_t now_us)
{
	return r->free > 0 && (r->ends_us == 0 || r->ends_us > now_us);
}

enum spot_step aws_reservation_reply(struct aws *self, struct spot_call *c, struct aws_run *r)
{
	const struct spot_launch *l = r->launch;
	const struct xml *set;
	bool more;
	enum spot_step s = aws_reservations_reply(self, c, &set, &more);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		struct aws_reservation x;

		if (!aws_reservation_read(i, &x) || x.free < (int64_t)r->count ||
		    !aws_reservation_open(&x, c->now_us) ||
		    !aws_reservation_at(&x, &l->key, l->zone_name) ||
		    (r->reserved.id != NULL && !aws_reservation_better(&x, &r->reserved))) {
			continue;
		}
		r->reserved = x;
	}
	if (!more && r->reserved.id == NULL) {
		return call_fail(c, SPOT_NO_CAPACITY, "ReservationCapacityExceeded",
		    "aws launch: no active %sreservation of %s in %s has room for %zu",
		    l->key.market == SPOT_MARKET_INTERRUPTIBLE ? "interruptible " : "",
		    l->key.instance_type, l->key.zone, r->count);
	}
	return SPOT_STEP_NONE;
}

const char *aws_lent_lack(const struct aws *self, struct spot_call *c, const char *region)
{
	if (!self->lent || aws_queue(self, region) != NULL) {
		return NULL;
	}
	return arena_printf(c->arena,
	    "permitted; interruptible ones are left alone, since interruption_queue.%s is not set",
	    region);
}
