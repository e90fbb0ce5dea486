/*
 * Evidence from the account's audit events: who ended a machine that is gone. GET /audit-events is
 * the only paged call of the API (OpenAPI 1.10.0, AuditEvent). The catalog of actions is not in
 * that document, so an action is matched by its stem. An event without actor and API key is the
 * vendor's own doing. Evidence is extra: when this route refuses, hangs or answers nonsense, the
 * list alone stands. An event tells why a machine went, not that it is gone. It appears a second
 * after the request, and the machine stays for a minute.
 */
#include "base/base.h"
#include "lambda_priv.h"

#define LOOK_BACK_US (INT64_C(24) * SPOT_US_PER_HOUR)
#define PAGES_MAX 5
#define TOKEN_MAX 1024

void lambda_audit_request(const struct lambda *self, struct spot_call *c, const char *page_token)
{
	char since[TIME_TEXT_MAX];
	int64_t from = c->now_us - c->now_us % (60 * SPOT_US_PER_S) - LOOK_BACK_US;

	lambda_request(self, c, "GET",
	    arena_printf(c->arena, "/audit-events?start=%s%s%s",
		url_encode(c->arena, format_time_s(from, since), false),
		page_token != NULL ? "&page_token=" : "",
		page_token != NULL ? url_encode(c->arena, page_token, false) : ""),
	    LAMBDA_LIMIT_GENERAL);
}

/* "lrn:cloud:instance:<id>" */
static bool names_instance(const json_t *lrn, const char *ref)
{
	const char *s = json_string_value(lrn);
	const char *colon = s != NULL ? strrchr(s, ':') : NULL;

	return colon != NULL && strstr(s, ":instance:") != NULL && strcmp(colon + 1, ref) == 0;
}

static bool is_about(const json_t *event, const char *ref)
{
	const json_t *list = json_object_get(event, "resource_lrns"), *lrn;
	size_t i;

	json_array_foreach (list, i, lrn) {
		if (names_instance(lrn, ref)) {
			return true;
		}
	}
	return names_instance(json_object_get(json_object_get(event, "additional_details"),
				  "instance_lrn"),
	    ref);
}

static bool is_end(const json_t *event)
{
	const char *action = json_string_value(json_object_get(event, "action"));

	return action != NULL &&
	    (strstr(action, "terminat") != NULL || strstr(action, "delet") != NULL);
}

static void evidence_take(struct spot_call *c, const json_t *event, struct spot_instance *ret)
{
	const char *actor = json_string_value(json_object_get(event, "actor_lrn"));
	const char *key = json_string_value(json_object_get(event, "request_api_key_lrn"));
	const char *action = json_string_value(json_object_get(event, "action"));
	const char *when = json_string_value(json_object_get(event, "event_time"));
	const char *who = actor != NULL ? actor : key;

	ret->end_cause = who != NULL ? SPOT_END_USER : SPOT_END_PROVIDER;
	ret->raw_reason =
	    arena_printf(c->arena, "audit event: %s by %s at %s", lambda_words(c->arena, action),
		who != NULL ? lambda_words(c->arena, who) : "no one of the account",
		when != NULL ? lambda_words(c->arena, when) : "an unknown time");
}

bool lambda_audit_read(struct spot_call *c, struct spot_instance *list, size_t n,
    const char **ret_token)
{
	struct lambda_reply r;
	const json_t *data, *event;
	const char *token;
	size_t i;

	*ret_token = NULL;
	lambda_reply_read(c, &r);
	if (r.kind != LAMBDA_GOOD) {
		return false;
	}
	data = json_object_get(r.doc, "data");
	json_array_foreach (data, i, event) {
		for (size_t k = 0; k < n && is_end(event); k++) {
			if (list[k].end_cause == SPOT_END_NONE && is_about(event, list[k].ref)) {
				evidence_take(c, event, &list[k]);
			}
		}
	}
	token = json_string_value(json_object_get(r.doc, "page_token"));
	if (!str_empty(token) && strlen(token) <= TOKEN_MAX) {
		*ret_token = arena_strdup(c->arena, token);
	}
	i = json_is_array(data);
	json_decref(r.doc);
	return i != 0;
}

