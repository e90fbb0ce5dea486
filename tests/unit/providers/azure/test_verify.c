#include "base/base.h"
#include "azure_test.h"
#include "../../bio_read.h"

#include "base/crypto/crypto.h"

#include <openssl/cms.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

/* Attested data, made here with a chain of the moment: root, issuing authority, and a server's
 * certificate below it. */

#define NONCE "1234567890"
#define VM_GUID "0e1f2a3b-1111-2222-3333-444455556666"
#define ISSUER_URL "http://www.microsoft.com/pkiops/certs/issuing.crt"
#define CA_FILE "/etc/spotbroker/azure-ca.pem"
#define DATA(nonce, sub, vm, from, to) \
	"{\"nonce\":\"" nonce "\",\"plan\":{\"name\":\"\",\"product\":\"\",\"publisher\":\"\"}," \
	"\"timeStamp\":{\"createdOn\":\"" from "\"," \
	"\"expiresOn\":\"" to "\"},\"vmId\":\"" vm "\",\"subscriptionId\":\"" sub \
	"\",\"sku\":\"2204\"}"
#define GOOD_DATA \
	DATA(NONCE, GOLDEN_SUB, VM_GUID, "01/02/26 03:00:00 -0000", "01/02/26 09:00:00 -0000")

struct person {
	EVP_PKEY *key;
	X509 *cert;
};
struct world {
	struct person root, issuer, signer, other;
};

static const char *const settings[] = { "subscription", GOLDEN_SUB, "tenant", "contoso.example",
	"client_id", "me", "attested_ca_file", CA_FILE, NULL };

static void extension_add(X509 *x, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(e);
	X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
}

static struct person person_make(const char *name, const struct person *by, bool ca,
    const char *issuer_url)
{
	static long serial = 1;
	struct person p = { EVP_RSA_gen(2048), X509_new() };
	X509_NAME *n = X509_get_subject_name(p.cert);
	time_t now = GOLDEN_NOW_US / SPOT_US_PER_S;

	X509_set_version(p.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(p.cert), serial++);
	ASN1_TIME_set(X509_getm_notBefore(p.cert), now - 86400);
	ASN1_TIME_set(X509_getm_notAfter(p.cert), now + 86400);
	X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(p.cert, by != NULL ? X509_get_subject_name(by->cert) : n);
	X509_set_pubkey(p.cert, p.key);
	extension_add(p.cert, NID_basic_constraints, ca ? "critical,CA:TRUE" : "CA:FALSE");
	if (!ca) {
		extension_add(p.cert, NID_ext_key_usage, "serverAuth,clientAuth");
	}
	if (issuer_url != NULL) {
		extension_add(p.cert, NID_info_access, issuer_url);
	}
	assert_true(X509_sign(p.cert, by != NULL ? by->key : p.key, EVP_sha256()) > 0);
	return p;
}

static int world_make(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->root = person_make("root", NULL, true, NULL);
	w->issuer = person_make("issuing", &w->root, true, NULL);
	w->signer = person_make("eastus2.metadata.azure.com", &w->issuer, false,
	    "caIssuers;URI:" ISSUER_URL);
	w->other = person_make("metadata.azure.com.evil.example", &w->issuer, false,
	    "caIssuers;URI:http://169.254.169.254/x");
	*state = w;
	return 0;
}

static int world_free(void **state)
{
	struct world *w = *state;
	struct person *all[] = { &w->root, &w->issuer, &w->signer, &w->other };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		EVP_PKEY_free(all[i]->key);
		X509_free(all[i]->cert);
	}
	free(w);
	return 0;
}

static const char *cert_pem(struct arena *a, X509 *x)
{
	BIO *b = BIO_new(BIO_s_mem());

	PEM_write_bio_X509(b, x);
	return bio_read_all(a, b).p;
}

/* The agent's proof, the base64 in lines as the metadata service might. */
static struct str proof_make(struct arena *a, const struct person *by, X509 *along,
    const char *data)
{
	BIO *in = BIO_new_mem_buf(data, -1), *out = BIO_new(BIO_s_mem());
	STACK_OF(X509) *more = sk_X509_new_null();
	CMS_ContentInfo *cms;
	struct str der;
	const char *text;

	if (along != NULL) {
		sk_X509_push(more, along);
	}
	cms = CMS_sign(by->cert, by->key, more, in, CMS_BINARY);
	assert_non_null(cms);
	i2d_CMS_bio(out, cms);
	der = bio_read_all(a, out);
	CMS_ContentInfo_free(cms);
	sk_X509_free(more);
	BIO_free(in);
	text = base64_encode(a, der.p, der.n);
	return str_from(
	    arena_printf(a, "{\"kind\":\"azure\",\"pkcs7\":\"%.64s\\n%s\"}", text, text + 64));
}

static struct spot_verify verify_args(struct str p)
{
	return (struct spot_verify){ .region = "eastus2",
		.zone = "",
		.ref = LEASE,
		.name = "n",
		.proof = p,
		.audience = "https://broker.example",
		.nonce = NONCE };
}

