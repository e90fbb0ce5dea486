/*
 * The calls that change something: launch and terminate. Lambda has no idempotency token and names
 * are not unique, so a launch is sent exactly once. Unless the answer is sure that nothing
 * happened, the launch ends with UNKNOWN. The caller then looks for the name before anything else.
 */
#include "base/base.h"
#include "lambda_priv.h"

#include <ctype.h>

/* "plain text, <= 1 MB" (OpenAPI 1.10.0, InstanceLaunchRequest.user_data); a MB is not defined:
 * decimal. */
#define USER_DATA_MAX 1000000
#define TAG_KEY_MAX 55
#define TAG_VALUE_MAX 128

/* ---- launch ---------------------------------------------------------------------------------- */

/* Keys are ^[a-z][a-z0-9-:]+$. */
static const char *tag_key(struct arena *a, const char *key)
{
	char *s = arena_printf(a, "%s%.*s", isalpha((unsigned char)key[0]) ? "" : "t-",
	    TAG_KEY_MAX - 2, key);

	for (char *p = s; *p != '\0'; p++) {
		*p = isalnum((unsigned char)*p) || *p == ':' ? (char)tolower((unsigned char)*p)
							     : '-';
	}
	return s[0] != '\0' && s[1] == '\0' ? arena_printf(a, "%s-", s) : s;
}

static void tag_add(struct arena *a, json_t *tags, const char *key, const char *value)
{
	json_t *v = json_string(arena_strndup(a, value, MIN(strlen(value), (size_t)TAG_VALUE_MAX)));

	/* Not UTF-8 after the cut, or before: tags of the caller are for people, a launch does not
	 * fail for one. */
	if (v != NULL) {
		json_array_append_new(tags, json_pack("{s:s, s:o}", "key", key, "value", v));
	}
}

static json_t *launch_tags(struct arena *a, const struct spot_launch *l)
{
	json_t *tags = json_array();

	tag_add(a, tags, LAMBDA_TAG_INSTALL, l->install);
	tag_add(a, tags, LAMBDA_TAG_ATTEMPT, l->token);
	for (size_t i = 0; i < l->tags_n; i++) {
		const char *key = tag_key(a, l->tags[i].key);

		if (strcmp(key, LAMBDA_TAG_INSTALL) != 0 && strcmp(key, LAMBDA_TAG_ATTEMPT) != 0) {
			tag_add(a, tags, key, l->tags[i].value);
		}
	}
	return tags;
}

/* Everything wrong that can be known before the one attempt is spent. */
static enum spot_step launch_check(const struct lambda *self, struct spot_call *c,
    const struct spot_launch *a)
{
	if (self->ssh_key_name == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "lambda launch: Lambda wants the name of a registered SSH key: "
		    "set ssh_key_name in [provider %s] to one that GET /ssh-keys lists",
		    self->name);
	}
	if (a->key.market != SPOT_MARKET_ON_DEMAND) {
		return call_fail(c, SPOT_NOT_OFFERED, NULL, "lambda launch: there is no %s market",
		    spot_market_name(a->key.market));
	}
	if (str_empty(a->key.region) || str_empty(a->key.instance_type)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "lambda launch: region and instance type are required");
	}
	if (str_empty(a->name) || strlen(a->name) > LAMBDA_NAME_MAX || str_empty(a->install) ||
	    str_empty(a->token)) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "lambda launch: name (at most 64 characters), install and token are required: "
		    "they are the only way to find a launch again");
	}
	if (a->user_data.n > USER_DATA_MAX) {
		return call_fail(c, SPOT_TOO_LARGE, NULL,
		    "lambda launch: user data has %zu bytes, at most %d are taken", a->user_data.n,
		    USER_DATA_MAX);
	}
	return SPOT_STEP_NONE;
}

