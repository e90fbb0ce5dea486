#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#define TOKEN_MAX 16384
#define BITS_MIN 1024
#define BITS_MAX 16384

struct rsa_key {
	EVP_PKEY *key;
	bool is_private;
};

/* ---- base64url ------------------------------------------------------------------------------- */

char *base64url_encode(struct arena *a, const void *p, size_t n)
{
	char *out = base64_encode(a, p, n);
	size_t len = strlen(out);

	for (size_t i = 0; i < len; i++) {
		out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
	}
	while (len > 0 && out[len - 1] == '=') {
		out[--len] = '\0';
	}
	return out;
}

bool base64url_decode(struct arena *a, const char *s, size_t n, struct str *ret)
{
	size_t pad = (4 - n % 4) % 4;
	char *plain;

	if (pad == 3) {
		return false;
	}
	plain = arena_alloc(a, n + pad + 1);
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '+' || s[i] == '/' || s[i] == '=') {
			return false;
		}
		plain[i] = s[i] == '-' ? '+' : s[i] == '_' ? '/' : s[i];
	}
	memset(plain + n, '=', pad);
	return base64_decode(a, plain, n + pad, ret);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Takes ownership of key. */
static enum spot_rc key_take(EVP_PKEY *key, bool is_private, const char *what, struct rsa_key **ret,
    struct spot_err *err)
{
	struct rsa_key *k;
	int bits = key != NULL ? EVP_PKEY_get_bits(key) : 0;

	/* libcrypto's error texts may quote the input. */
	ERR_clear_error();
	if (key == NULL || !EVP_PKEY_is_a(key, "RSA") || bits < BITS_MIN || bits > BITS_MAX) {
		EVP_PKEY_free(key);
		return err_set(err, SPOT_INVALID, "%s: not an RSA key of %d bits or more", what,
		    BITS_MIN);
	}
	k = calloc(1, sizeof(*k));
	if (k == NULL) {
		abort();
	}
	*k = (struct rsa_key){ key, is_private };
	*ret = k;
	return SPOT_OK;
}

static BIO *bio_of(struct str pem)
{
	BIO *b = BIO_new_mem_buf(pem.p != NULL ? pem.p : "", (int)MIN(pem.n, (size_t)INT32_MAX));

	if (b == NULL) {
		abort();
	}
	return b;
}

/* Refuses encrypted keys: libcrypto's default would ask the terminal for a pass phrase. */
static int no_password(char *buf, int size, int rwflag, void *u)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)u;
	return -1;
}

enum spot_rc rsa_private_pem(struct str pem, struct rsa_key **ret, struct spot_err *err)
{
	BIO *b = bio_of(pem);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, no_password, NULL);

	BIO_free(b);
	return key_take(key, true, "private key", ret, err);
}

enum spot_rc rsa_public_pem(struct str pem, struct rsa_key **ret, struct spot_err *err)
{
	BIO *b = bio_of(pem);
	EVP_PKEY *key = PEM_read_bio_PUBKEY(b, NULL, no_password, NULL);

	BIO_free(b);
	if (key == NULL) {
		b = bio_of(pem);
		X509 *cert = PEM_read_bio_X509(b, NULL, no_password, NULL);

		key = cert != NULL ? X509_get_pubkey(cert) : NULL;
		X509_free(cert);
		BIO_free(b);
	}
	return key_take(key, false, "public key", ret, err);
}

static BIGNUM *number_of(struct arena *a, const char *text)
{
	struct str bytes;

	if (str_empty(text) || strlen(text) > 4096 ||
	    !base64url_decode(a, text, strlen(text), &bytes)) {
		return NULL;
	}
	return BN_bin2bn((const uint8_t *)bytes.p, (int)bytes.n, NULL);
}

enum spot_rc rsa_public_jwk(const char *n, const char *e, struct rsa_key **ret,
    struct spot_err *err)
{
	struct arena *a AUTO(arena) = arena_new(0);
	BIGNUM *n_num = number_of(a, n), *e_num = number_of(a, e);
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;

	if (build == NULL || ctx == NULL) {
		abort();
	}
	if (n_num != NULL && e_num != NULL &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n_num) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e_num) == 1) {
		params = OSSL_PARAM_BLD_to_param(build);
	}
	if (params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1) {
		key = NULL;
	}
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	EVP_PKEY_CTX_free(ctx);
	BN_free(n_num);
	BN_free(e_num);
	return key_take(key, false, "public key (n, e)", ret, err);
}

