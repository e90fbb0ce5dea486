#include "base/base.h"
#include "gcp_priv.h"

/*
 * Credentials: the frame of auth. The order is Application Default Credentials'
 * (google.aip.dev/auth/4110): the file that a setting or GOOGLE_APPLICATION_CREDENTIALS names,
 * gcloud's own file, the metadata server. A new token replaces the old one only when it is
 * complete.
 */

#define REPLY_MAX 65536
#define METADATA_TIMEOUT_US (3 * SPOT_US_PER_S)
#define TOKEN_LIFE_S 3600
#define SKEW_MIN_US (60 * SPOT_US_PER_S)
#define JWT_GRANT "urn:ietf:params:oauth:grant-type:jwt-bearer"
#define EXCHANGE_GRANT "urn:ietf:params:oauth:grant-type:token-exchange"
#define ACCESS_TOKEN "urn:ietf:params:oauth:token-type:access_token"

enum { FILE_READ = 0, METADATA, SUBJECT_FILE, SUBJECT_URL, EXCHANGE, IMPERSONATE };

bool gcp_auth_fresh(const void *p, int64_t now_us)
{
	const struct gcp *self = p;

	return self->have_token && self->expires_us - (now_us + self->skew_us) > GCP_REFRESH_US;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static enum spot_step ask_plain(struct spot_call *c, const char *method, const char *url,
    enum gcp_limit limit)
{
	call_request(c, method, url);
	c->out.reply_bytes_max = REPLY_MAX;
	c->limit = (int)limit;
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
	return SPOT_SEND;
}

static const char *form_add(struct arena *a, const char *so_far, const char *key, const char *value)
{
	return arena_printf(a, "%s%s%s=%s", so_far, *so_far != '\0' ? "&" : "", key,
	    url_encode(a, value, false));
}

static enum spot_step ask_form(struct spot_call *c, const char *url, const char *body)
{
	ask_plain(c, "POST", url, GCP_LIMIT_AUTH);
	call_header(c, "accept", "application/json");
	call_body(c, "application/x-www-form-urlencoded", body, strlen(body));
	return SPOT_SEND;
}

/* docs: developers.google.com/identity/protocols/oauth2/service-account, "Preparing to make an
 * authorized API call" */
static enum spot_step ask_key(struct gcp *self, struct spot_call *c, const struct auth *a)
{
	int64_t now = (c->now_us + self->skew_us) / SPOT_US_PER_S;
	json_t *header AUTO(json) = json_pack("{s:s, s:s}", "alg", "RS256", "typ", "JWT");
	json_t *claims AUTO(json) =
	    json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", self->email, "scope", GCP_SCOPE, "aud",
		a->token_uri, "iat", (json_int_t)now, "exp", (json_int_t)(now + TOKEN_LIFE_S));
	const char *token, *body;

	if (a->key_id != NULL) {
		json_object_set_new(header, "kid", json_string(a->key_id));
	}
	if (jwt_sign(c->arena, self->key, json_text(c->arena, header), json_text(c->arena, claims),
		&token, &c->err) != SPOT_OK) {
		return SPOT_FAIL;
	}
	body = form_add(c->arena, "", "grant_type", JWT_GRANT);
	body = form_add(c->arena, body, "assertion", token);
	return ask_form(c, gcp_rebase(self, c->arena, a->token_uri), body);
}

static enum spot_step ask_user(struct gcp *self, struct spot_call *c, const struct auth *a)
{
	const char *body = form_add(c->arena, "", "client_id", a->client_id);

	body = form_add(c->arena, body, "client_secret", a->client_secret);
	body = form_add(c->arena, body, "grant_type", "refresh_token");
	body = form_add(c->arena, body, "refresh_token", a->refresh_token);
	return ask_form(c, arena_printf(c->arena, "%s/token", gcp_base(self, GCP_OAUTH)), body);
}

/* docs.cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token */
static enum spot_step ask_external(struct gcp *self, struct spot_call *c, const struct auth *a)
{
	const char *body = form_add(c->arena, "", "grant_type", EXCHANGE_GRANT);

