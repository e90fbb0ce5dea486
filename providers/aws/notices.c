#include "base/base.h"
#include "aws_priv.h"

/*
 * Polls EC2 about our machines: the status of their spot requests, the events scheduled for them,
 * and the ends of their reservations.
 */

#define REFS_PER_CALL 100
#define DESCRIBE_PAGE "500"
#define NOTICE_US (120 * SPOT_US_PER_S)
#define ENDING_MAX 200 /* values of one filter */

/* ---- spot requests --------------------------------------------------------------------------- */

/* Spot request status (UserGuide/spot-request-status.html): on a reclaim the code flips while the
 * instance still runs for its two minutes. An end by ourselves is no notice. */
static bool status_is_reclaim(const char *code)
{
	static const char *const codes[] = { "marked-for-termination", "marked-for-stop",
		"marked-for-hibernation", "instance-terminated-no-capacity",
		"instance-terminated-by-price", "instance-terminated-by-service",
		"instance-terminated-capacity-oversubscribed", "instance-terminated-by-schedule",
		"instance-terminated-launch-group-constraint", "instance-stopped-by-price",
		"instance-stopped-no-capacity", "instance-stopped-capacity-oversubscribed",
		"instance-hibernated-by-price", "instance-hibernated-no-capacity" };

	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		if (strcmp(codes[i], code) == 0) {
			return true;
		}
	}
	return false;
}

enum { SPOT_REQUESTS = 0, STATUS, RESERVATIONS, RESERVED, NOTICES_OVER };

struct noticed {
	struct spot_notice *items;
	size_t n, cap;
	size_t from, count;
	struct aws_reservation *ending; /* reservations with an end, and machines in them */
	size_t ending_n, ending_cap;
};

static void notice_read(struct spot_call *c, struct noticed *x, const struct xml *item)
{
	const char *ref = xml_text(item, "instanceId", ""),
		   *code = xml_text(item, "status/code", "");
	const char *when = xml_text(item, "status/updateTime", "");
	int64_t at = aws_time(when);

	if (*ref == '\0' || !status_is_reclaim(code)) {
		return;
	}
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n++] = (struct spot_notice){ .ref = ref,
		.kind = SPOT_NOTICE_INTERRUPTION,
		.deadline_us = at != 0 ? at + NOTICE_US : 0,
		.source = "spot-request-status",
		.raw = arena_printf(c->arena, "%s at %s: %.200s", code, when,
		    xml_text(item, "status/message", "")) };
}

static enum spot_step notices_reply(struct aws *self, struct spot_call *c, struct noticed *x)
{
	const char *action = "DescribeSpotInstanceRequests";
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s =
	    aws_reply_xml(self, c, action, "DescribeSpotInstanceRequestsResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "spotInstanceRequestSet");
	if (set == NULL) {
		return aws_bad_reply(c, action, "no spotInstanceRequestSet");
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		notice_read(c, x, i);
	}
	if (!aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad)) {
		x->from += x->count;
	}
	return bad ? aws_bad_reply(c, action, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- scheduled events ------------------------------------------------------------------------ */

static bool asked_for(const struct spot_notices *a, const char *ref)
{
	for (size_t i = 0; i < a->instances_n; i++) {
		if (str_same(a->instances[i].ref, ref)) {
			return true;
		}
	}
	return false;
}

/* Events that are over stay for a week, with that in front of their description
 * (UserGuide/viewing_scheduled_events.html). */
static void event_read(struct spot_call *c, struct noticed *x, const char *ref,
    const struct xml *event)
{
	const char *words = xml_text(event, "description", "");
	const char *from = xml_text(event, "notBefore", "");

	if (str_prefix(words, "[Completed]") || str_prefix(words, "[Canceled]")) {
		return;
	}
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n++] = (struct spot_notice){ .ref = ref,
		.kind = SPOT_NOTICE_MAINTENANCE,
		.deadline_us = aws_time(from),
		.source = "instance-status",
		.raw = arena_printf(c->arena, "%s from %s: %.200s", xml_text(event, "code", ""),
		    from, words) };
}

/* Asks for the instances with events of the whole account. Ids cannot be filtered, and naming one
 * that EC2 has forgotten would fail the call. */
static enum spot_step status_send(struct aws *self, struct spot_call *c, const char *region)
{
	static const char *const codes[] = { "instance-reboot", "system-reboot",
		"system-maintenance", "instance-retirement", "instance-stop" };
	const struct call_state *st = c->state;
	struct query q;