void rsa_key_free(struct rsa_key *k)
{
	if (k == NULL) {
		return;
	}
	EVP_PKEY_free(k->key);
	free(k);
}

/* ---- signatures ------------------------------------------------------------------------------ */

enum spot_rc rsa_sign(struct arena *a, const struct rsa_key *k, const void *p, size_t n,
    struct str *ret, struct spot_err *err)
{
	EVP_MD_CTX *ctx;
	size_t len = (size_t)EVP_PKEY_get_size(k->key);
	uint8_t *out = arena_alloc(a, len + 1);

	if (!k->is_private) {
		return err_set(err, SPOT_INVALID, "a public key cannot sign");
	}
	ctx = EVP_MD_CTX_new();
	if (ctx == NULL || EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, k->key) != 1 ||
	    EVP_DigestSign(ctx, out, &len, p, n) != 1) {
		abort();
	}
	EVP_MD_CTX_free(ctx);
	*ret = (struct str){ (const char *)out, len };
	return SPOT_OK;
}

bool rsa_verify(const struct rsa_key *k, const void *p, size_t n, struct str signature)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good;

	if (ctx == NULL || EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, k->key) != 1) {
		abort();
	}
	good = signature.p != NULL &&
	    EVP_DigestVerify(ctx, (const uint8_t *)signature.p, signature.n, p, n) == 1;
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return good;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

enum spot_rc jwt_sign(struct arena *a, const struct rsa_key *k, const char *header,
    const char *claims, const char **ret, struct spot_err *err)
{
	const char *part = arena_printf(a, "%s.%s", base64url_encode(a, header, strlen(header)),
	    base64url_encode(a, claims, strlen(claims)));
	struct str signature = { 0 };
	enum spot_rc rc = rsa_sign(a, k, part, strlen(part), &signature, err);

	if (rc != SPOT_OK) {
		return rc;
	}
	*ret = arena_printf(a, "%s.%s", part, base64url_encode(a, signature.p, signature.n));
	return SPOT_OK;
}

static enum spot_rc object_read(struct arena *a, const char *p, size_t n, const char *what,
    json_t **ret, struct spot_err *err)
{
	struct str text;
	json_t *doc = NULL;

	if (!base64url_decode(a, p, n, &text) || json_parse(text, what, &doc, NULL) != SPOT_OK ||
	    !json_is_object(doc)) {
		json_decref(doc);
		return err_set(err, SPOT_INVALID, "token: its %s is not a JSON object in base64url",
		    what);
	}
	*ret = doc;
	return SPOT_OK;
}

enum spot_rc jwt_read(struct arena *a, struct str text, struct jwt *ret, struct spot_err *err)
{
	const char *dot, *dot2, *end;
	struct jwt t AUTO(jwt) = { 0 };
	enum spot_rc rc;

	if (text.p == NULL || text.n == 0 || text.n > TOKEN_MAX) {
		return err_set(err, SPOT_INVALID, "token: empty or longer than %d bytes",
		    TOKEN_MAX);
	}
	end = text.p + text.n;
	dot = memchr(text.p, '.', text.n);
	dot2 = dot != NULL ? memchr(dot + 1, '.', (size_t)(end - dot - 1)) : NULL;
	if (dot2 == NULL) {
		return err_set(err, SPOT_INVALID, "token: not three parts with dots between them");
	}
	rc = object_read(a, text.p, (size_t)(dot - text.p), "header", &t.header, err);
	if (rc == SPOT_OK) {
		rc = object_read(a, dot + 1, (size_t)(dot2 - dot - 1), "claims", &t.claims, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	if (!base64url_decode(a, dot2 + 1, (size_t)(end - dot2 - 1), &t.signature) ||
	    t.signature.n == 0) {
		return err_set(err, SPOT_INVALID, "token: its signature is not base64url");
	}
	t.alg = json_str(t.header, "alg", "", NULL);
	t.kid = json_str(t.header, "kid", "", NULL);
	t.signed_part = (struct str){ text.p, (size_t)(dot2 - text.p) };
	*ret = t;
	/* The cleanup of t reads it. NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores) */
	t = (struct jwt){ 0 };
	return SPOT_OK;
}

void jwt_fini(struct jwt *t)
{
	json_decref(t->header);
	json_decref(t->claims);
	t->header = t->claims = NULL;
}
