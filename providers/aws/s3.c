#include "base/base.h"
#include "aws_priv.h"

/* Presigned object requests for nodes, which have no keys: query-string SigV4
 * (docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html). */

#include "base/crypto/crypto.h"

#define EXPIRES_MAX_S (7 * 24 * 3600) /* the vendor's limit */

static bool bucket_ok(const char *b)
{
	size_t n = b != NULL ? strlen(b) : 0;

	return n >= 3 && n <= 63 && strspn(b, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n &&
	    b[0] != '.' && b[0] != '-' && b[n - 1] != '.' && b[n - 1] != '-';
}

static enum spot_rc presign_check(const struct aws *self, const struct spot_presign *a,
    struct spot_err *err)
{
	static const char *const methods[] = { "GET", "PUT", "POST", "DELETE", "HEAD" };
	bool known = false;

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		known = known || str_same(methods[i], a->method);
	}
	if (!known) {
		return err_set(err, SPOT_INVALID, "aws presign: method '%.20s'",
		    a->method ? a->method : "");
	}
	if (!bucket_ok(a->bucket)) {
		return err_set(err, SPOT_INVALID, "aws presign: '%.80s' is not a bucket name",
		    a->bucket ? a->bucket : "");
	}
	if (str_empty(a->key) || strlen(a->key) > 1024) {
		return err_set(err, SPOT_INVALID,
		    "aws presign: object key of 1 to 1024 bytes needed");
	}
	if (a->expires_s < 1 || a->expires_s > EXPIRES_MAX_S) {
		return err_set(err, SPOT_INVALID,
		    "aws presign: lifetime %" PRId64 " s is not in 1..%d", a->expires_s,
		    EXPIRES_MAX_S);
	}
	if (!str_empty(a->region) && !aws_region_ok(a->region)) {
		return err_set(err, SPOT_INVALID, "aws presign: '%.40s' is not a region",
		    a->region);
	}
	if (!self->have_keys) {
		return err_set(err, SPOT_UNAUTHENTICATED, "aws presign: no credentials yet");
	}
	return SPOT_OK;
}

enum spot_rc aws_presign(void *p, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err)
{
	struct aws *self = p;
	const char *region = str_empty(a->region) ? self->home : a->region;
	const char *own = str_empty(a->endpoint) ? self->endpoints[AWS_S3] : a->endpoint, *base,
		   *url;
	struct sigv4 k = { .region = region,
		.service = "s3",
		.payload_sha256 = "UNSIGNED-PAYLOAD" };
	enum spot_rc rc = presign_check(self, a, err);
	const char *key;
	size_t n;

	if (rc != SPOT_OK) {
		return rc;
	}
	base = own != NULL ? own : aws_endpoint(self, arena, AWS_S3, region);
	n = strlen(base);
	if (n > 0 && base[n - 1] == '/') {
		n--;
	}
	key = url_encode(arena, a->key, true);
	/* Endpoints of others have no wildcard names, and the vendor's certificate covers no name
	 * with a dot (UserGuide/VirtualHosting.html). */
	if (own != NULL || strchr(a->bucket, '.') != NULL) {
		url = arena_printf(arena, "%.*s/%s/%s", (int)n, base, a->bucket, key);
	} else {
		url = arena_printf(arena, "https://%s.%.*s/%s", a->bucket, (int)(n - 8), base + 8,
		    key);
	}
	if (!str_empty(a->query)) {
		url = arena_printf(arena, "%s?%s", url, a->query);
	}
	k.access_key = self->keys.access_key;
	k.secret_key = secret_reveal(&self->keys.secret_key);
	k.session_token =
	    secret_set(&self->keys.session_token) ? secret_reveal(&self->keys.session_token) : NULL;
	k.now_us = now_us + self->skew_us;
	a->url = sigv4_presign(arena, &k, a->method, url, a->expires_s);
	/* A URL of a session ends with the session
	 * (AmazonS3/latest/userguide/using-presigned-url.html). */
	if (self->keys.expires_us != 0) {
		a->until_us = self->keys.expires_us - self->skew_us;
	}
	return SPOT_OK;
}
