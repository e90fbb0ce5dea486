#include "base/base.h"
#include "aws_priv.h"

/*
 * The vendor's data on spot interruption and capacity. Placement scores are per zone, for sets of
 * types. The Spot Instance Advisor has buckets per region and type; its file is undocumented, so
 * its shape is checked. Capacity Manager counts the account's own requests (fulfilment.c). None is
 * a promise. If one is unavailable, the others are still used.
 */

#include <strings.h>

#define ADVISOR_REPLY_MAX (32u << 20)
#define TYPES_PER_SET 6
#define BUCKETS 5
#define SCORE_SOURCE "GetSpotPlacementScores"
#define ADVISOR_SOURCE "spot-advisor"

/* Fixed sets: the account may ask for few different configurations per day, and fewer than three
 * types score low whatever the supply (API_GetSpotPlacementScores.html). Never built from what jobs
 * want. */
static const char *const score_sets[][TYPES_PER_SET] = {
	{ "g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge", "g5.2xlarge", "g6.xlarge", "g6.2xlarge" },
	{ "g5.12xlarge", "g5.24xlarge", "g6.12xlarge", "g6.24xlarge", "g6e.12xlarge",
	    "g6e.24xlarge" },
	{ "g5.48xlarge", "g6.48xlarge", "g6e.48xlarge", "p4d.24xlarge", "p4de.24xlarge",
	    "p5.48xlarge" },
};
#define SETS ((int)ARRAY_LEN(score_sets))

#define ROOM_SOURCE "DescribeCapacityReservations"

struct signalling {
	struct pool_index pools;
	struct pool_index reserved; /* by their reservations' room */
	bool reserving, reserved_told;
	size_t room_from; /* their signals are the first from here on */
	struct aws_reservation *room; /* of each: where the next launch goes */
	bool filling; /* Capacity Manager is being asked */
	struct aws_fulfilment *filled;
	struct spot_signal *items;
	size_t n, cap;
	double lo[BUCKETS], hi[BUCKETS];
};

static struct spot_signal *signal_add(struct spot_call *c, struct signalling *x)
{
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n] = (struct spot_signal){ .observed_us = c->now_us };
	return &x->items[x->n++];
}

/* ---- placement scores ------------------------------------------------------------------------ */

static enum spot_step score_send(struct aws *self, struct spot_call *c, const char *region)
{
	const struct call_state *st = c->state;
	struct query q;

	query_begin(&q, c->arena, SCORE_SOURCE, EC2_VERSION);
	for (size_t i = 0; i < TYPES_PER_SET; i++) {
		query_addf(&q, score_sets[st->at][i], "InstanceType.%zu", i + 1);
	}
	query_add(&q, "TargetCapacity", "1");
	query_add(&q, "TargetCapacityUnitType", "units");
	query_add(&q, "SingleAvailabilityZone", "true");
	query_add(&q, "RegionName.1", region);
	query_add(&q, "MaxResults", "30");
	if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, region, SCORE_SOURCE, AWS_LIMIT_DESCRIBE, false);
}

/* The score is the set's: it is given to each pool of the set in that zone. */
static void score_row(struct spot_call *c, struct signalling *x, const struct xml *row)
{
	const struct call_state *st = c->state;
	const char *zone = xml_text(row, "availabilityZoneId", "");
	int64_t score;

	if (*zone == '\0' || !parse_i64(xml_text(row, "score", ""), 1, 10, &score)) {
		return;
	}
	for (size_t i = 0; i < TYPES_PER_SET; i++) {
		const struct spot_pool_info *pool =
		    pool_index_find(&x->pools, score_sets[st->at][i], zone, "");
		struct spot_signal *s;

		if (pool == NULL) {
			continue;
		}
		s = signal_add(c, x);
		s->kind = SPOT_SIGNAL_PLACEMENT_SCORE;
		s->key = pool->key;
		s->value = (double)score;
		s->source = SCORE_SOURCE;
	}
}

