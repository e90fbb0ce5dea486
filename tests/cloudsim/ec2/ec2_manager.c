/*
 * EC2 Capacity Manager: enabled in one region of the account, where it tells of all regions. The
 * account's requests come from the control API (POST /aws/fulfilment), an hour of a pool at a time.
 * It knows the metrics of spot requests and the dimensions of a pool. The codes of refusals are a
 * guess.
 */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

struct filled_hour {
	struct filled_hour *next;
	const struct pool *pool;
	int64_t at_us; /* its beginning */
	double requested, fulfilled, combinations; /* vCPUs; pools that the requests would take */
};

#define DAY_US (24 * SPOT_US_PER_HOUR)
#define RANGE_US (90 * DAY_US)
#define WORDS_MAX 20

static const char *const metrics[] = { "spot-capacity-total-requested-vcpu",
	"spot-capacity-total-fulfilled-vcpu", "spot-capacity-request-fulfillment-rate",
	"spot-inst-az-fulfillment-rate", "spot-avg-inst-az-count-per-requested-vcpu" };
static const char *const dimensions[] = { "resource-region", "availability-zone-id", "account-id",
	"instance-family", "instance-type" };
#define DIMENSIONS ARRAY_LEN(dimensions)

static bool is_enabled(struct ec2 *e)
{
	return str_same(aws_controls(e->sim)->manager, e->rq->region);
}

static int64_t hour_of(int64_t us)
{
	return us / SPOT_US_PER_HOUR * SPOT_US_PER_HOUR;
}

static int64_t latest_of(struct ec2 *e)
{
	return hour_of(sim_wall(e->sim)) - aws_controls(e->sim)->manager_lag_h * SPOT_US_PER_HOUR;
}

/* ---- on and off ------------------------------------------------------------------------------ */

static void status_xml(struct ec2 *e)
{
	x_text(&e->out, "capacityManagerStatus", is_enabled(e) ? "enabled" : "disabled");
	x_bool(&e->out, "organizationsAccess", false);
}

void ec2_manager_enable(struct ec2 *e)
{
	struct aws_controls *c = aws_controls(e->sim);

	form_get(&e->form, "ClientToken");
	if (ec2_bool(e, "OrganizationsAccess", false)) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "Access to organizations is not emulated.");
	}
	if (!ec2_ready(e)) {
		return;
	}
	if (*c->manager != '\0' && !is_enabled(e)) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "Capacity Manager is enabled in another Region.");
		return;
	}
	snprintf(c->manager, sizeof(c->manager), "%.31s", e->rq->region);
	ec2_begin(e);
	status_xml(e);
}

void ec2_manager_disable(struct ec2 *e)
{
	form_get(&e->form, "ClientToken");
	if (!ec2_ready(e)) {
		return;
	}
	if (is_enabled(e)) {
		*aws_controls(e->sim)->manager = '\0';
	}
	ec2_begin(e);
	status_xml(e);
}

void ec2_manager_attributes(struct ec2 *e)
{
	int64_t latest = latest_of(e);

	if (!ec2_ready(e)) {
		return;
	}
	ec2_begin(e);
	status_xml(e);
	if (is_enabled(e)) {
		x_int(&e->out, "dataExportCount", 0);
		x_text(&e->out, "ingestionStatus", "ingestion-complete");
		x_text(&e->out, "earliestDatapointTimestamp",
		    aws_time_ms(e->rq->arena, latest - 14 * DAY_US));
		x_text(&e->out, "latestDatapointTimestamp", aws_time_ms(e->rq->arena, latest));
	}
}

/* ---- the question ---------------------------------------------------------------------------- */

struct condition {
	const char *dimension;
	const char **values;
	size_t n;
};

struct question {
	const char **names;
	size_t names_n;
	bool by[DIMENSIONS];
	struct condition where[WORDS_MAX];
	size_t where_n;
	int64_t from_us, to_us, period_us;
};

static size_t word_index(const char *const *words, size_t n, const char *word)
{
	size_t k = 0;

	while (k < n && !str_same(words[k], word)) {
		k++;
	}
	return k;
}

static void invalid_fail(struct ec2 *e, const char *name, const char *value)
{
	ec2_fail(e, 400, "InvalidParameterValue", "Value (%s) for parameter %s is invalid.",
	    value ? value : "", name);
}

static void names_read(struct ec2 *e, struct question *q)
{
	const char **by;
	size_t n = form_list(&e->form, e->rq->arena, "GroupBy", &by), k;

	q->names_n = form_list(&e->form, e->rq->arena, "MetricName", &q->names);
	if (q->names_n == 0) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter MetricNames");
	} else if (q->names_n > 10) {
		ec2_fail(e, 400, "InvalidParameterValue", "At most 10 metrics per request.");
	}
	for (k = 0; k < q->names_n; k++) {
		if (word_index(metrics, ARRAY_LEN(metrics), q->names[k]) == ARRAY_LEN(metrics)) {
			invalid_fail(e, "MetricName", q->names[k]);
		}
	}
	for (k = 0; k < n; k++) {
		size_t at = word_index(dimensions, DIMENSIONS, by[k]);

		if (at == DIMENSIONS) {
			invalid_fail(e, "GroupBy", by[k]);
			return;
		}
		q->by[at] = true;
	}
}

