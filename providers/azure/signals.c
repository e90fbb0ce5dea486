#include "base/base.h"
#include "azure_priv.h"

/*
 * How spot fares: eviction rates of a region from Resource Graph (SpotResources,
 * learn.microsoft.com/azure/virtual-machines/ spot-vms, "Eviction rates") and placement scores
 * (learn.microsoft.com/azure/virtual-machine-scale-sets/ spot-placement-score). A pool without
 * vendor data has no signal: unknown is not zero.
 */

#include <strings.h>

#define SIZES_PER_CALL 5

enum { RATES = 0, SCORES, ROOM };

struct signalling {
	struct spot_signal *items;
	size_t n, cap;
	const char **sizes; /* spot sizes of the region, each once */
	size_t sizes_n, from, count;
	const char *group; /* of reservations; NULL = none is asked for */
	struct azure_reservations reservations;
};

static void signal_add(struct spot_call *c, struct signalling *x, struct spot_signal s)
{
	s.observed_us = c->now_us;
	x->items = arena_grow(c->arena, x->items, x->n, &x->cap, sizeof(*x->items));
	x->items[x->n++] = s;
}

static const char *size_known(const struct signalling *x, const char *name)
{
	for (size_t i = 0; i < x->sizes_n; i++) {
		if (strcasecmp(x->sizes[i], name) == 0) {
			return x->sizes[i];
		}
	}
	return NULL;
}

static void sizes_read(struct spot_call *c, const struct spot_signals *a, struct signalling *x)
{
	x->sizes = arena_array(c->arena, a->pools_n + 1, sizeof(*x->sizes));
	for (size_t i = 0; i < a->pools_n; i++) {
		if (a->pools[i].key.market == SPOT_MARKET_SPOT &&
		    size_known(x, a->pools[i].key.instance_type) == NULL) {
			x->sizes[x->sizes_n++] = a->pools[i].key.instance_type;
		}
	}
}

/* ---- eviction rates -------------------------------------------------------------------------- */

static enum spot_step rates_send(struct azure *self, struct spot_call *c,
    const struct spot_signals *a, const struct signalling *x)
{
	struct sbuf b AUTO(sbuf);

	sbuf_init(&b, 1 << 20);
	for (size_t i = 0; i < x->sizes_n; i++) {
		sbuf_printf(&b, "%s%s", i > 0 ? "," : "", azure_graph_quote(c->arena, x->sizes[i]));
	}
	return azure_graph_send(self, c,
	    arena_printf(c->arena,
		"SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' "
		"| where location =~ %s and sku.name in~ (%.*s) "
		"| project id, sku=tostring(sku.name), location, "
		"rate=tostring(properties.evictionRate) | order by id asc",
		azure_graph_quote(c->arena, a->region), (int)b.n, b.p));
}

static void rate_read(const struct azure *self, struct spot_call *c, const struct spot_signals *a,
    const json_t *row, struct signalling *x)
{
	static const struct {
		const char *name;
		double lo, hi;
	} bands[] = { { "0-5", 0.0, 0.05 }, { "5-10", 0.05, 0.1 }, { "10-15", 0.1, 0.15 },
		{ "15-20", 0.15, 0.2 }, { "20+", 0.2, 1.0 } };
	const char *size = size_known(x, azure_text(row, "sku")), *rate = azure_text(row, "rate");

	if (size == NULL ||
	    strcmp(azure_region(c->arena, azure_text(row, "location")), a->region) != 0) {
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(bands); i++) {
		if (strcmp(bands[i].name, rate) != 0) {
			continue;
		}
		signal_add(c, x,
		    (struct spot_signal){ .kind = SPOT_SIGNAL_EVICTION_BAND,
			.value = (double)i,
			.lo = bands[i].lo,
			.hi = bands[i].hi,
			.source = "SpotResources",
			.key = { self->name, a->region, "", size, SPOT_MARKET_SPOT } });
	}
}

static enum spot_step rates_reply(struct azure *self, struct spot_call *c,
    const struct spot_signals *a, struct signalling *x)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_graph_reply(c, &doc, &rows);

	for (size_t i = 0; s == SPOT_STEP_NONE && i < json_array_size(rows); i++) {
		rate_read(self, c, a, json_array_get(rows, i), x);
	}
	return s;
}

/* ---- placement scores ------------------------------------------------------------------------ */

static enum spot_step scores_send(struct azure *self, struct spot_call *c,
    const struct spot_signals *a, struct signalling *x)
{
	json_t *sizes = json_array(), *doc AUTO(json) = NULL;
	struct azure_request r = { .what = "POST placementScores",
		.method = "POST",
		.limit = AZURE_LIMIT_PLACEMENT };

	x->count = MIN(x->sizes_n - x->from, (size_t)SIZES_PER_CALL);
	for (size_t i = 0; i < x->count; i++) {
		json_array_append_new(sizes, json_pack("{s:s}", "sku", x->sizes[x->from + i]));
	}
	doc = json_pack("{s:[s], s:o, s:i, s:b}", "desiredLocations", a->region, "desiredSizes",
	    sizes, "desiredCount", 1, "availabilityZones", 1);
	r.body = json_text(c->arena, doc);
	r.path = arena_printf(c->arena,
	    "/subscriptions/%s/providers/Microsoft.Compute/locations/%s/"
	    "placementScores/spot/generate?api-version=" API_PLACEMENT,
	    self->subscription, a->region);
	return azure_send(self, c, &r);
}

