/* The record: counters, launches, events, bill. */
#include "base/base.h"
#include "cloudsim/sim/clouds.h"
#include "base/text/str.h"

#define EVENTS_MAX 200000

struct count {
	char *service, *action, *code;
	int status;
	int64_t n;
};
struct event {
	uint64_t seq;
	int64_t at_us;
	char *type;
	const struct inst *inst;
	json_t *detail;
};
struct launch_record {
	int64_t at_us;
	enum cloud cloud;
	char *token, *scope, *params_hash, *code;
	const struct pool *pool;
	enum side side;
	bool replayed;
	const struct inst **insts;
	size_t n;
};
struct books {
	struct count *counts;
	size_t counts_n;
	struct event *events;
	size_t events_n, events_cap;
	struct launch_record *launches;
	size_t launches_n, launches_cap;
	uint64_t seq;
};

void books_new(struct sim *s)
{
	s->books = calloc(1, sizeof(*s->books));
	if (!s->books) {
		abort();
	}
}

void books_free(struct sim *s)
{
	struct books *b = s->books;

	if (!b) {
		return;
	}
	for (size_t k = 0; k < b->counts_n; k++) {
		free(b->counts[k].service);
		free(b->counts[k].action);
		free(b->counts[k].code);
	}
	for (size_t k = 0; k < b->events_n; k++) {
		free(b->events[k].type);
		json_decref(b->events[k].detail);
	}
	for (size_t k = 0; k < b->launches_n; k++) {
		free(b->launches[k].token);
		free(b->launches[k].scope);
		free(b->launches[k].params_hash);
		free(b->launches[k].code);
		free(b->launches[k].insts);
	}
	free(b->counts);
	free(b->events);
	free(b->launches);
	free(b);
	s->books = NULL;
}

static void *grow(void *items, size_t n, size_t *cap, size_t size)
{
	if (n < *cap) {
		return items;
	}
	*cap = MAX((size_t)64, *cap * 2);
	items = realloc(items, *cap * size);
	if (!items) {
		abort();
	}
	return items;
}

void books_request(struct sim *s, const char *service, const char *action, const char *code,
    int status)
{
	struct books *b = s->books;
	struct count *c;

	service = service ? service : "?";
	action = action ? action : "?";
	for (size_t k = 0; k < b->counts_n; k++) {
		c = &b->counts[k];
		if (str_same(c->service, service) && str_same(c->action, action) &&
		    str_same(c->code, code) && c->status == status) {
			c->n++;
			return;
		}
	}
	/* Bounded: odd paths of a probing client must not fill the memory. */
	if (b->counts_n >= 2000) {
		return;
	}
	b->counts = realloc(b->counts, (b->counts_n + 1) * sizeof(*b->counts));
	if (!b->counts) {
		abort();
	}
	b->counts[b->counts_n++] =
	    (struct count){ dup_text(service), dup_text(action), dup_text(code), status, 1 };
}

json_t *books_counts(const struct sim *s)
{
	const struct books *b = s->books;
	json_t *a = json_array();

	for (size_t k = 0; k < b->counts_n; k++) {
		const struct count *c = &b->counts[k];

		json_array_append_new(a,
		    json_pack("{s:s, s:s, s:s?, s:i, s:I}", "service", c->service, "action",
			c->action, "code", c->code, "status", c->status, "n", (json_int_t)c->n));
	}
	return a;
}

/* ---- launches -------------------------------------------------------------------------------- */

void books_launch(struct sim *s, enum cloud c, const char *token, const char *scope,
    const char *params_hash, const struct pool *p, enum side side, const char *code,
    struct inst *const *insts, size_t n, bool replayed)
{
	struct books *b = s->books;
	struct launch_record *l;

