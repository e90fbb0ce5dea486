/*
 * Requests with the key, and what replies mean. Success is {"data": ...}, failure is {"error":
 * {"code", "message", "suggestion"?}}. Only the code decides (OpenAPI 1.10.0): capacity is an HTTP
 * 400, and a 409 may carry an internal error. 429 and 5xx are not in the specification, so their
 * bodies may be anything.
 */
#include "base/base.h"
#include "lambda_priv.h"

#include "base/crypto/crypto.h"

void lambda_request(const struct lambda *self, struct spot_call *c, const char *method,
    const char *path, enum lambda_limit limit)
{
	call_request(c, method, arena_printf(c->arena, "%s/api/v1%s", self->endpoint, path));
	call_header(c, "authorization",
	    arena_printf(c->arena, "Bearer %s", secret_reveal(&self->key)));
	call_header(c, "accept", "application/json");
	c->limit = (int)limit;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
}

void lambda_request_json(struct spot_call *c, const json_t *body)
{
	const char *text = json_text(c->arena, body);

	call_body(c, "application/json", text, strlen(text));
}

/* ---- error codes (components.schemas.ApiError*, OpenAPI 1.10.0 and 1.8.3) -------------------- */

struct lambda_code {
	const char *code;
	enum lambda_kind kind;
	enum spot_rc rc, rc_launch;
};

static const struct lambda_code lambda_codes[] = {
	{ "instance-operations/launch/insufficient-capacity", LAMBDA_REFUSED, SPOT_NO_CAPACITY,
	    SPOT_NO_CAPACITY },
	/* The setting file_system.<region> names one of another region. */
	{ "instance-operations/launch/file-system-in-wrong-region", LAMBDA_REFUSED, SPOT_CONFIG,
	    SPOT_CONFIG },
	{ "global/quota-exceeded", LAMBDA_REFUSED, SPOT_QUOTA, SPOT_QUOTA },
	{ "global/invalid-parameters", LAMBDA_REFUSED, SPOT_INVALID, SPOT_INVALID },
	/* In a launch it is the ssh key, the image or the region that is not there. */
	{ "global/object-does-not-exist", LAMBDA_REFUSED, SPOT_NOT_FOUND, SPOT_CONFIG },
	/* An unknown route: the endpoint is not this API. */
	{ "global/not-found", LAMBDA_REFUSED, SPOT_CONFIG, SPOT_CONFIG },
	{ "global/invalid-api-key", LAMBDA_KEY, SPOT_UNAUTHENTICATED, SPOT_UNAUTHENTICATED },
	{ "global/account-inactive", LAMBDA_REFUSED, SPOT_DENIED, SPOT_DENIED },
	{ "global/invalid-address", LAMBDA_REFUSED, SPOT_DENIED, SPOT_DENIED },
	{ "global/forbidden", LAMBDA_REFUSED, SPOT_DENIED, SPOT_DENIED },
	{ "global/duplicate", LAMBDA_REFUSED, SPOT_CONFLICT, SPOT_CONFLICT },
	{ "global/conflict", LAMBDA_BROKEN, SPOT_UNAVAILABLE, SPOT_UNKNOWN },
	{ "global/internal-error", LAMBDA_BROKEN, SPOT_UNAVAILABLE, SPOT_UNKNOWN },
	{ "global/unknown", LAMBDA_BROKEN, SPOT_UNAVAILABLE, SPOT_UNKNOWN },
};

/* Codes are lower-case paths; anything else is not repeated to anybody. */
static const char *code_clean(struct arena *a, const char *code)
{
	size_t n = strspn(code, "abcdefghijklmnopqrstuvwxyz0123456789-_/.");

	return code[n] == '\0' && n < sizeof(((struct spot_err *)NULL)->code)
	    ? arena_strdup(a, code)
	    : "";
}

const char *lambda_words(struct arena *a, const char *text)
{
	return redact_words(a, text, 160);
}

static void reply_refuse(struct lambda_reply *r, enum lambda_kind kind, enum spot_rc rc,
    enum spot_rc rc_launch)
{
	r->kind = kind;
	r->rc = rc;
	r->rc_launch = rc_launch;
}

/* Verdict by status alone. A launch whose refusal cannot be read may have happened. */
static void read_status(int status, struct lambda_reply *r)
{
	if (status == 401) {
		reply_refuse(r, LAMBDA_KEY, SPOT_UNAUTHENTICATED, SPOT_UNKNOWN);
	} else if (status == 403) {
		reply_refuse(r, LAMBDA_REFUSED, SPOT_DENIED, SPOT_UNKNOWN);
	} else if (status >= 500 || status == 0) {
		reply_refuse(r, LAMBDA_BROKEN, SPOT_UNAVAILABLE, SPOT_UNKNOWN);
	} else {
		reply_refuse(r, LAMBDA_REFUSED, SPOT_BAD_REPLY, SPOT_UNKNOWN);
	}
}

