/*
 * The certificate authority that stands for the vendor's, made at start. It signs the certificate
 * of the TLS port, and the leaf whose key signs tokens and attested documents.
 */
/* openssl/evp.h names parameters "rand". */
#define BASE_ALLOW_BANNED
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

static void cert_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	if (!ext) {
		abort();
	}
	X509_add_ext(cert, ext, -1);
	X509_EXTENSION_free(ext);
}

/* issuer NULL: signs itself. */
static X509 *make_cert(struct sim *s, const char *cn, const char *names, EVP_PKEY *key,
    X509 *issuer, EVP_PKEY *issuer_key)
{
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);

	X509_set_version(cert, 2);
	ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), rng_u64(&s->rng) >> 2 | 1);
	(void)ASN1_TIME_set(X509_getm_notBefore(cert),
	    (time_t)(sim_wall(s) / SPOT_US_PER_S - 3600));
	(void)ASN1_TIME_set(X509_getm_notAfter(cert),
	    (time_t)(sim_wall(s) / SPOT_US_PER_S + 365 * 86400));
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0);
	X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : name);
	cert_extend(cert, issuer ? issuer : cert, NID_basic_constraints,
	    issuer ? "critical,CA:FALSE" : "critical,CA:TRUE");
	cert_extend(cert, issuer ? issuer : cert, NID_key_usage,
	    issuer ? "critical,digitalSignature,keyEncipherment" : "critical,keyCertSign,cRLSign");
	cert_extend(cert, issuer ? issuer : cert, NID_subject_key_identifier, "hash");
	if (issuer) {
		cert_extend(cert, issuer, NID_authority_key_identifier, "keyid");
	}
	if (names) {
		cert_extend(cert, issuer ? issuer : cert, NID_subject_alt_name, names);
	}
	X509_sign(cert, issuer ? issuer_key : key, EVP_sha256());
	return cert;
}

static char *pem_of(X509 *cert, EVP_PKEY *key)
{
	BIO *out = BIO_new(BIO_s_mem());
	char *p, *text;
	long n;

	if (cert) {
		PEM_write_bio_X509(out, cert);
	} else {
		PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
	}
	n = BIO_get_mem_data(out, &p);
	text = strndup(p, (size_t)n);
	BIO_free(out);
	if (!text) {
		abort();
	}
	return text;
}

static bool put_pem(struct sim *s, const char *name, X509 *cert, EVP_PKEY *key,
    struct spot_err *err)
{
	char path[4096], *text = pem_of(cert, key);
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", s->conf.dir, name);
	ok = file_put(path, text, strlen(text), 0600);
	free(text);
	if (!ok) {
		err_set(err, SPOT_CONFIG, "cannot write %s", path);
	}
	return ok;
}

/* The vendor's leaf is named metadata.azure.com, and so is this one. */
bool az_keys_new(struct sim *s, struct spot_err *err)
{
	struct azure *az = azure_of(s);
	EVP_PKEY *ca = EVP_EC_gen("P-256"), *leaf = EVP_RSA_gen(2048),
		 *server = EVP_EC_gen("P-256");
	X509 *ca_cert = make_cert(s, "cloudsim Azure CA", NULL, ca, NULL, NULL);
	X509 *server_cert = make_cert(s, "cloudsim Azure",
	    "DNS:localhost,IP:127.0.0.1,DNS:*.localhost", server, ca_cert, ca);
	char path[4096];
	bool ok;

	az->ca_key = ca;
	az->ca_cert = ca_cert;
	az->leaf_key = leaf;
	az->leaf_cert =
	    make_cert(s, "metadata.azure.com", "DNS:metadata.azure.com", leaf, ca_cert, ca);
	az->ca_pem = pem_of(ca_cert, NULL);
	snprintf(path, sizeof(path), "%s/azure-ca.pem", s->conf.dir);
	az->ca_path = dup_text(path);
	ok = put_pem(s, "azure-ca.pem", ca_cert, NULL, err) &&
	    put_pem(s, "azure-server.pem", server_cert, NULL, err) &&
	    put_pem(s, "azure-server-key.pem", NULL, server, err);
	X509_free(server_cert);
	EVP_PKEY_free(server);
	return ok;
}

