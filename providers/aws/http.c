#include "base/base.h"
#include "aws_int.h"

/*
 * Sending and receiving for all services: signing on every try, clock-skew correction, replies in
 * XML and JSON, paging. Signing is
 * docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
 */

#include "base/sign.h"

#include <stdarg.h>

struct aws_state *aws_state_get(struct spot_call *c, size_t own_size)
{
	struct aws_state *st = c->state;

	if (st == NULL) {
		st = arena_alloc(c->arena, sizeof(*st));
		if (own_size > 0)
			st->own = arena_alloc(c->arena, own_size);
		c->state = st;
	}
	return st;
}

enum spot_step aws_send(struct aws *self, struct spot_call *c, const struct aws_request *r)
{
	const struct aws_keys *keys = r->keys != NULL ? r->keys : &self->keys;
	const char *base = aws_endpoint(self, c->arena, r->service, r->region);
	struct sigv4 k = {.region = r->region, .service = aws_service_name(r->service)};

	if (base == NULL)
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws %s: no endpoint for service %s in region %s", r->action, k.service,
		    r->region);
	if (!r->unsigned_call && keys->access_key == NULL)
		return call_fail(
		    c, SPOT_UNAUTHENTICATED, NULL, "aws %s: no credentials yet", r->action);
	call_request(c, "POST", arena_printf(c->arena, "%s/", base));
	call_body(c, r->content_type, r->body, r->body_n);
	if (r->target != NULL)
		call_header(c, "x-amz-target", r->target);
	c->limit = (int)r->limit;
	c->limit_cost = 1;
	c->limit_scope = arena_strdup(c->arena, r->region);
	c->mutating = r->mutating;
	/* A request that creates something must not be re-sent by the transport on its own; the
	 * token makes our own repeats harmless. */
	c->out.fresh_connection = r->mutating;
	if (r->unsigned_call)
		return SPOT_SEND;
	k.access_key = keys->access_key;
	k.secret_key = secret_reveal(&keys->secret_key);
	k.session_token =
	    secret_set(&keys->session_token) ? secret_reveal(&keys->session_token) : NULL;
	k.now_us = c->now_us + self->skew_us;
	sigv4_sign(c->arena, &k, &c->out);
	return SPOT_SEND;
}

/* "Sun, 30 Aug 2015 12:36:00 GMT", the form every vendor sends (RFC 9110 5.6.7). */
bool aws_http_date(const char *text, int64_t *ret_us)
{
	static const char *const months[] = {
	    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	struct tm tm = {0};
	char month[4];
	int n = 0;

	if (text == NULL ||
	    sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &tm.tm_mday, month,
		&tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &n) != 6 ||
	    n == 0)
		return false;
	if (tm.tm_year < 1970 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 ||
	    tm.tm_hour > 23 || tm.tm_min < 0 || tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
		return false;
	for (tm.tm_mon = 0; tm.tm_mon < 12; tm.tm_mon++) {
		if (strcmp(month, months[tm.tm_mon]) == 0)
			break;
	}
	if (tm.tm_mon == 12)
		return false;
	tm.tm_year -= 1900;
	*ret_us = (int64_t)timegm(&tm) * SPOT_US_PER_S;
	return true;
}

/* The connection broke. The core turns that into UNKNOWN for mutating requests by itself; a step
 * that is asked all the same says the same. */
static enum spot_step no_reply(struct spot_call *c, const char *what)
{
	if (c->mutating)
		return call_fail(
		    c, SPOT_UNKNOWN, NULL, "aws %s: no reply, it may have happened", what);
	return call_again(c, SPOT_UNAVAILABLE, 0, NULL, "aws %s: no reply", what);
}

enum spot_step aws_bad_reply(struct spot_call *c, const char *action, const char *fmt, ...)
{
	char words[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	return call_fail(c, c->mutating ? SPOT_UNKNOWN : SPOT_BAD_REPLY, NULL,
	    "aws %s: bad reply: %s", action, words);
}

static enum spot_step error_reply(struct aws *self, struct spot_call *c, const char *action)
{
	const char *code, *message;

	aws_error_read(c, &code, &message);
	return aws_error(self, c, action, code, message);
}

enum spot_step aws_reply_plain(struct aws *self, struct spot_call *c, const char *what)
{
	if (c->in->status == 0)
		return no_reply(c, what);
	if (c->in->status == 200)
		return SPOT_STEP_NONE;
	return error_reply(self, c, what);
}

enum spot_step aws_reply_xml(struct aws *self, struct spot_call *c, const char *action,
    const char *root, const struct xml **ret)
{
	struct spot_err err = {0};
	struct xml *doc = NULL;
	enum spot_step s = aws_reply_plain(self, c, action);

	if (s != SPOT_STEP_NONE)
		return s;
	if (xml_parse(c->arena, c->in->body, &doc, &err) != SPOT_OK)
		return aws_bad_reply(c, action, "%s", err.text);
	if (strcmp(doc->name, root) != 0)
		return aws_bad_reply(c, action, "root element is %.60s, not %s", doc->name, root);
	*ret = doc;
	return SPOT_STEP_NONE;
}

enum spot_step aws_reply_json(
    struct aws *self, struct spot_call *c, const char *action, json_t **ret)
{
	struct spot_err err = {0};
	json_t *doc = NULL;
	enum spot_step s = aws_reply_plain(self, c, action);

	if (s != SPOT_STEP_NONE)
		return s;
	if (json_parse(c->in->body, action, &doc, &err) != SPOT_OK)
		return aws_bad_reply(c, action, "%s", err.text);
	if (!json_is_object(doc)) {
		json_decref(doc);
		return aws_bad_reply(c, action, "not a JSON object");
	}
	*ret = doc;
	return SPOT_STEP_NONE;
}

bool aws_next_page(struct aws_state *st, struct arena *a, const char *token, bool *ret_bad)
{
	*ret_bad = false;
	/* The end is an absent or an empty token (EC2 API, DescribeSpotPriceHistory: NextToken). */
	if (str_empty(token)) {
		st->next = NULL;
		st->pages = 0;
		return false;
	}
	if (++st->pages >= AWS_PAGES_MAX || str_same(st->next, token)) {
		*ret_bad = true;
		return false;
	}
	st->next = arena_strdup(a, token);
	return true;
}