static void read_code(int status, struct lambda_reply *r)
{
	for (size_t i = 0; i < ARRAY_LEN(lambda_codes); i++) {
		const struct lambda_code *k = &lambda_codes[i];

		if (strcmp(k->code, r->code) == 0) {
			reply_refuse(r, k->kind, k->rc, k->rc_launch);
			return;
		}
	}
	/* "provider/...": an outage behind Lambda; whether a launch happened is open. */
	if (str_prefix(r->code, "provider/") || status >= 500) {
		reply_refuse(r, LAMBDA_BROKEN, SPOT_UNAVAILABLE, SPOT_UNKNOWN);
	} else {
		reply_refuse(r, LAMBDA_REFUSED, SPOT_INVALID, SPOT_INVALID);
	}
}

static void read_error(const struct spot_call *c, struct lambda_reply *r)
{
	struct spot_err ignored = { 0 };
	AUTO(json) json_t *doc = NULL;
	const json_t *error;
	const char *code = NULL, *words = NULL;

	read_status(c->in->status, r);
	if (json_parse(c->in->body, "error", &doc, &ignored) != SPOT_OK) {
		return;
	}
	error = json_object_get(doc, "error");
	code = json_string_value(json_object_get(error, "code"));
	words = json_string_value(json_object_get(error, "message"));
	r->words = words != NULL ? lambda_words(c->arena, words) : "";
	r->code = code != NULL ? code_clean(c->arena, code) : "";
	if (r->code[0] != '\0') {
		read_code(c->in->status, r);
	}
}

static void read_good(const struct spot_call *c, struct lambda_reply *r)
{
	struct spot_err err = { 0 };
	json_t *doc = NULL;

	reply_refuse(r, LAMBDA_REFUSED, SPOT_BAD_REPLY, SPOT_UNKNOWN);
	if (json_parse(c->in->body, "reply", &doc, &err) != SPOT_OK) {
		/* The words of a parser may quote the body, which can hold Jupyter tokens. */
		r->words = "the body is not JSON";
		return;
	}
	if (json_object_get(doc, "data") == NULL) {
		r->words = "the body has no 'data'";
		json_decref(doc);
		return;
	}
	r->kind = LAMBDA_GOOD;
	r->doc = doc;
}

void lambda_reply_read(const struct spot_call *c, struct lambda_reply *r)
{
	int status = c->in->status;

	*r = (struct lambda_reply){ .code = "", .words = "" };
	if (status >= 200 && status < 300) {
		read_good(c, r);
	} else if (status == 429) {
		reply_refuse(r, LAMBDA_THROTTLED, SPOT_THROTTLED, SPOT_THROTTLED);
		r->words = "too many requests";
	} else if (status >= 300 && status < 400) {
		/* Following it would turn a POST into a GET or drop the key. */
		reply_refuse(r, LAMBDA_REFUSED, SPOT_CONFIG, SPOT_CONFIG);
		r->words =
		    "the endpoint redirects elsewhere: set endpoint = https://cloud.lambda.ai";
	} else {
		read_error(c, r);
	}
}

/* ---- verdicts -------------------------------------------------------------------------------- */

enum spot_step lambda_key_refused(const struct lambda *self, struct spot_call *c, const char *what,
    const struct lambda_reply *r)
{
	call_fail(c, SPOT_UNAUTHENTICATED, r->code, "lambda %s: the API key was refused (%s): %s",
	    what, r->code,
	    self->key_file != NULL ? self->key_file : "it came from the environment");
	return self->key_file != NULL ? SPOT_REAUTH : SPOT_FAIL;
}

enum spot_step lambda_reply_get(const struct lambda *self, struct spot_call *c, const char *what,
    struct lambda_reply *r)
{
	lambda_reply_read(c, r);
	switch (r->kind) {
	case LAMBDA_GOOD:
		return SPOT_STEP_NONE;
	case LAMBDA_THROTTLED:
	case LAMBDA_BROKEN:
		return call_again(c, r->rc, call_retry_after_us(c), r->code,
		    "lambda %s: HTTP %d %s %s", what, c->in->status, r->code, r->words);
	case LAMBDA_KEY:
		return lambda_key_refused(self, c, what, r);
	case LAMBDA_REFUSED:
		break;
	}
	return call_fail(c, r->rc, r->code, "lambda %s: HTTP %d %s %s", what, c->in->status,
	    r->code, r->words);
}

struct lambda_state *lambda_state_get(struct spot_call *c)
{
	if (c->state == NULL) {
		c->state = arena_alloc(c->arena, sizeof(struct lambda_state));
	}
	return c->state;
}
