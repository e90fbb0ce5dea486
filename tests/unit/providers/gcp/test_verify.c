#include "base/base.h"
#include "gcp_test.h"

#include "base/crypto/crypto.h"

/* Proofs of identity: the machine's own token passes, everything else does not. The key that Google
 * would sign with is the published example key here. */

#define AUDIENCE "https://broker.test/"
#define CERTS "https://www.googleapis.com/oauth2/v3/certs"

static const char *key_modulus(struct arena *a)
{
	/* The key's n, out of a signature check would be roundabout: it is in the PKCS#8 text at a
	 * fixed place. */
	struct str der;
	const char *text =
	    golden_replace(a, golden_data(a, "storage/service_account.txt").p, "\n", "");

	assert_true(base64_decode(a, text, strlen(text), &der));
	/* RFC 5958 and 8017: 26 bytes of wrapping, SEQUENCE (4), version (3), INTEGER header (4), a
	 * zero, 256 bytes. */
	return base64url_encode(a, der.p + 26 + 4 + 3 + 4 + 1, 256);
}

static const char *certs_json(struct arena *a, const char *kid)
{
	return arena_printf(a,
	    "{\"keys\":[{\"kty\":\"EC\",\"kid\":\"%s\"},{\"kty\":\"RSA\",\"alg\":\"RS256\",\"use\":"
	    "\"sig\",\"kid\":\"%s\",\"n\":\"%s\","
	    "\"e\":\"AQAB\"}]}",
	    kid, kid, key_modulus(a));
}

static const char *claims_good(struct arena *a)
{
	return arena_printf(a,
	    "{\"iss\":\"https://accounts.google.com\",\"aud\":\"" AUDIENCE "\",\"iat\":%" PRId64
	    ",\"exp\":%" PRId64
	    ",\"google\":{\"compute_engine\":{\"project_id\":\"spot-golden\",\"zone\":\"" ZONE
	    "\",\"instance_id\":\"" ID "\",\"instance_name\":\"x\"}}}",
	    GOLDEN_NOW_US / SPOT_US_PER_S - 5, GOLDEN_NOW_US / SPOT_US_PER_S + 3595);
}

static const char *proof_text(struct arena *a, const char *header, const char *claims)
{
	struct rsa_key *key = NULL;
	const char *token = NULL;

	assert_int_equal(rsa_private_pem(str_from(golden_key(a, false)), &key, NULL), SPOT_OK);
	assert_int_equal(jwt_sign(a, key, header, claims, &token, NULL), SPOT_OK);
	rsa_key_free(key);
	return arena_printf(a, "{\"kind\":\"gcp\",\"jwt\":\"%s\"}", token);
}

#define HEADER "{\"alg\":\"RS256\",\"kid\":\"k1\",\"typ\":\"JWT\"}"

static enum spot_step proof_verify(struct drive *d, const char *text, const char *keys)
{
	struct spot_verify a = { .region = "us-central1",
		.zone = ZONE,
		.ref = REF,
		.name = "brk.7f3a.n1",
		.proof = str_from(text),
		.audience = AUDIENCE,
		.nonce = "0123456789" };
	const struct drive_try t = { .method = "GET",
		.url = CERTS,
		.headers = { "!authorization" },
		.mutating = -1,
		.status = 200,
		.reply = keys };
	enum spot_step s;

	drive_script(d, &t, keys != NULL);
	s = drive_run(d, DRIVE_VERIFY, &a);
	drive_used(d);
	return s;
}

static void the_machines_own_token_passes(void **state)
{
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	assert_int_equal(proof_verify(&d, proof_text(d.arena, HEADER, claims_good(d.arena)),
			     certs_json(d.arena, "k1")),
	    SPOT_DONE);
	/* A minute of skew either way. */
	d.now_us = GOLDEN_NOW_US + 3650 * SPOT_US_PER_S;
	assert_int_equal(proof_verify(&d, proof_text(d.arena, HEADER, claims_good(d.arena)),
			     certs_json(d.arena, "k1")),
	    SPOT_DONE);
	d.now_us = GOLDEN_NOW_US + 3660 * SPOT_US_PER_S;
	failed_with(&d,
	    proof_verify(&d, proof_text(d.arena, HEADER, claims_good(d.arena)),
		certs_json(d.arena, "k1")),
	    SPOT_CONFIG, "expired; is the clock right");
	d.now_us = GOLDEN_NOW_US - 70 * SPOT_US_PER_S;
	failed_with(&d,
	    proof_verify(&d, proof_text(d.arena, HEADER, claims_good(d.arena)),
		certs_json(d.arena, "k1")),
	    SPOT_CONFIG, "future; is the clock right");
	/* The machine is checked before the time. */
	failed_with(&d,
	    proof_verify(&d,
		proof_text(d.arena, HEADER,
		    golden_replace(d.arena, claims_good(d.arena), ID, "7239000000000000002")),
		certs_json(d.arena, "k1")),
	    SPOT_DENIED, "another machine");
	failed_with(&d,
	    proof_verify(&d, proof_text(d.arena, HEADER, claims_good(d.arena)),
		certs_json(d.arena, "k2")),
	    SPOT_DENIED, "not Google's");
	drive_fini(&d);
}

