/*
 * Requests to the control plane and to clusters, and what replies mean. A cluster answers failures
 * with a Status object (kubernetes/apimachinery meta/v1 types.go); gateways in front of it answer
 * with anything: then the HTTP code decides.
 */
#include "base/base.h"
#include "coreweave_priv.h"

#include "base/crypto/crypto.h"

static void request_build(const struct cw *self, struct spot_call *c, const char *method,
    const char *url, const struct secret *bearer)
{
	(void)self;
	call_request(c, method, url);
	if (secret_set(bearer)) {
		call_header(c, "authorization",
		    arena_printf(c->arena, "Bearer %s", secret_reveal(bearer)));
	}
	call_header(c, "accept", "application/json");
	c->limit_cost = 1;
	c->mutating = false;
}

void cw_api_request(const struct cw *self, struct spot_call *c, const char *method,
    const char *path)
{
	request_build(self, c, method, arena_printf(c->arena, "%s%s", self->api_endpoint, path),
	    &self->api_token);
	c->limit = CW_LIMIT_API;
	c->limit_scope = "";
}

void cw_request_as(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const char *server, const struct secret *bearer, const char *method, const char *path)
{
	/* A client certificate goes before a token at the server: with a token we come as its
	 * account, not as who made it. */
	bool mutual = !secret_set(bearer) && secret_set(&cl->key_pem);

	request_build(self, c, method, arena_printf(c->arena, "%s%s", server, path), bearer);
	c->out.tls_ca_pem = arena_strdup(c->arena, cl->ca_pem);
	c->out.tls_cert_pem = mutual ? arena_strdup(c->arena, cl->cert_pem) : NULL;
	c->out.tls_key_pem = mutual ? arena_strdup(c->arena, secret_reveal(&cl->key_pem)) : NULL;
	c->out.reply_bytes_max = (size_t)32 << 20;
	c->limit = CW_LIMIT_CLUSTER;
	c->limit_scope = cl->name;
}

void cw_request(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const char *method, const char *path)
{
	cw_request_as(self, c, cl, cl->server, &cl->token, method, path);
}

void cw_request_json(struct spot_call *c, const char *content_type, const json_t *body)
{
	const char *text = json_text(c->arena, body);

	call_body(c, content_type, text, strlen(text));
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *cw_words(struct arena *a, const char *text)
{
	return redact_words(a, text, 240);
}

const char *cw_str(struct arena *a, const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? arena_strdup(a, s) : "";
}

int64_t cw_time(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	int64_t us;

	return s != NULL && parse_time_us(s, &us) ? us : 0;
}

/* Conditions and events of NodePools are renamed by the vendor now and then
 * (changelog/release-notes/ node-pool-conditions), so no closed list: what the words contain
 * decides. */
static const struct {
	const char *word;
	enum spot_rc rc;
} subjects[] = {
	{ "quota", SPOT_QUOTA },
	{ "nottriggerscaleup", SPOT_NO_CAPACITY },
	{ "capacity", SPOT_NO_CAPACITY },
	{ "out of stock", SPOT_NO_CAPACITY },
	{ "stockout", SPOT_NO_CAPACITY },
	{ "insufficient nvidia.com/gpu", SPOT_NO_CAPACITY },
	{ "no nodes available", SPOT_NO_CAPACITY },
};
static const char *const negatives[] = { "insufficient", "exceed", "over quota", "overquota",
	"over the", "not enough", "no capacity", "exhaust", "unavailable", "not available",
	"out of", "stockout", "denied", "limit reached", "nottriggerscaleup", "cannot be",
	"could not" };

enum spot_rc cw_words_verdict(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
		if (strcasestr(text, subjects[i].word) != NULL) {
			return subjects[i].rc;
		}
	}
	return strcasestr(text, "overquota") != NULL ? SPOT_QUOTA : SPOT_OK;
}

bool cw_words_negative(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(negatives); i++) {
		if (strcasestr(text, negatives[i]) != NULL) {
			return true;
		}
	}
	return false;
}

