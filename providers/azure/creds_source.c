#include "base/base.h"
#include "azure_priv.h"

/*
 * Gets one token. The authority gives it for a secret, our own assertion (certificate) or another's
 * (workload identity):
 * learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow. The machine's
 * metadata service gives it without any of these:
 * learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token.
 */

#include "base/crypto/crypto.h"

#define ASSERTION_TYPE "urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
#define ASSERTION_S 600
#define LIFE_LONG_US (2 * SPOT_US_PER_HOUR)
#define EARLY_US (5 * 60 * SPOT_US_PER_S)
#define UPDATING_WAIT_US \
	(10 * SPOT_US_PER_S) /* HTTP 410: for at least 70 s (azure-identity, ImdsRetryPolicy) */
#define TOKEN_MAX (64 << 10)

/* ---- asking ---------------------------------------------------------------------------------- */

/* SHA-256 of the first certificate in the file, as its thumbprint is written in tokens. */
static bool certificate_thumbprint(struct arena *a, const char *pem, const char **ret)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----",
			  end[] = "-----END CERTIFICATE-----";
	const char *from = strstr(pem, begin), *to = from != NULL ? strstr(from, end) : NULL;
	uint8_t hash[SHA256_BYTES];
	struct str der;
	size_t n = 0;
	char *text;

	if (to == NULL) {
		return false;
	}
	from += sizeof(begin) - 1;
	text = arena_alloc(a, (size_t)(to - from) + 1);
	for (; from < to; from++) {
		if (*from > ' ') {
			text[n++] = *from;
		}
	}
	if (!base64_decode(a, text, n, &der)) {
		return false;
	}
	sha256(der.p, der.n, hash);
	*ret = base64url_encode(a, hash, sizeof(hash));
	return true;
}

/* learn.microsoft.com/entra/identity-platform/certificate-credentials */
static enum spot_step own_assertion(struct azure *self, struct spot_call *c, const char *url,
    const char **ret)
{
	const char *pem = secret_reveal(&self->credential), *x5t, *header, *claims;
	struct rsa_key *key AUTO(rsa_key) = NULL;
	int64_t now_s = c->now_us / SPOT_US_PER_S;
	struct spot_err err = { 0 };

	if (!certificate_thumbprint(c->arena, pem, &x5t)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "azure: %s: there is no certificate in it (PEM wanted)",
		    self->certificate_file);
	}
	if (rsa_private_pem((struct str){ pem, strlen(pem) }, &key, &err) != SPOT_OK) {
		return call_fail(c, SPOT_CONFIG, NULL, "azure: %s: %s", self->certificate_file,
		    err.text);
	}
	header =
	    arena_printf(c->arena, "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"x5t#S256\":\"%s\"}", x5t);
	claims = arena_printf(c->arena,
	    "{\"aud\":\"%s\",\"iss\":\"%s\",\"sub\":\"%s\",\"jti\":\"%s\",\"nbf\":%" PRId64
	    ",\"exp\":%" PRId64 "}",
	    url, self->client_id, self->client_id, azure_request_id(c), now_s - 60,
	    now_s + ASSERTION_S - 60);
	if (jwt_sign(c->arena, key, header, claims, ret, &err) != SPOT_OK) {
		return call_fail(c, SPOT_CONFIG, NULL, "azure: %s: %s", self->certificate_file,
		    err.text);
	}
	return SPOT_STEP_NONE;
}

static enum spot_step authority_send(struct azure *self, struct spot_call *c, const char *audience)
{
	const char *url =
	    arena_printf(c->arena, "%s/%s/oauth2/v2.0/token", self->authority, self->tenant);
	const char *assertion =
		       secret_set(&self->credential) ? secret_reveal(&self->credential) : "",
		   *body;
	enum spot_step s;

	if (self->auth_kind == AUTH_CERTIFICATE) {
		s = own_assertion(self, c, url, &assertion);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	} else if (self->auth_kind == AUTH_SECRET && self->secret_file == NULL) {
		assertion = secret_reveal(&self->env_secret);
	}
	if (self->auth_kind == AUTH_SECRET) {
		body = arena_printf(c->arena, "client_secret=%s",
		    url_encode(c->arena, assertion, false));
	} else {
		body = arena_printf(c->arena, "client_assertion_type=%s&client_assertion=%s",
		    ASSERTION_TYPE, url_encode(c->arena, assertion, false));
	}
	body = arena_printf(c->arena, "client_id=%s&%s&grant_type=client_credentials&scope=%s",
	    self->client_id, body,
	    url_encode(c->arena, arena_printf(c->arena, "%s/.default", audience), false));
	call_request(c, "POST", url);
	call_header(c, "accept", "application/json");
	call_body(c, "application/x-www-form-urlencoded", body, strlen(body));
	c->limit = AZURE_LIMIT_LOGIN;
	return SPOT_SEND;
}

