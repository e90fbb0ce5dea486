/*
 * GET /instances returns everything at once: no filter, no pages (OpenAPI 1.10.0). Each listing
 * also carries live Jupyter credentials (jupyter_token, jupyter_url): nothing here quotes a body.
 * There is no creation time; ours stands in the name, "brk.<install>.<node>.<epoch seconds>".
 */
#include "base/base.h"
#include "lambda_priv.h"

void lambda_instances_request(const struct lambda *self, struct spot_call *c)
{
	lambda_request(self, c, "GET", "/instances", LAMBDA_LIMIT_GENERAL);
}

/* ---- one instance ---------------------------------------------------------------------------- */

static const struct {
	const char *status;
	enum spot_instance_state state;
	enum spot_end_cause end_cause;
} lambda_states[] = {
	{ "booting", SPOT_INSTANCE_PENDING, SPOT_END_NONE },
	{ "active", SPOT_INSTANCE_RUNNING, SPOT_END_NONE },
	{ "unhealthy", SPOT_INSTANCE_FAILED, SPOT_END_NONE },
	{ "terminating", SPOT_INSTANCE_STOPPING, SPOT_END_NONE },
	{ "terminated", SPOT_INSTANCE_GONE, SPOT_END_NONE },
	/* In the enumeration, without a documented cause. */
	{ "preempted", SPOT_INSTANCE_INTERRUPTED, SPOT_END_RECLAIM },
};

static void state_read(const char *status, struct spot_instance *ret)
{
	ret->state = SPOT_INSTANCE_ODD;
	for (size_t i = 0; i < ARRAY_LEN(lambda_states); i++) {
		if (strcmp(lambda_states[i].status, status) == 0) {
			ret->state = lambda_states[i].state;
			ret->end_cause = lambda_states[i].end_cause;
			return;
		}
	}
}

int64_t lambda_name_time_us(const char *name)
{
	const char *dot = strrchr(name, '.');
	int64_t s;

	if (!str_prefix(name, LAMBDA_NAME_PREFIX) ||
	    !parse_i64(dot + 1, 1000000000, 99999999999, &s)) {
		return 0;
	}
	return s * SPOT_US_PER_S;
}

/* "brk.<install>.<node>.<epoch>" gives install; "" if the name is not of ours. */
static const char *name_install(struct arena *a, const char *name)
{
	const char *from = name + strlen(LAMBDA_NAME_PREFIX);

	if (!str_prefix(name, LAMBDA_NAME_PREFIX) || lambda_name_time_us(name) == 0) {
		return "";
	}
	return arena_strndup(a, from, strcspn(from, "."));
}

/* Value of a tag, NULL if there is none. */
static const char *tag_get(const json_t *o, const char *key, struct spot_err *err)
{
	const json_t *tags = json_object_get(o, "tags");

	for (size_t i = 0; i < json_array_size(tags); i++) {
		const json_t *tag = json_array_get(tags, i);

		if (strcmp(json_str(tag, "key", "", err), key) == 0) {
			return json_str(tag, "value", "", err);
		}
	}
	return NULL;
}

static bool id_ok(const char *id)
{
	size_t n = strlen(id);

	return n > 0 && n <= 64 &&
	    strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == n;
}

enum spot_rc lambda_instance_read(const struct lambda *self, struct arena *a, const json_t *o,
    struct spot_instance *ret, struct spot_err *err)
{
	const json_t *region = json_object_get(o, "region"),
		     *type = json_object_get(o, "instance_type");
	struct spot_err e = { 0 };
	const char *id = json_need_str(o, "id", &e);
	const char *status = json_need_str(o, "status", &e);
	const char *name = json_str(o, "name", "", &e);
	const char *ip = json_str(o, "ip", "", &e);
	const char *region_name = json_need_str(region, "name", &e);
	const char *type_name = json_need_str(type, "name", &e);
	const char *install = tag_get(o, LAMBDA_TAG_INSTALL, &e);
	const char *attempt = tag_get(o, LAMBDA_TAG_ATTEMPT, &e);

	if (e.rc == SPOT_OK && !id_ok(id)) {
		return err_set(err, SPOT_BAD_REPLY, "an instance has an id that is none");
	}
	if (e.rc != SPOT_OK) {
		return err_set(err, SPOT_BAD_REPLY, "an instance: %s", e.text);
	}
	*ret = (struct spot_instance){
		.ref = arena_strdup(a, id),
		.token = arena_strdup(a, attempt != NULL ? attempt : ""),
		.install = install != NULL ? arena_strdup(a, install) : name_install(a, name),
		.key = { .provider = arena_strdup(a, self->name),
		    .region = arena_strdup(a, region_name),
		    .zone = "",
		    .instance_type = arena_strdup(a, type_name),
		    .market = SPOT_MARKET_ON_DEMAND },
		.raw_state = lambda_words(a, status),
		.raw_reason = "",
		.ip = arena_strdup(a, ip),
		.spot_request = "",
		.created_us = lambda_name_time_us(name),
	};
	state_read(status, ret);
	return SPOT_OK;
}

/* ---- the list, filtered ---------------------------------------------------------------------- */

struct filter {
	const struct lambda *self;
	const void *args;
	bool (*wants)(const struct filter *f, const struct spot_instance *i, const char *name);
};

static enum spot_step list_bad(struct spot_call *c, const char *what, const char *words)
{
	return call_fail(c, SPOT_BAD_REPLY, NULL, "lambda %s: %s", what, words);
}

