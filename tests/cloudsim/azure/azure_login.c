/*
 * Microsoft identity platform, as far as a daemon needs it: discovery, client credentials, tokens
 * as RS256 JWTs, and their checking. A client proves itself by a secret or a signed assertion
 * (certificate or federated).
 */
/* openssl/evp.h names parameters "rand". */
#define BASE_ALLOW_BANNED
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <strings.h>

#define TOKEN_S 3599
#define ASSERTION_US (3600 * SPOT_US_PER_S)

static const char *field_get(struct az_call *c, const char *name)
{
	struct str b = c->rq->http->body;
	const char *p = arena_strndup(c->rq->arena, b.p ? b.p : "", b.n);
	size_t n = strlen(name);

	while (*p) {
		const char *end = strchrnul(p, '&');
		char *value;

		if (str_prefix(p, name) && p[n] == '=' &&
		    url_decode(c->rq->arena, (struct str){ p + n + 1, (size_t)(end - p) - n - 1 },
			true, &value)) {
			return value;
		}
		p = *end ? end + 1 : end;
	}
	return NULL;
}

/* ---- making tokens --------------------------------------------------------------------------- */

const char *az_token(struct sim *s, struct arena *a, const char *audience, const char *app,
    const char *oid, int64_t seconds)
{
	int64_t now = sim_wall(s) / SPOT_US_PER_S;
	json_t *claims = json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:s}", "aud",
	    audience, "iss", "https://sts.windows.net/" AZ_TENANT "/", "iat", (json_int_t)now,
	    "nbf", (json_int_t)now, "exp", (json_int_t)(now + seconds), "appid", app, "oid", oid,
	    "sub", oid, "tid", AZ_TENANT, "idtyp", "app", "ver", "1.0");
	const char *head = "{\"typ\":\"JWT\",\"alg\":\"RS256\",\"kid\":\"cloudsim-1\"}";
	const char *body = json_text(a, claims), *text;

	json_decref(claims);
	text = arena_printf(a, "%s.%s", az_b64url(a, head, strlen(head)),
	    az_b64url(a, body, strlen(body)));
	return arena_printf(a, "%s.%s", text, az_sign(azure_of(s), a, text));
}

/* ---- checking -------------------------------------------------------------------------------- */

struct parts {
	const char *text;
	size_t signed_n;
	json_t *head, *claims;
	struct str sig;
};

static bool jwt_split(struct arena *a, const char *text, struct parts *ret)
{
	const char *dot = strchr(text, '.'), *dot2 = dot ? strchr(dot + 1, '.') : NULL;
	struct spot_err err = { 0 };
	struct str head, body;

	*ret = (struct parts){ .text = text };
	if (!dot2 || !az_b64url_decode(a, text, (size_t)(dot - text), &head) ||
	    !az_b64url_decode(a, dot + 1, (size_t)(dot2 - dot - 1), &body) ||
	    !az_b64url_decode(a, dot2 + 1, strlen(dot2 + 1), &ret->sig)) {
		return false;
	}
	ret->signed_n = (size_t)(dot2 - text);
	if (json_parse(head, "header", &ret->head, &err) != SPOT_OK) {
		return false;
	}
	if (json_parse(body, "claims", &ret->claims, &err) == SPOT_OK) {
		return true;
	}
	json_decref(ret->head);
	return false;
}

static void parts_free(struct parts *p)
{
	json_decref(p->head);
	json_decref(p->claims);
}

static const char *claim_get(const struct parts *p, const char *name)
{
	const char *v = json_string_value(json_object_get(p->claims, name));

	return v ? v : "";
}

static int64_t claim_time(const struct parts *p, const char *name)
{
	/* RFC 7519: a number, with or without a fraction */
	return (int64_t)json_number_value(json_object_get(p->claims, name)) * SPOT_US_PER_S;
}