	body = form_add(c->arena, body, "audience", a->audience);
	body = form_add(c->arena, body, "requested_token_type", ACCESS_TOKEN);
	body = form_add(c->arena, body, "scope", GCP_SCOPE);
	body = form_add(c->arena, body, "subject_token", secret_reveal(&self->subject));
	body = form_add(c->arena, body, "subject_token_type", a->subject_type);
	return ask_form(c, gcp_rebase(self, c->arena, a->token_url), body);
}

/* docs.cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken */
static enum spot_step ask_impersonate(struct gcp *self, struct spot_call *c, const struct auth *a)
{
	json_t *doc AUTO(json) = json_pack("{s:[s], s:s}", "scope", GCP_SCOPE, "lifetime", "3600s");
	const char *body = json_text(c->arena, doc);

	ask_plain(c, "POST", gcp_rebase(self, c->arena, a->impersonate_url), GCP_LIMIT_AUTH);
	call_header(c, "authorization",
	    arena_printf(c->arena, "Bearer %s", secret_reveal(&self->next)));
	call_body(c, "application/json", body, strlen(body));
	return SPOT_SEND;
}

/* docs.cloud.google.com/compute/docs/metadata/querying-metadata; the two variables are the vendor's
 * libraries'. */
static enum spot_step ask_metadata(struct gcp *self, struct spot_call *c)
{
	const char *host = gcp_env(self, "GCE_METADATA_HOST");

	if (host == NULL) {
		host = gcp_env(self, "GCE_METADATA_IP");
	}
	if (host == NULL) {
		host = "169.254.169.254";
	}
	if (strpbrk(host, " \t\r\n@/?#") != NULL || strlen(host) > 255) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "gcp: GCE_METADATA_HOST is not a host or host:port");
	}
	ask_plain(c, "GET",
	    arena_printf(c->arena,
		"http://%s/computeMetadata/v1/instance/service-accounts/default/token?scopes=%s",
		host, url_encode(c->arena, GCP_SCOPE, false)),
	    GCP_LIMIT_METADATA);
	c->out.timeout_us = METADATA_TIMEOUT_US;
	call_header(c, "metadata-flavor", "Google");
	return SPOT_SEND;
}

static enum spot_step ask_subject(struct spot_call *c, const struct auth *a)
{
	ask_plain(c, "GET", a->subject_url, GCP_LIMIT_METADATA);
	for (size_t i = 0; i < a->headers_n; i++) {
		call_header(c, a->headers[i].name, a->headers[i].value);
	}
	return SPOT_SEND;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* No word of a good reply goes into an error. */
static enum spot_step status_check(struct gcp *self, struct spot_call *c, struct auth *a,
    const char *what)
{
	const char *code, *message;
	int status = c->in->status;
	int64_t skew;

	if (status == 200) {
		return SPOT_STEP_NONE;
	}
	if (status == 0 || status == 429 || status >= 500) {
		return call_again(c, status == 429 ? SPOT_THROTTLED : SPOT_UNAVAILABLE,
		    call_retry_after_us(c), NULL, "gcp: %s: HTTP %d", what, status);
	}
	gcp_error_read(c, &code, &message);
	/* "Token must be a short-lived token": more often than not our clock is off. */
	if (a->kind == CREDS_KEY && gcp_code_is(code, "invalid_grant") && !a->resynced &&
	    call_clock_off(c, &skew) &&
	    (skew - self->skew_us > SKEW_MIN_US || skew - self->skew_us < -SKEW_MIN_US)) {
		a->resynced = true;
		self->skew_us = skew;
		return call_again(c, SPOT_UNAUTHENTICATED, 0, code,
		    "gcp: %s: our clock is off, taking Google's", what);
	}
	code = redact_words(c->arena, code, SIZE_MAX);
	return call_fail(c, SPOT_UNAUTHENTICATED, code, "gcp: %s: HTTP %d: %s%s%s", what, status,
	    *code != '\0' ? code : "no error code", *message != '\0' ? ": " : "",
	    redact_words(c->arena, message, SIZE_MAX));
}

static enum spot_step token_take(struct gcp *self, struct spot_call *c, const char *what,
    const char *name)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *token;
	bool bad = false;
	int64_t life;

