/* Keys and tokens: the service account's key file, access tokens, and the caller of a request. */
#include "base/base.h"
#include "cloudsim/aws/aws.h" /* forms */
#include "cloudsim/gcp/gcp.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <strings.h>

#define CLOUD_PLATFORM "https://www.googleapis.com/auth/cloud-platform"

/* ---- RSA and base64url ----------------------------------------------------------------------- */

const char *gcp_base64url(struct arena *a, const void *p, size_t n)
{
	char *t = base64_encode(a, p, n);

	for (char *q = t; *q; q++) {
		if (*q == '+') {
			*q = '-';
		} else if (*q == '/') {
			*q = '_';
		} else if (*q == '=') {
			*q = '\0';
		}
	}
	return t;
}

bool gcp_base64url_decode(struct arena *a, const char *s, size_t n, struct str *ret)
{
	char *t = arena_alloc(a, n + 4);

	for (size_t k = 0; k < n; k++) {
		if (s[k] == '+' || s[k] == '/') {
			return false;
		}
		t[k] = s[k] == '-' ? '+' : s[k] == '_' ? '/' : s[k];
	}
	for (; n % 4; n++) {
		t[n] = '=';
	}
	return base64_decode(a, t, n, ret);
}

bool gcp_rsa_verify(EVP_PKEY *key, struct str text, struct str signature)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	    EVP_DigestVerify(ctx, (const unsigned char *)signature.p, signature.n,
		(const unsigned char *)text.p, text.n) == 1;

	EVP_MD_CTX_free(ctx);
	return ok;
}

char *gcp_identity_token(struct sim *s, struct arena *a, json_t *claims)
{
	static const char head[] =
	    "{\"alg\":\"RS256\",\"kid\":\"cloudsim-google-1\",\"typ\":\"JWT\"}";
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	char *body = json_text(a, claims), *text;
	uint8_t sig[512];
	size_t n = sizeof(sig);

	json_decref(claims);
	text = arena_printf(a, "%s.%s", gcp_base64url(a, head, sizeof(head) - 1),
	    gcp_base64url(a, body, strlen(body)));
	if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, gcp_google_key(s->gcp)) == 1 &&
	    EVP_DigestSign(ctx, sig, &n, (const unsigned char *)text, strlen(text)) == 1) {
		text = arena_printf(a, "%s.%s", text, gcp_base64url(a, sig, n));
	}
	EVP_MD_CTX_free(ctx);
	return text;
}

/* ---- start and end --------------------------------------------------------------------------- */

void gcp_key_rotate(struct sim *s)
{
	struct gcp *g = s->gcp;

	EVP_PKEY_free(g->key);
	free(g->key_id);
	g->key = EVP_RSA_gen(2048);
	g->key_id = sim_id(s, NULL, "", 20);
	if (!g->key) {
		abort();
	}
}

/* Made at the first use: it takes a while, and few need it. */
struct evp_pkey_st *gcp_google_key(struct gcp *g)
{
	if (!g->google_key) {
		g->google_key = EVP_RSA_gen(2048);
	}
	if (!g->google_key) {
		abort();
	}
	return g->google_key;
}

bool gcp_auth_new(struct sim *s, struct spot_err *err)
{
	struct gcp *g = s->gcp;

	(void)err;
	gcp_key_rotate(s);
	g->api_key = sim_id(s, NULL, "AIzaSyCloudsim", 12);
	return true;
}

bool gcp_auth_key_file(struct sim *s, struct spot_err *err)
{
	struct arena *a AUTO(arena) = arena_new(0);
	BIO *out = BIO_new(BIO_s_mem());
	char path[4096], *pem, *text;
	json_t *doc;
	long n;

	PEM_write_bio_PrivateKey(out, s->gcp->key, NULL, NULL, 0, NULL, NULL);
	n = BIO_get_mem_data(out, &pem);
	doc = json_pack("{s:s, s:s, s:s, s:s%, s:s, s:s, s:s, s:o, s:s, s:s, s:s}", "type",
	    "service_account", "project_id", GCP_PROJECT, "private_key_id", s->gcp->key_id,
	    "private_key", pem, (size_t)n, "client_email", GCP_SA, "client_id",
	    "104826195837261904825", "auth_uri", "https://accounts.google.com/o/oauth2/auth",
	    "token_uri", json_sprintf("http://127.0.0.1:%d/token", cloud_port(s, CLOUD_GCP)),
	    "auth_provider_x509_cert_url", "https://www.googleapis.com/oauth2/v1/certs",
	    "client_x509_cert_url", "https://www.googleapis.com/robot/v1/metadata/x509/" GCP_SA,
	    "universe_domain", "googleapis.com");
	BIO_free(out);
	text = json_text(a, doc);
	json_decref(doc);
	snprintf(path, sizeof(path), "%s/gcp-key.json", s->conf.dir);
	if (file_put(path, text, strlen(text), 0600)) {
		return true;
	}
	err_set(err, SPOT_CONFIG, "cannot write %s", path);
	return false;
}