static bool is_verified(const struct parts *p, EVP_PKEY *key)
{
	const char *alg = json_string_value(json_object_get(p->head, "alg"));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	EVP_PKEY_CTX *pctx;
	bool ok = str_same(alg, "RS256") || str_same(alg, "PS256");

	ok = ok && EVP_DigestVerifyInit(ctx, &pctx, EVP_sha256(), NULL, key) == 1;
	if (ok && str_same(alg, "PS256")) {
		ok = EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) == 1;
	}
	ok = ok &&
	    EVP_DigestVerify(ctx, (const unsigned char *)p->sig.p, p->sig.n,
		(const unsigned char *)p->text, p->signed_n) == 1;
	EVP_MD_CTX_free(ctx);
	return ok;
}

static bool audience_fits(const char *aud, const char *const *audiences)
{
	size_t n = strlen(aud);

	while (n > 0 && aud[n - 1] == '/') {
		n--;
	}
	for (size_t k = 0; audiences[k]; k++) {
		if (strlen(audiences[k]) == n && strncasecmp(aud, audiences[k], n) == 0) {
			return true;
		}
	}
	return false;
}

const char *az_token_check(struct az_call *c, const char *const *audiences)
{
	const char *auth = req_header(c->rq, "authorization"), *wrong = NULL;
	int64_t now = sim_wall(c->rq->sim) + c->rq->skew_us;
	struct parts p;

	if (!auth || strncasecmp(auth, "Bearer ", 7) != 0) {
		return "missing";
	}
	if (!jwt_split(c->rq->arena, auth + 7, &p)) {
		return "malformed";
	}
	if (!is_verified(&p, c->az->leaf_key)) {
		wrong = "signature";
	} else if (!audience_fits(claim_get(&p, "aud"), audiences)) {
		wrong = "audience";
	} else if (c->rq->expire || claim_time(&p, "exp") < now ||
	    claim_time(&p, "iat") + SPOT_US_PER_S <= c->az->revoked_us) {
		wrong = "expired";
	} else {
		snprintf(c->oid, sizeof(c->oid), "%s", claim_get(&p, "oid"));
	}
	parts_free(&p);
	return wrong;
}

/* ---- issuers of assertions ------------------------------------------------------------------- */

/* {"issuer", "subject", "public_key_pem" or "certificate_pem"}. For a certificate of the app itself
 * both names are its client id. */
bool az_trust_add(struct sim *s, const json_t *doc, struct spot_err *err)
{
	const char *issuer = json_str(doc, "issuer", AZ_CLIENT, err),
		   *subject = json_str(doc, "subject", AZ_CLIENT, err),
		   *key = json_str(doc, "public_key_pem", NULL, err),
		   *cert = json_str(doc, "certificate_pem", NULL, err), *text = key ? key : cert;
	struct az_trust *t;
	EVP_PKEY *k = NULL;
	BIO *in;

	if (err->rc != SPOT_OK) {
		return false;
	}
	in = BIO_new_mem_buf(text ? text : "", -1);
	if (key) {
		k = PEM_read_bio_PUBKEY(in, NULL, NULL, NULL);
	} else if (cert) {
		X509 *x = PEM_read_bio_X509(in, NULL, NULL, NULL);

		k = x ? X509_get_pubkey(x) : NULL;
		X509_free(x);
	}
	BIO_free(in);
	if (!k) {
		err_set(err, SPOT_INVALID, "public_key_pem or certificate_pem is needed");
		return false;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		abort();
	}
	*t = (struct az_trust){ s->azure->trust, dup_text(issuer), dup_text(subject), k };
	s->azure->trust = t;
	return true;
}

void az_trust_drop(struct az_trust *t)
{
	free(t->issuer);
	free(t->subject);
	EVP_PKEY_free(t->key);
	free(t);
}

