#include "base/base.h"
#include "azure_test.h"

#include "base/crypto/crypto.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

/* Tokens: their sources, their lifetime, and the words of a refusal. */

#define BASE "subscription", GOLDEN_SUB, "tenant", "contoso.example", "client_id", "me"
static const char *const nothing[] = { NULL };
static const char *const managed[] = { "subscription", GOLDEN_SUB, "client_id", "node-id", NULL };
static const char *const from_file[] = { BASE, "client_secret_file", "/etc/azure.secret", NULL };

static void a_secret_is_read_again_for_each_token(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, nothing, from_file);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/etc/azure.secret", .status = 200, .reply = "one+two=/\n" },
			     { .url = TOKEN_URL,
				 .has = { "client_secret=one%2Btwo%3D%2F&" },
				 .mutating = -1,
				 .status = 200,
				 .reply = TOKEN_OK("t1") }),
	    SPOT_DONE);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .read = "/etc/azure.secret", .status = 200, .reply = "three\n" },
			     { .url = TOKEN_URL,
				 .has = { "client_secret=three&" },
				 .status = 200,
				 .reply = TOKEN_OK("t2") }),
	    SPOT_DONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .read = "/etc/azure.secret", .status = 404 }),
	    SPOT_CONFIG, "/etc/azure.secret is not there");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .read = "/etc/azure.secret", .status = 403 }),
	    SPOT_CONFIG, "may not read");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .read = "/etc/azure.secret", .status = 200, .reply = "\n" }),
	    SPOT_CONFIG, "is empty");
	drive_fini(&d);
}

static void a_token_is_renewed_before_its_end_and_kept_if_that_fails(void **state)
{
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_true(d.ops->auth_fresh(d.self, d.now_us));
	assert_true(d.ops->auth_fresh(d.self, GOLDEN_NOW_US + 3200 * SPOT_US_PER_S));
	assert_false(d.ops->auth_fresh(d.self, GOLDEN_NOW_US + 3400 * SPOT_US_PER_S));
	d.now_us = GOLDEN_NOW_US + 3400 * SPOT_US_PER_S;
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .status = 401, .reply = "{\"error\":\"invalid_client\"}" }),
	    SPOT_DONE);
	assert_true(d.ops->auth_fresh(d.self, d.now_us));
	assert_false(d.ops->auth_fresh(d.self, d.now_us + 61 * SPOT_US_PER_S));
	/* too near to the end to go on with */
	d.now_us = GOLDEN_NOW_US + 3590 * SPOT_US_PER_S;
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .status = 401,
		    .reply = "{\"error\":\"invalid_client\",\"error_description\":"
			     "\"AADSTS7000215: wrong\"}" }),
	    SPOT_UNAUTHENTICATED, "AADSTS7000215");
	assert_string_equal(d.call.err.code, "invalid_client");
	drive_fini(&d);
}

static void the_authority_is_asked_again_when_it_has_trouble(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, golden_env, golden_settings);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .status = 0 },
			     { .status = 503, .reply = "busy" },
			     { .status = 400, .reply = "{\"error\":\"temporarily_unavailable\"}" },
			     { .status = 429, .reply_headers = { "Retry-After: 4" } },
			     { .status = 200, .reply = TOKEN_OK("t") }),
	    SPOT_DONE);
	assert_int_equal(d.waited_us, 4 * SPOT_US_PER_S);
	drive_fini(&d);
}

static void text_that_is_no_token_is_refused(void **state)
{
	static const char *const replies[] = { "", "[]", "{}",
		"{\"access_token\":7,\"expires_in\":10}",
		"{\"access_token\":\"a\\nb\",\"expires_in\":10}", "{\"access_token\":\"t\"}",
		"{\"access_token\":\"t\",\"expires_in\":\"soon\"}",
		"{\"access_token\":\"t\",\"expires_in\":-1}" };
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, golden_env, golden_settings);
	for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
		const struct drive_try t = { .status = 200, .reply = replies[i] };

		drive_script(&d, &t, 1);
		failed_with(&d, drive_run(&d, DRIVE_AUTH, NULL), SPOT_BAD_REPLY, "azure token");
	}
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .status = 404, .reply = "<html>" }),
	    SPOT_BAD_REPLY, "authority");
	drive_fini(&d);
}

