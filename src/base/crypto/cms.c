#include "base/base.h"
#include "base/crypto/crypto.h"

#include <openssl/bio.h>
#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#define CERTS_MAX 32

struct checking {
	CMS_ContentInfo *cms;
	BIO *in, *detached, *out;
	STACK_OF(X509) * trusted, *helpers;
	X509_STORE *store;
	STACK_OF(X509) * signers; /* the stack is ours, the certificates belong to cms or helpers */
};

static void checking_fini(struct checking *k)
{
	sk_X509_free(k->signers);
	CMS_ContentInfo_free(k->cms);
	BIO_free(k->in);
	BIO_free(k->detached);
	BIO_free(k->out);
	X509_STORE_free(k->store);
	sk_X509_pop_free(k->trusted, X509_free);
	sk_X509_pop_free(k->helpers, X509_free);
	/* Drop the queued errors, so that the next user of libcrypto does not see them. */
	ERR_clear_error();
}

static BIO *bio_of(struct str s)
{
	BIO *b = BIO_new_mem_buf(s.n > 0 ? s.p : "", (int)s.n);

	if (b == NULL) {
		abort();
	}
	return b;
}

static void certs_add(STACK_OF(X509) * to, X509 *x)
{
	if (sk_X509_push(to, x) <= 0) {
		abort();
	}
}

/* Reads PEM texts, one after the other, or one certificate in DER. */
static void certs_read(struct str text, STACK_OF(X509) * to)
{
	BIO *b;
	X509 *x;

	if (text.p == NULL || text.n == 0) {
		return;
	}
	b = bio_of(text);
	while (
	    sk_X509_num(to) < CERTS_MAX && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		certs_add(to, x);
	}
	BIO_free(b);
	if (sk_X509_num(to) == 0) {
		b = bio_of(text);
		x = d2i_X509_bio(b, NULL);
		if (x != NULL) {
			certs_add(to, x);
		}
		BIO_free(b);
	}
	ERR_clear_error();
}

/* ---- the signer ------------------------------------------------------------------------------ */

/* Returns "" for a name with anything but printable ASCII, which could imitate another name. */
static const char *text_of(struct arena *a, const ASN1_STRING *s)
{
	const unsigned char *p = s != NULL ? ASN1_STRING_get0_data(s) : NULL;
	int n = s != NULL ? ASN1_STRING_length(s) : 0;

	for (int i = 0; i < n; i++) {
		if (p[i] <= ' ' || p[i] > '~') {
			return "";
		}
	}
	return n > 0 ? arena_strndup(a, (const char *)p, (size_t)n) : "";
}

static const char *common_name(struct arena *a, X509 *x)
{
	X509_NAME *name = X509_get_subject_name(x);
	int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);

	return at < 0 ? "" : text_of(a, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

static void dns_names(struct arena *a, X509 *x, struct cms_signer *ret)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);

	for (int i = 0; i < sk_GENERAL_NAME_num(all) && ret->names_n < CMS_NAMES_MAX; i++) {
		const GENERAL_NAME *g = sk_GENERAL_NAME_value(all, i);

		if (g->type == GEN_DNS) {
			ret->names[ret->names_n++] = text_of(a, g->d.dNSName);
		}
	}
	GENERAL_NAMES_free(all);
}

static const char *issuer_url(struct arena *a, X509 *x)
{
	AUTHORITY_INFO_ACCESS *all = X509_get_ext_d2i(x, NID_info_access, NULL, NULL);
	const char *url = "";

	for (int i = 0; i < sk_ACCESS_DESCRIPTION_num(all) && *url == '\0'; i++) {
		const ACCESS_DESCRIPTION *d = sk_ACCESS_DESCRIPTION_value(all, i);

		if (OBJ_obj2nid(d->method) == NID_ad_ca_issuers && d->location->type == GEN_URI) {
			url = text_of(a, d->location->d.uniformResourceIdentifier);
		}
	}
	AUTHORITY_INFO_ACCESS_free(all);
	return url;
}

static struct cms_signer signer_read(struct arena *a, X509 *x)
{
	struct cms_signer s = { .common_name = common_name(a, x), .issuer_url = issuer_url(a, x) };

	dns_names(a, x, &s);
	return s;
}

/* ---- the chain ------------------------------------------------------------------------------- */

static void store_make(struct checking *k, int64_t now_us)
{
	X509_VERIFY_PARAM *p;

	k->store = X509_STORE_new();
	if (k->store == NULL) {
		abort();
	}
	for (int i = 0; i < sk_X509_num(k->trusted); i++) {
		if (X509_STORE_add_cert(k->store, sk_X509_value(k->trusted, i)) != 1) {
			abort();
		}
	}
	p = X509_STORE_get0_param(k->store);
	/* A trusted certificate ends the chain even if it is no root. */
	X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_PARTIAL_CHAIN);
	if (now_us == 0) {
		X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_NO_CHECK_TIME);
	} else {
		X509_VERIFY_PARAM_set_time(p, (time_t)(now_us / SPOT_US_PER_S));
	}
}