static enum spot_step launch_send(const struct lambda *self, struct spot_call *c,
    const struct spot_launch *a)
{
	enum spot_step s = launch_check(self, c, a);
	AUTO(json) json_t *body = NULL;
	json_t *user_data = NULL;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	body = json_pack("{s:s, s:s, s:[s], s:s, s:{s:s}, s:o}", "region_name", a->key.region,
	    "instance_type_name", a->key.instance_type, "ssh_key_names", self->ssh_key_name, "name",
	    a->name, "image", "family", lambda_image_family(self, a->shape.arch), "tags",
	    launch_tags(c->arena, a));
	if (body == NULL) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "lambda launch: region, type or name is not UTF-8 text");
	}
	s = lambda_place_add(self, c, a->key.region, body);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (a->user_data.n > 0) {
		user_data = json_stringn(a->user_data.p, a->user_data.n);
		if (user_data == NULL) {
			return call_fail(c, SPOT_INVALID, NULL,
			    "lambda launch: user data is not UTF-8 text");
		}
		json_object_set_new(body, "user_data", user_data);
	}
	lambda_request(self, c, "POST", "/instance-operations/launch", LAMBDA_LIMIT_LAUNCH);
	lambda_request_json(c, body);
	c->out.fresh_connection = true; /* a stale one would make the transport send it twice */
	c->mutating = true;
	return SPOT_SEND;
}

static enum spot_step launch_unknown(struct spot_call *c, const struct lambda_reply *r,
    const char *words)
{
	return call_fail(c, SPOT_UNKNOWN, r->code,
	    "lambda launch: it may have happened: HTTP %d %s %s", c->in->status, r->code, words);
}

static enum spot_step launch_good(const struct lambda *self, struct spot_call *c,
    struct spot_launch *a, const struct lambda_reply *r)
{
	const json_t *ids = json_object_get(json_object_get(r->doc, "data"), "instance_ids");
	const char *id = json_string_value(json_array_get(ids, 0));

	if (json_array_size(ids) != 1 || str_empty(id) || strlen(id) > 64) {
		return launch_unknown(c, r, "the reply does not name exactly one instance");
	}
	a->instance = (struct spot_instance){
		.ref = lambda_words(c->arena, id),
		.token = arena_strdup(c->arena, a->token),
		.install = arena_strdup(c->arena, a->install),
		.key = { .provider = arena_strdup(c->arena, self->name),
		    .region = arena_strdup(c->arena, a->key.region),
		    .zone = "",
		    .instance_type = arena_strdup(c->arena, a->key.instance_type),
		    .market = SPOT_MARKET_ON_DEMAND },
		.state = SPOT_INSTANCE_PENDING,
		.raw_state = "",
		.raw_reason = "",
		.ip = "",
		.spot_request = "",
		.created_us = lambda_name_time_us(a->name),
	};
	return SPOT_DONE;
}

enum spot_step lambda_launch(void *p, struct spot_call *c, struct spot_launch *a)
{
	const struct lambda *self = p;
	struct lambda_reply r;
	enum spot_step s;

	if (c->in == NULL) {
		return launch_send(self, c, a);
	}
	lambda_reply_read(c, &r);
	switch (r.kind) {
	case LAMBDA_GOOD:
		s = launch_good(self, c, a, &r);
		json_decref(r.doc);
		return s;
	case LAMBDA_KEY:
		/* Refused by name: nothing happened, and a renewed key may be tried once. */
		if (r.rc_launch == SPOT_UNAUTHENTICATED) {
			return lambda_key_refused(self, c, "launch", &r);
		}
		break;
	case LAMBDA_THROTTLED:
		call_fail(c, SPOT_THROTTLED, NULL,
		    "lambda launch: HTTP 429: more than one launch per 12 s");
		c->err.retry_after_us = call_retry_after_us(c);
		return SPOT_FAIL;
	case LAMBDA_REFUSED:
	case LAMBDA_BROKEN:
		break;
	}
	if (r.rc_launch == SPOT_UNKNOWN) {
		return launch_unknown(c, &r, r.words);
	}
	return call_fail(c, r.rc_launch, r.code, "lambda launch: %s in %s: %s %s",
	    a->key.instance_type, a->key.region, r.code, r.words);
}

/* ---- terminate ------------------------------------------------------------------------------- */

enum { AT_POST = 0, AT_LOOK };

