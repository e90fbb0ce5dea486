/*
 * RSA signatures (RSASSA-PKCS1-v1_5 with SHA-256, RS256 of RFC 7518 3.3) and JSON Web Tokens in
 * compact form (RFC 7515, 7519), by libcrypto. Pure: keys, time and text are arguments. jwt_read
 * checks only the form, rsa_verify only the signature; the caller judges the claims of a token.
 */
#ifndef BASE_JWT_H
#define BASE_JWT_H

#include "base/base.h"
#include "base/text/json.h"

struct arena;

/* base64url without padding (RFC 4648 5, RFC 7515 2). Decoding is strict: unused bits are zero. */
char *base64url_encode(struct arena *a, const void *p, size_t n);
NODISCARD bool base64url_decode(struct arena *a, const char *s, size_t n, struct str *ret);

/* A private or public RSA key of 1024 to 16384 bits; the caller owns and frees it. */
struct rsa_key;
/* Reads a PEM text, PKCS#8 or PKCS#1, not encrypted. The error never quotes the text. */
NODISCARD enum spot_rc rsa_private_pem(struct str pem, struct rsa_key **ret, struct spot_err *err);
/* Reads a PEM text: a public key or an X.509 certificate, of any date. */
NODISCARD enum spot_rc rsa_public_pem(struct str pem, struct rsa_key **ret, struct spot_err *err);
/* Builds a key from the members n and e of a JSON Web Key (RFC 7517). */
NODISCARD enum spot_rc rsa_public_jwk(const char *n, const char *e, struct rsa_key **ret,
    struct spot_err *err);
void rsa_key_free(struct rsa_key *k); /* NULL accepted */
static inline void auto_rsa_key(struct rsa_key **k)
{
	rsa_key_free(*k);
}
/* Signs n bytes; *ret is the signature in a. Fails only for a key without a private part. */
NODISCARD enum spot_rc rsa_sign(struct arena *a, const struct rsa_key *k, const void *p, size_t n,
    struct str *ret, struct spot_err *err);
NODISCARD bool rsa_verify(const struct rsa_key *k, const void *p, size_t n, struct str signature);

/* Makes the token header.claims.signature in a. header and claims are JSON texts. */
NODISCARD enum spot_rc jwt_sign(struct arena *a, const struct rsa_key *k, const char *header,
    const char *claims, const char **ret, struct spot_err *err);

struct jwt {
	json_t *header, *claims; /* objects; jwt_fini drops them */
	const char *alg, *kid; /* of the header; "" if absent */
	struct str signed_part; /* the signed text: a view of the token */
	struct str signature;
};
/* Parses a token of at most 16 KiB. SPOT_INVALID: the text is no token. */
NODISCARD enum spot_rc jwt_read(struct arena *a, struct str text, struct jwt *ret,
    struct spot_err *err);
void jwt_fini(struct jwt *t);
static inline void auto_jwt(struct jwt *t)
{
	jwt_fini(t);
}

#endif