/* ---- behind describe ------------------------------------------------------------------------- */

static bool found_has(const struct spot_describe *a, const char *ref)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->found[i].ref, ref) == 0) {
			return true;
		}
	}
	return false;
}

/* Collects the refs to look up: those that the list lacks, and ended ones without a cause. */
static void wanted_collect(const struct lambda *self, struct spot_call *c,
    const struct spot_describe *a, struct lambda_evidence *e)
{
	e->list = arena_array(c->arena, a->refs_n + a->n + 1, sizeof(*e->list));
	e->n = 0;
	for (size_t i = 0; i < a->n; i++) {
		if (a->found[i].state == SPOT_INSTANCE_GONE &&
		    a->found[i].end_cause == SPOT_END_NONE) {
			e->list[e->n++] = a->found[i];
		}
	}
	for (size_t i = 0; i < a->refs_n; i++) {
		if (!found_has(a, a->refs[i])) {
			e->list[e->n++] =
			    lambda_gone(self, c, a->region, a->refs[i], SPOT_ABSENT_STATE, "");
		}
	}
}

/* Merges the events into the result. An absent machine without an event stays absent. */
static enum spot_step evidence_merge(struct spot_call *c, struct spot_describe *a,
    const struct lambda_evidence *e)
{
	struct spot_instance *all = arena_array(c->arena, a->n + e->n + 1, sizeof(*all));
	size_t n = a->n;

	if (a->n > 0) {
		memcpy(all, a->found, a->n * sizeof(*all));
	}
	for (size_t i = 0; i < e->n; i++) {
		size_t at = 0;

		if (e->list[i].end_cause == SPOT_END_NONE) {
			continue;
		}
		while (at < n && strcmp(all[at].ref, e->list[i].ref) != 0) {
			at++;
		}
		all[at] = e->list[i];
		n += at == n;
	}
	a->found = all;
	a->n = n;
	return SPOT_DONE;
}

enum spot_step lambda_evidence_step(const struct lambda *self, struct spot_call *c,
    struct spot_describe *a)
{
	struct lambda_state *st = lambda_state_get(c);
	struct lambda_evidence *e = st->evidence;
	const char *token = NULL;
	bool all = true;

	if (e == NULL) {
		st->evidence = e = arena_alloc(c->arena, sizeof(*e));
		wanted_collect(self, c, a, e);
		if (!self->audit_events || e->n == 0) {
			return SPOT_DONE;
		}
		lambda_audit_request(self, c, NULL);
		return SPOT_SEND;
	}
	/* Entered without a reply: the request broke. It is not sent again, the list is good
	 * without it. */
	if (c->in == NULL || !lambda_audit_read(c, e->list, e->n, &token)) {
		return evidence_merge(c, a, e);
	}
	for (size_t i = 0; i < e->n; i++) {
		all = all && e->list[i].end_cause != SPOT_END_NONE;
	}
	if (all || token == NULL || ++e->pages >= PAGES_MAX) {
		return evidence_merge(c, a, e);
	}
	lambda_audit_request(self, c, token);
	return SPOT_SEND;
}

struct spot_instance lambda_gone(const struct lambda *self, struct spot_call *c, const char *region,
    const char *ref, const char *raw_state, const char *raw_reason)
{
	return (struct spot_instance){
		.ref = arena_strdup(c->arena, ref),
		.token = "",
		.install = "",
		.key = { .provider = arena_strdup(c->arena, self->name),
		    .region = arena_strdup(c->arena, region != NULL ? region : ""),
		    .zone = "",
		    .instance_type = "",
		    .market = SPOT_MARKET_ON_DEMAND },
		.state = SPOT_INSTANCE_GONE,
		.raw_state = raw_state,
		.raw_reason = raw_reason,
		.ip = "",
		.spot_request = "",
	};
}