static enum spot_step score_reply(struct aws *self, struct spot_call *c, struct signalling *x,
    bool *ret_more)
{
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, SCORE_SOURCE, SCORE_SOURCE "Response", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "spotPlacementScoreSet");
	for (const struct xml *r = xml_first(set, "item"); r != NULL; r = xml_next(r, "item")) {
		score_row(c, x, r);
	}
	*ret_more = aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad);
	return bad ? aws_bad_reply(c, SCORE_SOURCE, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- reservations ---------------------------------------------------------------------------- */

static void reserved_collect(struct spot_call *c, struct signalling *x,
    const struct spot_signals *a)
{
	x->reserved.items = arena_array(c->arena, a->pools_n + 1, sizeof(*x->reserved.items));
	for (size_t i = 0; i < a->pools_n; i++) {
		if (spot_market_reserves(a->pools[i].key.market)) {
			x->reserved.items[x->reserved.n++] = &a->pools[i];
		}
	}
}

/* One signal per reserved pool: 0 until a reservation with room is read. */
static enum spot_step room_send(struct aws *self, struct spot_call *c, struct signalling *x,
    const char *region)
{
	if (!x->reserving) {
		x->reserving = true;
		x->room_from = x->n;
		x->room = arena_array(c->arena, x->reserved.n, sizeof(*x->room));
		for (size_t i = 0; i < x->reserved.n; i++) {
			struct spot_signal *s = signal_add(c, x);

			s->kind = SPOT_SIGNAL_CAPACITY;
			s->key = x->reserved.items[i]->key;
			s->source = ROOM_SOURCE;
		}
	}
	return aws_reservations_send(self, c, region, NULL);
}

/* The next launch goes into the reservation in room[]: its end is the pool's. */
static void ends_add(struct spot_call *c, struct signalling *x)
{
	for (size_t k = 0; k < x->reserved.n; k++) {
		struct spot_signal *s;

		if (x->room[k].ends_us != 0) {
			s = signal_add(c, x);
			s->kind = SPOT_SIGNAL_ENDS;
			s->key = x->reserved.items[k]->key;
			s->value = (double)(x->room[k].ends_us / SPOT_US_PER_S);
			s->source = ROOM_SOURCE;
		}
	}
}

static enum spot_step room_reply(struct aws *self, struct spot_call *c, struct signalling *x)
{
	const struct xml *set;
	bool more;
	enum spot_step s = aws_reservations_reply(self, c, &set, &more);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		struct aws_reservation r;

		for (size_t k = 0; aws_reservation_read(i, &r) &&
		     aws_reservation_open(&r, c->now_us) && k < x->reserved.n;
		     k++) {
			const struct spot_pool_info *p = x->reserved.items[k];

			if (aws_reservation_at(&r, &p->key, p->zone_name) &&
			    (x->room[k].id == NULL || aws_reservation_better(&r, &x->room[k]))) {
				x->items[x->room_from + k].value = 1;
				x->room[k] = r;
			}
		}
	}
	x->reserved_told = !more;
	if (!more) {
		ends_add(c, x);
	}
	return SPOT_STEP_NONE;
}

/* ---- fulfilment ------------------------------------------------------------------------------ */

static void fill_end(struct spot_call *c, struct signalling *x)
{
	struct call_state *st = c->state;

	x->filling = false;
	st->next = NULL;
	st->pages = 0;
}

/* Whatever fails here, the other signals go on: the manager's region may be down, which is not this
 * one's trouble. The last counts stay stored, and fade. */
static enum spot_step fill_reply(struct aws *self, struct spot_call *c, struct signalling *x,
    const char *region)
{
	bool over = false;
	enum spot_step s = aws_fulfilment_reply(self, c, &x->filled, &x->pools, &over);
	struct spot_signal got = { 0 };
	size_t at = 0;

	if (s == SPOT_FAIL || s == SPOT_AGAIN) {
		fill_end(c, x);
		if (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_INVALID) {
			aws_fulfilment_asked(self, region, c->now_us);
		}
		c->err = (struct spot_err){ 0 };
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE || !over) {
		return s;
	}
	while (aws_fulfilment_next(x->filled, &at, &got)) {
		got.observed_us = c->now_us;
		*signal_add(c, x) = got;
	}
	aws_fulfilment_asked(self, region, c->now_us);
	fill_end(c, x);
	return SPOT_STEP_NONE;
}

