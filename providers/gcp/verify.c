#include "base/base.h"
#include "gcp_priv.h"

/*
 * Is the caller the machine that we launched? Its proof is an instance identity token: a JWT that
 * only the metadata server of that machine gives out, signed with Google's keys
 * (docs.cloud.google.com/compute/docs/instances/verifying-instance-identity).
 */

#define WHAT "oauth2.certs"
#define SLACK_US (60 * SPOT_US_PER_S)

struct verifying {
	struct str token; /* of the proof */
};

static enum spot_step proof_denied(struct spot_call *c, const char *why)
{
	return call_fail(c, SPOT_DENIED, NULL, "gcp verify: %s", why);
}

static enum spot_step proof_read(const struct gcp *self, struct spot_call *c,
    const struct spot_verify *a, struct verifying *x)
{
	json_t *doc AUTO(json) = NULL;
	const char *token;

	/* Without a service account a machine has no identity to show. */
	if (strcmp(self->service_account, "none") == 0) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "gcp verify: machines without a service account cannot prove who they are; set "
		    "service_account");
	}
	if (json_parse(a->proof, "proof", &doc, NULL) != SPOT_OK || !json_is_object(doc)) {
		return proof_denied(c, "the proof is not a JSON object");
	}
	if (!str_same(json_string_value(json_object_get(doc, "kind")), "gcp")) {
		return proof_denied(c, "the proof is not one of Google Cloud");
	}
	token = json_string_value(json_object_get(doc, "jwt"));
	if (str_empty(token)) {
		return proof_denied(c, "there is no jwt in the proof");
	}
	x->token = arena_bytes(c->arena, token, strlen(token));
	return SPOT_STEP_NONE;
}

/* The key that the token names, out of a JSON Web Key Set. */
static struct rsa_key *key_find(const json_t *keys, const char *kid)
{
	const json_t *k;
	size_t i;

	json_array_foreach (keys, i, k) {
		struct rsa_key *key = NULL;

		if (!str_same(json_string_value(json_object_get(k, "kid")), kid) ||
		    !str_same(json_string_value(json_object_get(k, "kty")), "RSA")) {
			continue;
		}
		if (rsa_public_jwk(json_string_value(json_object_get(k, "n")),
			json_string_value(json_object_get(k, "e")), &key, NULL) == SPOT_OK) {
			return key;
		}
	}
	return NULL;
}

static const char *claim_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "";
}

/* A claim that is a time, microseconds; 0: it is none. */
static int64_t time_of(const json_t *claims, const char *key)
{
	json_int_t s = json_integer_value(json_object_get(claims, key));

	return s <= 0 || s > INT64_MAX / SPOT_US_PER_S / 2 ? 0 : s * SPOT_US_PER_S;
}

/* NULL: all is as it should be, but for the time. */
static const char *claims_wrong(const struct gcp *self, const struct spot_call *c,
    const struct spot_verify *a, const json_t *claims)
{
	const json_t *vm = json_object_get(json_object_get(claims, "google"), "compute_engine");
	const char *iss = claim_text(claims, "iss"), *zone, *id;
	bool disk;

	if (strcmp(iss, "https://accounts.google.com") != 0 &&
	    strcmp(iss, "accounts.google.com") != 0) {
		return "the token is not Google's";
	}
	if (str_empty(a->audience) || strcmp(claim_text(claims, "aud"), a->audience) != 0) {
		return "the token was made for another audience";
	}
	if (time_of(claims, "exp") == 0 || time_of(claims, "iat") == 0) {
		return "the token does not say from when to when it is good";
	}
	if (!json_is_object(vm)) {
		return "the token says nothing of a machine (format=full is needed)";
	}
	if (strcmp(claim_text(vm, "project_id"), self->project) != 0) {
		return "the token is of another project";
	}
	if (!gcp_ref_read(c->arena, a->ref, &zone, &id, &disk) || disk) {
		return "the machine that we launched has no id yet";
	}
	if (strcmp(claim_text(vm, "instance_id"), id) != 0 ||
	    strcmp(claim_text(vm, "zone"), zone) != 0) {
		return "the token is of another machine";
	}
	return NULL;
}

/* It is Google's, and of our machine. That its time is not ours does not make it somebody else's:
 * it may be our clock that is wrong. */
static enum spot_step time_check(const struct gcp *self, struct spot_call *c, const json_t *claims)
{
	int64_t now = c->now_us + self->skew_us;
	char at[TIME_TEXT_MAX];
	const char *wrong = time_of(claims, "exp") < now - SLACK_US ? "has expired"
	    : time_of(claims, "iat") > now + SLACK_US               ? "is from the future"
								    : NULL;

	return wrong == NULL
	    ? SPOT_DONE
	    : call_fail(c, SPOT_CONFIG, NULL,
		  "gcp verify: by our clock, which says %s, the token %s; is the clock right?",
		  format_time_s(now, at), wrong);
}

static enum spot_step certs_reply(struct gcp *self, struct spot_call *c,
    const struct spot_verify *a, const struct verifying *x)
{
	json_t *doc AUTO(json) = NULL;
	struct jwt t AUTO(jwt) = { 0 };
	struct rsa_key *key AUTO(rsa_key) = NULL;
	const char *wrong;
	enum spot_step s = gcp_reply(self, c, WHAT, NULL, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (json_array_size(json_object_get(doc, "keys")) == 0) {
		return gcp_bad_reply(c, WHAT, "no keys");
	}
	if (jwt_read(c->arena, x->token, &t, NULL) != SPOT_OK) {
		return proof_denied(c, "the proof's jwt is not a token");
	}
	/* Never what the token itself wishes to be checked by. */
	if (strcmp(t.alg, "RS256") != 0) {
		return proof_denied(c, "the token is not signed with RS256");
	}
	key = *t.kid != '\0' ? key_find(json_object_get(doc, "keys"), t.kid) : NULL;
	if (key == NULL) {
		return proof_denied(c, "the token is signed with a key that is not Google's");
	}
	if (!rsa_verify(key, t.signed_part.p, t.signed_part.n, t.signature)) {
		return proof_denied(c, "the token's signature is wrong");
	}
	wrong = claims_wrong(self, c, a, t.claims);
	return wrong != NULL ? proof_denied(c, wrong) : time_check(self, c, t.claims);
}

enum spot_step gcp_verify(void *p, struct spot_call *c, struct spot_verify *a)
{
	struct gcp *self = p;
	struct call_state *st = c->state;
	struct gcp_request r = { .service = GCP_CERTS,
		.method = "GET",
		.path = "/oauth2/v3/certs",
		.what = WHAT,
		.limit = GCP_LIMIT_AUTH,
		.no_token = true };
	enum spot_step s;

	if (st == NULL) {
		st = call_state_get(c, sizeof(struct verifying));
		s = proof_read(self, c, a, st->own);
		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	return c->in == NULL ? gcp_send(self, c, &r) : certs_reply(self, c, a, st->own);
}