/* ---- replies --------------------------------------------------------------------------------- */

static enum spot_rc status_rc(int status)
{
	switch (status) {
	case 400:
	case 413:
	case 414:
	case 422:
	case 431:
		return SPOT_INVALID;
	case 401:
		return SPOT_UNAUTHENTICATED;
	case 403:
		return SPOT_DENIED;
	case 404:
		return SPOT_CONFIG; /* without a Status: not this API */
	case 409:
		return SPOT_CONFLICT;
	case 410:
		return SPOT_GONE;
	case 429:
		return SPOT_THROTTLED;
	default:
		break;
	}
	if (status == 0 || status >= 500) {
		return SPOT_UNAVAILABLE;
	}
	return status >= 300 && status < 400 ? SPOT_CONFIG : SPOT_BAD_REPLY;
}

/* {"message":"..", "reason":"..",
 * "details":{"kind","causes":[{"field","message"}],"retryAfterSeconds"}} */
static void read_status(const struct spot_call *c, const json_t *doc, struct cw_reply *r)
{
	const json_t *details = json_object_get(doc, "details"),
		     *causes = json_object_get(details, "causes");
	const json_t *first = json_array_get(causes, 0),
		     *after = json_object_get(details, "retryAfterSeconds");
	const char *field = json_string_value(json_object_get(first, "field"));

	r->reason = cw_words(c->arena, json_string_value(json_object_get(doc, "reason")));
	r->words = cw_words(c->arena, json_string_value(json_object_get(doc, "message")));
	r->kind = cw_str(c->arena, details, "kind");
	if (field != NULL) {
		r->words =
		    cw_words(c->arena, arena_printf(c->arena, "%s (field %s)", r->words, field));
	}
	if (r->retry_after_us == 0 && json_is_integer(after)) {
		r->retry_after_us =
		    (int64_t)MIN(MAX(json_integer_value(after), 0), 3600) * SPOT_US_PER_S;
	}
}

static void read_error(const struct spot_call *c, bool managed, struct cw_reply *r)
{
	struct spot_err ignored = { 0 };
	AUTO(json) json_t *doc = NULL;
	bool status;

	r->rc = status_rc(c->in->status);
	r->retry_after_us = call_retry_after_us(c);
	r->words = c->in->status == 0 ? "no reply" : "";
	if (json_parse(c->in->body, "error", &doc, &ignored) == SPOT_OK && json_is_object(doc)) {
		read_status(c, doc, r);
	}
	status = r->reason[0] != '\0';
	if (c->in->status == 404 && strcmp(r->reason, "NotFound") == 0) {
		r->rc = SPOT_NOT_FOUND;
	} else if (c->in->status == 403 && managed && !status) {
		/* An expired or revoked API token: 403, not 401 (coreweave/skills,
		 * cw-get-kubeconfig). */
		r->rc = SPOT_UNAUTHENTICATED;
		r->words =
		    "refused without a Kubernetes Status: the API token is expired or revoked";
	} else if (c->in->status == 403 || c->in->status == 422) {
		enum spot_rc rc = cw_words_verdict(r->words);

		r->rc = rc != SPOT_OK && cw_words_negative(r->words) ? rc : r->rc;
	} else if (c->in->status >= 300 && c->in->status < 400) {
		r->words = "the server redirects elsewhere: give its final address";
	}
}

void cw_reply_read(const struct spot_call *c, bool managed, struct cw_reply *r)
{
	struct spot_err err = { 0 };

	*r = (struct cw_reply){ .reason = "", .kind = "", .words = "" };
	if (c->in->status < 200 || c->in->status >= 300) {
		read_error(c, managed, r);
		return;
	}
	if (json_parse(c->in->body, "reply", &r->doc, &err) != SPOT_OK) {
		/* The parser's own words may quote a body that holds a token. */
		r->rc = SPOT_BAD_REPLY;
		r->words = "the body is not JSON";
		return;
	}
	if (!json_is_object(r->doc)) {
		json_decref(r->doc);
		r->doc = NULL;
		r->rc = SPOT_BAD_REPLY;
		r->words = "the body is not a JSON object";
	}
}

