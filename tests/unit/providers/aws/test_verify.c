/* Proofs of identity: documents signed here with a key of the moment. */
#include "base/base.h"
#include "aws_test.h"

#include "base/text/text.h"
#include "base/crypto/crypto.h"

#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#define REF "i-0123456789abcdef0"
#define DOCUMENT \
	"{\"instanceId\":\"" REF "\",\"region\":\"us-east-1\",\"accountId\":\"123456789012\"}"

struct vendor {
	EVP_PKEY *key;
	X509 *cert;
	char *pem;
};

static struct vendor vendor_make(struct arena *a)
{
	struct vendor v = { EVP_RSA_gen(2048), X509_new(), NULL };
	X509_NAME *name = X509_get_subject_name(v.cert);
	BIO *out = BIO_new(BIO_s_mem());
	char *p;
	long n;

	X509_set_version(v.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(v.cert), 1);
	ASN1_TIME_set(X509_getm_notBefore(v.cert), DRIVE_NOW_US / SPOT_US_PER_S - 3600);
	ASN1_TIME_set(X509_getm_notAfter(v.cert), DRIVE_NOW_US / SPOT_US_PER_S + 3600);
	X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const unsigned char *)"Vendor", -1, -1,
	    0);
	X509_set_issuer_name(v.cert, name);
	X509_set_pubkey(v.cert, v.key);
	assert_true(X509_sign(v.cert, v.key, EVP_sha256()) > 0);
	PEM_write_bio_X509(out, v.cert);
	n = BIO_get_mem_data(out, &p);
	v.pem = arena_strndup(a, p, (size_t)n);
	BIO_free(out);
	return v;
}

static void vendor_free(struct vendor *v)
{
	EVP_PKEY_free(v->key);
	X509_free(v->cert);
}

/* As the metadata service gives it: base64 in lines. */
static const char *document_sign(struct arena *a, const struct vendor *v, const char *text,
    int flags)
{
	BIO *in = BIO_new_mem_buf(text, -1);
	PKCS7 *p7 = PKCS7_sign(v->cert, v->key, NULL, in, PKCS7_BINARY | flags);
	unsigned char *der = NULL;
	int n = i2d_PKCS7(p7, &der);
	char *b64 = base64_encode(a, der, (size_t)n);
	char *out = arena_printf(a, "%.64s\n%s", b64, b64 + 64);

	OPENSSL_free(der);
	PKCS7_free(p7);
	BIO_free(in);
	return out;
}

static struct str proof_text(struct arena *a, const char *document, const char *rsa2048)
{
	json_t *doc AUTO(json) =
	    json_pack("{s:s, s:s, s:s}", "kind", "aws", "document", document, "rsa2048", rsa2048);

	return str_from(json_text(a, doc));
}

static const char *const env[] = { "AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY",
	"secret0123456789", NULL };
static const char *const settings[] = { "identity_certs", "/etc/spotbroker/aws.pem", NULL };
static const char *const vendors_own[] = { NULL };

struct world {
	struct drive d;
	struct vendor vendor, stranger;
	struct spot_verify a;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	drive_init(&w->d, &aws_ops, env, settings);
	w->vendor = vendor_make(w->d.arena);
	w->stranger = vendor_make(w->d.arena);
	w->a = (struct spot_verify){ .region = "us-east-1",
		.zone = "use1-az4",
		.ref = REF,
		.name = "n" };
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	vendor_free(&w->vendor);
	vendor_free(&w->stranger);
	drive_fini(&w->d);
	free(w);
	return 0;
}

static enum spot_step proof_verify(struct world *w, struct str text)
{
	struct drive_try *t = arena_alloc(w->d.arena, sizeof(*t));

	*t = (struct drive_try){ .read = "/etc/spotbroker/aws.pem",
		.status = 200,
		.reply = w->vendor.pem };
	w->a.proof = text;
	drive_script(&w->d, t, 1);
	return drive_run(&w->d, DRIVE_VERIFY, &w->a);
}

static void assert_refused(struct world *w, struct str text, const char *words)
{
	assert_int_equal(proof_verify(w, text), SPOT_FAIL);
	assert_int_equal(w->d.call.err.rc, SPOT_DENIED);
	if (strstr(w->d.call.err.text, words) == NULL) {
		fail_msg("'%s' is not in: %s", words, w->d.call.err.text);
	}
}