void gcp_auth_free(struct sim *s)
{
	struct gcp *g = s->gcp;
	struct gcp_token *next;
	char path[4096];

	snprintf(path, sizeof(path), "%s/gcp-key.json", s->conf.dir);
	remove(path);
	for (struct gcp_token *t = g->tokens; t; t = next) {
		next = t->next;
		free(t->text);
		free(t->email);
		free(t->scopes);
		free(t);
	}
	EVP_PKEY_free(g->key);
	EVP_PKEY_free(g->google_key);
	free(g->key_id);
	free(g->api_key);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

struct gcp_token *gcp_token_new(struct sim *s, const char *email, const char *scopes,
    int64_t seconds)
{
	struct gcp_token *t = calloc(1, sizeof(*t));

	if (!t) {
		abort();
	}
	t->text = sim_id(s, NULL, "ya29.c.cloudsim_", 32);
	t->email = dup_text(email);
	t->scopes = dup_text(scopes);
	t->expires_us = sim_wall(s) + seconds * SPOT_US_PER_S;
	t->next = s->gcp->tokens;
	s->gcp->tokens = t;
	return t;
}

size_t gcp_tokens_expire(struct sim *s)
{
	size_t n = 0;

	for (struct gcp_token *t = s->gcp->tokens; t; t = t->next) {
		n += t->expires_us > sim_wall(s);
		t->expires_us = MIN(t->expires_us, sim_wall(s) - 1);
	}
	return n;
}

/* ---- assertions ------------------------------------------------------------------------------ */

static json_t *jwt_part(struct arena *a, const char *p, size_t n)
{
	struct spot_err err = { 0 };
	struct str raw;
	json_t *doc = NULL;

	if (!gcp_base64url_decode(a, p, n, &raw) || json_parse(raw, "jwt", &doc, &err) != SPOT_OK ||
	    !json_is_object(doc)) {
		json_decref(doc);
		return NULL;
	}
	return doc;
}

/* The claims of a JWT signed by the service account's key; NULL and *why otherwise. */
static json_t *jwt_verified(struct gcp_call *c, const char *jwt, const char **why)
{
	const char *one = strchr(jwt, '.'), *two = one ? strchr(one + 1, '.') : NULL;
	json_t *head, *claims;
	struct str sig;
	bool ok;

	*why = "Invalid JWT: Failed audience check or malformed.";
	if (!two || strchr(two + 1, '.')) {
		return NULL;
	}
	head = jwt_part(c->a, jwt, (size_t)(one - jwt));
	*why = "Invalid JWT: header must have alg RS256.";
	ok = head && str_same(json_string_value(json_object_get(head, "alg")), "RS256");
	if (ok && json_object_get(head, "kid")) {
		*why = "Invalid grant: key not found.";
		ok = str_same(json_string_value(json_object_get(head, "kid")), c->g->key_id);
	}
	json_decref(head);
	if (!ok) {
		return NULL;
	}
	*why = "Invalid JWT Signature.";
	if (!gcp_base64url_decode(c->a, two + 1, strlen(two + 1), &sig) ||
	    !gcp_rsa_verify(c->g->key, (struct str){ jwt, (size_t)(two - jwt) }, sig)) {
		return NULL;
	}
	*why = "Invalid JWT: claims are not a JSON object.";
	claims = jwt_part(c->a, one + 1, (size_t)(two - one - 1));
	return claims;
}

static bool jwt_times_valid(struct gcp_call *c, const json_t *claims)
{
	int64_t now = (sim_wall(c->sim) + c->rq->skew_us) / SPOT_US_PER_S;
	const json_t *iat = json_object_get(claims, "iat"), *exp = json_object_get(claims, "exp");
	int64_t from = json_integer_value(iat), to = json_integer_value(exp);

	return json_is_integer(iat) && json_is_integer(exp) && from <= now + 300 && to > now &&
	    to > from && to - from <= 3600;
}

static const char *const times_words = "Invalid JWT: Token must be a short-lived token (60 "
				       "minutes) and in a reasonable timeframe. Check "
				       "your iat and exp values in the JWT claim.";

static bool our_url(const struct gcp_call *c, const char *text, const char *path)
{
	return str_same(text,
	    arena_printf(c->a, "http://127.0.0.1:%d%s", cloud_port(c->sim, CLOUD_GCP), path));
}

void oauth_token(struct gcp_call *c)
{
	struct form f = { 0 };
	const char *grant, *assertion, *why = NULL, *scope, *aud, *target;
	json_t *claims AUTO(json) = NULL;

	form_parse(c->rq, &f);
	grant = form_get(&f, "grant_type");
	assertion = form_get(&f, "assertion");
	if (!str_same(grant, "urn:ietf:params:oauth:grant-type:jwt-bearer")) {
		gcp_fail(c, 400, "unsupported_grant_type", "Invalid grant_type: %s",
		    grant ? grant : "");
		return;
	}
	if (!assertion) {
		gcp_fail(c, 400, "invalid_request", "Missing required parameter: assertion");
		return;
	}
	claims = c->rq->expire ? NULL : jwt_verified(c, assertion, &why);
	aud = json_string_value(json_object_get(claims, "aud"));
	scope = json_string_value(json_object_get(claims, "scope"));
	target = json_string_value(json_object_get(claims, "target_audience"));
	if (!claims || !jwt_times_valid(c, claims)) {
		gcp_fail(c, 400, "invalid_grant", "%s", claims || !why ? times_words : why);
	} else if (!str_same(json_string_value(json_object_get(claims, "iss")), GCP_SA)) {
		gcp_fail(c, 400, "invalid_grant", "Invalid grant: account not found");
	} else if (!our_url(c, aud, "/token") &&
	    !str_same(aud, "https://oauth2.googleapis.com/token") &&
	    !str_same(aud, "https://accounts.google.com/o/oauth2/token")) {
		gcp_fail(c, 400, "invalid_grant", "Invalid JWT: Failed audience check");
	} else if (target) {
		int64_t now = sim_wall(c->sim) / SPOT_US_PER_S;

		gcp_reply(c,
		    json_pack("{s:s}", "id_token",
			gcp_identity_token(c->sim, c->a,
			    json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "iss",
				"https://accounts.google.com", "aud", target, "sub",
				"104826195837261904825", "email", GCP_SA, "iat", (json_int_t)now,
				"exp", (json_int_t)now + 3600))));
	} else if (!scope || !*scope) {
		gcp_fail(c, 400, "invalid_scope", "Empty or missing scope not allowed.");
	} else {
		const struct gcp_token *t = gcp_token_new(c->sim, GCP_SA, scope, 3599);

		gcp_reply(c,
		    json_pack("{s:s, s:i, s:s}", "access_token", t->text, "expires_in", 3599,
			"token_type", "Bearer"));
	}
}

