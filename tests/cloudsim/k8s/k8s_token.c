/*
 * Service account tokens: JWTs signed RS256 with a key made at start, like those of the API server
 * and the kubelet. Also TokenRequest, TokenReview, and the issuer's public keys.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#define KEY_ID "cloudsim-sa-1"

static EVP_PKEY *key; /* one for all issuers of the process */

void k8s_keys_free(void)
{
	EVP_PKEY_free(key);
	key = NULL;
}

static EVP_PKEY *signer_get(void)
{
	if (!key) {
		key = EVP_RSA_gen(2048);
	}
	if (!key) {
		abort();
	}
	return key;
}

/* ---- base64url ------------------------------------------------------------------------------- */

static char *url64_text(struct arena *a, const void *p, size_t n)
{
	char *text = base64_encode(a, p, n);

	for (char *c = text; *c; c++) {
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	}
	text[strcspn(text, "=")] = '\0';
	return text;
}

static bool url64_read(struct arena *a, const char *p, size_t n, struct str *ret)
{
	char *text = arena_printf(a, "%.*s%s", (int)n, p,
	    n % 4 == 2       ? "=="
		: n % 4 == 3 ? "="
			     : "");

	if (strpbrk(text, "+/")) {
		return false;
	}
	for (char *c = text; *c; c++) {
		*c = *c == '-' ? '+' : *c == '_' ? '/' : *c;
	}
	return base64_decode(a, text, strlen(text), ret);
}

/* ---- signing --------------------------------------------------------------------------------- */

static json_t *claims_json(struct k8s_cluster *c, const struct k8s_obj *account,
    const struct k8s_obj *pod, const json_t *audiences, int64_t seconds)
{
	int64_t now = sim_wall(c->sim) / SPOT_US_PER_S;
	json_t *bound = json_pack("{s:s, s:{s:s, s:s}}", "namespace", account->ns, "serviceaccount",
	    "name", account->name, "uid", account->uid);
	const struct k8s_obj *node;
	char hex[33];

	rng_hex(&c->sim->rng, hex, 16);
	if (pod) {
		json_object_set_new(bound, "pod",
		    json_pack("{s:s, s:s}", "name", pod->name, "uid", pod->uid));
		node = k8s_find(c, K8S_NODE, NULL, k_str(pod->doc, "spec.nodeName"));
		if (node) {
			json_object_set_new(bound, "node",
			    json_pack("{s:s, s:s}", "name", node->name, "uid", node->uid));
		}
	}
	return json_pack("{s:O, s:I, s:I, s:s, s:s, s:o, s:I, s:o}", "aud", audiences, "exp",
	    (json_int_t)(now + seconds), "iat", (json_int_t)now, "iss", c->issuer, "jti", hex,
	    "kubernetes.io", bound, "nbf", (json_int_t)now, "sub",
	    json_sprintf("system:serviceaccount:%s:%s", account->ns, account->name));
}

char *token_sign(struct k8s_cluster *c, struct arena *a, const struct k8s_obj *account,
    const struct k8s_obj *pod, const json_t *audiences, int64_t seconds)
{
	static const char head[] = "{\"alg\":\"RS256\",\"kid\":\"" KEY_ID "\"}";
	json_t *claims = claims_json(c, account, pod, audiences, seconds);
	char *body = json_text(a, claims), *text;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t sig[512];
	size_t n = sizeof(sig);

	json_decref(claims);
	text = arena_printf(a, "%s.%s", url64_text(a, head, sizeof(head) - 1),
	    url64_text(a, body, strlen(body)));
	if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, signer_get()) != 1 ||
	    EVP_DigestSign(ctx, sig, &n, (const unsigned char *)text, strlen(text)) != 1) {
		abort();
	}
	EVP_MD_CTX_free(ctx);
	return arena_printf(a, "%s.%s", text, url64_text(a, sig, n));
}

/* ---- verification ---------------------------------------------------------------------------- */

static bool signature_good(struct arena *a, const char *token, const char *dot)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	struct str sig;
	bool ok;

	ok = url64_read(a, dot + 1, strlen(dot + 1), &sig) &&
	    EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, signer_get()) == 1 &&
	    EVP_DigestVerify(ctx, (const unsigned char *)sig.p, sig.n, (const unsigned char *)token,
		(size_t)(dot - token)) == 1;
	EVP_MD_CTX_free(ctx);
	return ok;
}