	if (json_parse(c->in->body, what, &doc, NULL) != SPOT_OK || !json_is_object(doc)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL, "gcp: %s: the reply is not a JSON object",
		    what);
	}
	token = json_object_get(doc, name);
	/* STS may leave expires_in out. */
	life = gcp_int(doc, "expires_in", TOKEN_LIFE_S, &bad);
	if (!json_is_string(token) ||
	    !creds_token_ok(json_string_value(token), json_string_length(token)) || bad ||
	    life <= 0 || life > 86400) {
		return call_fail(c, SPOT_BAD_REPLY, NULL, "gcp: %s: no usable token in the reply",
		    what);
	}
	if (json_object_get(doc, "expireTime") != NULL) {
		int64_t at = gcp_time(json_string_value(json_object_get(doc, "expireTime")));

		if (at == 0) {
			return call_fail(c, SPOT_BAD_REPLY, NULL,
			    "gcp: %s: expireTime is not a time", what);
		}
		life = (at - c->now_us - self->skew_us) / SPOT_US_PER_S;
	}
	secret_fini(&self->next);
	secret_init(&self->next, json_string_value(token), json_string_length(token));
	self->next_expires_us = c->now_us + self->skew_us + life * SPOT_US_PER_S;
	return SPOT_STEP_NONE;
}

static enum spot_step metadata_reply(struct gcp *self, struct spot_call *c, struct auth *a)
{
	const char *flavor = spot_http_header(c->in, "metadata-flavor");

	if (c->in->status == 404) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "gcp: no credentials: this machine has no service account; set credentials");
	}
	if (c->in->status == 200 && !str_same(flavor, "Google")) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "gcp: no credentials: what answers at the metadata server's address is not "
		    "Google's; set credentials");
	}
	enum spot_step s = status_check(self, c, a, "metadata server");

	return s != SPOT_STEP_NONE ? s : token_take(self, c, "metadata server", "access_token");
}

/* The token of another issuer: the whole text, or one member of a JSON object. */
static enum spot_step subject_take(struct gcp *self, struct spot_call *c, const struct auth *a)
{
	json_t *doc AUTO(json) = NULL;
	const char *p = c->in->body.p;
	size_t n = c->in->body.n;

	if (a->subject_field != NULL) {
		const json_t *v = NULL;

		if (json_parse(c->in->body, "subject token", &doc, NULL) == SPOT_OK) {
			v = json_object_get(doc, a->subject_field);
		}
		p = json_string_value(v);
		n = p != NULL ? json_string_length(v) : 0;
	}
	while (n > 0 && (p[n - 1] == '\n' || p[n - 1] == '\r' || p[n - 1] == ' ')) {
		n--;
	}
	if (!creds_token_ok(p, n)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "gcp: the subject token's source (%s) holds no token",
		    a->subject_file != NULL ? a->subject_file : "credential_source.url");
	}
	secret_fini(&self->subject);
	secret_init(&self->subject, p, n);
	return SPOT_STEP_NONE;
}

static enum spot_step subject_reply(struct gcp *self, struct spot_call *c, struct auth *a)
{
	enum spot_step s;

	if (a->subject_file != NULL && c->in->status != 200) {
		return call_fail(c, SPOT_CONFIG, NULL, "gcp: subject token: cannot read %s",
		    a->subject_file);
	}
	s = status_check(self, c, a, "subject token");
	return s != SPOT_STEP_NONE ? s : subject_take(self, c, a);
}

/* ---- the frame ------------------------------------------------------------------------------- */

static const char *file_path(struct gcp *self, struct spot_call *c, struct auth *a)
{
	const char *path = self->credentials, *dir;

	if (path == NULL) {
		path = gcp_env(self, "GOOGLE_APPLICATION_CREDENTIALS");
	}
	if (path != NULL) {
		return path;
	}
	a->optional = true;
	dir = gcp_env(self, "CLOUDSDK_CONFIG");
	if (dir == NULL && gcp_env(self, "HOME") != NULL) {
		dir = arena_printf(c->arena, "%s/.config/gcloud", gcp_env(self, "HOME"));
	}
	return dir != NULL ? arena_printf(c->arena, "%s/application_default_credentials.json", dir)
			   : NULL;
}