/* The resource goes without "/.default" here, and with a slash, as the vendor writes it. */
static enum spot_step metadata_send(struct azure *self, struct spot_call *c, const char *audience)
{
	const char *resource = url_encode(c->arena, arena_printf(c->arena, "%s/", audience), false);
	const char *who =
	    self->client_id != NULL ? arena_printf(c->arena, "&client_id=%s", self->client_id) : "";

	call_request(c, "GET",
	    arena_printf(c->arena,
		"%s/metadata/identity/oauth2/token?api-version=" API_IDENTITY "&resource=%s%s",
		self->metadata, resource, who));
	call_header(c, "metadata", "true");
	c->out.timeout_us = 10 * SPOT_US_PER_S;
	c->limit = AZURE_LIMIT_METADATA;
	return SPOT_SEND;
}

enum spot_step azure_token_send(struct azure *self, struct spot_call *c, const char *audience)
{
	c->limit_cost = 1;
	c->limit_scope = "";
	c->mutating = false;
	return self->auth_kind == AUTH_MANAGED ? metadata_send(self, c, audience)
					       : authority_send(self, c, audience);
}

/* ---- being answered -------------------------------------------------------------------------- */

/* {"error":"invalid_client","error_description":"AADSTS7000215: ...","error_codes":[...]}; the
 * words name the application and the tenant, never the secret. */
static enum spot_step token_refused(struct azure *self, struct spot_call *c)
{
	int status = c->in->status;
	json_t *doc AUTO(json) = NULL;
	const char *code = "", *words = "";

	if (json_parse(c->in->body, "token error", &doc, NULL) == SPOT_OK && json_is_object(doc)) {
		code = redact_words(c->arena, azure_text(doc, "error"), SIZE_MAX);
		words = redact_words(c->arena, azure_text(doc, "error_description"), SIZE_MAX);
	}
	if (self->auth_kind == AUTH_MANAGED && (status == 410 || status == 404 || status == 408)) {
		return call_again(c, SPOT_UNAVAILABLE,
		    status == 410 ? UPDATING_WAIT_US : call_retry_after_us(c), code,
		    "azure token: the metadata service is not ready (HTTP %d)", status);
	}
	if (status == 429) {
		return call_again(c, SPOT_THROTTLED, call_retry_after_us(c), code,
		    "azure token: throttled");
	}
	if (status >= 500 || strcmp(code, "temporarily_unavailable") == 0) {
		return call_again(c, SPOT_UNAVAILABLE, call_retry_after_us(c), code,
		    "azure token: HTTP %d %s", status, words);
	}
	if (*code == '\0') {
		return call_fail(c, SPOT_BAD_REPLY, NULL,
		    "azure token: HTTP %d without an error code: is %s the right address?", status,
		    self->auth_kind == AUTH_MANAGED ? "metadata_endpoint" : "authority");
	}
	return call_fail(c, SPOT_UNAUTHENTICATED, code, "azure token: %s: %s", code, words);
}

/* The authority sends numbers, the metadata service texts. */
static bool number_read(const json_t *v, int64_t max, int64_t *ret)
{
	if (json_is_string(v)) {
		return parse_i64(json_string_value(v), 1, max, ret);
	}
	*ret = json_integer_value(v);
	return json_is_integer(v) && *ret >= 1 && *ret <= max;
}

enum spot_step azure_token_reply(struct azure *self, struct spot_call *c, struct azure_token *t)
{
	json_t *doc AUTO(json) = NULL;
	const char *value;
	int64_t life_s;
	size_t n;

	if (c->in->status == 0) {
		return call_again(c, SPOT_UNAVAILABLE, 0, NULL, "azure token: no reply");
	}
	if (c->in->status != 200) {
		return token_refused(self, c);
	}
	if (json_parse(c->in->body, "token", &doc, NULL) != SPOT_OK || !json_is_object(doc)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL,
		    "azure token: the reply is not a JSON object");
	}
	value = azure_text(doc, "access_token");
	n = strlen(value);
	/* It becomes a header. */
	if (n == 0 || n > TOKEN_MAX ||
	    strspn(value,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		"-._~+/=") != n) {
		return call_fail(c, SPOT_BAD_REPLY, NULL,
		    "azure token: access_token is not a token");
	}
	if (!number_read(json_object_get(doc, "expires_in"), 7 * 24 * 3600, &life_s)) {
		return call_fail(c, SPOT_BAD_REPLY, NULL,
		    "azure token: expires_in is not a number of seconds");
	}
	azure_token_fini(t);
	secret_init(&t->value, value, n);
	t->expires_us = c->now_us + life_s * SPOT_US_PER_S;
	t->refresh_us = c->now_us + life_s * SPOT_US_PER_S / 2;
	if (t->expires_us - c->now_us <= LIFE_LONG_US) {
		t->refresh_us = MAX(t->refresh_us, t->expires_us - EARLY_US);
	}
	return SPOT_STEP_NONE;
}