static const char *claims_problem(struct k8s_cluster *c, const json_t *claims)
{
	const json_t *bound = json_object_get(claims, "kubernetes.io");
	const char *ns = k_str(bound, "namespace"), *pod = k_str(bound, "pod.name");
	int64_t now = sim_wall(c->sim) / SPOT_US_PER_S;
	const struct k8s_obj *o;

	if (!str_same(k_str(claims, "iss"), c->issuer)) {
		return "invalid bearer token";
	}
	if (k_int(claims, "exp", 0) <= now) {
		return "[invalid bearer token, service account token has expired]";
	}
	if (k_int(claims, "nbf", 0) > now) {
		return "[invalid bearer token, token is not valid yet]";
	}
	o = k8s_find(c, K8S_SERVICE_ACCOUNT, ns, k_str(bound, "serviceaccount.name"));
	if (!o || !str_same(o->uid, k_str(bound, "serviceaccount.uid"))) {
		return "[invalid bearer token, service account has been invalidated]";
	}
	if (!pod) {
		return NULL;
	}
	o = k8s_find(c, K8S_POD, ns, pod);
	if (!o || !str_same(o->uid, k_str(bound, "pod.uid"))) {
		return "[invalid bearer token, pod has been invalidated]";
	}
	return NULL;
}

json_t *token_verify(struct k8s_cluster *c, struct arena *a, const char *token,
    const char **ret_why)
{
	const char *first = strchr(token, '.'), *last = strrchr(token, '.');
	struct spot_err err = { 0 };
	json_t *claims = NULL;
	struct str text;

	*ret_why = "invalid bearer token";
	if (!first || first == last || !signature_good(a, token, last) ||
	    !url64_read(a, first + 1, (size_t)(last - first - 1), &text) ||
	    json_parse(text, "claims", &claims, &err) != SPOT_OK) {
		return NULL;
	}
	*ret_why = claims_problem(c, claims);
	if (!*ret_why) {
		return claims;
	}
	json_decref(claims);
	return NULL;
}

json_t *token_jwks(struct sim *s, struct arena *a)
{
	BIGNUM *n = NULL, *e = NULL;
	uint8_t modulus[512], exponent[8];
	json_t *doc;
	int n_n, e_n;

	(void)s;
	if (EVP_PKEY_get_bn_param(signer_get(), OSSL_PKEY_PARAM_RSA_N, &n) != 1 ||
	    EVP_PKEY_get_bn_param(signer_get(), OSSL_PKEY_PARAM_RSA_E, &e) != 1) {
		abort();
	}
	n_n = BN_bn2bin(n, modulus);
	e_n = BN_bn2bin(e, exponent);
	doc = json_pack("{s:[{s:s, s:s, s:s, s:s, s:s, s:s}]}", "keys", "use", "sig", "kty", "RSA",
	    "kid", KEY_ID, "alg", "RS256", "n", url64_text(a, modulus, (size_t)n_n), "e",
	    url64_text(a, exponent, (size_t)e_n));
	BN_free(n);
	BN_free(e);
	return doc;
}

/* ---- TokenRequest ---------------------------------------------------------------------------- */

static bool bound_pod(struct k8s_call *q, const struct k8s_obj **ret)
{
	const json_t *ref = k_at(q->body, "spec.boundObjectRef");
	const char *name = k_str(ref, "name");

	*ret = NULL;
	if (!ref || !str_same(k_str(ref, "kind"), "Pod")) {
		return true;
	}
	*ret = k8s_find(q->c, K8S_POD, q->ns, name);
	if (*ret && (!k_str(ref, "uid") || str_same(k_str(ref, "uid"), (*ret)->uid))) {
		return true;
	}
	k8s_fail(q, *ret ? 409 : 404, *ret ? "Conflict" : "NotFound", "pods \"%s\" not found",
	    name ? name : "");
	return false;
}

void token_request(struct k8s_call *q)
{
	struct k8s_obj *account = k8s_find(q->c, K8S_SERVICE_ACCOUNT, q->ns, q->name);
	int64_t seconds, most = q->c->token_s_max;
	const struct k8s_obj *pod;
	json_t *audiences, *doc;
	char at[TIME_TEXT_MAX];

	if (!k8s_body(q, "AuthenticationV1TokenRequest", "TokenRequest", false)) {
		return;
	}
	if (!account) {
		k8s_fail(q, 404, "NotFound", "serviceaccounts \"%s\" not found", q->name);
		return;
	}
	seconds = k_int(q->body, "spec.expirationSeconds", 3600);
	if (seconds < 600) {
		static const struct k8s_kind asked = { .group = "authentication.k8s.io",
			.kind = "TokenRequest",
			.plural = "tokenrequests" };
		json_t *causes = json_array();

		q->kind = &asked;
		q->name = NULL;

		cause_add(causes, "FieldValueInvalid", "spec.expirationSeconds",
		    "Invalid value: %" PRId64 ": may not specify a duration less than 10 minutes",
		    seconds);
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return;
	}
	if (!bound_pod(q, &pod)) {
		return;
	}
	/* The server may give less than was asked for; the answer counts. */
	seconds = most > 0 ? MIN(seconds, most) : seconds;
	audiences = k_at(q->body, "spec.audiences");
	audiences =
	    json_array_size(audiences) ? json_incref(audiences) : json_pack("[s]", q->c->issuer);
	doc = json_pack("{s:s, s:s, s:{s:s, s:s, s:o}, s:{s:O, s:I, s:O*}, s:{s:s, s:s}}", "kind",
	    "TokenRequest", "apiVersion", "authentication.k8s.io/v1", "metadata", "name", q->name,
	    "namespace", q->ns, "creationTimestamp", k_now(q->c->sim), "spec", "audiences",
	    audiences, "expirationSeconds", (json_int_t)seconds, "boundObjectRef",
	    k_at(q->body, "spec.boundObjectRef"), "status", "token",
	    token_sign(q->c, q->arena, account, pod, audiences, seconds), "expirationTimestamp",
	    format_time_s(sim_wall(q->c->sim) + seconds * SPOT_US_PER_S, at));
	if (!k_at(doc, "spec.boundObjectRef")) {
		json_object_set_new(json_object_get(doc, "spec"), "boundObjectRef", json_null());
	}
	json_decref(audiences);
	k8s_reply(q, 201, doc);
}