	b->launches = grow(b->launches, b->launches_n, &b->launches_cap, sizeof(*b->launches));
	l = &b->launches[b->launches_n++];
	*l = (struct launch_record){ .at_us = sim_wall(s),
		.cloud = c,
		.token = dup_text(token),
		.scope = dup_text(scope),
		.params_hash = dup_text(params_hash),
		.code = dup_text(code),
		.pool = p,
		.side = side,
		.replayed = replayed,
		.n = n };
	if (n > 0) {
		l->insts = calloc(n, sizeof(*l->insts));
		if (!l->insts) {
			abort();
		}
		for (size_t k = 0; k < n; k++) {
			l->insts[k] = insts[k];
		}
	}
	if (code) {
		books_event(s, "launch_failed", NULL,
		    json_pack("{s:s?, s:s, s:s?, s:s?, s:s}", "token", token, "code", code, "type",
			p ? p->type->name : NULL, "zone", p && p->zone ? p->zone->id : NULL,
			"market", side_name(side)));
	}
}

json_t *books_launches(const struct sim *s)
{
	const struct books *b = s->books;
	json_t *a = json_array();

	for (size_t k = 0; k < b->launches_n; k++) {
		const struct launch_record *l = &b->launches[k];
		json_t *ids = json_array();

		for (size_t i = 0; i < l->n; i++) {
			json_array_append_new(ids, json_string(l->insts[i]->id));
		}
		json_array_append_new(a,
		    json_pack("{s:I, s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s, s:s?, s:b, s:o}",
			"at_us", (json_int_t)l->at_us, "provider", cloud_name(l->cloud), "token",
			l->token, "scope", l->scope, "params", l->params_hash, "region",
			l->pool ? l->pool->region->name : NULL, "zone",
			l->pool && l->pool->zone ? l->pool->zone->id : NULL, "type",
			l->pool ? l->pool->type->name : NULL, "market", side_name(l->side), "code",
			l->code, "replayed", l->replayed, "instances", ids));
	}
	return a;
}

/* ---- events ---------------------------------------------------------------------------------- */

uint64_t books_seq(const struct sim *s)
{
	return s->books->seq;
}

void books_event(struct sim *s, const char *type, struct inst *i, json_t *detail)
{
	struct books *b = s->books;

	b->seq++;
	if (b->events_n < EVENTS_MAX) {
		b->events = grow(b->events, b->events_n, &b->events_cap, sizeof(*b->events));
		b->events[b->events_n++] =
		    (struct event){ b->seq, sim_wall(s), dup_text(type), i, detail };
	} else {
		json_decref(detail);
	}
	waits_wake(s);
	if (i && cloud_ops(i->cloud)->event) {
		cloud_ops(i->cloud)->event(i, type);
	}
}

static bool event_matches(const struct event *e, const char *type, const char *instance,
    const char *token)
{
	const char *had;

	if (type && !glob_match(type, e->type)) {
		return false;
	}
	if (instance && (!e->inst || !glob_match(instance, e->inst->id))) {
		return false;
	}
	if (!token) {
		return true;
	}
	had = e->inst ? e->inst->token ? e->inst->token : e->inst->name
		      : json_string_value(json_object_get(e->detail, "token"));
	return had && glob_match(token, had);
}

json_t *books_events(const struct sim *s, uint64_t since, const char *type, const char *instance,
    const char *token)
{
	const struct books *b = s->books;
	json_t *a = json_array();

	for (size_t k = since < b->events_n ? (size_t)since : b->events_n; k < b->events_n; k++) {
		const struct event *e = &b->events[k];
		json_t *o;

		if (e->seq <= since || !event_matches(e, type, instance, token)) {
			continue;
		}
		o = json_pack("{s:I, s:I, s:s}", "seq", (json_int_t)e->seq, "at_us",
		    (json_int_t)e->at_us, "event", e->type);
		if (e->inst) {
			json_object_set_new(o, "instance", json_string(e->inst->id));
			json_object_set_new(o, "provider", json_string(cloud_name(e->inst->cloud)));
			json_object_set_new(o, "market", json_string(side_name(e->inst->side)));
			json_object_set_new(o, "type", json_string(e->inst->pool->type->name));
			json_object_set_new(o, "region", json_string(e->inst->pool->region->name));
			if (e->inst->pool->zone) {
				json_object_set_new(o, "zone",
				    json_string(e->inst->pool->zone->id));
			}
		}
		if (e->detail) {
			json_object_set(o, "detail", e->detail);
		}
		json_array_append_new(a, o);
	}
	return a;
}

/* ---- the bill -------------------------------------------------------------------------------- */

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