static void the_metadata_service_is_asked_for_a_resource_and_given_time(void **state)
{
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, nothing, managed);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .status = 410 }, { .status = 404 },
			     { .method = "GET",
				 .url = "http://169.254.169.254/metadata/identity/oauth2/"
					"token?api-version=2018-02-01&resource="
					"https%3A%2F%2Fmanagement.azure.com%2F&client_id=node-id",
				 .headers = { "Metadata: true", "!authorization" },
				 .limit = "metadata",
				 .status = 200,
				 .reply = "{\"access_token\":\"t\",\"expires_in\":\"86399\"}" }),
	    SPOT_DONE);
	assert_int_equal(d.waited_us, 10 * SPOT_US_PER_S);
	/* a long life is renewed at half of it */
	assert_true(d.ops->auth_fresh(d.self, d.now_us + 43000 * SPOT_US_PER_S));
	assert_false(d.ops->auth_fresh(d.self, d.now_us + 43300 * SPOT_US_PER_S));
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .status = 400,
		    .reply = "{\"error\":\"invalid_request\",\"error_description\":"
			     "\"Identity not found\"}" }),
	    SPOT_UNAUTHENTICATED, "Identity not found");
	drive_fini(&d);
}

/* ---- certificate ----------------------------------------------------------------------------- */

static const char *pem_make(struct arena *a, EVP_PKEY *key, X509 *cert)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *p;
	long n;
	const char *text;

	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(b, key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(PEM_write_bio_X509(b, cert), 1);
	n = BIO_get_mem_data(b, &p);
	text = arena_strndup(a, p, (size_t)n);
	BIO_free(b);
	return text;
}

static X509 *cert_make(EVP_PKEY *key)
{
	X509 *x = X509_new();

	ASN1_INTEGER_set(X509_get_serialNumber(x), 7);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
	    (const unsigned char *)"broker", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_set_pubkey(x, key);
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	return x;
}

static void assertion_check(struct drive *d, EVP_PKEY *key, X509 *cert)
{
	static const char begin[] = "&client_assertion=";
	const char *body = arena_strndup(d->arena, d->call.out.body.p, d->call.out.body.n),
		   *from = strstr(body, begin);
	struct jwt t AUTO(jwt) = { 0 };
	struct rsa_key *public AUTO(rsa_key) = NULL;
	unsigned char hash[32];
	unsigned n = sizeof(hash);
	BIO *b = BIO_new(BIO_s_mem());
	char *pem;
	long pem_n;

	assert_non_null(strstr(body,
	    "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-"
	    "assertion-type%3Ajwt-bearer&"));
	assert_non_null(from);
	from += sizeof(begin) - 1;
	assert_int_equal(jwt_read(d->arena, (struct str){ from, strcspn(from, "&") }, &t, NULL),
	    SPOT_OK);
	PEM_write_bio_PUBKEY(b, key);
	pem_n = BIO_get_mem_data(b, &pem);
	assert_int_equal(rsa_public_pem((struct str){ pem, (size_t)pem_n }, &public, NULL),
	    SPOT_OK);
	BIO_free(b);
	assert_true(rsa_verify(public, t.signed_part.p, t.signed_part.n, t.signature));
	assert_string_equal(t.alg, "RS256");
	X509_digest(cert, EVP_sha256(), hash, &n);
	assert_string_equal(json_string_value(json_object_get(t.header, "x5t#S256")),
	    base64url_encode(d->arena, hash, sizeof(hash)));
	assert_string_equal(json_string_value(json_object_get(t.claims, "aud")), TOKEN_URL);
	assert_string_equal(json_string_value(json_object_get(t.claims, "iss")), "me");
	assert_string_equal(json_string_value(json_object_get(t.claims, "sub")), "me");
	assert_true(
	    json_integer_value(json_object_get(t.claims, "exp")) - d->now_us / SPOT_US_PER_S <=
	    600);
	assert_true(
	    json_integer_value(json_object_get(t.claims, "exp")) > d->now_us / SPOT_US_PER_S);
}

static void a_certificate_makes_an_assertion_that_its_key_signed(void **state)
{
	static const char *const settings[] = { BASE, "client_certificate_file", "/etc/azure.pem",
		NULL };
	EVP_PKEY *key = EVP_RSA_gen(2048);
	X509 *cert = cert_make(key);
	struct drive_try script[2] = { { .read = "/etc/azure.pem", .status = 200 },
		{ .url = TOKEN_URL,
		    .hasnt = { "PRIVATE", "client_secret" },
		    .status = 200,
		    .reply = TOKEN_OK("t") } };
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, nothing, settings);
	script[0].reply = pem_make(d.arena, key, cert);
	drive_script(&d, script, 2);
	assert_int_equal(drive_run(&d, DRIVE_AUTH, NULL), SPOT_DONE);
	drive_used(&d);
	assertion_check(&d, key, cert);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
		{ .read = "/etc/azure.pem", .status = 200, .reply = "nonsense" }),
	    SPOT_CONFIG, "/etc/azure.pem: there is no certificate");
	drive_fini(&d);
	X509_free(cert);
	EVP_PKEY_free(key);
}

/* ---- storage --------------------------------------------------------------------------------- */

