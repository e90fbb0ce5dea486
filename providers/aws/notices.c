#include "base/base.h"
#include "aws_priv.h"

/*
 * Polls EC2 about our machines: the status of their spot requests, and the events scheduled for
 * them.
 */

#define REFS_PER_CALL 100
#define DESCRIBE_PAGE "500"
#define NOTICE_US (120 * SPOT_US_PER_S)

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

enum { SPOT_REQUESTS = 0, STATUS, NOTICES_OVER };

struct noticed {
	struct spot_notice *items;
	size_t n, cap;
	size_t from, count;
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

static enum spot_step status_reply(struct aws *self, struct spot_call *c,
    const struct spot_notices *a, struct noticed *x)
{
	const char *action = "DescribeInstanceStatus";
	struct call_state *st = c->state;
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, action, "DescribeInstanceStatusResponse", &doc);

	/* A policy without it loses nothing else. */
	if (s == SPOT_FAIL && c->err.rc == SPOT_DENIED) {
		c->err = (struct spot_err){ 0 };
		st->at = NOTICES_OVER;
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
		s = st->at == SPOT_REQUESTS ? notices_reply(self, c, x)
					    : status_reply(self, c, a, x);
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
	a->notices = x->items;
	a->n = x->n;
	return SPOT_DONE;
}
