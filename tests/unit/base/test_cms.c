/*
 * Signed messages, made here with fresh keys: a root, an intermediate, and a signer below that, as
 * the clouds have it. Each test changes one thing.
 */
#include "base/base.h"
#include "unit.h"
#include "../bio_read.h"

#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/cms.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#define NOW_S INT64_C(1795262400) /* 2026-11-21 */
#define NOW_US (NOW_S * SPOT_US_PER_S)
#define DAY (24 * 3600L)
#define WORDS "{\"vmId\":\"1\"}"

struct person {
	EVP_PKEY *key;
	X509 *cert;
};
struct world {
	struct arena *a;
	struct person root, middle, signer, stranger;
};

static void extension_add(X509 *x, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(e);
	assert_int_equal(X509_add_ext(x, e, -1), 1);
	X509_EXTENSION_free(e);
}

static struct person person_make(const char *name, const struct person *by, bool ca, long until_s)
{
	static long serial = 7;
	struct person p = { EVP_RSA_gen(2048), X509_new() };
	X509_NAME *n = X509_get_subject_name(p.cert);

	X509_set_version(p.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(p.cert), serial++);
	ASN1_TIME_set(X509_getm_notBefore(p.cert), NOW_S - DAY);
	ASN1_TIME_set(X509_getm_notAfter(p.cert), NOW_S + until_s);
	X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(p.cert, by != NULL ? X509_get_subject_name(by->cert) : n);
	X509_set_pubkey(p.cert, p.key);
	extension_add(p.cert, NID_basic_constraints, ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
	if (!ca) {
		/* a server's certificate, as at Azure */
		extension_add(p.cert, NID_ext_key_usage, "serverAuth");
		extension_add(p.cert, NID_subject_alt_name,
		    "DNS:metadata.example,DNS:*.metadata.example");
		extension_add(p.cert, NID_info_access,
		    "caIssuers;URI:http://pki.example/middle.crt");
	}
	assert_true(X509_sign(p.cert, by != NULL ? by->key : p.key, EVP_sha256()) > 0);
	return p;
}

static void person_free(struct person *p)
{
	EVP_PKEY_free(p->key);
	X509_free(p->cert);
}

static int world_make(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->a = arena_new(0);
	w->root = person_make("root", NULL, true, 10 * DAY);
	w->middle = person_make("middle", &w->root, true, 9 * DAY);
	w->signer = person_make("metadata.example", &w->middle, false, 5 * DAY);
	w->stranger = person_make("metadata.example", NULL, false, 5 * DAY);
	*state = w;
	return 0;
}

static int world_free(void **state)
{
	struct world *w = *state;

	person_free(&w->root);
	person_free(&w->middle);
	person_free(&w->signer);
	person_free(&w->stranger);
	arena_free(w->a);
	free(w);
	return 0;
}

static const char *cert_pem(struct world *w, X509 *x)
{
	BIO *b = BIO_new(BIO_s_mem());

	assert_int_equal(PEM_write_bio_X509(b, x), 1);
	return bio_read_all(w->a, b).p;
}

static struct str message_sign(struct world *w, const struct person *by, X509 *along,
    unsigned flags)
{
	BIO *in = BIO_new_mem_buf(WORDS, sizeof(WORDS) - 1), *out = BIO_new(BIO_s_mem());
	STACK_OF(X509) *more = sk_X509_new_null();
	CMS_ContentInfo *cms;

	if (along != NULL) {
		sk_X509_push(more, along);
	}
	cms = CMS_sign(by->cert, by->key, more, in, flags | CMS_BINARY);
	assert_non_null(cms);
	assert_int_equal(i2d_CMS_bio(out, cms), 1);
	CMS_ContentInfo_free(cms);
	sk_X509_free(more);
	BIO_free(in);
	return bio_read_all(w->a, out);
}

static enum spot_rc message_verify(struct world *w, const struct cms_input *in, struct str *content,
    struct cms_signer *s, bool *missing)
{
	struct spot_err err = { 0 };
	enum spot_rc rc = cms_verify(in, w->a, content, s, missing, &err);

	assert_int_equal(rc, rc == SPOT_OK ? SPOT_OK : err.rc);
	assert_true(rc == SPOT_OK || err.text[0] != '\0');
	assert_null(strstr(err.text, "vmId"));
	return rc;
}

static void a_chain_to_a_trusted_root_is_good_and_names_its_signer(void **state)
{
	struct world *w = *state;
	struct cms_input in = { .signed_der = message_sign(w, &w->signer, w->middle.cert, 0),
		.trusted_pem = cert_pem(w, w->root.cert),
		.now_us = NOW_US };
	struct cms_signer s = { 0 };
	struct str content = { 0 };
	bool missing;

	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_OK);
	assert_true(str_eq(content, WORDS));
	assert_false(missing);
	assert_string_equal(s.common_name, "metadata.example");
	assert_int_equal(s.names_n, 2);
	assert_string_equal(s.names[1], "*.metadata.example");
	assert_string_equal(s.issuer_url, "http://pki.example/middle.crt");
}