static enum spot_step proof_verify(struct drive *d, struct spot_verify *a,
    const struct drive_try *script, size_t n)
{
	enum spot_step s;

	drive_script(d, script, n);
	s = drive_run(d, DRIVE_VERIFY, a);
	drive_used(d);
	return s;
}

static void the_machine_itself_is_believed(void **state)
{
	struct world *w = *state;
	struct spot_verify a;
	struct drive d;

	keyed_init(&d, settings);
	const struct drive_try script[] = {
		{ .read = CA_FILE, .status = 200, .reply = cert_pem(d.arena, w->root.cert) },
		{ .method = "GET",
		    .url = ARM VM_ID "?api-version=2024-03-01",
		    .status = 200,
		    .reply = VM("Succeeded", "") }
	};
	a = verify_args(proof_make(d.arena, &w->signer, w->issuer.cert, GOOD_DATA));
	assert_int_equal(proof_verify(&d, &a, script, 2), SPOT_DONE);
	drive_fini(&d);
}

static void a_missing_link_is_fetched_from_the_vendors_place_only(void **state)
{
	struct world *w = *state;
	struct spot_verify a;
	struct drive d;

	keyed_init(&d, settings);
	struct drive_try script[] = {
		{ .read = CA_FILE, .status = 200, .reply = cert_pem(d.arena, w->root.cert) },
		{ .status = 503 },
		{ .method = "GET",
		    .url = ISSUER_URL,
		    .headers = { "!authorization" },
		    .limit = "certificates",
		    .status = 200,
		    .reply = cert_pem(d.arena, w->issuer.cert) },
		{ .url = ARM VM_ID "?api-version=2024-03-01",
		    .status = 200,
		    .reply = VM("Succeeded", "") }
	};
	a = verify_args(proof_make(d.arena, &w->signer, NULL, GOOD_DATA));
	assert_int_equal(proof_verify(&d, &a, script, 4), SPOT_DONE);
	/* something else is there: no second errand */
	script[1] = (struct drive_try){ .status = 200, .reply = cert_pem(d.arena, w->other.cert) };
	failed_with(&d, proof_verify(&d, &a, script, 2), SPOT_DENIED, "no chain to a trusted");
	script[1] = (struct drive_try){ .status = 404 };
	failed_with(&d, proof_verify(&d, &a, script, 2), SPOT_DENIED, NULL);
	/* a stranger's address is not visited */
	a = verify_args(proof_make(d.arena, &w->other, NULL, GOOD_DATA));
	failed_with(&d, proof_verify(&d, &a, script, 1), SPOT_DENIED, "no chain to a trusted");
	drive_fini(&d);
}

static void attested_data_must_be_about_this_machine(void **state)
{
	static const struct {
		const char *data, *words;
	} cases[] = {
		{ DATA("0000000000", GOLDEN_SUB, VM_GUID, "01/02/26 03:00:00 -0000",
		      "01/02/26 09:00:00 -0000"),
		    "nonce" },
		{ DATA(NONCE, "99999999-2222-3333-4444-555555555555", VM_GUID,
		      "01/02/26 03:00:00 -0000", "01/02/26 09:00:00 -0000"),
		    "another subscription" },
		{ DATA(NONCE, GOLDEN_SUB, "not-a-guid", "01/02/26 03:00:00 -0000",
		      "01/02/26 09:00:00 -0000"),
		    "names no machine" },
		{ DATA(NONCE, GOLDEN_SUB, VM_GUID, "yesterday", "01/02/26 09:00:00 -0000"),
		    "dates" },
		{ DATA(NONCE, GOLDEN_SUB, VM_GUID, "01/02/26 03:00:00 +0800",
		      "01/02/26 09:00:00 -0000"),
		    "dates" },
		{ "[]", "not a JSON object" },
	};
	struct world *w = *state;
	struct drive d;

	keyed_init(&d, settings);
	const struct drive_try ca = { .read = CA_FILE,
		.status = 200,
		.reply = cert_pem(d.arena, w->root.cert) };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_verify a =
		    verify_args(proof_make(d.arena, &w->signer, w->issuer.cert, cases[i].data));

		failed_with(&d, proof_verify(&d, &a, &ca, 1), SPOT_DENIED, cases[i].words);
	}
	drive_fini(&d);
}

/* All but its time is right: it is judged again. */
static void attested_data_of_another_time_is_neither_believed_nor_refused(void **state)
{
	static const char *const data[] = {
		DATA(NONCE, GOLDEN_SUB, VM_GUID, "01/01/26 03:00:00 -0000",
		    "01/01/26 09:00:00 -0000"),
		DATA(NONCE, GOLDEN_SUB, VM_GUID, "01/03/26 03:00:00 -0000",
		    "01/03/26 09:00:00 -0000"),
	};
	struct world *w = *state;
	struct drive d;

	keyed_init(&d, settings);
	struct drive_try script[] = {
		{ .read = CA_FILE, .status = 200, .reply = cert_pem(d.arena, w->root.cert) },
		{ .url = ARM VM_ID "?api-version=2024-03-01", .status = 200 }
	};
	for (size_t i = 0; i < ARRAY_LEN(data); i++) {
		struct spot_verify a =
		    verify_args(proof_make(d.arena, &w->signer, w->issuer.cert, data[i]));

		script[1].reply = VM("Succeeded", "");
		failed_with(&d, proof_verify(&d, &a, script, 2), SPOT_CONFIG,
		    "out of date; is the clock right");
		script[1].reply =
		    "{\"properties\":{\"vmId\":\"ffffffff-1111-2222-3333-444455556666\"}}";
		failed_with(&d, proof_verify(&d, &a, script, 2), SPOT_DENIED, "another machine");
	}
	drive_fini(&d);
}