/* ---- advisor --------------------------------------------------------------------------------- */

static enum spot_step advisor_send(struct aws *self, struct spot_call *c)
{
	call_request(c, "GET", self->advisor_url);
	c->out.reply_bytes_max = ADVISOR_REPLY_MAX;
	c->limit = AWS_LIMIT_ADVISOR;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
	return SPOT_SEND;
}

/* "<5%", "5-10%", ">20%" to shares of a month. */
static bool label_read(const char *label, double *lo, double *hi)
{
	int a, b, n = 0;

	if (label == NULL) {
		return false;
	}
	if (sscanf(label, "<%3d%%%n", &b, &n) == 1 && n > 0 && label[n] == '\0') {
		a = 0;
	} else if (sscanf(label, ">%3d%%%n", &a, &n) == 1 && n > 0 && label[n] == '\0') {
		b = 100;
	} else if (sscanf(label, "%3d-%3d%%%n", &a, &b, &n) != 2 || n == 0 || label[n] != '\0') {
		return false;
	}
	*lo = a / 100.0;
	*hi = b / 100.0;
	return a >= 0 && a < b && b <= 100;
}

static enum spot_step ranges_read(struct spot_call *c, struct signalling *x, const json_t *doc)
{
	const json_t *ranges = json_object_get(doc, "ranges"), *r;
	bool seen[BUCKETS] = { 0 };
	size_t i;

	if (!json_is_array(ranges) || json_array_size(ranges) != BUCKETS) {
		return aws_bad_reply(c, ADVISOR_SOURCE, "ranges is not a list of %d", BUCKETS);
	}
	json_array_foreach (ranges, i, r) {
		json_int_t at = json_is_integer(json_object_get(r, "index"))
		    ? json_integer_value(json_object_get(r, "index"))
		    : -1;
		const char *label = json_string_value(json_object_get(r, "label"));

		if (at < 0 || at >= BUCKETS || seen[at] ||
		    !label_read(label, &x->lo[at], &x->hi[at])) {
			return aws_bad_reply(c, ADVISOR_SOURCE,
			    "ranges[%zu] has no usable index and label", i);
		}
		seen[at] = true;
	}
	return SPOT_STEP_NONE;
}

static enum spot_step advisor_row(struct aws *self, struct spot_call *c, struct signalling *x,
    const char *region, const char *type, const json_t *row, int64_t as_of)
{
	const json_t *r = json_object_get(row, "r");
	struct spot_signal *s;

	if (pool_index_type(&x->pools, type) == NULL) {
		return SPOT_STEP_NONE;
	}
	if (!json_is_integer(r) || json_integer_value(r) < 0 || json_integer_value(r) >= BUCKETS) {
		return aws_bad_reply(c, ADVISOR_SOURCE, "%.40s: r is not a bucket 0 to %d", type,
		    BUCKETS - 1);
	}
	s = signal_add(c, x);
	s->kind = SPOT_SIGNAL_ADVISOR_BUCKET;
	s->key = (struct spot_pool_key){ .provider = self->name,
		.region = region,
		.zone = "",
		.instance_type = arena_strdup(c->arena, type),
		.market = SPOT_MARKET_SPOT };
	s->value = (double)json_integer_value(r);
	s->lo = x->lo[json_integer_value(r)];
	s->hi = x->hi[json_integer_value(r)];
	s->as_of_us = as_of;
	s->source = ADVISOR_SOURCE;
	return SPOT_STEP_NONE;
}