/* The public key of identity tokens, as https://www.googleapis.com/oauth2/v3/certs gives it. */
void oauth_certs(struct gcp_call *c)
{
	BIGNUM *n = NULL, *e = NULL;
	uint8_t raw[512];
	const char *mod = "", *exp = "";

	if (EVP_PKEY_get_bn_param(gcp_google_key(c->g), "n", &n) == 1 &&
	    EVP_PKEY_get_bn_param(gcp_google_key(c->g), "e", &e) == 1) {
		mod = gcp_base64url(c->a, raw, (size_t)BN_bn2bin(n, raw));
		exp = gcp_base64url(c->a, raw, (size_t)BN_bn2bin(e, raw));
	}
	BN_free(n);
	BN_free(e);
	reply_header(c->rep, "Cache-Control",
	    "public, max-age=19800, must-revalidate, no-transform");
	gcp_reply(c,
	    json_pack("{s:[{s:s, s:s, s:s, s:s, s:s, s:s}]}", "keys", "kty", "RSA", "alg", "RS256",
		"use", "sig", "kid", "cloudsim-google-1", "n", mod, "e", exp));
}

/* ---- federation ------------------------------------------------------------------------------ */

void sts_token(struct gcp_call *c)
{
	struct form f = { 0 };
	const char *grant, *aud, *subject, *kind, *scope;
	const struct gcp_token *t;

	form_parse(c->rq, &f);
	grant = form_get(&f, "grant_type");
	aud = form_get(&f, "audience");
	subject = form_get(&f, "subject_token");
	kind = form_get(&f, "subject_token_type");
	scope = form_get(&f, "scope");
	if (!str_same(grant, "urn:ietf:params:oauth:grant-type:token-exchange")) {
		gcp_fail(c, 400, "unsupported_grant_type", "Invalid grant_type.");
		return;
	}
	if (!aud ||
	    !str_prefix(aud,
		"//iam.googleapis.com/projects/" GCP_PROJECT_NUMBER "/locations/global/"
		"workloadIdentityPools/")) {
		gcp_fail(c, 400, "invalid_request", "Invalid value for \"audience\".");
		return;
	}
	if (!subject || !*subject || !kind || !scope ||
	    !str_same(form_get(&f, "requested_token_type"),
		"urn:ietf:params:oauth:token-type:access_token")) {
		gcp_fail(c, 400, "invalid_request",
		    "subject_token, subject_token_type, scope and requested_token_type are "
		    "required.");
		return;
	}
	/* Any JWT stands for the workload; a text "expired" for one that is refused. */
	if (str_same(subject, "expired")) {
		gcp_fail(c, 400, "invalid_grant", "ID Token is expired.");
		return;
	}
	t = gcp_token_new(c->sim, "principal", scope, 3600);
	gcp_reply(c,
	    json_pack("{s:s, s:s, s:s, s:i}", "access_token", t->text, "issued_token_type",
		"urn:ietf:params:oauth:token-type:access_token", "token_type", "Bearer",
		"expires_in", 3600));
}

