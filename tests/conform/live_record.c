/*
 * Writes a provider's requests and replies, one JSON line per exchange, for the vendors' own models
 * to judge (tests/vendor/live_check.py). A line is
 * {"method","url","headers","body","status","reply_headers","reply","faulty"}. Steps of this file
 * stand before the steps of the provider's table. They see each request as it leaves, and the reply
 * that enters the step. The layers from io/call down stay as they are. The flag faulty says that
 * the emulator was told to misbehave, so the reply is no word of the vendor's.
 */
#include "live.h"

#include <string.h>

#define OUT_MAX 64

static struct {
	FILE *out;
	const struct spot_provider_ops *real;
	bool faulty;
	struct {
		const struct spot_call *c;
		json_t *request;
	} at[OUT_MAX];
} rec;

static json_t *text_json(struct str s)
{
	json_t *o = json_stringn(s.p != NULL ? s.p : "", s.n);

	return o != NULL ? o : json_null(); /* bytes */
}

static json_t *headers_json(const struct spot_header *h, size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; i < n; i++) {
		json_object_set_new(o, h[i].name, json_string(h[i].value));
	}
	return o;
}

static json_t **place_of(const struct spot_call *c)
{
	for (size_t i = 0; i < OUT_MAX; i++) {
		if (rec.at[i].c == c) {
			return &rec.at[i].request;
		}
	}
	for (size_t i = 0; i < OUT_MAX; i++) {
		if (rec.at[i].request == NULL) {
			rec.at[i].c = c;
			return &rec.at[i].request;
		}
	}
	fail_msg("more than %d calls at once", OUT_MAX);
	return NULL;
}

static void step_before(const struct spot_call *c)
{
	json_t **at = place_of(c), *o = *at;

	if (o == NULL) {
		return;
	}
	*at = NULL;
	json_object_set_new(o, "status", json_integer(c->in != NULL ? c->in->status : 0));
	json_object_set_new(o, "faulty",
	    json_boolean(rec.faulty || c->in == NULL || c->in->partial || c->out.stream));
	if (c->in != NULL) {
		json_object_set_new(o, "reply_headers",
		    headers_json(c->in->headers, c->in->headers_n));
		json_object_set_new(o, "reply", text_json(c->in->body));
	}
	json_dumpf(o, rec.out, JSON_COMPACT);
	fputc('\n', rec.out);
	fflush(rec.out);
	json_decref(o);
}

static void step_after(const struct spot_call *c, enum spot_step s)
{
	const struct spot_http_request *r = &c->out;

	if (s != SPOT_SEND) {
		return;
	}
	*place_of(c) = json_pack("{s:s, s:s, s:o, s:o}", "method", r->method, "url", r->url,
	    "headers", headers_json(r->headers, r->headers_n), "body", text_json(r->body));
}

/* verb, type of its argument */
#define VERBS(X) \
	X(regions, struct spot_regions) \
	X(pools, struct spot_pools) \
	X(prices, struct spot_prices) \
	X(launch, struct spot_launch) \
	X(find, struct spot_find) \
	X(list, struct spot_list) \
	X(describe, struct spot_describe) \
	X(terminate, struct spot_terminate) \
	X(whoami, const char *) \
	X(signals, struct spot_signals) \
	X(quotas, struct spot_quotas) \
	X(notices, struct spot_notices) \
	X(launch_gang, struct spot_launch_gang) \
	X(verify, struct spot_verify) \
	X(watch, struct spot_watch) \
	X(check, struct spot_check)

#define X(verb, type) \
	static enum spot_step verb##_seen(void *self, struct spot_call *c, type *a) \
	{ \
		step_before(c); \
		enum spot_step s = rec.real->verb(self, c, a); \
		step_after(c, s); \
		return s; \
	}
VERBS(X)
#undef X

void live_record_faulty(bool faulty)
{
	rec.faulty = faulty;
}

void live_record(struct live *v)
{
	const char *path = getenv("LIVE_RECORD");

	if (path == NULL) {
		return;
	}
	if (rec.out == NULL) {
		rec.out = fopen(path, "we");
		assert_non_null(rec.out);
	}
	rec.real = v->cloud->ops;
#define X(verb, type) v->ops.verb = v->ops.verb != NULL ? verb##_seen : NULL;
	VERBS(X)
#undef X
}