static enum spot_step list_parse(struct spot_call *c, const char *what, const json_t *data,
    const struct filter *f, struct spot_instance **ret, size_t *ret_n)
{
	size_t n = json_array_size(data), used = 0;
	struct spot_instance *found = arena_array(c->arena, n + 1, sizeof(*found));
	struct spot_err err = { 0 };

	if (!json_is_array(data)) {
		return list_bad(c, what, "'data' is not a list");
	}
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(data, i);
		const char *name = json_string_value(json_object_get(o, "name"));

		if (lambda_instance_read(f->self, c->arena, o, &found[used], &err) != SPOT_OK) {
			return list_bad(c, what, err.text);
		}
		if (f->wants(f, &found[used], name != NULL ? name : "")) {
			used++;
		}
	}
	*ret = found;
	*ret_n = used;
	return SPOT_DONE;
}

static enum spot_step list_ask(struct spot_call *c, const char *what, const struct filter *f,
    struct spot_instance **ret, size_t *ret_n)
{
	struct lambda_reply r;
	enum spot_step s;

	if (c->in == NULL) {
		lambda_instances_request(f->self, c);
		return SPOT_SEND;
	}
	s = lambda_reply_get(f->self, c, what, &r);
	if (s == SPOT_STEP_NONE) {
		s = list_parse(c, what, json_object_get(r.doc, "data"), f, ret, ret_n);
		json_decref(r.doc);
	}
	return s;
}

static bool wants_region(const char *region, const struct spot_instance *i)
{
	return str_empty(region) || strcmp(region, i->key.region) == 0;
}

/* The name alone must suffice: tags may be missing in a listing. */
static bool find_wants(const struct filter *f, const struct spot_instance *i, const char *name)
{
	const struct spot_find *a = f->args;
	bool named = !str_empty(a->name) && strcmp(a->name, name) == 0;
	bool tagged = !str_empty(a->token) && strcmp(a->token, i->token) == 0;

	return (named || tagged) && (str_empty(a->install) || strcmp(a->install, i->install) == 0);
}

enum spot_step lambda_find(void *p, struct spot_call *c, struct spot_find *a)
{
	const struct filter f = { .self = p, .args = a, .wants = find_wants };

	if (str_empty(a->name) && str_empty(a->token)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "lambda find: neither name nor token given");
	}
	return list_ask(c, "find", &f, &a->found, &a->n);
}

static bool list_wants(const struct filter *f, const struct spot_instance *i, const char *name)
{
	const struct spot_list *a = f->args;

	(void)name;
	return strcmp(a->install, i->install) == 0 && wants_region(a->region, i);
}

enum spot_step lambda_list(void *p, struct spot_call *c, struct spot_list *a)
{
	const struct filter f = { .self = p, .args = a, .wants = list_wants };

	if (str_empty(a->install)) {
		return call_fail(c, SPOT_INVALID, NULL, "lambda list: no installation given");
	}
	return list_ask(c, "list", &f, &a->found, &a->n);
}

static bool describe_wants(const struct filter *f, const struct spot_instance *i, const char *name)
{
	const struct spot_describe *a = f->args;

	(void)name;
	for (size_t k = 0; k < a->refs_n; k++) {
		if (strcmp(a->refs[k], i->ref) == 0) {
			return true;
		}
	}
	return false;
}

enum spot_step lambda_describe(void *p, struct spot_call *c, struct spot_describe *a)
{
	const struct filter f = { .self = p, .args = a, .wants = describe_wants };

	enum spot_step s;

	if (a->refs_n == 0) {
		a->n = 0;
		return SPOT_DONE;
	}
	if (lambda_state_get(c)->evidence == NULL) {
		s = list_ask(c, "describe", &f, &a->found, &a->n);
		if (s != SPOT_DONE) {
			return s;
		}
	}
	return lambda_evidence_step(p, c, a);
}

/* actions.terminate of an instance: {"available": false, "reason_code": "vm-has-not-launched"}. */
static const char *terminate_blocked(struct arena *a, const json_t *o)
{
	const json_t *t = json_object_get(json_object_get(o, "actions"), "terminate");
	const char *why = json_string_value(json_object_get(t, "reason_code"));

	if (!json_is_false(json_object_get(t, "available"))) {
		return NULL;
	}
	return lambda_words(a, why != NULL ? why : "no reason given");
}

enum spot_step lambda_instance_look(const struct lambda *self, struct spot_call *c, const char *ref,
    bool *ret_there, struct spot_instance *ret, const char **ret_blocked)
{
	const char *const refs[] = { ref };
	struct spot_describe a = { .region = "", .refs = refs, .refs_n = 1 };
	const struct filter f = { .self = self, .args = &a, .wants = describe_wants };
	struct lambda_reply r;
	enum spot_step s = lambda_reply_get(self, c, "terminate (look-up)", &r);
	const json_t *data;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	data = json_object_get(r.doc, "data");
	s = list_parse(c, "terminate (look-up)", data, &f, &a.found, &a.n);
	*ret_there = s == SPOT_DONE && a.n > 0;
	*ret_blocked = NULL;
	for (size_t i = 0; *ret_there && i < json_array_size(data); i++) {
		const json_t *o = json_array_get(data, i);

		if (strcmp(json_string_value(json_object_get(o, "id")), ref) == 0) {
			*ret_blocked = terminate_blocked(c->arena, o);
		}
	}
	if (*ret_there) {
		*ret = a.found[0];
	}
	json_decref(r.doc);
	return s == SPOT_DONE ? SPOT_STEP_NONE : s;
}