void iam_access_token(struct gcp_call *c)
{
	struct spot_err err = { 0 };
	json_t *doc AUTO(json) = NULL;
	const json_t *scope;
	const char *scopes = "", *lifetime;
	struct gcp_token *t;
	char at[TIME_TEXT_MAX];
	int64_t life = 3600;
	size_t k;
	json_t *one;

	if (json_parse(c->rq->http->body, "body", &doc, &err) != SPOT_OK ||
	    !json_is_array(scope = json_object_get(doc, "scope")) || json_array_size(scope) == 0) {
		gcp_fail(c, 400, "badRequest", "Request contains an invalid argument: scope.");
		return;
	}
	if (!str_same(c->arg[0], GCP_SA) && !str_same(c->arg[0], GCP_NODE_SA)) {
		gcp_fail(c, 404, "notFound", "Not found; Gaia id not found for email %s",
		    c->arg[0]);
		return;
	}
	lifetime = gcp_text(doc, "lifetime"); /* "3600s"; longer takes an organization's policy */
	json_array_foreach (scope, k, one) {
		scopes = arena_printf(c->a, "%s%s%s", scopes, *scopes ? " " : "",
		    json_string_value(one));
	}
	if (lifetime &&
	    (!str_suffix(lifetime, "s") ||
		!parse_i64(arena_strndup(c->a, lifetime, strlen(lifetime) - 1), 1, 3600, &life))) {
		gcp_fail(c, 400, "badRequest", "Request contains an invalid argument: lifetime.");
		return;
	}
	t = gcp_token_new(c->sim, c->arg[0], scopes, (int)life);
	gcp_reply(c,
	    json_pack("{s:s, s:s}", "accessToken", t->text, "expireTime",
		format_time_s(t->expires_us, at)));
}

/* Signs with a key that Google keeps: signed URLs without a key file. */
void iam_sign_blob(struct gcp_call *c)
{
	struct spot_err err = { 0 };
	json_t *doc AUTO(json) = NULL;
	const char *payload;
	EVP_MD_CTX *ctx;
	struct str raw;
	uint8_t sig[512];
	size_t n = sizeof(sig);

	if (json_parse(c->rq->http->body, "body", &doc, &err) != SPOT_OK ||
	    !(payload = gcp_text(doc, "payload")) ||
	    !base64_decode(c->a, payload, strlen(payload), &raw)) {
		gcp_fail(c, 400, "badRequest", "Request contains an invalid argument: payload.");
		return;
	}
	if (!str_same(c->arg[0], GCP_SA) && !str_same(c->arg[0], GCP_NODE_SA)) {
		gcp_fail(c, 404, "notFound", "Not found; Gaia id not found for email %s",
		    c->arg[0]);
		return;
	}
	ctx = EVP_MD_CTX_new();
	if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, gcp_google_key(c->g)) == 1 &&
	    EVP_DigestSign(ctx, sig, &n, (const unsigned char *)raw.p, raw.n) == 1) {
		gcp_reply(c,
		    json_pack("{s:s, s:s}", "keyId", "cloudsim-google-1", "signedBlob",
			base64_encode(c->a, sig, n)));
	}
	EVP_MD_CTX_free(ctx);
}