static int after_file(const struct auth *a)
{
	if (a->kind == CREDS_METADATA) {
		return METADATA;
	}
	if (a->kind == CREDS_EXTERNAL) {
		return a->subject_file != NULL ? SUBJECT_FILE : SUBJECT_URL;
	}
	return EXCHANGE;
}

static enum spot_step file_reply(struct gcp *self, struct spot_call *c, struct auth *a)
{
	enum spot_step s = SPOT_STEP_NONE;

	if (c->in->status == 404 && a->optional) {
		a->kind = CREDS_METADATA;
	} else if (c->in->status != 200) {
		return call_fail(c, SPOT_CONFIG, NULL, "gcp: credentials: cannot read %s", a->path);
	} else {
		s = creds_file_read(self, c, a);
	}
	return s;
}

/* Reads the answer to what was asked last and moves on; *ret_over: the token is there. */
static enum spot_step auth_reply(struct gcp *self, struct spot_call *c, struct auth *a,
    bool *ret_over)
{
	struct call_state *st = c->state;
	enum spot_step s;

	switch (st->at) {
	case FILE_READ:
		s = file_reply(self, c, a);
		if (s == SPOT_STEP_NONE) {
			st->at = after_file(a);
		}
		return s;
	case METADATA:
		s = metadata_reply(self, c, a);
		*ret_over = s == SPOT_STEP_NONE;
		return s;
	case SUBJECT_FILE:
	case SUBJECT_URL:
		s = subject_reply(self, c, a);
		if (s == SPOT_STEP_NONE) {
			st->at = EXCHANGE;
		}
		return s;
	case EXCHANGE:
		s = status_check(self, c, a, "token");
		if (s == SPOT_STEP_NONE) {
			s = token_take(self, c, "token", "access_token");
		}
		if (s == SPOT_STEP_NONE && a->impersonate_url != NULL) {
			st->at = IMPERSONATE;
		} else {
			*ret_over = s == SPOT_STEP_NONE;
		}
		return s;
	default:
		s = status_check(self, c, a, "impersonation");
		if (s == SPOT_STEP_NONE) {
			s = token_take(self, c, "impersonation", "accessToken");
		}
		*ret_over = s == SPOT_STEP_NONE;
		return s;
	}
}

static enum spot_step auth_ask(struct gcp *self, struct spot_call *c, struct auth *a)
{
	struct call_state *st = c->state;

	switch (st->at) {
	case FILE_READ:
		a->path = file_path(self, c, a);
		if (a->path == NULL) {
			a->kind = CREDS_METADATA;
			st->at = METADATA;
			return ask_metadata(self, c);
		}
		c->path = a->path;
		return SPOT_READ;
	case METADATA:
		return ask_metadata(self, c);
	case SUBJECT_FILE:
		c->path = a->subject_file;
		return SPOT_READ;
	case SUBJECT_URL:
		return ask_subject(c, a);
	case EXCHANGE:
		return a->kind == CREDS_KEY ? ask_key(self, c, a)
		    : a->kind == CREDS_USER ? ask_user(self, c, a)
					    : ask_external(self, c, a);
	default:
		return ask_impersonate(self, c, a);
	}
}

static void auth_done(struct gcp *self)
{
	secret_fini(&self->token);
	self->token = self->next;
	self->next = (struct secret){ 0 };
	secret_fini(&self->subject);
	self->expires_us = self->next_expires_us;
	self->have_token = true;
}

enum spot_step gcp_auth(void *p, struct spot_call *c)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct auth));
	bool over = false;
	enum spot_step s = SPOT_STEP_NONE;

	if (c->in != NULL) {
		s = auth_reply(self, c, st->own, &over);
	}
	if (over) {
		auth_done(self);
		return SPOT_DONE;
	}
	if (s == SPOT_STEP_NONE) {
		s = auth_ask(self, c, st->own);
	}
	if (s == SPOT_FAIL) {
		secret_fini(&self->next);
		secret_fini(&self->subject);
	}
	return s;
}