/* Ranks, not odds: they are spread over our 1 to 10. Without quota there is nothing to be had,
 * whatever the rank. */
static void score_read(const struct azure *self, struct spot_call *c, const struct spot_signals *a,
    const json_t *row, struct signalling *x)
{
	static const struct {
		const char *name;
		double value;
	} ranks[] = { { "High", 9 }, { "Medium", 5 }, { "Low", 2 } };
	const char *size = size_known(x, azure_text(row, "sku")), *score = azure_text(row, "score");
	struct spot_signal s = { .source = "placementScores" };

	if (size == NULL ||
	    strcmp(azure_region(c->arena, azure_text(row, "region")), a->region) != 0) {
		return;
	}
	s.key = (struct spot_pool_key){ self->name, a->region,
		azure_zone(c->arena, a->region, azure_text(row, "availabilityZone")), size,
		SPOT_MARKET_SPOT };
	if (strcmp(score, "RestrictedSkuNotAvailable") == 0) {
		s.kind = SPOT_SIGNAL_CAPACITY;
	}
	for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
		if (strcasecmp(ranks[i].name, score) == 0) {
			s.kind = SPOT_SIGNAL_PLACEMENT_SCORE;
			s.value = json_is_false(json_object_get(row, "isQuotaAvailable"))
			    ? 1
			    : ranks[i].value;
		}
	}
	if (s.kind != SPOT_SIGNAL_NONE) {
		signal_add(c, x, s);
	}
}

static enum spot_step scores_reply(struct azure *self, struct spot_call *c,
    const struct spot_signals *a, struct signalling *x)
{
	static const char what[] = "POST placementScores";
	json_t *doc AUTO(json) = NULL;
	const json_t *rows;
	enum spot_step s = azure_reply(c, what, &doc);

	/* A role of its own is needed (Compute Recommendations): without it the eviction rates are
	 * what there is. */
	if (s == SPOT_FAIL &&
	    (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_INVALID || c->err.rc == SPOT_CONFIG ||
		c->err.rc == SPOT_NOT_FOUND)) {
		c->err = (struct spot_err){ 0 };
		x->from = x->sizes_n;
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	rows = json_object_get(doc, "placementScores");
	if (!json_is_array(rows)) {
		return azure_bad_reply(c, what, "no placementScores in it");
	}
	for (size_t i = 0; i < json_array_size(rows); i++) {
		score_read(self, c, a, json_array_get(rows, i), x);
	}
	x->from += x->count;
	return SPOT_STEP_NONE;
}

/* ---- reservations ---------------------------------------------------------------------------- */

static enum spot_step room_begin(struct azure *self, struct spot_call *c,
    const struct spot_signals *a, struct signalling *x)
{
	struct call_state *st = c->state;

	for (size_t i = 0; i < a->pools_n; i++) {
		if (a->pools[i].key.market == SPOT_MARKET_RESERVED) {
			enum spot_step s = azure_reservation_group(self, c, a->region, &x->group);

			st->at = s == SPOT_STEP_NONE && x->group != NULL ? ROOM : RATES;
			return s;
		}
	}
	return SPOT_STEP_NONE;
}

static enum spot_step room_reply(struct azure *self, struct spot_call *c,
    const struct spot_signals *a, struct signalling *x)
{
	struct call_state *st = c->state;
	enum spot_step s = azure_reservations_reply(self, c, &x->reservations);

	if (s != SPOT_STEP_NONE || st->next != NULL) {
		return s;
	}
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_info *p = &a->pools[i];

		if (p->key.market == SPOT_MARKET_RESERVED) {
			signal_add(c, x,
			    (struct spot_signal){ .kind = SPOT_SIGNAL_CAPACITY,
				.value = azure_reserved(&x->reservations, p->key.instance_type,
				    p->zone_name, 1),
				.source = AZURE_RESERVATIONS,
				.key = p->key });
		}
	}
	st->at = RATES;
	return SPOT_STEP_NONE;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static enum spot_step any_reply(struct azure *self, struct spot_call *c,
    const struct spot_signals *a, struct signalling *x)
{
	struct call_state *st = c->state;
	enum spot_step s;

	if (st->at == ROOM) {
		return room_reply(self, c, a, x);
	}
	s = st->at == RATES ? rates_reply(self, c, a, x) : scores_reply(self, c, a, x);
	if (s == SPOT_STEP_NONE && st->at == RATES && st->next == NULL) {
		st->at = SCORES;
	}
	return s;
}

enum spot_step azure_signals(void *p, struct spot_call *c, struct spot_signals *a)
{
	struct azure *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct signalling));
	struct signalling *x = st->own;
	enum spot_step s = SPOT_STEP_NONE;

	if (x->sizes == NULL) {
		sizes_read(c, a, x);
		s = room_begin(self, c, a, x);
	}
	if (c->in != NULL) {
		s = any_reply(self, c, a, x);
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (st->at == ROOM) {
		return azure_reservations_send(self, c, x->group);
	}
	if (st->at == RATES && x->sizes_n > 0) {
		return rates_send(self, c, a, x);
	}
	if (st->at == SCORES && x->from < x->sizes_n && self->placement_scores) {
		return scores_send(self, c, a, x);
	}
	a->signals = x->items;
	a->n = x->n;
	return SPOT_DONE;
}