void az_keys_free(struct azure *az)
{
	EVP_PKEY_free(az->ca_key);
	EVP_PKEY_free(az->leaf_key);
	X509_free(az->ca_cert);
	X509_free(az->leaf_cert);
	free(az->ca_pem);
	free(az->ca_path);
}

const char *az_b64url(struct arena *a, const void *p, size_t n)
{
	char *text = base64_encode(a, p, n);

	for (char *c = text; *c; c++) {
		if (*c == '+') {
			*c = '-';
		} else if (*c == '/') {
			*c = '_';
		} else if (*c == '=') {
			*c = '\0';
		}
	}
	return text;
}

bool az_b64url_decode(struct arena *a, const char *s, size_t n, struct str *ret)
{
	char *text = arena_alloc(a, n + 4);

	for (size_t k = 0; k < n; k++) {
		text[k] = (char)(s[k] == '-' ? '+' : s[k] == '_' ? '/' : s[k]);
	}
	while (n % 4) {
		text[n++] = '=';
	}
	return base64_decode(a, text, n, ret);
}

const char *az_sign(struct azure *az, struct arena *a, const char *text)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t sig[512];
	size_t n = sizeof(sig);
	const char *out = NULL;

	if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, az->leaf_key) == 1 &&
	    EVP_DigestSign(ctx, sig, &n, (const unsigned char *)text, strlen(text)) == 1) {
		out = az_b64url(a, sig, n);
	}
	EVP_MD_CTX_free(ctx);
	return out;
}

/* Attested data: PKCS #7 signed data with the document inside, base64 without a frame. */
const char *az_pkcs7(const struct sim *s, struct arena *a, const char *text)
{
	const struct azure *az = azure_of(s);
	BIO *in = BIO_new_mem_buf(text, (int)strlen(text));
	PKCS7 *p7 = PKCS7_sign(NULL, NULL, NULL, in, PKCS7_BINARY | PKCS7_PARTIAL);
	PKCS7_SIGNER_INFO *signer =
	    p7 ? PKCS7_sign_add_signer(p7, az->leaf_cert, az->leaf_key, NULL, PKCS7_BINARY) : NULL;
	unsigned char *der = NULL;
	const char *out;
	int n = -1;

	/* The library would take the time from the machine's clock. */
	if (signer && PKCS7_add_certificate(p7, az->ca_cert) == 1 &&
	    PKCS7_add0_attrib_signing_time(signer,
		ASN1_TIME_set(NULL, (time_t)(sim_wall(s) / SPOT_US_PER_S))) == 1 &&
	    PKCS7_final(p7, in, PKCS7_BINARY) == 1) {
		n = i2d_PKCS7(p7, &der);
	}
	out = n > 0 ? base64_encode(a, der, (size_t)n) : NULL;
	OPENSSL_free(der);
	PKCS7_free(p7);
	BIO_free(in);
	return out;
}

static const char *number_b64(struct azure *az, struct arena *a, const char *name)
{
	BIGNUM *v = NULL;
	uint8_t raw[1024];
	const char *out = "";

	if (EVP_PKEY_get_bn_param(az->leaf_key, name, &v) == 1 && BN_num_bytes(v) <= 1024) {
		out = az_b64url(a, raw, (size_t)BN_bn2bin(v, raw));
	}
	BN_free(v);
	return out;
}

json_t *az_jwk(struct azure *az, struct arena *a)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "kty", "RSA", "use", "sig", "kid",
	    "cloudsim-1", "n", number_b64(az, a, OSSL_PKEY_PARAM_RSA_N), "e",
	    number_b64(az, a, OSSL_PKEY_PARAM_RSA_E));
}