static enum spot_step terminate_send(const struct lambda *self, struct spot_call *c,
    const char *ref)
{
	AUTO(json) json_t *body = json_pack("{s:[s]}", "instance_ids", ref);

	if (body == NULL) {
		return call_fail(c, SPOT_INVALID, NULL,
		    "lambda terminate: the instance id is not text");
	}
	lambda_request(self, c, "POST", "/instance-operations/terminate", LAMBDA_LIMIT_GENERAL);
	lambda_request_json(c, body);
	c->mutating = true;
	return SPOT_SEND;
}

static enum spot_step look_send(const struct lambda *self, struct spot_call *c)
{
	lambda_state_get(c)->at = AT_LOOK;
	lambda_instances_request(self, c);
	return SPOT_SEND;
}

/* The list decides: gone, going, or still there and to be tried again later. */
static enum spot_step look_read(const struct lambda *self, struct spot_call *c,
    struct spot_terminate *a)
{
	struct spot_instance i = { 0 };
	const char *blocked = NULL;
	bool there = false;
	enum spot_step s = lambda_instance_look(self, c, a->ref, &there, &i, &blocked);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (!there) {
		a->after = lambda_gone(self, c, a->region, a->ref, SPOT_ABSENT_STATE,
		    "absent from the list");
		return SPOT_DONE;
	}
	if (i.state == SPOT_INSTANCE_STOPPING || i.state == SPOT_INSTANCE_GONE) {
		a->after = i;
		return SPOT_DONE;
	}
	return call_fail(c, SPOT_UNAVAILABLE, blocked, "lambda terminate: %s is still %s%s%s",
	    a->ref, i.raw_state,
	    blocked != NULL ? " and cannot be terminated now: " : "; terminate it again",
	    blocked != NULL ? blocked : "");
}

/* {"data": {"terminated_instances": [Instance]}}: the subset that was taken. */
static bool terminated_read(const struct lambda *self, struct spot_call *c,
    struct spot_terminate *a, const json_t *doc)
{
	const json_t *list = json_object_get(json_object_get(doc, "data"), "terminated_instances");
	struct spot_err ignored = { 0 };

	for (size_t k = 0; k < json_array_size(list); k++) {
		struct spot_instance i;

		if (lambda_instance_read(self, c->arena, json_array_get(list, k), &i, &ignored) ==
			SPOT_OK &&
		    strcmp(i.ref, a->ref) == 0) {
			a->after = i;
			return i.state == SPOT_INSTANCE_STOPPING || i.state == SPOT_INSTANCE_GONE;
		}
	}
	return false;
}

static enum spot_step terminate_read(const struct lambda *self, struct spot_call *c,
    struct spot_terminate *a)
{
	struct lambda_reply r;
	bool taken;

	lambda_reply_read(c, &r);
	if (r.kind == LAMBDA_GOOD) {
		taken = terminated_read(self, c, a, r.doc);
		json_decref(r.doc);
		return taken ? SPOT_DONE : look_send(self, c);
	}
	if (r.kind == LAMBDA_THROTTLED) {
		/* By id, so a repeat is harmless. */
		return call_again(c, SPOT_THROTTLED, call_retry_after_us(c), NULL,
		    "lambda terminate: HTTP 429");
	}
	if (r.kind == LAMBDA_KEY) {
		return lambda_key_refused(self, c, "terminate", &r);
	}
	if (strcmp(r.code, "global/object-does-not-exist") == 0) {
		a->after = lambda_gone(self, c, a->region, a->ref, SPOT_NOT_FOUND_STATE, r.code);
		return SPOT_DONE;
	}
	if (r.rc == SPOT_DENIED || r.rc == SPOT_CONFIG) {
		return call_fail(c, r.rc, r.code, "lambda terminate: HTTP %d %s %s", c->in->status,
		    r.code, r.words);
	}
	/* Outages, global/unknown of a second terminate, refusals while booting: none of them says
	 * whether the instance will go. */
	return look_send(self, c);
}

enum spot_step lambda_terminate(void *p, struct spot_call *c, struct spot_terminate *a)
{
	const struct lambda *self = p;
	struct lambda_state *st = lambda_state_get(c);

	if (c->in == NULL) {
		return st->at == AT_LOOK ? look_send(self, c) : terminate_send(self, c, a->ref);
	}
	return st->at == AT_LOOK ? look_read(self, c, a) : terminate_read(self, c, a);
}