/* Returns X509_V_OK or libcrypto's reason. */
static int chain_check(struct checking *k, X509 *signer)
{
	STACK_OF(X509) *inside = CMS_get1_certs(k->cms), *links = sk_X509_dup(k->helpers);
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	int why = X509_V_ERR_UNSPECIFIED;

	if (links == NULL || ctx == NULL) {
		abort();
	}
	for (int i = 0; i < sk_X509_num(inside) && i < CERTS_MAX; i++) {
		certs_add(links, sk_X509_value(inside, i));
	}
	if (X509_STORE_CTX_init(ctx, k->store, signer, links) == 1) {
		why = X509_verify_cert(ctx) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(ctx);
	}
	X509_STORE_CTX_free(ctx);
	sk_X509_free(links);
	sk_X509_pop_free(inside, X509_free);
	return why;
}

static bool why_is_missing(int why)
{
	return why == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
	    why == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
	    why == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
}

/* ---- the message ----------------------------------------------------------------------------- */

static enum spot_rc message_read(struct checking *k, const struct cms_input *in,
    struct spot_err *err)
{
	if (in->signed_der.n == 0 || in->signed_der.n > CMS_BYTES_MAX) {
		return err_set(err, SPOT_BAD_REPLY, "signed message: %zu bytes, 1 to %d are taken",
		    in->signed_der.n, CMS_BYTES_MAX);
	}
	k->in = bio_of(in->signed_der);
	k->cms = d2i_CMS_bio(k->in, NULL);
	if (k->cms == NULL || OBJ_obj2nid(CMS_get0_type(k->cms)) != NID_pkcs7_signed) {
		return err_set(err, SPOT_BAD_REPLY,
		    "signed message: this is no PKCS #7 SignedData");
	}
	k->detached = in->detached.p != NULL ? bio_of(in->detached) : NULL;
	if (k->detached == NULL && CMS_is_detached(k->cms)) {
		return err_set(err, SPOT_BAD_REPLY, "signed message: there is no content in it");
	}
	return SPOT_OK;
}

static enum spot_rc signature_check(struct checking *k, struct spot_err *err)
{
	STACK_OF(X509) *known = sk_X509_dup(k->helpers);
	int good;

	if (known == NULL) {
		abort();
	}
	/* AWS leaves the signer's certificate out of the message: look among the trusted ones. */
	for (int i = 0; i < sk_X509_num(k->trusted); i++) {
		certs_add(known, sk_X509_value(k->trusted, i));
	}
	k->out = BIO_new(BIO_s_mem());
	if (k->out == NULL) {
		abort();
	}
	good = CMS_verify(k->cms, known, NULL, k->detached, k->out,
	    CMS_NO_SIGNER_CERT_VERIFY | CMS_BINARY);
	sk_X509_free(known);
	k->signers = good == 1 ? CMS_get0_signers(k->cms) : NULL;
	if (sk_X509_num(k->signers) < 1) {
		return err_set(err, SPOT_DENIED, "signed message: the signature is not good");
	}
	return SPOT_OK;
}

static enum spot_rc signers_check(struct checking *k, struct arena *a,
    struct cms_signer *ret_signer, bool *ret_missing, struct spot_err *err)
{
	for (int i = 0; i < sk_X509_num(k->signers); i++) {
		int why = chain_check(k, sk_X509_value(k->signers, i));

		if (why == X509_V_OK) {
			continue;
		}
		if (why_is_missing(why)) {
			*ret_missing = true;
			*ret_signer = signer_read(a, sk_X509_value(k->signers, i));
		}
		return err_set(err, SPOT_DENIED,
		    "signed message: its signer has no chain to a trusted certificate (%s)",
		    X509_verify_cert_error_string(why));
	}
	*ret_signer = signer_read(a, sk_X509_value(k->signers, 0));
	return SPOT_OK;
}

enum spot_rc cms_verify(const struct cms_input *in, struct arena *a, struct str *ret_content,
    struct cms_signer *ret_signer, bool *ret_missing_issuer, struct spot_err *err)
{
	struct checking k = { .trusted = sk_X509_new_null(), .helpers = sk_X509_new_null() };
	enum spot_rc rc;
	char *bytes;
	long n;

	if (k.trusted == NULL || k.helpers == NULL) {
		abort();
	}
	*ret_missing_issuer = false;
	certs_read((struct str){ in->trusted_pem,
		       in->trusted_pem != NULL ? strlen(in->trusted_pem) : 0 },
	    k.trusted);
	certs_read(in->helper_certs, k.helpers);
	if (sk_X509_num(k.trusted) == 0) {
		rc = err_set(err, SPOT_CONFIG,
		    "signed message: no trusted certificate is configured");
	} else {
		rc = message_read(&k, in, err);
	}
	if (rc == SPOT_OK) {
		rc = signature_check(&k, err);
	}
	if (rc == SPOT_OK) {
		store_make(&k, in->now_us);
		rc = signers_check(&k, a, ret_signer, ret_missing_issuer, err);
	}
	if (rc == SPOT_OK) {
		n = BIO_get_mem_data(k.out, &bytes);
		*ret_content = in->detached.p != NULL
		    ? arena_bytes(a, in->detached.p, in->detached.n)
		    : arena_bytes(a, bytes, (size_t)n);
	}
	checking_fini(&k);
	return rc;
}
