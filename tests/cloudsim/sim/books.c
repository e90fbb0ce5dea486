/* The record: counters, launches, events. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

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

static void *array_grow(void *items, size_t n, size_t *cap, size_t size)
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

	b->launches =
	    array_grow(b->launches, b->launches_n, &b->launches_cap, sizeof(*b->launches));
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
		b->events = array_grow(b->events, b->events_n, &b->events_cap, sizeof(*b->events));
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