	query_begin(&q, c->arena, "DescribeInstanceStatus", EC2_VERSION);
	query_add(&q, "Filter.1.Name", "event.code");
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		query_addf(&q, codes[i], "Filter.1.Value.%zu", i + 1);
	}
	query_add(&q, "MaxResults", DESCRIBE_PAGE);
	if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, region, "DescribeInstanceStatus", AWS_LIMIT_DESCRIBE,
	    false);
}

/* A policy without the call loses nothing else. */
static bool denied_forgiven(struct spot_call *c, enum spot_step s, int next)
{
	struct call_state *st = c->state;

	if (s != SPOT_FAIL || c->err.rc != SPOT_DENIED) {
		return false;
	}
	c->err = (struct spot_err){ 0 };
	st->at = next;
	st->next = NULL;
	return true;
}

static enum spot_step status_reply(struct aws *self, struct spot_call *c,
    const struct spot_notices *a, struct noticed *x)
{
	const char *action = "DescribeInstanceStatus";
	struct call_state *st = c->state;
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, action, "DescribeInstanceStatusResponse", &doc);

	if (denied_forgiven(c, s, RESERVATIONS)) {
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "instanceStatusSet");
	if (set == NULL) {
		return aws_bad_reply(c, action, "no instanceStatusSet");
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		const char *ref = xml_text(i, "instanceId", "");
		const struct xml *events = xml_at(i, "eventsSet");

		for (const struct xml *e = xml_first(events, "item");
		     e != NULL && asked_for(a, ref); e = xml_next(e, "item")) {
			event_read(c, x, ref, e);
		}
	}
	if (!aws_next_page(st, c->arena, xml_text(doc, "nextToken", ""), &bad)) {
		st->at = RESERVATIONS;
	}
	return bad ? aws_bad_reply(c, action, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- the ends of reservations ---------------------------------------------------------------- */

static bool any_reserved(const struct spot_notices *a)
{
	for (size_t i = 0; i < a->instances_n; i++) {
		if (spot_market_reserves(a->instances[i].key.market)) {
			return true;
		}
	}
	return false;
}

static enum spot_step ending_reply(struct aws *self, struct spot_call *c, struct noticed *x)
{
	struct call_state *st = c->state;
	const struct xml *set;
	bool more;
	enum spot_step s = aws_reservations_reply(self, c, &set, &more);

	if (denied_forgiven(c, s, NOTICES_OVER)) {
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		struct aws_reservation r;

		if (aws_reservation_read(i, &r) && r.ends_us != 0 && r.free < r.total &&
		    x->ending_n < ENDING_MAX) {
			x->ending = arena_grow(c->arena, x->ending, x->ending_n, &x->ending_cap,
			    sizeof(*x->ending));
			x->ending[x->ending_n++] = r;
		}
	}
	if (!more) {
		st->at = x->ending_n > 0 ? RESERVED : NOTICES_OVER;
	}
	return SPOT_STEP_NONE;
}

static enum spot_step reserved_send(struct aws *self, struct spot_call *c, const char *region,
    const struct noticed *x)
{
	const struct call_state *st = c->state;
	struct query q;

	query_begin(&q, c->arena, "DescribeInstances", EC2_VERSION);
	query_add(&q, "Filter.1.Name", "capacity-reservation-id");
	for (size_t i = 0; i < x->ending_n; i++) {
		query_addf(&q, x->ending[i].id, "Filter.1.Value.%zu", i + 1);
	}
	query_add(&q, "MaxResults", DESCRIBE_PAGE);
	if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, region, "DescribeInstances", AWS_LIMIT_DESCRIBE, false);
}