static void the_document_of_our_instance_is_a_proof(void **state)
{
	struct world *w = *state;
	struct arena *a = w->d.arena;

	assert_int_equal(proof_verify(w,
			     proof_text(a, DOCUMENT, document_sign(a, &w->vendor, DOCUMENT, 0))),
	    SPOT_DONE);
	/* the content beside the signature, the certificate left out: both happen */
	assert_int_equal(proof_verify(w,
			     proof_text(a, DOCUMENT,
				 document_sign(a, &w->vendor, DOCUMENT,
				     PKCS7_DETACHED | PKCS7_NOCERTS))),
	    SPOT_DONE);
}

static void a_document_of_another_instance_or_region_is_none(void **state)
{
	struct world *w = *state;
	struct arena *a = w->d.arena;
	const char *other = "{\"instanceId\":\"i-0ffffffffffffffff\",\"region\":\"us-east-1\"}";
	const char *far = "{\"instanceId\":\"" REF "\",\"region\":\"us-west-2\"}";

	assert_refused(w, proof_text(a, other, document_sign(a, &w->vendor, other, 0)),
	    "i-0ffffffffffffffff");
	assert_refused(w, proof_text(a, far, document_sign(a, &w->vendor, far, 0)), "us-west-2");
	/* the signed content counts, not the content beside it */
	assert_refused(w, proof_text(a, DOCUMENT, document_sign(a, &w->vendor, other, 0)),
	    "i-0ffffffffffffffff");
	assert_refused(w,
	    proof_text(a, DOCUMENT, document_sign(a, &w->vendor, other, PKCS7_DETACHED)),
	    "not accepted");
}

static void a_strangers_signature_is_none(void **state)
{
	struct world *w = *state;
	struct arena *a = w->d.arena;

	assert_refused(w, proof_text(a, DOCUMENT, document_sign(a, &w->stranger, DOCUMENT, 0)),
	    "not accepted");
	w->d.now_us += 2 * SPOT_US_PER_HOUR; /* the certificate ran out */
	assert_refused(w, proof_text(a, DOCUMENT, document_sign(a, &w->vendor, DOCUMENT, 0)),
	    "not accepted");
}

static void nonsense_is_refused_with_words(void **state)
{
	struct world *w = *state;
	struct arena *a = w->d.arena;

	assert_refused(w, str_from("no json"), "JSON");
	assert_refused(w, str_from("{\"kind\":\"aws\"}"), "rsa2048");
	assert_refused(w, proof_text(a, DOCUMENT, "!!!"), "base64");
	assert_refused(w, proof_text(a, DOCUMENT, "AAAA"), "not accepted");
	assert_refused(w, proof_text(a, "[]", document_sign(a, &w->vendor, "[]", 0)), "instance");
}

static void the_vendors_certificates_are_there_for_every_region(void **state)
{
	struct drive d;
	struct spot_verify a = { .region = "us-east-1", .ref = REF, .proof = STR_LIT("{}") };

	(void)state;
	drive_init(&d, &aws_ops, env, vendors_own);
	drive_script(&d, NULL, 0);
	assert_int_equal(drive_run(&d, DRIVE_VERIFY, &a), SPOT_FAIL);
	assert_int_equal(d.call.err.rc, SPOT_DENIED); /* it had the certificates */
	a.region = "eu-nowhere-9";
	assert_int_equal(drive_run(&d, DRIVE_VERIFY, &a), SPOT_FAIL);
	assert_int_equal(d.call.err.rc, SPOT_CONFIG);
	assert_non_null(strstr(d.call.err.text, "identity_certs"));
	a.ref = "";
	assert_int_equal(drive_run(&d, DRIVE_VERIFY, &a), SPOT_FAIL);
	assert_int_equal(d.call.err.rc, SPOT_UNAVAILABLE);
	drive_fini(&d);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_document_of_our_instance_is_a_proof),
		T(a_document_of_another_instance_or_region_is_none),
		T(a_strangers_signature_is_none),
		T(nonsense_is_refused_with_words),
		cmocka_unit_test(the_vendors_certificates_are_there_for_every_region),
	};

	return cmocka_run_group_tests_name("aws_verify", tests, NULL, NULL);
}