static void conditions_read(struct ec2 *e, struct question *q)
{
	struct arena *a = e->rq->arena;

	for (int k = 1; k <= WORDS_MAX; k++) {
		const char *at = arena_printf(a, "FilterBy.%d.DimensionCondition", k);
		struct condition *w = &q->where[q->where_n];
		const char *how = form_get(&e->form, arena_printf(a, "%s.Comparison", at));

		w->dimension = form_get(&e->form, arena_printf(a, "%s.Dimension", at));
		w->n = form_list(&e->form, a, arena_printf(a, "%s.Value", at), &w->values);
		if (!w->dimension) {
			continue;
		}
		if (word_index(dimensions, DIMENSIONS, w->dimension) == DIMENSIONS) {
			invalid_fail(e, "Dimension", w->dimension);
		}
		if (!str_same(how, "equals") && !str_same(how, "in")) {
			invalid_fail(e, "Comparison", how);
		}
		if (w->n == 0 || w->n > 10) {
			invalid_fail(e, "Value", "");
		}
		/* equals uses the first value. */
		w->n = str_same(how, "equals") ? MIN(w->n, 1) : w->n;
		q->where_n++;
	}
}

static int64_t time_read(struct ec2 *e, const char *name)
{
	const char *text = form_get(&e->form, name);
	int64_t us = 0;

	if (!text) {
		ec2_fail(e, 400, "MissingParameter", "The request must contain the parameter %s",
		    name);
	} else if (!parse_time_us(text, &us)) {
		invalid_fail(e, name, text);
	}
	return us;
}

static void span_read(struct ec2 *e, struct question *q)
{
	int64_t period;

	q->from_us = time_read(e, "StartTime");
	q->to_us = time_read(e, "EndTime");
	if (!form_get(&e->form, "Period")) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter Period");
	}
	if (!ec2_int(e, "Period", 3600, 90 * 24 * 3600, 3600, &period) || e->failed) {
		return;
	}
	q->period_us = period * SPOT_US_PER_S;
	if (period % 3600 != 0 || q->from_us >= q->to_us || q->to_us - q->from_us > RANGE_US ||
	    (q->to_us - q->from_us) % q->period_us != 0) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "The time range must be a multiple of the period and at most 90 days.");
	}
	q->to_us = MIN(q->to_us, latest_of(e) + SPOT_US_PER_HOUR);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static const char *dimension_of(struct ec2 *e, const struct filled_hour *h, size_t at)
{
	const char *type = h->pool->type->name;
	const char *const all[DIMENSIONS] = { h->pool->region->name, h->pool->zone->id, AWS_ACCOUNT,
		arena_strndup(e->rq->arena, type, strcspn(type, ".")), type };

	return all[at];
}

static bool hour_wanted(struct ec2 *e, const struct question *q, const struct filled_hour *h)
{
	for (size_t k = 0; k < q->where_n; k++) {
		const struct condition *w = &q->where[k];
		size_t at = word_index(dimensions, DIMENSIONS, w->dimension);

		if (!ec2_match_any(w->values, w->n, dimension_of(e, h, at))) {
			return false;
		}
	}
	return h->at_us >= q->from_us && h->at_us < q->to_us;
}

/* One point: the hours of a period that are alike in what is grouped by. */
struct point {
	const char *by[DIMENSIONS];
	int64_t at_us;
	double requested, fulfilled, tried;
};

static void point_add(struct ec2 *e, const struct question *q, const struct filled_hour *h,
    struct point *list, size_t *n)
{
	struct point p = { .at_us =
			       q->from_us + (h->at_us - q->from_us) / q->period_us * q->period_us };
	size_t k = 0;

	for (size_t d = 0; d < DIMENSIONS; d++) {
		p.by[d] = q->by[d] ? dimension_of(e, h, d) : NULL;
	}
	for (; k < *n; k++) {
		bool same = list[k].at_us == p.at_us;

		for (size_t d = 0; d < DIMENSIONS; d++) {
			same = same && (!q->by[d] || str_same(list[k].by[d], p.by[d]));
		}
		if (same) {
			break;
		}
	}
	if (k == *n) {
		list[(*n)++] = p;
	}
	list[k].requested += h->requested;
	list[k].fulfilled += h->fulfilled;
	list[k].tried += h->requested * h->combinations;
}

