/* The provider's bill: per instance, at the price in force second by second. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

/* From running to the end; a launch that never ran costs nothing. Lambda bills from the launch
 * answer on, since the start of billing is not told (lambda notes, 6). */
static void bill_span(const struct inst *i, int64_t *from, int64_t *to)
{
	*from = cloud_ops(i->cloud)->bills_from_launch ? i->launched_us : i->running_us;
	*to = i->billed_to_us ? i->billed_to_us : i->stopped_us ? i->stopped_us : sim_wall(i->sim);
	if (*from == 0) {
		*from = *to;
	}
}

/* Micro-dollars of a span at one price, rounded half up. */
static int64_t span_micros(int64_t us, int64_t micros_per_hour)
{
	return (
	    int64_t)(((__int128)us * micros_per_hour + SPOT_US_PER_HOUR / 2) / SPOT_US_PER_HOUR);
}

static int64_t bill_walk(const struct inst *i, int64_t from, int64_t to, json_t *segments)
{
	const struct price_log *l = &i->pool->price[i->side];
	int64_t at = from, sum = 0;

	while (at < to) {
		int64_t micros = price_at(l, at), end = to;

		for (size_t k = 0; k < l->n; k++) {
			if (l->at[k].us > at && l->at[k].us < end) {
				end = l->at[k].us;
				break;
			}
		}
		sum += span_micros(end - at, micros);
		if (segments) {
			json_array_append_new(segments,
			    json_pack("{s:I, s:I, s:I, s:I}", "from_us", (json_int_t)at, "to_us",
				(json_int_t)end, "usd_micros_per_hour", (json_int_t)micros,
				"cost_micros", (json_int_t)span_micros(end - at, micros)));
		}
		at = end;
	}
	return sum;
}

/* All times that it ran, from the first start to the last end. */
static int64_t bill_all(const struct inst *i, int64_t *ret_from, int64_t *ret_to, json_t *segments)
{
	int64_t sum = 0;

	for (size_t k = 0; k < i->spans_n; k++) {
		sum += bill_walk(i, i->spans[k].from_us, i->spans[k].to_us, segments);
	}
	bill_span(i, ret_from, ret_to);
	sum += bill_walk(i, *ret_from, *ret_to, segments);
	if (i->spans_n > 0) {
		*ret_from = i->spans[0].from_us;
	}
	return sum;
}

int64_t bill_micros(const struct inst *i, int64_t *ret_from, int64_t *ret_to)
{
	return bill_all(i, ret_from, ret_to, NULL);
}

static const char *identity_of(const struct inst *i)
{
	return i->token ? i->token : i->name ? i->name : "";
}

static int by_identity(const void *a, const void *b)
{
	const struct inst *const *x = a, *const *y = b;
	int c = strcmp(identity_of(*x), identity_of(*y));

	if (!c && (*x)->pool->zone != (*y)->pool->zone) {
		c = (*x)->pool->zone < (*y)->pool->zone ? -1 : 1;
	}
	return c ? c : ((*x)->seq > (*y)->seq) - ((*x)->seq < (*y)->seq);
}

/* Launches of one token in one zone (at Lambda: of one name) that each made instances; instances of
 * one launch share a reservation. */
static json_t *double_launches(const struct sim *s)
{
	const struct inst **all = calloc((size_t)s->inst_seq + 1, sizeof(*all));
	json_t *found = json_array();
	size_t n = 0;

	if (!all) {
		abort();
	}
	for (const struct inst *i = s->insts; i; i = i->next) {
		if (*identity_of(i)) {
			all[n++] = i;
		}
	}
	if (n > 0) {
		qsort(all, n, sizeof(*all), by_identity);
	}
	for (size_t k = 1; k < n; k++) {
		const struct inst *x = all[k - 1], *y = all[k];

		if (x->cloud == y->cloud && x->pool->zone == y->pool->zone &&
		    str_same(identity_of(x), identity_of(y)) &&
		    !(x->reservation && str_same(x->reservation, y->reservation))) {
			json_array_append_new(found,
			    json_pack("{s:s, s:s?, s:s, s:[s, s]}", "token", identity_of(y), "zone",
				y->pool->zone ? y->pool->zone->id : NULL, "provider",
				cloud_name(y->cloud), "instances", x->id, y->id));
		}
	}
	free(all);
	return found;
}

static json_t *bill_line(const struct inst *i, int64_t *ret_cost)
{
	json_t *segments = json_array(), *o;
	int64_t from, to;

	*ret_cost = bill_all(i, &from, &to, segments);
	o = json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s, s:s?, s:s?, s:s, s:b, s:I, s:I, s:I, s:o}",
	    "instance", i->id, "provider", cloud_name(i->cloud), "region", i->pool->region->name,
	    "zone", i->pool->zone ? i->pool->zone->id : NULL, "type", i->pool->type->name, "market",
	    side_name(i->side), "token", i->token, "name", i->name, "state", inst_state_name(i),
	    "terminated", i->state == INST_GONE, "from_us", (json_int_t)from, "to_us",
	    (json_int_t)to, "cost_micros", (json_int_t)*ret_cost, "segments", segments);
	/* Linux instances that EC2 takes back within the first hour are free (EC2 User Guide,
	 * billing for interrupted Spot Instances); told beside the plain cost. */
	json_object_set_new(o, "free_first_hour",
	    json_boolean(i->cloud == CLOUD_AWS && i->side == SIDE_SPOT && i->billed_to_us &&
		str_same(i->reason_code, "Server.SpotInstanceTermination") &&
		to - from < SPOT_US_PER_HOUR));
	return o;
}

json_t *books_bill(const struct sim *s)
{
	json_t *lines = json_array(), *left = json_array();
	int64_t sum = 0, cost;

	for (const struct inst *i = s->insts; i; i = i->next) {
		json_array_append_new(lines, bill_line(i, &cost));
		sum += cost;
		if (i->state != INST_GONE && i->state != INST_SHUTTING) {
			json_array_append_new(left, json_string(i->id));
		}
	}
	clouds_left(s, left);
	return json_pack("{s:I, s:o, s:o, s:i, s:o}", "sum_micros", (json_int_t)sum,
	    "double_launches", double_launches(s), "left", left, "alive", s->alive, "instances",
	    lines);
}