enum spot_step cw_bad_reply(struct spot_call *c, const char *what, bool open, const char *words)
{
	return call_fail(c, open ? SPOT_UNKNOWN : SPOT_BAD_REPLY, NULL, "%s: bad reply: %s", what,
	    words);
}

enum spot_step cw_reply_verdict(struct spot_call *c, const struct cw_cluster *cl, const char *what,
    bool open, const struct cw_reply *r)
{
	const char *where =
	    cl != NULL ? arena_printf(c->arena, "cluster %s: %s", cl->name, what) : what;
	int status = c->in->status;

	switch ((int)r->rc) {
	case SPOT_OK:
		return SPOT_STEP_NONE;
	case SPOT_THROTTLED:
		return call_again(c, open ? SPOT_UNKNOWN : SPOT_THROTTLED, r->retry_after_us,
		    r->reason, "%s: HTTP 429 %s", where, r->words);
	case SPOT_UNAVAILABLE:
		return call_again(c, open ? SPOT_UNKNOWN : SPOT_UNAVAILABLE, r->retry_after_us,
		    r->reason, "%s: HTTP %d %s %s", where, status, r->reason, r->words);
	case SPOT_UNAUTHENTICATED:
		call_fail(c, SPOT_UNAUTHENTICATED, r->reason,
		    "%s: HTTP %d: the credentials were refused: %s", where, status, r->words);
		return SPOT_REAUTH;
	case SPOT_BAD_REPLY:
		return cw_bad_reply(c, where, open,
		    r->words[0] != '\0' ? r->words : "unexpected HTTP status");
	case SPOT_CONFIG:
		/* A gateway's page instead of the answer, perhaps: what was made before it is
		 * there. */
		return call_fail(c, open ? SPOT_UNKNOWN : SPOT_CONFIG, r->reason,
		    "%s: HTTP %d: this is not the expected API: check the address of %s%s%s", where,
		    status,
		    cl != NULL ? "the cluster and that its NodePool resource exists"
			       : "api_endpoint",
		    r->words[0] != '\0' ? ": " : "", r->words);
	default:
		break;
	}
	return call_fail(c, r->rc, r->reason[0] != '\0' ? r->reason : spot_rc_name(r->rc),
	    "%s: HTTP %d %s %s", where, status, r->reason, r->words);
}

enum spot_step cw_reply_get(struct spot_call *c, const struct cw_cluster *cl, const char *what,
    bool open, const char *kind, json_t **ret)
{
	struct cw_reply r;
	enum spot_step s;
	const char *got;

	cw_reply_read(c, cl != NULL && cl->managed, &r);
	s = cw_reply_verdict(c, cl, what, open, &r);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	got = json_string_value(json_object_get(r.doc, "kind"));
	if (kind != NULL && !str_same(got, kind)) {
		json_decref(r.doc);
		return cw_bad_reply(c, what, open, arena_printf(c->arena, "not a %s", kind));
	}
	*ret = r.doc;
	return SPOT_STEP_NONE;
}

enum spot_step cw_cluster_bad(struct spot_call *c, const struct cw_cluster *cl, const char *what)
{
	return call_fail(c, cl->bad_rc, NULL, "%s: cluster %s cannot be used now: %s", what,
	    cl->name, cl->bad);
}

/* ---- pages ----------------------------------------------------------------------------------- */

bool cw_page_next(struct arena *a, const json_t *doc, const char **cont, size_t *pages,
    bool *ret_bad)
{
	const char *next =
	    json_string_value(json_object_get(json_object_get(doc, "metadata"), "continue"));

	return call_next_page(a, next, CW_PAGES_MAX, cont, pages, ret_bad);
}

const char *cw_page_path(struct arena *a, const char *path, const char *cont)
{
	return cont == NULL ? path
			    : arena_printf(a, "%s&continue=%s", path, url_encode(a, cont, false));
}