static bool assertion_named(struct az_call *c, const struct parts *p, const struct az_trust *t)
{
	const char *aud = claim_get(p, "aud");
	int64_t now = sim_wall(c->rq->sim), exp = claim_time(p, "exp");
	bool own = str_same(t->issuer, AZ_CLIENT);

	if (!is_verified(p, t->key)) {
		az_fail(c, 401, "invalid_client/700027",
		    "The certificate with identifier used to sign the client assertion is not "
		    "registered on application. [Reason - The key was not found.]");
		return false;
	}
	if (exp < now || claim_time(p, "nbf") > now + 300 * SPOT_US_PER_S ||
	    (own && exp > now + ASSERTION_US)) {
		az_fail(c, 401, "invalid_client/700024",
		    "Client assertion is not within its valid time range.");
		return false;
	}
	if (own ? !(str_suffix(aud, "/oauth2/v2.0/token") && strstr(aud, AZ_TENANT))
		: !str_same(aud, "api://AzureADTokenExchange")) {
		az_fail(c, 401, own ? "invalid_client/700023" : "invalid_client/700212",
		    "No matching federated identity record found for presented assertion audience "
		    "'%s'. The audience claim is not the realm of the endpoint.",
		    aud);
		return false;
	}
	return true;
}

static bool assertion_good(struct az_call *c, const char *text)
{
	const struct az_trust *t;
	struct parts p;
	bool ok = false;

	if (!str_same(field_get(c, "client_assertion_type"),
		"urn:ietf:params:oauth:client-assertion-type:jwt-bearer")) {
		az_fail(c, 400, "invalid_request/900144",
		    "The request body must contain the following parameter: "
		    "'client_assertion_type'.");
		return false;
	}
	if (!jwt_split(c->rq->arena, text, &p)) {
		az_fail(c, 401, "invalid_client/50027", "JWT token is invalid or malformed.");
		return false;
	}
	for (t = c->az->trust; t; t = t->next) {
		if (str_same(t->issuer, claim_get(&p, "iss")) &&
		    str_same(t->subject, claim_get(&p, "sub"))) {
			break;
		}
	}
	if (t) {
		ok = assertion_named(c, &p, t);
	} else {
		az_fail(c, 401, "invalid_client/700213",
		    "No matching federated identity record found for presented assertion subject "
		    "'%s'.",
		    claim_get(&p, "sub"));
	}
	parts_free(&p);
	return ok;
}

/* ---- the endpoints --------------------------------------------------------------------------- */

static bool client_known(struct az_call *c)
{
	const char *secret = field_get(c, "client_secret"),
		   *assertion = field_get(c, "client_assertion");

	if (!str_same(field_get(c, "client_id"), AZ_CLIENT)) {
		az_fail(c, 400, "unauthorized_client/700016",
		    "Application with identifier '%s' was not found in the directory 'cloudsim'.",
		    field_get(c, "client_id") ? field_get(c, "client_id") : "");
		return false;
	}
	if (assertion) {
		return assertion_good(c, assertion);
	}
	if (!secret) {
		az_fail(c, 401, "invalid_client/7000218",
		    "The request body must contain the following parameter: 'client_assertion' or "
		    "'client_secret'.");
		return false;
	}
	if (c->rq->expire || !str_same(secret, c->az->client_secret)) {
		az_fail(c, 401, c->rq->expire ? "invalid_client/7000222" : "invalid_client/7000215",
		    c->rq->expire
			? "The provided client secret keys for app are expired."
			: "Invalid client secret provided. Ensure the secret being sent in "
			  "the request is the client secret value, not the client secret "
			  "ID.");
		return false;
	}
	return true;
}