static void a_missing_link_is_said_and_may_be_handed_in(void **state)
{
	struct world *w = *state;
	struct cms_input in = { .signed_der = message_sign(w, &w->signer, NULL, 0),
		.trusted_pem = cert_pem(w, w->root.cert),
		.now_us = NOW_US };
	const char *middle = cert_pem(w, w->middle.cert);
	struct cms_signer s = { 0 };
	struct str content = { 0 };
	unsigned char *der = NULL;
	bool missing;
	int n;

	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_DENIED);
	assert_true(missing);
	assert_string_equal(s.issuer_url, "http://pki.example/middle.crt");
	assert_null(content.p);
	in.helper_certs = str_from(middle);
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_OK);
	n = i2d_X509(w->middle.cert, &der);
	in.helper_certs = (struct str){ (const char *)der, (size_t)n };
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_OK);
	OPENSSL_free(der);
	/* a link that is trusted ends the chain */
	in.helper_certs = (struct str){ 0 };
	in.trusted_pem = middle;
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_OK);
}

static void a_signer_that_nobody_vouches_for_is_refused(void **state)
{
	struct world *w = *state;
	struct cms_input in = { .signed_der = message_sign(w, &w->stranger, NULL, 0),
		.trusted_pem = cert_pem(w, w->root.cert),
		.now_us = NOW_US };
	struct cms_signer s = { 0 };
	struct str content = { 0 };
	bool missing;

	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_DENIED);
	assert_null(content.p);
	/* helpers are never believed */
	in.helper_certs = str_from(cert_pem(w, w->stranger.cert));
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_DENIED);
	/* trusted itself, and left out of the message as AWS does */
	in.signed_der = message_sign(w, &w->stranger, NULL, CMS_NOCERTS);
	in.helper_certs = (struct str){ 0 };
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_DENIED);
	in.trusted_pem = cert_pem(w, w->stranger.cert);
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_OK);
	assert_true(str_eq(content, WORDS));
}

static void dates_are_judged_at_the_time_that_is_given(void **state)
{
	struct world *w = *state;
	struct cms_input in = { .signed_der = message_sign(w, &w->signer, w->middle.cert, 0),
		.trusted_pem = cert_pem(w, w->root.cert) };
	static const struct {
		int64_t now_us;
		enum spot_rc rc;
	} cases[] = { { NOW_US, SPOT_OK }, { NOW_US + 6 * DAY * SPOT_US_PER_S, SPOT_DENIED },
		{ NOW_US - 2 * DAY * SPOT_US_PER_S, SPOT_DENIED }, { 0, SPOT_OK } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cms_signer s = { 0 };
		struct str content = { 0 };
		bool missing;

		in.now_us = cases[i].now_us;
		assert_int_equal(message_verify(w, &in, &content, &s, &missing), cases[i].rc);
		assert_false(missing);
	}
}

static void detached_content_must_be_what_was_signed(void **state)
{
	struct world *w = *state;
	struct cms_input in = { .signed_der =
				    message_sign(w, &w->signer, w->middle.cert, CMS_DETACHED),
		.detached = STR_LIT(WORDS),
		.trusted_pem = cert_pem(w, w->root.cert),
		.now_us = NOW_US };
	struct cms_signer s = { 0 };
	struct str content = { 0 };
	bool missing;

	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_OK);
	assert_true(str_eq(content, WORDS));
	in.detached = STR_LIT("{\"vmId\":\"2\"}");
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_DENIED);
	in.detached = (struct str){ 0 };
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_BAD_REPLY);
}

static void no_changed_byte_makes_other_words_true(void **state)
{
	struct world *w = *state;
	struct str good = message_sign(w, &w->signer, w->middle.cert, 0);
	char *bytes = arena_strndup(w->a, good.p, good.n);
	struct cms_input in = { .signed_der = { bytes, good.n },
		.trusted_pem = cert_pem(w, w->root.cert),
		.now_us = NOW_US };

	memcpy(bytes, good.p, good.n);
	for (size_t i = 0; i < good.n; i++) {
		struct cms_signer s = { 0 };
		struct str content = { 0 };
		bool missing;

		bytes[i] ^= 0x20;
		/* a byte that nothing hangs on */
		if (message_verify(w, &in, &content, &s, &missing) == SPOT_OK) {
			assert_true(str_eq(content, WORDS));
		}
		bytes[i] ^= 0x20;
	}
}

static void text_that_is_no_signed_message_is_a_bad_reply(void **state)
{
	struct world *w = *state;
	struct str good = message_sign(w, &w->signer, w->middle.cert, 0);
	struct cms_input in = { .trusted_pem = cert_pem(w, w->root.cert), .now_us = NOW_US };
	struct cms_signer s = { 0 };
	struct str content = { 0 };
	bool missing;

	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_BAD_REPLY);
	for (size_t n = 0; n < good.n; n += 97) {
		in.signed_der = (struct str){ good.p, n };
		assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_BAD_REPLY);
	}
	in.signed_der = (struct str){ good.p, CMS_BYTES_MAX + 1 };
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_BAD_REPLY);
	in.signed_der = good;
	in.trusted_pem = "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n";
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_CONFIG);
	in.trusted_pem = NULL;
	assert_int_equal(message_verify(w, &in, &content, &s, &missing), SPOT_CONFIG);
	assert_null(content.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chain_to_a_trusted_root_is_good_and_names_its_signer),
		cmocka_unit_test(a_missing_link_is_said_and_may_be_handed_in),
		cmocka_unit_test(a_signer_that_nobody_vouches_for_is_refused),
		cmocka_unit_test(dates_are_judged_at_the_time_that_is_given),
		cmocka_unit_test(detached_content_must_be_what_was_signed),
		cmocka_unit_test(no_changed_byte_makes_other_words_true),
		cmocka_unit_test(text_that_is_no_signed_message_is_a_bad_reply),
	};

	return cmocka_run_group_tests(tests, world_make, world_free);
}
