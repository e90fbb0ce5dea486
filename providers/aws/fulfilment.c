#include "base/base.h"
#include "aws_priv.h"

/*
 * The account's own fulfilment rates, by EC2 Capacity Manager: how much of the spot capacity that
 * it asked for it got, by type and zone. The manager is enabled in one region of the account. It
 * tells there of all regions, by the hour and late (UserGuide/capacity-manager.html). Without it
 * there are no rates, which is no error.
 */

#include <math.h>

#define DATA "GetCapacityManagerMetricData"
#define ATTRIBUTES "GetCapacityManagerAttributes"
#define PAGE "1000"
#define HOURS 24
/* New data come by the hour. */
#define PAUSE_US (55 * 60 * SPOT_US_PER_S)
/* An older count has less than a hundredth of its weight. */
#define STANDS_STILL_US (72 * SPOT_US_PER_HOUR)
#define LEAST 0.01
#define VCPUS_MAX 1e9

static const char *const metrics[] = { "spot-inst-az-fulfillment-rate",
	"spot-capacity-total-requested-vcpu", "spot-capacity-total-fulfilled-vcpu",
	"spot-avg-inst-az-count-per-requested-vcpu" };
enum { RATE = 0, REQUESTED, FULFILLED, COMBINATIONS };

/* One pool's requests, in machines. The rate may be a share or a percentage, so it is summed up as
 * it is. */
struct filled {
	const struct spot_pool_info *pool;
	double asked, rated, delivered;
};

struct aws_fulfilment {
	int64_t until_us; /* end of the newest hour with data; 0 = not read yet */
	struct filled *items;
	size_t n, cap;
	double rate_max;
};

/* ---- when ------------------------------------------------------------------------------------ */

static struct aws_asked *asked_of(struct aws *self, const char *region)
{
	for (size_t i = 0; i < self->asked_n; i++) {
		if (strcmp(self->asked[i].region, region) == 0) {
			return &self->asked[i];
		}
	}
	self->asked = arena_grow(self->arena, self->asked, self->asked_n, &self->asked_cap,
	    sizeof(*self->asked));
	self->asked[self->asked_n] =
	    (struct aws_asked){ .region = arena_strdup(self->arena, region) };
	return &self->asked[self->asked_n++];
}

bool aws_fulfilment_due(struct aws *self, const char *region, int64_t now_us)
{
	const struct aws_asked *a;

	if (!self->manager) {
		return false;
	}
	a = asked_of(self, region);
	return a->at_us == 0 || now_us - a->at_us >= PAUSE_US || now_us < a->at_us;
}

void aws_fulfilment_asked(struct aws *self, const char *region, int64_t now_us)
{
	asked_of(self, region)->at_us = now_us;
}

const char *aws_manager_region(const struct aws *self)
{
	return self->manager_region != NULL ? self->manager_region : self->home;
}

/* ---- is it enabled? -------------------------------------------------------------------------- */

enum spot_step aws_manager_send(struct aws *self, struct spot_call *c)
{
	struct query q;

	query_begin(&q, c->arena, ATTRIBUTES, EC2_VERSION);
	return query_send_ec2(&q, self, c, aws_manager_region(self), ATTRIBUTES, AWS_LIMIT_DESCRIBE,
	    false);
}

enum spot_step aws_manager_reply(struct aws *self, struct spot_call *c, struct aws_manager *ret)
{
	const struct xml *doc;
	enum spot_step s = aws_reply_xml(self, c, ATTRIBUTES, ATTRIBUTES "Response", &doc);

	if (s == SPOT_STEP_NONE) {
		ret->enabled = strcmp(xml_text(doc, "capacityManagerStatus", ""), "enabled") == 0;
		ret->latest_us = aws_time(xml_text(doc, "latestDatapointTimestamp", ""));
		ret->ingestion = xml_text(doc, "ingestionStatus", "");
	}
	return s;
}

const char *aws_manager_words(const struct aws *self, struct spot_call *c,
    const struct aws_manager *m)
{
	const char *region = aws_manager_region(self);
	char at[TIME_TEXT_MAX];

	if (!m->enabled) {
		return arena_printf(c->arena,
		    "not enabled in %s, so there are no fulfilment rates; to have them: "
		    "aws ec2 enable-capacity-manager --region %s",
		    region, region);
	}
	if (m->latest_us == 0) {
		return arena_printf(c->arena, "enabled in %s, no data yet: %.40s", region,
		    m->ingestion);
	}
	return arena_printf(c->arena, "enabled in %s, newest data of %s", region,
	    format_time_s(m->latest_us, at));
}

/* ---- the counts ------------------------------------------------------------------------------ */

enum spot_step aws_fulfilment_query(struct aws *self, struct spot_call *c, const char *region,
    int64_t until_us, bool dry)
{
	const struct call_state *st = c->state;
	char text[TIME_TEXT_MAX];
	struct query q;

	query_begin(&q, c->arena, DATA, EC2_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		query_addf(&q, metrics[i], "MetricName.%zu", i + 1);
	}
	query_add(&q, "StartTime", format_time_s(until_us - HOURS * SPOT_US_PER_HOUR, text));
	query_add(&q, "EndTime", format_time_s(until_us, text));
	query_add(&q, "Period", "3600");
	query_add(&q, "GroupBy.1", "instance-type");
	query_add(&q, "GroupBy.2", "availability-zone-id");
	query_add(&q, "FilterBy.1.DimensionCondition.Dimension", "resource-region");
	query_add(&q, "FilterBy.1.DimensionCondition.Comparison", "equals");
	query_add(&q, "FilterBy.1.DimensionCondition.Value.1", region);
	query_add(&q, "MaxResults", PAGE);
	if (dry) {
		query_add(&q, "DryRun", "true");
	} else if (st->next != NULL) {
		query_add(&q, "NextToken", st->next);
	}
	return query_send_ec2(&q, self, c, aws_manager_region(self), DATA, AWS_LIMIT_DESCRIBE,
	    false);
}