static void a_missing_right_to_storage_leaves_the_rest_working(void **state)
{
	static const char *const settings[] = { BASE, "storage_account", "contosockpt", NULL };
	struct spot_presign a = { .method = "GET",
		.endpoint = "",
		.bucket = "ckpt",
		.key = "k",
		.query = "",
		.expires_s = 60 };
	struct spot_err err = { 0 };
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, golden_env, settings);
	d.now_us = GOLDEN_NOW_US;
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_AUTH, NULL, { .status = 200, .reply = TOKEN_OK("arm") },
		{ .has = { "scope=https%3A%2F%2Fstorage.azure.com%2F.default" },
		    .status = 200,
		    .reply = TOKEN_OK("blob") },
		{ .url = "https://contosockpt.blob.core.windows.net/"
			 "?restype=service&comp=userdelegationkey",
		    .headers = { "Authorization: Bearer blob", "x-ms-version: 2023-11-03" },
		    .status = 403,
		    .reply_headers = { "x-ms-error-code: AuthorizationPermissionMismatch" },
		    .reply = "<Error/>" }),
	    SPOT_DONE);
	assert_true(d.ops->auth_fresh(d.self, d.now_us));
	assert_int_equal(d.ops->presign(d.self, d.arena, d.now_us, &a, &err), SPOT_CONFIG);
	assert_non_null(strstr(err.text, "AuthorizationPermissionMismatch"));
	/* it is tried again after a while */
	assert_false(d.ops->auth_fresh(d.self, d.now_us + 11 * 60 * SPOT_US_PER_S));
	/* and at once when a clock that was hours ahead is set right */
	assert_false(d.ops->auth_fresh(d.self, d.now_us - 3 * 3600 * SPOT_US_PER_S));
	drive_fini(&d);
}

/* The store refuses to the agent a signature from before the key's time, and we do not hear of
 * it. */
static void a_delegation_key_from_a_clock_ahead_is_fetched_again(void **state)
{
	static const char *const settings[] = { BASE, "storage_account", "contosockpt", NULL };
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX], key[600];
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, golden_env, settings);
	d.now_us = GOLDEN_NOW_US;
	format_time_s(d.now_us - 300 * SPOT_US_PER_S, from);
	format_time_s(d.now_us + 24 * 3600 * SPOT_US_PER_S, to);
	snprintf(key, sizeof(key),
	    "<UserDelegationKey><SignedOid>a</SignedOid><SignedTid>b</SignedTid><SignedStart>%s</"
	    "SignedStart>"
	    "<SignedExpiry>%s</SignedExpiry><SignedService>b</"
	    "SignedService><SignedVersion>2023-11-03</SignedVersion>"
	    "<Value>QQ==</Value></UserDelegationKey>",
	    from, to);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .status = 200, .reply = TOKEN_OK("arm") },
			     { .status = 200, .reply = TOKEN_OK("blob") },
			     { .status = 200, .reply = key }),
	    SPOT_DONE);
	assert_true(d.ops->auth_fresh(d.self, d.now_us));
	assert_true(d.ops->auth_fresh(d.self, d.now_us - 299 * SPOT_US_PER_S));
	assert_false(d.ops->auth_fresh(d.self, d.now_us - 301 * SPOT_US_PER_S));
	drive_fini(&d);
}

static void a_reply_that_is_no_delegation_key_is_none(void **state)
{
	static const char *const settings[] = { BASE, "storage_account", "contosockpt", NULL };
	struct spot_presign a = { .method = "GET",
		.endpoint = "",
		.bucket = "ckpt",
		.key = "k",
		.query = "",
		.expires_s = 60 };
	struct spot_err err = { 0 };
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, golden_env, settings);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .status = 200, .reply = TOKEN_OK("arm") },
			     { .status = 200, .reply = TOKEN_OK("blob") },
			     { .status = 200,
				 .reply = "<UserDelegationKey><SignedOid>a&amp;sig=</"
					  "SignedOid><Value>QQ==</Value>"
					  "</UserDelegationKey>" }),
	    SPOT_DONE);
	assert_int_equal(d.ops->presign(d.self, d.arena, d.now_us, &a, &err), SPOT_CONFIG);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_secret_is_read_again_for_each_token),
		cmocka_unit_test(a_token_is_renewed_before_its_end_and_kept_if_that_fails),
		cmocka_unit_test(the_authority_is_asked_again_when_it_has_trouble),
		cmocka_unit_test(text_that_is_no_token_is_refused),
		cmocka_unit_test(the_metadata_service_is_asked_for_a_resource_and_given_time),
		cmocka_unit_test(a_certificate_makes_an_assertion_that_its_key_signed),
		cmocka_unit_test(a_missing_right_to_storage_leaves_the_rest_working),
		cmocka_unit_test(a_delegation_key_from_a_clock_ahead_is_fetched_again),
		cmocka_unit_test(a_reply_that_is_no_delegation_key_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
