/* Cryptography over OpenSSL: secrets, redaction, signatures, JWT and CMS. */
#ifndef BASE_CRYPTO_CRYPTO_H
#define BASE_CRYPTO_CRYPTO_H

#include "base/base.h"
#include "spot/http.h"
#include "base/text/text.h"

/*
 * A value that must not leak. Its comparison takes constant time. The functions secret_init and
 * secret_fini register it for redaction, so that no log line or error text can carry it, and
 * unregister and wipe it.
 */

struct secret {
	char *p_private;
	size_t n;
};
void secret_init(struct secret *s, const char *value, size_t n); /* copies */
void secret_fini(struct secret *s);
bool secret_set(const struct secret *s); /* has a value */
bool secret_equal(const struct secret *s, const char *value, size_t n);
/* Returns the value. Only code that signs or sends may call it. */
const char *secret_reveal(const struct secret *s);
/* Reads a file of mode 0600 or 0400 and strips one trailing newline. Refuses files over 64 KiB and
 * other modes, but takes 0440 of a file in $CREDENTIALS_DIRECTORY, as systemd makes credentials. */
NODISCARD enum spot_rc secret_read_file(struct secret *s, const char *path, struct spot_err *err);
bool mem_equal_const(const void *a, const void *b, size_t n); /* in constant time */
void mem_wipe(void *p, size_t n); /* the compiler cannot drop it */

/* Keeps secrets out of logs and errors. "[redacted]" replaces registered values of 8 bytes and
 * more, and the values of names that redact_name() lists. */

void redact_add(const char *value, size_t n); /* copies; counts each registration */
void redact_remove(const char *value, size_t n); /* undoes one redact_add */
/* Reports whether the value of this header, JSON field, query key or variable is secret. */
bool redact_name(const char *name);
/* Replaces registered values in place and updates *len. Never grows the text: stars cover a value
 * that is shorter than "[redacted]". */
void redact_text(char *text, size_t *len);
/* Makes a vendor's words (NULL: none) safe for an error, in a. Replaces registered values, turns
 * control characters into blanks and drops blanks at the end. Cuts at bytes_max bytes, between
 * UTF-8 characters. */
const char *redact_words(struct arena *a, const char *words, size_t bytes_max);
/* Copies url, with user name, password, secret query values and registered values replaced. */
void redact_url(const char *url, char *dst, size_t dst_size);

/* Hashes and signatures by libcrypto. SigV4: docs.aws.amazon.com, "Signature Version 4 signing
 * process". We do not use libcurl's SigV4: it infers service and region from the host name. */

struct arena;
#define SHA256_BYTES 32
#define SHA256_HEX 65
#define MD5_BYTES 16
void sha256(const void *p, size_t n, uint8_t ret[SHA256_BYTES]);
void sha256_hex(const void *p, size_t n, char ret[SHA256_HEX]);
struct sha256_stream; /* for files */
struct sha256_stream *sha256_stream_new(void);
void sha256_stream_add(struct sha256_stream *s, const void *p, size_t n);
void sha256_stream_end(struct sha256_stream *s, char ret[SHA256_HEX]); /* frees s */
/* MD5 only detects transfer errors, with a store that reports no better hash. */
struct md5_stream;
struct md5_stream *md5_stream_new(void); /* NULL if the library refuses MD5 (FIPS) */
void md5_stream_add(struct md5_stream *s, const void *p, size_t n);
void md5_stream_end(struct md5_stream *s, uint8_t ret[MD5_BYTES]); /* frees s */
void hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t ret[SHA256_BYTES]);
void hex_encode(const void *p, size_t n, char *ret); /* 2n+1 */
NODISCARD bool hex_decode(const char *hex, size_t hex_n, uint8_t *ret);
char *base64_encode(struct arena *a, const void *p, size_t n);
NODISCARD bool base64_decode(struct arena *a, const char *s, size_t n, struct str *ret);

struct sigv4 {
	const char *access_key, *secret_key, *session_token; /* token NULL or "" if none */
	const char *region, *service;
	int64_t now_us;
	const char *payload_sha256; /* NULL: hash of the body; "UNSIGNED-PAYLOAD" for presign */
};
/* Adds x-amz-date, x-amz-security-token and authorization to req, and x-amz-content-sha256 for the
 * service "s3". Strings live in a. The host comes from the url. */
void sigv4_sign(struct arena *a, const struct sigv4 *k, struct spot_http_request *req);
/* Signs in the query string and returns the whole url. Keeps and signs the query of url. */
char *sigv4_presign(struct arena *a, const struct sigv4 *k, const char *method, const char *url,
    int64_t expires_s);

/*
 * RSA signatures (RSASSA-PKCS1-v1_5 with SHA-256, RS256 of RFC 7518 3.3) and JSON Web Tokens in
 * compact form (RFC 7515, 7519), by libcrypto. Pure: keys, time and text are arguments. jwt_read
 * checks only the form, rsa_verify only the signature; the caller judges the claims of a token.
 */

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