static struct filled *filled_of(struct spot_call *c, struct aws_fulfilment *x,
    const struct spot_pool_info *pool)
{
	for (size_t i = 0; i < x->n; i++) {
		if (x->items[i].pool == pool) {
			return &x->items[i];
		}
	}
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n] = (struct filled){ .pool = pool };
	return &x->items[x->n++];
}

/* Reads the metrics of a row; a negative value is absent. */
static void values_read(const struct xml *row, double ret[ARRAY_LEN(metrics)])
{
	const struct xml *set = xml_at(row, "metricValueSet");

	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		ret[i] = -1;
	}
	for (const struct xml *v = xml_first(set, "item"); v != NULL; v = xml_next(v, "item")) {
		for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
			double value;

			if (strcmp(xml_text(v, "metric", ""), metrics[i]) == 0 &&
			    parse_f64(xml_text(v, "value", ""), 0, VCPUS_MAX, &value)) {
				ret[i] = value;
			}
		}
	}
}

/* A row is one hour of one pool. A request that would take several pools tried each of them less:
 * it is shared out. */
static void row_add(struct spot_call *c, struct aws_fulfilment *x, const struct pool_index *pools,
    const struct xml *row)
{
	const struct spot_pool_info *pool =
	    pool_index_find(pools, xml_text(row, "dimension/instanceType", ""),
		xml_text(row, "dimension/availabilityZoneId", ""), "");
	int64_t end_us = aws_time(xml_text(row, "timestamp", ""));
	double v[ARRAY_LEN(metrics)], asked, age_h, share;
	struct filled *f;

	values_read(row, v);
	if (pool == NULL || pool->shape.vcpus <= 0 || end_us == 0 || v[REQUESTED] <= 0 ||
	    (v[RATE] < 0 && v[FULFILLED] < 0)) {
		return;
	}
	end_us += SPOT_US_PER_HOUR;
	age_h = (double)MAX(x->until_us - end_us, 0);
	asked = v[REQUESTED] / pool->shape.vcpus / fmax(v[COMBINATIONS], 1) *
	    pow(0.5, age_h / (double)SPOT_FULFILMENT_HALF_LIFE_US);
	share = fmin(fmax(v[FULFILLED], 0) / v[REQUESTED], 1);
	f = filled_of(c, x, pool);
	f->asked += asked;
	if (v[RATE] >= 0) {
		f->rated += asked * v[RATE];
		x->rate_max = fmax(x->rate_max, v[RATE]);
	} else {
		f->delivered += asked * share;
	}
}

static enum spot_step data_reply(struct aws *self, struct spot_call *c, struct aws_fulfilment *x,
    const struct pool_index *pools, bool *ret_more)
{
	const struct xml *doc, *set;
	bool bad;
	enum spot_step s = aws_reply_xml(self, c, DATA, DATA "Response", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "metricDataResultSet");
	for (const struct xml *r = xml_first(set, "item"); r != NULL; r = xml_next(r, "item")) {
		row_add(c, x, pools, r);
	}
	*ret_more = aws_next_page(c->state, c->arena, xml_text(doc, "nextToken", ""), &bad);
	return bad ? aws_bad_reply(c, DATA, "the page token repeats") : SPOT_STEP_NONE;
}

/* ---- the steps ------------------------------------------------------------------------------- */

enum spot_step aws_fulfilment_send(struct aws *self, struct spot_call *c,
    const struct aws_fulfilment *x, const char *region)
{
	return x == NULL ? aws_manager_send(self, c)
			 : aws_fulfilment_query(self, c, region, x->until_us, false);
}

enum spot_step aws_fulfilment_reply(struct aws *self, struct spot_call *c,
    struct aws_fulfilment **x, const struct pool_index *pools, bool *ret_over)
{
	struct aws_manager m = { 0 };
	enum spot_step s;
	bool more = false;

	if (*x != NULL) {
		s = data_reply(self, c, *x, pools, &more);
		*ret_over = !more;
		return s;
	}
	s = aws_manager_reply(self, c, &m);
	*ret_over = !m.enabled || m.latest_us == 0 || c->now_us - m.latest_us > STANDS_STILL_US;
	if (s == SPOT_STEP_NONE && !*ret_over) {
		*x = arena_alloc(c->arena, sizeof(**x));
		/* A point has the time at which its hour began. */
		**x = (struct aws_fulfilment){ .until_us = (m.latest_us / SPOT_US_PER_HOUR + 1) *
			    SPOT_US_PER_HOUR };
	}
	return s;
}

bool aws_fulfilment_next(const struct aws_fulfilment *x, size_t *at, struct spot_signal *ret)
{
	/* The vendor says percentage. No account gets one in a hundred everywhere. */
	double unit = x != NULL && x->rate_max > 1 ? 100 : 1;

	for (; x != NULL && *at < x->n; (*at)++) {
		const struct filled *f = &x->items[*at];
		double delivered = fmin(f->delivered + f->rated / unit, f->asked);

		if (f->asked < LEAST) {
			continue;
		}
		ret->kind = SPOT_SIGNAL_FULFILMENT;
		ret->key = f->pool->key;
		ret->value = delivered / f->asked;
		ret->lo = delivered;
		ret->hi = f->asked;
		ret->as_of_us = x->until_us;
		ret->source = DATA;
		(*at)++;
		return true;
	}
	return false;
}