static void end_read(struct spot_call *c, const struct spot_notices *a, struct noticed *x,
    const struct xml *item)
{
	const char *ref = xml_text(item, "instanceId", ""),
		   *in = xml_text(item, "capacityReservationId", "");

	for (size_t i = 0; i < x->ending_n && asked_for(a, ref); i++) {
		const struct aws_reservation *r = &x->ending[i];

		if (strcmp(r->id, in) == 0) {
			x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
			x->items[x->n++] = (struct spot_notice){ .ref = ref,
				.kind = SPOT_NOTICE_EXPIRY,
				.deadline_us = r->ends_us,
				.source = "capacity-reservation",
				.raw = arena_printf(c->arena, "%s %s ends",
				    r->block ? "capacity block" : "reservation", r->id) };
		}
	}
}

static enum spot_step reserved_reply(struct aws *self, struct spot_call *c,
    const struct spot_notices *a, struct noticed *x)
{
	const char *action = "DescribeInstances";
	struct call_state *st = c->state;
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, action, "DescribeInstancesResponse", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "reservationSet");
	if (set == NULL) {
		return aws_bad_reply(c, action, "no reservationSet");
	}
	for (const struct xml *r = xml_first(set, "item"); r != NULL; r = xml_next(r, "item")) {
		const struct xml *in = xml_at(r, "instancesSet");

		for (const struct xml *i = xml_first(in, "item"); i != NULL;
		     i = xml_next(i, "item")) {
			end_read(c, a, x, i);
		}
	}
	if (!aws_next_page(st, c->arena, xml_text(doc, "nextToken", ""), &bad)) {
		st->at = NOTICES_OVER;
	}
	return bad ? aws_bad_reply(c, action, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* SPOT_STEP_NONE: no spot request is left to be asked for. By filter, which does not mind ids that
 * EC2 has forgotten. */
static enum spot_step requests_send(struct aws *self, struct spot_call *c,
    const struct spot_notices *a, struct noticed *x)
{
	const struct call_state *st = c->state;
	struct query q;
	size_t n = 0;

	query_begin(&q, c->arena, "DescribeSpotInstanceRequests", EC2_VERSION);
	query_add(&q, "Filter.1.Name", "instance-id");
	for (x->count = 0; x->from + x->count < a->instances_n && n < REFS_PER_CALL; x->count++) {
		const struct spot_instance *i = &a->instances[x->from + x->count];

		if (i->key.market == SPOT_MARKET_SPOT && aws_id_ok(i->ref, "i-")) {
			query_addf(&q, i->ref, "Filter.1.Value.%zu", ++n);
		}
	}
	query_add(&q, "MaxResults", DESCRIBE_PAGE);
	if (n == 0) {
		sbuf_fini(&q.body);
		return SPOT_STEP_NONE;
	}
	if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, a->region, "DescribeSpotInstanceRequests",
	    AWS_LIMIT_DESCRIBE, false);
}

enum spot_step aws_notices(void *p, struct spot_call *c, struct spot_notices *a)
{
	struct aws *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct noticed));
	struct noticed *x = st->own;
	enum spot_step s;

	if (c->in != NULL) {
		s = st->at == SPOT_REQUESTS  ? notices_reply(self, c, x)
		    : st->at == STATUS       ? status_reply(self, c, a, x)
		    : st->at == RESERVATIONS ? ending_reply(self, c, x)
					     : reserved_reply(self, c, a, x);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (st->at == SPOT_REQUESTS) {
		s = requests_send(self, c, a, x);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		st->at = a->instances_n > 0 ? STATUS : NOTICES_OVER;
	}
	if (st->at == STATUS) {
		return status_send(self, c, a->region);
	}
	if (st->at == RESERVATIONS && self->reservations && any_reserved(a)) {
		return aws_reservations_send(self, c, a->region, NULL);
	}
	if (st->at == RESERVED) {
		return reserved_send(self, c, a->region, x);
	}
	a->notices = x->items;
	a->n = x->n;
	return SPOT_DONE;
}