static void each_claim_that_is_another_is_refused(void **state)
{
	static const struct {
		const char *from, *to, *words;
	} cases[] = { { "https://accounts.google.com", "https://evil.test", "not Google's" },
		{ AUDIENCE, "https://other.test/", "audience" },
		{ ID, "7239000000000000002", "another machine" },
		{ "\"" ZONE "\"", "\"us-central1-b\"", "another machine" },
		{ "spot-golden", "spot-other", "another project" },
		{ "compute_engine", "compute_other", "nothing of a machine" },
		{ "\"exp\"", "\"expp\"", "from when to when" },
		{ "\"iat\"", "\"iatt\"", "from when to when" } };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *claims =
		    golden_replace(d.arena, claims_good(d.arena), cases[i].from, cases[i].to);

		failed_with(&d,
		    proof_verify(&d, proof_text(d.arena, HEADER, claims),
			certs_json(d.arena, "k1")),
		    SPOT_DENIED, cases[i].words);
	}
	drive_fini(&d);
}

static void a_signature_that_is_not_googles_is_refused(void **state)
{
	struct drive d;
	char *text;

	(void)state;
	ready_init(&d, NULL);
	failed_with(&d,
	    proof_verify(&d, proof_text(d.arena, HEADER, claims_good(d.arena)),
		certs_json(d.arena, "k2")),
	    SPOT_DENIED, "not Google's");
	failed_with(&d,
	    proof_verify(&d,
		proof_text(d.arena, "{\"alg\":\"none\",\"kid\":\"k1\"}", claims_good(d.arena)),
		certs_json(d.arena, "k1")),
	    SPOT_DENIED, "RS256");
	failed_with(&d,
	    proof_verify(&d, proof_text(d.arena, "{\"alg\":\"RS256\"}", claims_good(d.arena)),
		certs_json(d.arena, "")),
	    SPOT_DENIED, NULL);
	text = arena_strdup(d.arena, proof_text(d.arena, HEADER, claims_good(d.arena)));
	text[strlen(text) - 20] = text[strlen(text) - 20] == 'A' ? 'B' : 'A';
	failed_with(&d, proof_verify(&d, text, certs_json(d.arena, "k1")), SPOT_DENIED,
	    "signature");
	drive_fini(&d);
}

static void text_that_is_no_proof_is_refused_unasked(void **state)
{
	static const char *const bad[] = { "", "{}", "[]", "x", "{\"kind\":\"aws\",\"jwt\":\"a\"}",
		"{\"kind\":\"gcp\"}", "{\"kind\":\"gcp\",\"jwt\":5}" };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		failed_with(&d, proof_verify(&d, bad[i], NULL), SPOT_DENIED, NULL);
	}
	failed_with(&d,
	    proof_verify(&d, "{\"kind\":\"gcp\",\"jwt\":\"a.b\"}", certs_json(d.arena, "k1")),
	    SPOT_DENIED, "not a token");
	failed_with(&d, proof_verify(&d, "{\"kind\":\"gcp\",\"jwt\":\"a\"}", "{\"keys\":[]}"),
	    SPOT_BAD_REPLY, NULL);
	drive_fini(&d);
	ready_init(&d, SETTINGS("service_account", "none"));
	failed_with(&d, proof_verify(&d, "{}", NULL), SPOT_CONFIG, "service_account");
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_machines_own_token_passes),
		cmocka_unit_test(each_claim_that_is_another_is_refused),
		cmocka_unit_test(a_signature_that_is_not_googles_is_refused),
		cmocka_unit_test(text_that_is_no_proof_is_refused_unasked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
