/*
 * Presigned requests to CoreWeave's object storage: S3 with SigV4, and the bucket in the host name
 * only, path style fails there (docs: products/storage/object-storage). The region is any non-empty
 * DNS label, it only has to be the same in the signature. Other stores (object_endpoint, or the
 * caller's endpoint) may want the path: object_path_style = true. An IP address gets path style
 * unless the setting is false, because it usually has no host to put a bucket before.
 */
#include "base/base.h"
#include "coreweave_priv.h"

#include "base/crypto/crypto.h"

#define EXPIRES_MAX_S (7 * 24 * 3600)

static bool bucket_ok(const char *b)
{
	size_t n = b != NULL ? strlen(b) : 0;

	return n >= 3 && n <= 63 && strspn(b, "abcdefghijklmnopqrstuvwxyz0123456789-") == n &&
	    b[0] != '-' && b[n - 1] != '-';
}

static bool region_ok(const char *r)
{
	size_t n = strlen(r);

	return n > 0 && n <= 63 &&
	    strspn(r, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == n &&
	    r[0] != '-' && r[n - 1] != '-';
}

static enum spot_rc presign_check(const struct cw *self, const struct spot_presign *a,
    struct spot_err *err)
{
	static const char *const methods[] = { "GET", "PUT", "POST", "DELETE", "HEAD" };
	bool known = false;

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		known = known || str_same(methods[i], a->method);
	}
	if (!known) {
		return err_set(err, SPOT_INVALID, "presign: method '%.20s'",
		    a->method != NULL ? a->method : "");
	}
	if (!bucket_ok(a->bucket)) {
		return err_set(err, SPOT_INVALID,
		    "presign: '%.80s' is not a bucket name that a host name can begin with",
		    a->bucket != NULL ? a->bucket : "");
	}
	if (str_empty(a->key) || strlen(a->key) > 1024) {
		return err_set(err, SPOT_INVALID, "presign: object key of 1 to 1024 bytes needed");
	}
	if (a->expires_s < 1 || a->expires_s > EXPIRES_MAX_S) {
		return err_set(err, SPOT_INVALID, "presign: lifetime %" PRId64 " s is not in 1..%d",
		    a->expires_s, EXPIRES_MAX_S);
	}
	if (!str_empty(a->region) && !region_ok(a->region)) {
		return err_set(err, SPOT_INVALID, "presign: region '%.60s' is not a DNS label",
		    a->region);
	}
	if (str_empty(self->object_key) || !secret_set(&self->object_secret)) {
		return err_set(err, SPOT_CONFIG,
		    "presign: provider %s has no object storage key: set object_access_key and "
		    "object_secret_file",
		    self->name);
	}
	return SPOT_OK;
}

/* An address of digits or localhost has no room for a bucket in its name. */
static bool host_is_address(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	size_t n = strcspn(host, ":/");

	return host[0] == '[' || strspn(host, "0123456789.") == n ||
	    (n == 9 && strncmp(host, "localhost", 9) == 0);
}

enum spot_rc cw_presign(void *p, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err)
{
	struct cw *self = p;
	const char *base = str_empty(a->endpoint) ? self->object_endpoint : a->endpoint, *url, *key;
	struct sigv4 k = { .region = str_empty(a->region) ? "default" : a->region,
		.service = "s3",
		.payload_sha256 = "UNSIGNED-PAYLOAD",
		.now_us = now_us };
	enum spot_rc rc = presign_check(self, a, err);
	size_t n = strlen(base), scheme;

	if (rc != SPOT_OK) {
		return rc;
	}
	if (strstr(base, "://") == NULL) {
		return err_set(err, SPOT_CONFIG, "presign: endpoint '%.100s' is not a URL", base);
	}
	n -= n > 0 && base[n - 1] == '/';
	scheme = (size_t)(strstr(base, "://") + 3 - base);
	key = url_encode(arena, a->key, true);
	if (self->object_path_style || (host_is_address(base) && !self->object_host_style)) {
		url = arena_printf(arena, "%.*s/%s/%s", (int)n, base, a->bucket, key);
	} else {
		url = arena_printf(arena, "%.*s%s.%.*s/%s", (int)scheme, base, a->bucket,
		    (int)(n - scheme), base + scheme, key);
	}
	if (!str_empty(a->query)) {
		url = arena_printf(arena, "%s?%s", url, a->query);
	}
	k.access_key = self->object_key;
	k.secret_key = secret_reveal(&self->object_secret);
	a->url = sigv4_presign(arena, &k, a->method, url, a->expires_s);
	return SPOT_OK;
}