static void token_reply(struct az_call *c)
{
	const char *scope = field_get(c, "scope"), *grant = field_get(c, "grant_type");
	size_t n = scope ? strlen(scope) : 0;
	const char *audience;

	if (!str_same(grant, "client_credentials")) {
		az_fail(c, 400, grant ? "unsupported_grant_type/70003" : "invalid_request/900144",
		    "The app requested an unsupported grant type '%s'.", grant ? grant : "");
		return;
	}
	if (!client_known(c)) {
		return;
	}
	if (!scope || !str_suffix(scope, "/.default") || strchr(scope, ' ')) {
		az_fail(c, 400, "invalid_scope/1002012",
		    "The provided value for scope %s is not valid. Client credential flows must "
		    "have a "
		    "scope value with /.default suffixed to the resource identifier (application "
		    "ID "
		    "URI).",
		    scope ? scope : "");
		return;
	}
	audience = arena_strndup(c->rq->arena, scope, n - strlen("/.default"));
	if (!strstr(audience, "://")) {
		az_fail(c, 400, "invalid_resource/500011",
		    "The resource principal named %s was not found in the tenant named cloudsim.",
		    audience);
		return;
	}
	reply_header(c->rep, "Cache-Control", "no-store, no-cache");
	az_send(c, 200,
	    json_pack("{s:s, s:i, s:i, s:s}", "token_type", "Bearer", "expires_in", TOKEN_S,
		"ext_expires_in", TOKEN_S, "access_token",
		az_token(c->rq->sim, c->rq->arena, audience, AZ_CLIENT, AZ_CLIENT_OID, TOKEN_S)));
}

static void discovery_reply(struct az_call *c)
{
	const char *t = c->seg[0], *b = c->base;

	az_send(c, 200,
	    json_pack("{s:o, s:[s, s, s], s:o, s:[s, s, s], s:[s], s:[s, s, s], s:[s], s:[s], s:o, "
		      "s:o}",
		"token_endpoint", json_sprintf("%s/%s/oauth2/v2.0/token", b, t),
		"token_endpoint_auth_methods_supported", "client_secret_post", "private_key_jwt",
		"client_secret_basic", "jwks_uri", json_sprintf("%s/%s/discovery/v2.0/keys", b, t),
		"response_modes_supported", "query", "fragment", "form_post",
		"subject_types_supported", "pairwise", "response_types_supported", "code",
		"id_token", "token", "scopes_supported", "openid",
		"id_token_signing_alg_values_supported", "RS256", "issuer",
		json_sprintf("%s/%s/v2.0", b, AZ_TENANT), "authorization_endpoint",
		json_sprintf("%s/%s/oauth2/v2.0/authorize", b, t)));
}

static void instances_reply(struct az_call *c)
{
	const char *host = strstr(c->base, "://") + 3;

	az_send(c, 200,
	    json_pack("{s:o, s:s, s:[{s:s, s:s, s:[s]}]}", "tenant_discovery_endpoint",
		json_sprintf("%s/%s/v2.0/.well-known/openid-configuration", c->base, AZ_TENANT),
		"api-version", "1.1", "metadata", "preferred_network", host, "preferred_cache",
		host, "aliases", host));
}

void az_login(struct az_call *c)
{
	const char *last = c->seg[c->n - 1];
	bool get = str_same(c->rq->http->method, "GET");

	if (c->n == 3 && str_same(c->seg[1], "discovery") && str_same(last, "instance")) {
		instances_reply(c);
		return;
	}
	if (!az_same(c->seg[0], AZ_TENANT) && !str_same(c->seg[0], "cloudsim.example")) {
		az_fail(c, 400, "invalid_tenant/90002",
		    "Tenant '%s' not found. Check to make sure you have the correct tenant ID and "
		    "are "
		    "signing into the correct cloud.",
		    c->seg[0]);
		return;
	}
	if (get && str_same(last, "openid-configuration")) {
		discovery_reply(c);
	} else if (get && str_same(last, "keys")) {
		az_send(c, 200, json_pack("{s:[o]}", "keys", az_jwk(c->az, c->rq->arena)));
	} else if (str_same(last, "token") && str_same(c->rq->http->method, "POST")) {
		token_reply(c);
	} else {
		az_fail(c, 404, "invalid_request/900561", "The endpoint does not exist.");
	}
}