static void the_wrong_signer_or_the_wrong_machine_is_refused(void **state)
{
	struct world *w = *state;
	struct spot_verify a;
	struct drive d;

	keyed_init(&d, settings);
	struct drive_try script[] = {
		{ .read = CA_FILE, .status = 200, .reply = cert_pem(d.arena, w->root.cert) },
		{ .status = 200,
		    .reply =
			"{\"properties\":{\"vmId\":\"ffffffff-1111-2222-3333-444455556666\"}}" }
	};
	a = verify_args(proof_make(d.arena, &w->signer, w->issuer.cert, GOOD_DATA));
	failed_with(&d, proof_verify(&d, &a, script, 2), SPOT_DENIED, "another machine");
	script[1] = (struct drive_try){ .status = 404, .reply = ERROR("ResourceNotFound", "m") };
	failed_with(&d, proof_verify(&d, &a, script, 2), SPOT_DENIED, "does not exist");
	a = verify_args(proof_make(d.arena, &w->other, w->issuer.cert, GOOD_DATA));
	failed_with(&d, proof_verify(&d, &a, script, 1), SPOT_DENIED, "not by metadata.azure.com");
	/* an authority that is not the configured one */
	script[0].reply = cert_pem(d.arena, w->other.cert);
	script[1] = (struct drive_try){ .url = ISSUER_URL,
		.status = 200,
		.reply = cert_pem(d.arena, w->issuer.cert) };
	a = verify_args(proof_make(d.arena, &w->signer, w->issuer.cert, GOOD_DATA));
	failed_with(&d, proof_verify(&d, &a, script, 2), SPOT_DENIED, "no chain to a trusted");
	script[0].reply = "nothing here";
	failed_with(&d, proof_verify(&d, &a, script, 1), SPOT_CONFIG, "attested_ca_file");
	script[0] = (struct drive_try){ .read = CA_FILE, .status = 404 };
	failed_with(&d, proof_verify(&d, &a, script, 1), SPOT_CONFIG, "is not there");
	drive_fini(&d);
}

static void without_a_setting_the_vendors_roots_decide(void **state)
{
	struct world *w = *state;
	struct spot_verify a;
	struct drive d;

	keyed_init(&d, NULL);
	a = verify_args(proof_make(d.arena, &w->signer, w->root.cert, GOOD_DATA));
	const struct drive_try issuer = { .method = "GET",
		.url = ISSUER_URL,
		.status = 200,
		.reply = cert_pem(d.arena, w->issuer.cert) };
	failed_with(&d, proof_verify(&d, &a, &issuer, 1), SPOT_DENIED, "no chain to a trusted");
	drive_fini(&d);
}

static void text_that_is_no_proof_is_refused_unasked(void **state)
{
	static const char *const proofs[] = { "", "{}", "[]",
		"{\"kind\":\"aws\",\"pkcs7\":\"QUJD\"}", "{\"kind\":\"azure\"}",
		"{\"kind\":\"azure\",\"pkcs7\":7}", "{\"kind\":\"azure\",\"pkcs7\":\"%%%\"}" };
	struct spot_verify a;
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	for (size_t i = 0; i < ARRAY_LEN(proofs); i++) {
		a = verify_args(str_from(proofs[i]));
		failed_with(&d, proof_verify(&d, &a, NULL, 0), SPOT_DENIED,
		    "no proof of kind azure");
	}
	a = verify_args(str_from("{\"kind\":\"azure\",\"pkcs7\":\"QUJD\"}"));
	const struct drive_try ca = { .read = CA_FILE,
		.status = 200,
		.reply = cert_pem(d.arena, ((struct world *)*state)->root.cert) };
	failed_with(&d, proof_verify(&d, &a, &ca, 1), SPOT_DENIED, "no PKCS #7");
	a.ref = "production";
	failed_with(&d, proof_verify(&d, &a, NULL, 0), SPOT_INVALID, "not a machine of ours");
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_machine_itself_is_believed),
		cmocka_unit_test(a_missing_link_is_fetched_from_the_vendors_place_only),
		cmocka_unit_test(attested_data_must_be_about_this_machine),
		cmocka_unit_test(attested_data_of_another_time_is_neither_believed_nor_refused),
		cmocka_unit_test(the_wrong_signer_or_the_wrong_machine_is_refused),
		cmocka_unit_test(without_a_setting_the_vendors_roots_decide),
		cmocka_unit_test(text_that_is_no_proof_is_refused_unasked),
	};

	return cmocka_run_group_tests(tests, world_make, world_free);
}