/* ---- TokenReview ----------------------------------------------------------------------------- */

/* Audiences of the token that were asked for (all of the server's when none was). */
static json_t *common_audiences(struct k8s_call *q, const json_t *claims)
{
	json_t *asked = k_at(q->body, "spec.audiences"), *both = json_array(), *x, *y;
	json_t *want = json_array_size(asked) ? json_incref(asked) : json_pack("[s]", q->c->issuer);
	size_t k, i;

	json_array_foreach (want, k, x) {
		json_array_foreach (json_object_get(claims, "aud"), i, y) {
			if (json_equal(x, y)) {
				json_array_append(both, x);
			}
		}
	}
	json_decref(want);
	return both;
}

static json_t *user_json(struct k8s_call *q, const json_t *claims)
{
	const json_t *bound = json_object_get(claims, "kubernetes.io");
	const char *ns = k_str(bound, "namespace");
	json_t *extra = json_pack("{s:[o]}", "authentication.kubernetes.io/credential-id",
		   json_sprintf("JTI=%s", k_str(claims, "jti"))),
	       *user;
	static const char *const refs[] = { "pod", "node" };

	for (size_t k = 0; k < ARRAY_LEN(refs); k++) {
		const json_t *ref = json_object_get(bound, refs[k]);

		if (!ref) {
			continue;
		}
		json_object_set_new(extra,
		    arena_printf(q->arena, "authentication.kubernetes.io/%s-name", refs[k]),
		    json_pack("[s]", k_str(ref, "name")));
		json_object_set_new(extra,
		    arena_printf(q->arena, "authentication.kubernetes.io/%s-uid", refs[k]),
		    json_pack("[s]", k_str(ref, "uid")));
	}
	user = json_pack("{s:s, s:s, s:[s, o, s], s:o}", "username", k_str(claims, "sub"), "uid",
	    k_str(bound, "serviceaccount.uid"), "groups", "system:serviceaccounts",
	    json_sprintf("system:serviceaccounts:%s", ns), "system:authenticated", "extra", extra);
	return user;
}

void token_review(struct k8s_call *q)
{
	json_t *claims, *status, *both = NULL;
	const char *token, *why = NULL;

	if (!k8s_body(q, "V1TokenReview", "TokenReview", false)) {
		return;
	}
	token = k_str(q->body, "spec.token");
	if (!token || !*token) {
		k8s_fail(q, 400, "BadRequest",
		    "token is required for TokenReview in authentication");
		return;
	}
	claims = token_verify(q->c, q->arena, token ? token : "", &why);
	if (claims) {
		both = common_audiences(q, claims);
		if (json_array_size(both) == 0) {
			why = arena_printf(q->arena,
			    "[invalid bearer token, token audiences %s is invalid for the target "
			    "audiences %s]",
			    json_text(q->arena, json_object_get(claims, "aud")),
			    json_text(q->arena,
				k_at(q->body, "spec.audiences") ? k_at(q->body, "spec.audiences")
								: both));
		}
	}
	status = why ? json_pack("{s:{}, s:s}", "user", "error", why)
		     : json_pack("{s:b, s:o, s:O}", "authenticated", 1, "user",
			   user_json(q, claims), "audiences", both);
	json_decref(both);
	json_decref(claims);
	k8s_reply(q, 201,
	    json_pack("{s:s, s:s, s:{s:n}, s:O, s:o}", "kind", "TokenReview", "apiVersion",
		"authentication.k8s.io/v1", "metadata", "creationTimestamp", "spec",
		json_object_get(q->body, "spec"), "status", status));
}