static enum spot_step advisor_reply(struct aws *self, struct spot_call *c, struct signalling *x,
    const char *region)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *regions;
	json_t *types, *row;
	const char *type;
	int64_t as_of = 0;
	enum spot_step s = aws_reply_json(self, c, ADVISOR_SOURCE, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	s = ranges_read(c, x, doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	regions = json_object_get(doc, "spot_advisor");
	if (!json_is_object(regions)) {
		return aws_bad_reply(c, ADVISOR_SOURCE, "spot_advisor is not an object");
	}
	/* A region or type that is missing is unknown, not without interruptions. */
	types = json_object_get(json_object_get(regions, region), "Linux");
	if (!parse_http_date_us(spot_http_header(c->in, "Last-Modified"), &as_of)) {
		as_of = 0;
	}
	json_object_foreach (types, type, row) {
		s = advisor_row(self, c, x, region, type, row, as_of);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	return SPOT_STEP_NONE;
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* The next set of which the region has a type; SETS when there is none. */
static int set_from(const struct aws *self, const struct signalling *x, int at)
{
	for (; self->placement_scores && at < SETS; at++) {
		for (size_t i = 0; i < TYPES_PER_SET; i++) {
			if (pool_index_type(&x->pools, score_sets[at][i]) != NULL) {
				return at;
			}
		}
	}
	return SETS;
}

static enum spot_step signals_done(struct spot_signals *a, const struct signalling *x)
{
	a->signals = x->items;
	a->n = x->n;
	return SPOT_DONE;
}

static enum spot_step signals_reply(struct aws *self, struct spot_call *c, struct signalling *x,
    const char *region, bool *ret_over)
{
	struct call_state *st = c->state;
	size_t had = x->n;
	bool more = false;
	enum spot_step s;

	if (st->at >= SETS) {
		s = advisor_reply(self, c, x, region);
		if (s == SPOT_FAIL && had > 0) {
			x->n = had;
			s = SPOT_STEP_NONE;
		}
		*ret_over = s == SPOT_STEP_NONE;
		return s;
	}
	s = score_reply(self, c, x, &more);
	/* Not permitted, not known there, or too many configurations today: do without. */
	if (s == SPOT_FAIL &&
	    (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_QUOTA || c->err.rc == SPOT_INVALID)) {
		st->at = SETS;
		st->next = NULL;
		return SPOT_STEP_NONE;
	}
	if (s == SPOT_STEP_NONE && !more) {
		st->at++;
	}
	return s;
}

enum spot_step aws_signals(void *p, struct spot_call *c, struct spot_signals *a)
{
	struct aws *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct signalling));
	struct signalling *x = st->own;
	bool over = false;

	if (x->pools.items == NULL) {
		if (str_empty(a->region)) {
			return call_fail(c, SPOT_INVALID, NULL, "aws signals: a region is needed");
		}
		pool_index_init(&x->pools, c->arena, a->pools, a->pools_n, SPOT_MARKET_SPOT);
		reserved_collect(c, x, a);
		x->reserved_told = !self->reservations || x->reserved.n == 0;
		x->filling = x->pools.n > 0 && aws_fulfilment_due(self, a->region, c->now_us);
	}
	if (c->in != NULL && !x->reserved_told) {
		enum spot_step s = room_reply(self, c, x);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	} else if (c->in != NULL && x->filling) {
		enum spot_step s = fill_reply(self, c, x, a->region);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	} else if (c->in != NULL) {
		enum spot_step s = signals_reply(self, c, x, a->region, &over);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (!x->reserved_told) {
		return room_send(self, c, x, a->region);
	}
	if (x->filling) {
		return aws_fulfilment_send(self, c, x->filled, a->region);
	}
	if (st->at < SETS) {
		st->at = set_from(self, x, st->at);
	}
	if (over || x->pools.n == 0) {
		return signals_done(a, x);
	}
	if (st->at < SETS) {
		return score_send(self, c, a->region);
	}
	return *self->advisor_url != '\0' ? advisor_send(self, c) : signals_done(a, x);
}
