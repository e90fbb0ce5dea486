/* The key and certificate that stand for the vendor's, and the three signature forms. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

struct imds {
	EVP_PKEY *key;
	X509 *cert;
};

static struct imds *identity_get(struct sim *s)
{
	struct imds *m = s->imds;
	X509_NAME *name;
	time_t now;

	if (m) {
		return m;
	}
	m = s->imds = calloc(1, sizeof(*m));
	if (!m) {
		abort();
	}
	now = (time_t)(sim_wall(s) / SPOT_US_PER_S);
	m->key = EVP_RSA_gen(2048);
	m->cert = X509_new();
	X509_set_version(m->cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(m->cert), 1);
	X509_time_adj_ex(X509_getm_notBefore(m->cert), 0, -3600, &now);
	X509_time_adj_ex(X509_getm_notAfter(m->cert), 365, 0, &now);
	X509_set_pubkey(m->cert, m->key);
	name = X509_get_subject_name(m->cert);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"cloudsim", -1,
	    -1, 0);
	X509_set_issuer_name(m->cert, name);
	X509_sign(m->cert, m->key, EVP_sha256());
	return m;
}

void imds_free(struct sim *s)
{
	if (!s->imds) {
		return;
	}
	EVP_PKEY_free(s->imds->key);
	X509_free(s->imds->cert);
	free(s->imds);
	s->imds = NULL;
}

static const char *plain_signature(const struct imds *m, struct arena *a, const char *document)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t sig[512];
	size_t n = sizeof(sig);
	const char *out = NULL;

	if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, m->key) == 1 &&
	    EVP_DigestSign(ctx, sig, &n, (const unsigned char *)document, strlen(document)) == 1) {
		out = base64_encode(a, sig, n);
	}
	EVP_MD_CTX_free(ctx);
	return out;
}

static PKCS7 *pkcs7_sign(const struct sim *s, const struct imds *m, BIO *in)
{
	PKCS7 *p7 = PKCS7_sign(NULL, NULL, NULL, in, PKCS7_BINARY | PKCS7_PARTIAL);
	PKCS7_SIGNER_INFO *signer =
	    p7 ? PKCS7_sign_add_signer(p7, m->cert, m->key, NULL, PKCS7_BINARY) : NULL;

	/* The library would take the time from the machine's clock. */
	if (!signer ||
	    !PKCS7_add0_attrib_signing_time(signer,
		ASN1_TIME_set(NULL, (time_t)(sim_wall(s) / SPOT_US_PER_S))) ||
	    !PKCS7_final(p7, in, PKCS7_BINARY)) {
		PKCS7_free(p7);
		return NULL;
	}
	return p7;
}

/* The vendor leaves out the PEM frame. */
static const char *pkcs7_signature(const struct sim *s, const struct imds *m, struct arena *a,
    const char *document)
{
	BIO *in = BIO_new_mem_buf(document, (int)strlen(document));
	PKCS7 *p7 = pkcs7_sign(s, m, in);
	unsigned char *der = NULL;
	int n = p7 ? i2d_PKCS7(p7, &der) : -1;
	const char *out = n > 0 ? base64_encode(a, der, (size_t)n) : NULL;

	OPENSSL_free(der);
	PKCS7_free(p7);
	BIO_free(in);
	return out;
}

const char *imds_signature(struct sim *s, struct arena *a, const char *kind, const char *document)
{
	if (str_same(kind, "signature")) {
		return plain_signature(identity_get(s), a, document);
	}
	if (str_same(kind, "pkcs7") || str_same(kind, "rsa2048")) {
		return pkcs7_signature(s, identity_get(s), a, document);
	}
	return NULL;
}

const char *imds_certificate(struct sim *s, struct arena *a)
{
	BIO *out = BIO_new(BIO_s_mem());
	const char *text;
	char *p;
	long n;

	PEM_write_bio_X509(out, identity_get(s)->cert);
	n = BIO_get_mem_data(out, &p);
	text = arena_strndup(a, p, (size_t)n);
	BIO_free(out);
	return text;
}
