/* Hashes and signatures by libcrypto. SigV4: docs.aws.amazon.com, "Signature Version 4 signing
 * process". We do not use libcurl's SigV4: it infers service and region from the host name. */
#ifndef BASE_SIGN_H
#define BASE_SIGN_H

#include "base/base.h"
#include "spot/http.h"

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

#endif
