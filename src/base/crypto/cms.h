/*
 * Verifies signed messages of PKCS #7 / CMS (RFC 5652): a cloud's statements about a machine
 * (Azure's attested data, AWS's instance identity document). The check covers the signature over
 * the content, the chain of every signer up to a trusted certificate, and the dates.
 *
 * The clouds sign with server certificates, so the check ignores the purpose of a certificate. The
 * caller judges the names in it.
 *
 * The message comes from a stranger: nothing in it counts before CMS_verify accepts it, and errors
 * never carry its bytes.
 */
#ifndef BASE_CMS_H
#define BASE_CMS_H

#include "base/base.h"

struct arena;
#define CMS_BYTES_MAX (64 << 10)
#define CMS_NAMES_MAX 8

struct cms_input {
	struct str signed_der; /* ContentInfo with SignedData, DER */
	struct str detached; /* content that is not inside; p == NULL: it is inside */
	const char *trusted_pem; /* trusted certificates, one after the other, roots or not */
	/* PEM texts or one DER: untrusted certificates for the chain, or the signer's own;
	 * p == NULL: none */
	struct str helper_certs;
	int64_t now_us; /* time for the check of dates; 0 = no check */
};

struct cms_signer {
	const char *common_name; /* of the signer's subject, "" if it has none */
	const char *names[CMS_NAMES_MAX];
	size_t names_n; /* DNS names of its subjectAltName */
	const char *issuer_url; /* of its issuer's certificate (AIA caIssuers, http); "" if none */
};

/*
 * Sets *ret_content to the signed content and *ret_signer to its signer, both in a. Errors:
 * BAD_REPLY, not a signed message; DENIED, a wrong signature or date, or an untrusted signer;
 * CONFIG, no certificate in trusted_pem.
 *
 * If a link of the chain is missing, the result is DENIED, *ret_missing_issuer is true and
 * *ret_signer, not verified, names the issuer_url to fetch.
 */
NODISCARD enum spot_rc cms_verify(const struct cms_input *in, struct arena *a,
    struct str *ret_content, struct cms_signer *ret_signer, bool *ret_missing_issuer,
    struct spot_err *err);

#endif
