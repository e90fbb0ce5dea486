/*
 * Signed messages of PKCS #7 / CMS (RFC 5652): a cloud's statements about a machine (Azure's
 * attested data, AWS's instance identity document). Checked by libcrypto: the signature over the
 * content, the chain of every signer up to a certificate that the caller trusts, and its dates. The
 * purpose of a certificate is not looked at, because the clouds sign with server certificates; the
 * caller judges the names in it.
 *
 * The message comes from a stranger: no part of it is believed before CMS_verify said yes, and an
 * error never carries its bytes.
 */
#ifndef BASE_CMS_H
#define BASE_CMS_H

#include "base/base.h"

struct arena;
#define CMS_BYTES_MAX (64 << 10)
#define CMS_NAMES_MAX 8

struct cms_input {
	struct str signed_der; /* ContentInfo with SignedData, DER */
	struct str detached; /* the content where it is not inside; p == NULL: inside */
	/* certificates that are believed, roots or not, one after the other */
	const char *trusted_pem;
	/* PEM or DER of one or more that are not believed by themselves but may be links of the
	 * chain or the signer's own; p == NULL: none */
	struct str helper_certs;
	int64_t now_us; /* dates are judged at this time; 0 = not at all */
};

struct cms_signer {
	const char *common_name; /* of the signer's subject, "" if it has none */
	const char *names[CMS_NAMES_MAX];
	size_t names_n; /* DNS names of its subjectAltName */
	/* where its issuer's certificate is kept (AIA caIssuers, http), "" if not said */
	const char *issuer_url;
};

/* OK: *ret_content is what was signed, *ret_signer who signed. BAD_REPLY: not a signed message.
 * DENIED: the signature or a date is wrong, or nobody trusted vouches for the signer. CONFIG:
 * trusted_pem holds no certificate. ret_signer is filled (unbelieved) with issuer_url too when only
 * the chain is missing links: *ret_missing_issuer is set then. */
NODISCARD enum spot_rc cms_verify(const struct cms_input *in, struct arena *a,
    struct str *ret_content, struct cms_signer *ret_signer, bool *ret_missing_issuer,
    struct spot_err *err);

#endif