static double metric_of(const struct point *p, const char *name)
{
	switch (word_index(metrics, ARRAY_LEN(metrics), name)) {
	case 0:
		return p->requested;
	case 1:
		return p->fulfilled;
	case 4:
		return p->tried / p->requested;
	default:
		return 100 * p->fulfilled / p->requested;
	}
}

static void point_xml(struct ec2 *e, const struct question *q, const struct point *p)
{
	static const char *const tags[DIMENSIONS] = { "resourceRegion", "availabilityZoneId",
		"accountId", "instanceFamily", "instanceType" };
	struct sbuf *b = &e->out;

	x_open(b, "item");
	x_open(b, "dimension");
	for (size_t d = 0; d < DIMENSIONS; d++) {
		if (p->by[d]) {
			x_text(b, tags[d], p->by[d]);
		}
	}
	x_close(b, "dimension");
	x_text(b, "timestamp", aws_time_ms(e->rq->arena, p->at_us));
	x_open(b, "metricValueSet");
	for (size_t k = 0; k < q->names_n; k++) {
		x_open(b, "item");
		x_text(b, "metric", q->names[k]);
		x_text(b, "value", arena_printf(e->rq->arena, "%.6g", metric_of(p, q->names[k])));
		x_close(b, "item");
	}
	x_close(b, "metricValueSet");
	x_close(b, "item");
}

void ec2_manager_data(struct ec2 *e)
{
	struct question q = { 0 };
	struct ec2_page page;
	struct point *list;
	size_t n = 0, hours = 0;

	names_read(e, &q);
	conditions_read(e, &q);
	span_read(e, &q);
	if (!ec2_page(e, 1, 100000, 1000, &page) || !ec2_ready(e)) {
		return;
	}
	if (!is_enabled(e)) {
		ec2_fail(e, 400, "UnsupportedOperation",
		    "Capacity Manager is not enabled in this Region.");
		return;
	}
	for (const struct filled_hour *h = aws_controls(e->sim)->filled; h; h = h->next) {
		hours++;
	}
	list = arena_array(e->rq->arena, hours + 1, sizeof(*list));
	for (const struct filled_hour *h = aws_controls(e->sim)->filled; h; h = h->next) {
		if (hour_wanted(e, &q, h)) {
			point_add(e, &q, h, list, &n);
		}
	}
	ec2_begin(e);
	x_open(&e->out, "metricDataResultSet");
	for (size_t k = (size_t)page.at; k < n && (int64_t)k < page.at + page.size; k++) {
		point_xml(e, &q, &list[k]);
	}
	x_close(&e->out, "metricDataResultSet");
	if (page.at + page.size < (int64_t)n) {
		x_text(&e->out, "nextToken", ec2_next_token(e, page.at + page.size));
	}
}

/* ---- the control API ------------------------------------------------------------------------- */

json_t *manager_post(struct sim *s, const json_t *doc, struct arena *a UNUSED, struct spot_err *err)
{
	struct aws_controls *c = aws_controls(s);

	snprintf(c->manager, sizeof(c->manager), "%.31s", json_str(doc, "region", "", err));
	c->manager_lag_h = json_i64(doc, "lag_h", 1, err);
	return err->rc == SPOT_OK ? json_object() : NULL;
}

json_t *filled_post(struct sim *s, const json_t *doc, struct arena *a UNUSED, struct spot_err *err)
{
	const char *region = json_str(doc, "region", "", err),
		   *type = json_str(doc, "type", "", err);
	const struct zone *z = market_zone(s->market, region, json_str(doc, "zone", "", err));
	int64_t ago = json_i64(doc, "hours_ago", 1, err);
	struct filled_hour h = { .requested = json_f64(doc, "requested", 0, err),
		.fulfilled = json_f64(doc, "fulfilled", 0, err),
		.combinations = json_f64(doc, "combinations", 1, err) },
			   *kept;

	h.pool = z ? market_pool(s->market, CLOUD_AWS, region, z, type) : NULL;
	if (err->rc == SPOT_OK &&
	    (!h.pool || h.requested <= 0 || h.fulfilled < 0 || h.fulfilled > h.requested ||
		h.combinations < 1)) {
		err_set(err, SPOT_INVALID,
		    "fulfilment: region, zone and type name no pool, or the vCPUs are wrong");
	}
	if (err->rc != SPOT_OK) {
		return NULL;
	}
	kept = calloc(1, sizeof(*kept));
	if (!kept) {
		abort();
	}
	h.at_us = hour_of(sim_wall(s)) - ago * SPOT_US_PER_HOUR;
	h.next = aws_controls(s)->filled;
	*kept = h;
	aws_controls(s)->filled = kept;
	return json_object();
}

void filled_free(struct aws_controls *c)
{
	while (c->filled) {
		struct filled_hour *h = c->filled;

		c->filled = h->next;
		free(h);
	}
}
