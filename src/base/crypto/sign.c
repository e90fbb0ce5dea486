/* Hashes and text encodings, by libcrypto if it has them. A failing libcrypto aborts: these calls
 * fail only without memory or without the algorithm. */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

void sha256(const void *p, size_t n, uint8_t ret[SHA256_BYTES])
{
	if (SHA256(n > 0 ? p : "", n, ret) == NULL) {
		abort();
	}
}

void sha256_hex(const void *p, size_t n, char ret[SHA256_HEX])
{
	uint8_t hash[SHA256_BYTES];

	sha256(p, n, hash);
	hex_encode(hash, sizeof(hash), ret);
}

struct sha256_stream {
	EVP_MD_CTX *ctx;
};

struct sha256_stream *sha256_stream_new(void)
{
	struct sha256_stream *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		abort();
	}
	s->ctx = EVP_MD_CTX_new();
	if (s->ctx == NULL || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1) {
		abort();
	}
	return s;
}

void sha256_stream_add(struct sha256_stream *s, const void *p, size_t n)
{
	if (EVP_DigestUpdate(s->ctx, p, n) != 1) {
		abort();
	}
}

void sha256_stream_end(struct sha256_stream *s, char ret[SHA256_HEX])
{
	uint8_t hash[SHA256_BYTES];

	if (EVP_DigestFinal_ex(s->ctx, hash, NULL) != 1) {
		abort();
	}
	EVP_MD_CTX_free(s->ctx);
	free(s);
	hex_encode(hash, sizeof(hash), ret);
}

struct md5_stream {
	EVP_MD_CTX *ctx;
};

struct md5_stream *md5_stream_new(void)
{
	struct md5_stream *s = calloc(1, sizeof(*s));

	if (s == NULL || (s->ctx = EVP_MD_CTX_new()) == NULL) {
		abort();
	}
	if (EVP_DigestInit_ex(s->ctx, EVP_md5(), NULL) == 1) {
		return s;
	}
	EVP_MD_CTX_free(s->ctx);
	free(s);
	return NULL;
}

void md5_stream_add(struct md5_stream *s, const void *p, size_t n)
{
	if (EVP_DigestUpdate(s->ctx, p, n) != 1) {
		abort();
	}
}

void md5_stream_end(struct md5_stream *s, uint8_t ret[MD5_BYTES])
{
	if (EVP_DigestFinal_ex(s->ctx, ret, NULL) != 1) {
		abort();
	}
	EVP_MD_CTX_free(s->ctx);
	free(s);
}

void hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t ret[SHA256_BYTES])
{
	unsigned len = SHA256_BYTES;

	assert(key_n <= INT32_MAX);
	if (HMAC(EVP_sha256(), key, (int)key_n, n > 0 ? p : (const void *)"", n, ret, &len) ==
	    NULL) {
		abort();
	}
}

void hex_encode(const void *p, size_t n, char *ret)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *in = p;

	for (size_t i = 0; i < n; i++) {
		ret[2 * i] = digits[in[i] >> 4];
		ret[2 * i + 1] = digits[in[i] & 15];
	}
	ret[2 * n] = '\0';
}

bool hex_decode(const char *hex, size_t hex_n, uint8_t *ret)
{
	if (hex_n % 2 != 0) {
		return false;
	}
	for (size_t i = 0; i < hex_n; i++) {
		if (hex_value(hex[i]) < 0) {
			return false;
		}
	}
	for (size_t i = 0; i < hex_n / 2; i++) {
		ret[i] = (uint8_t)(hex_value(hex[2 * i]) * 16 + hex_value(hex[2 * i + 1]));
	}
	return true;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(struct arena *a, const void *p, size_t n)
{
	const uint8_t *in = p;
	char *out = arena_alloc(a, (n + 2) / 3 * 4 + 1);
	char *at = out;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)in[i] << 16;

		if (i + 1 < n) {
			v |= (uint32_t)in[i + 1] << 8;
		}
		if (i + 2 < n) {
			v |= in[i + 2];
		}
		*at++ = base64_digits[v >> 18];
		*at++ = base64_digits[v >> 12 & 63];
		*at++ = i + 1 < n ? base64_digits[v >> 6 & 63] : '=';
		*at++ = i + 2 < n ? base64_digits[v & 63] : '=';
	}
	*at = '\0';
	return out;
}

static int base64_value(char c)
{
	const char *hit = c != '\0' ? strchr(base64_digits, c) : NULL;

	return hit != NULL ? (int)(hit - base64_digits) : -1;
}

/* Strict: whole groups of four, padding only at the end, unused bits zero. */
bool base64_decode(struct arena *a, const char *s, size_t n, struct str *ret)
{
	if (n % 4 != 0) {
		return false;
	}
	size_t pad = n > 0 && s[n - 1] == '=' ? (s[n - 2] == '=' ? 2 : 1) : 0;
	size_t len = n / 4 * 3 - pad;
	char *out = arena_alloc(a, n / 4 * 3 + 1);
	for (size_t i = 0; i < n; i += 4) {
		uint32_t v = 0;

		for (size_t j = 0; j < 4; j++) {
			int d = i + j >= n - pad ? 0 : base64_value(s[i + j]);

			if (d < 0) {
				return false;
			}
			v = v << 6 | (uint32_t)d;
		}
		out[i / 4 * 3] = (char)(v >> 16);
		out[i / 4 * 3 + 1] = (char)(v >> 8 & 255);
		out[i / 4 * 3 + 2] = (char)(v & 255);
	}
	for (size_t i = len; i < n / 4 * 3; i++) {
		if (out[i] != '\0') {
			return false;
		}
	}
	out[len] = '\0';
	*ret = (struct str){ out, len };
	return true;
}
