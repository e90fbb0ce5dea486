#include "base/base.h"
#include "aws_priv.h"

/*
 * Sending and receiving for all services: signing on every try, clock-skew correction, replies in
 * XML and JSON, paging. Signing is
 * docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
 */

#include "base/crypto/crypto.h"

enum spot_step aws_send(struct aws *self, struct spot_call *c, const struct aws_request *r)
{
	const struct aws_keys *keys = r->keys != NULL ? r->keys : &self->keys;
	const char *base = aws_endpoint(self, c->arena, r->service, r->region);
	struct sigv4 k = { .region = r->region, .service = aws_service_name(r->service) };

	if (base == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "aws %s: no endpoint for service %s in region %s", r->action, k.service,
		    r->region);
	}
	if (!r->unsigned_call && keys->access_key == NULL) {
		return call_fail(c, SPOT_UNAUTHENTICATED, NULL, "aws %s: no credentials yet",
		    r->action);
	}
	call_request(c, "POST", arena_printf(c->arena, "%s/", base));
	call_body(c, r->content_type, r->body, r->body_n);
	if (r->target != NULL) {
		call_header(c, "x-amz-target", r->target);
	}
	c->limit = (int)r->limit;
	c->limit_cost = 1;
	c->limit_scope = arena_strdup(c->arena, r->region);
	c->mutating = r->mutating;
	/* A request that creates something must not be re-sent by the transport on its own; the
	 * token makes our own repeats harmless. */
	c->out.fresh_connection = r->mutating;
	if (r->unsigned_call) {
		return SPOT_SEND;
	}
	k.access_key = keys->access_key;
	k.secret_key = secret_reveal(&keys->secret_key);
	k.session_token =
	    secret_set(&keys->session_token) ? secret_reveal(&keys->session_token) : NULL;
	k.now_us = c->now_us + self->skew_us;
	sigv4_sign(c->arena, &k, &c->out);
	return SPOT_SEND;
}

static enum spot_step error_reply(struct aws *self, struct spot_call *c, const char *action)
{
	const char *code, *message;

	aws_error_read(c, &code, &message);
	return aws_error(self, c, action, code, message);
}

enum spot_step aws_reply_plain(struct aws *self, struct spot_call *c, const char *what)
{
	if (c->in->status == 0) {
		return call_no_reply(c, "aws", what);
	}
	if (c->in->status == 200) {
		return SPOT_STEP_NONE;
	}
	return error_reply(self, c, what);
}

enum spot_step aws_reply_xml(struct aws *self, struct spot_call *c, const char *action,
    const char *root, const struct xml **ret)
{
	struct spot_err err = { 0 };
	struct xml *doc = NULL;
	enum spot_step s = aws_reply_plain(self, c, action);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (xml_parse(c->arena, c->in->body, &doc, &err) != SPOT_OK) {
		return aws_bad_reply(c, action, "%s", err.text);
	}
	if (strcmp(doc->name, root) != 0) {
		return aws_bad_reply(c, action, "root element is %.60s, not %s", doc->name, root);
	}
	*ret = doc;
	return SPOT_STEP_NONE;
}

enum spot_step aws_reply_json(struct aws *self, struct spot_call *c, const char *action,
    json_t **ret)
{
	enum spot_step s = aws_reply_plain(self, c, action);

	return s != SPOT_STEP_NONE ? s : call_json_object(c, "aws", action, ret);
}

bool aws_next_page(struct call_state *st, struct arena *a, const char *token, bool *ret_bad)
{
	return call_next_page(a, token, AWS_PAGES_MAX, &st->next, &st->pages, ret_bad);
}

int64_t aws_time(const char *text)
{
	int64_t us;

	return !str_empty(text) && parse_time_us(text, &us) ? us : 0;
}