/* ---- the caller ------------------------------------------------------------------------------ */

static bool has_scope(const char *had, const char *any)
{
	const char *p = any;
	char one[256];

	for (;;) {
		size_t n = strcspn(p, " ");

		if (n > 0 && n < sizeof(one) - 2) {
			const char *at;

			memcpy(one, p, n);
			one[n] = '\0';
			at = strstr(had, one);
			while (at && ((at > had && at[-1] != ' ') || (at[n] && at[n] != ' '))) {
				at = strstr(at + 1, one);
			}
			if (at) {
				return true;
			}
		}
		if (!p[n]) {
			return false;
		}
		p += n + 1;
	}
}

static bool unauthenticated_fail(struct gcp_call *c, const char *code)
{
	gcp_fail(c, 401, code,
	    "Request %s authentication credential%s. Expected OAuth 2 access token, login "
	    "cookie or "
	    "other valid authentication credential. See "
	    "https://developers.google.com/identity/sign-in/web/devconsole-project.",
	    str_same(code, "required") ? "is missing required" : "had invalid",
	    str_same(code, "required") ? "" : "s");
	return false;
}

static bool scope_suffices(struct gcp_call *c, const char *had, const char *scopes)
{
	if (has_scope(had, CLOUD_PLATFORM) || has_scope(had, scopes)) {
		return true;
	}
	gcp_fail(c, 403, "insufficientPermissions",
	    "Request had insufficient authentication scopes.");
	return false;
}

/* A JWT of the service account instead of a token: audience is the API, or it names scopes. */
static bool self_signed(struct gcp_call *c, const char *jwt, const char *scopes)
{
	const char *why, *aud, *scope;
	json_t *claims AUTO(json) = jwt_verified(c, jwt, &why);

	if (!claims || !jwt_times_valid(c, claims) ||
	    !str_same(json_string_value(json_object_get(claims, "iss")), GCP_SA) ||
	    !str_same(json_string_value(json_object_get(claims, "sub")), GCP_SA)) {
		return unauthenticated_fail(c, "authError");
	}
	aud = json_string_value(json_object_get(claims, "aud"));
	scope = json_string_value(json_object_get(claims, "scope"));
	c->email = GCP_SA;
	if (scope) {
		return scope_suffices(c, scope, scopes);
	}
	if (aud && (our_url(c, aud, "/") || glob_match("https://*.googleapis.com/", aud))) {
		return true;
	}
	return unauthenticated_fail(c, "authError");
}

static bool api_key_accepted(struct gcp_call *c, bool *ret_ok)
{
	const char *key = gcp_param(c, "key");

	*ret_ok = false;
	if (!key || !str_same(c->rq->service, "billing") || req_header(c->rq, "authorization")) {
		return false;
	}
	*ret_ok = str_same(key, c->g->api_key);
	if (!*ret_ok) {
		gcp_fail(c, 400, "keyInvalid", "API key not valid. Please pass a valid API key.");
	}
	return true;
}

bool gcp_authorize(struct gcp_call *c, const char *scopes)
{
	const char *auth = req_header(c->rq, "authorization");
	bool ok;

	if (api_key_accepted(c, &ok)) {
		return ok;
	}
	if (!auth || !*auth) {
		return unauthenticated_fail(c, "required");
	}
	if (strncasecmp(auth, "Bearer ", 7) != 0 || c->rq->expire) {
		return unauthenticated_fail(c, "authError");
	}
	auth += 7;
	if (strchr(auth, '.') && !str_prefix(auth, "ya29.")) {
		return self_signed(c, auth, scopes);
	}
	for (const struct gcp_token *t = c->g->tokens; t; t = t->next) {
		if (!str_same(t->text, auth)) {
			continue;
		}
		if (t->expires_us <= sim_wall(c->sim) + c->rq->skew_us) {
			return unauthenticated_fail(c, "authError");
		}
		c->email = t->email;
		return scope_suffices(c, t->scopes, scopes);
	}
	return unauthenticated_fail(c, "authError");
}
