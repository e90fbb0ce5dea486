/* The certificate authority and the server certificate of the https ports, made at start. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static bool extension_add(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e && X509_add_ext(cert, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

static X509 *certificate_make(const char *name, long serial, EVP_PKEY *key)
{
	X509 *cert = X509_new();
	X509_NAME *n = X509_get_subject_name(cert);

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 365L * 86400);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	return cert;
}

static bool put_pem(const char *dir, const char *file, X509 *cert, EVP_PKEY *key)
{
	char path[4096];
	BIO *out = BIO_new(BIO_s_mem());
	char *p;
	long n;
	bool ok = true;

	if (cert) {
		ok = PEM_write_bio_X509(out, cert) == 1;
	}
	if (key) {
		ok = ok && PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1;
	}
	n = BIO_get_mem_data(out, &p);
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	ok = ok && file_put(path, p, (size_t)n, 0600);
	BIO_free(out);
	return ok;
}

bool tls_make(struct sim *s, struct spot_err *err)
{
	static const char names[] = "DNS:localhost,DNS:*.localhost,DNS:*.k8s.us-east-04a.localhost,"
				    "DNS:*.k8s.us-west-04a.localhost,"
				    "DNS:api.cloudsim-1a2b3c.k8s.us-east-04a.localhost,"
				    "DNS:api.cloudsim-4d5e6f.k8s.us-west-04a.localhost,"
				    "IP:127.0.0.1";
	EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
	X509 *ca = certificate_make("cloudsim CA", 1, ca_key),
	     *cert = certificate_make("cloudsim", 2, key);
	bool ok;

	X509_set_issuer_name(ca, X509_get_subject_name(ca));
	X509_set_issuer_name(cert, X509_get_subject_name(ca));
	ok = extension_add(ca, ca, NID_basic_constraints, "critical,CA:TRUE") &&
	    extension_add(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	    extension_add(ca, ca, NID_subject_key_identifier, "hash") &&
	    X509_sign(ca, ca_key, EVP_sha256()) > 0 &&
	    extension_add(cert, ca, NID_basic_constraints, "CA:FALSE") &&
	    extension_add(cert, ca, NID_key_usage, "critical,digitalSignature") &&
	    extension_add(cert, ca, NID_ext_key_usage, "serverAuth") &&
	    extension_add(cert, ca, NID_subject_key_identifier, "hash") &&
	    extension_add(cert, ca, NID_authority_key_identifier, "keyid") &&
	    extension_add(cert, ca, NID_subject_alt_name, names) &&
	    X509_sign(cert, ca_key, EVP_sha256()) > 0 &&
	    put_pem(s->conf.dir, "kube-ca.pem", ca, NULL) &&
	    put_pem(s->conf.dir, "kube-tls.pem", cert, NULL) &&
	    put_pem(s->conf.dir, "kube-tls-key.pem", NULL, key);
	if (!ok) {
		err_set(err, SPOT_INTERNAL, "cannot make the certificates of the https ports");
	}
	X509_free(ca);
	X509_free(cert);
	EVP_PKEY_free(ca_key);
	EVP_PKEY_free(key);
	return ok;
}
