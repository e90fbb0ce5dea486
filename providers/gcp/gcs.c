#include "base/base.h"
#include "gcp_priv.h"

/*
 * Presigned objects for nodes, which have no keys: V4 signed URLs of Cloud Storage
 * (docs.cloud.google.com/storage/docs/authentication/canonical-requests, .../signed-urls), signed
 * with the private key of a service account. Other credentials sign by a request to iamcredentials,
 * and presigning sends none.
 *
 * A PUT becomes a resumable upload: a signed POST with x-goog-resumable: start gives the session to
 * send to (docs.cloud.google.com/storage/docs/performing-resumable-uploads#xml-api).
 */

#include "base/crypto/crypto.h"

#define EXPIRES_MAX_S (7 * 24 * 3600) /* the vendor's limit */
#define ALGORITHM "GOOG4-RSA-SHA256"

static bool bucket_ok(const char *b)
{
	size_t n = b != NULL ? strlen(b) : 0;

	return n >= 3 && n <= 222 && strspn(b, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n &&
	    b[0] != '.' && b[0] != '-' && b[n - 1] != '.' && b[n - 1] != '-';
}

static enum spot_rc presign_check(const struct gcp *self, const struct spot_presign *a,
    struct spot_err *err)
{
	static const char *const methods[] = { "GET", "PUT", "POST", "DELETE", "HEAD" };
	bool known = false;

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		known = known || str_same(methods[i], a->method);
	}
	if (!known) {
		return err_set(err, SPOT_INVALID, "gcp presign: method '%.20s'",
		    a->method ? a->method : "");
	}
	if (!bucket_ok(a->bucket)) {
		return err_set(err, SPOT_INVALID, "gcp presign: '%.80s' is not a bucket name",
		    a->bucket ? a->bucket : "");
	}
	if (str_empty(a->key) || strlen(a->key) > 1024) {
		return err_set(err, SPOT_INVALID,
		    "gcp presign: object key of 1 to 1024 bytes needed");
	}
	if (a->expires_s < 1 || a->expires_s > EXPIRES_MAX_S) {
		return err_set(err, SPOT_INVALID,
		    "gcp presign: lifetime %" PRId64 " s is not in 1..%d", a->expires_s,
		    EXPIRES_MAX_S);
	}
	if (!str_empty(a->endpoint) && !gcp_url_ok(a->endpoint)) {
		return err_set(err, SPOT_INVALID,
		    "gcp presign: endpoint is not an http:// or https:// address");
	}
	if (self->key == NULL && !self->have_token) {
		return err_set(err, SPOT_UNAUTHENTICATED, "gcp presign: no credentials yet");
	}
	if (self->key == NULL) {
		return err_set(err, SPOT_CONFIG,
		    "gcp presign: the credentials hold no private key to sign URLs: set "
		    "credentials "
		    "to a service account's key file, or keep checkpoints at another provider");
	}
	return SPOT_OK;
}

/* "20190201T090000Z" */
static const char *date_basic(struct arena *a, int64_t now_us)
{
	char text[TIME_TEXT_MAX], *out = arena_alloc(a, sizeof(text));
	size_t n = 0;

	format_time_s(now_us, text);
	for (const char *c = text; *c != '\0'; c++) {
		if (*c != '-' && *c != ':') {
			out[n++] = *c;
		}
	}
	return out;
}

/* Without a port: the vendor's vectors sign "localhost" for http://localhost:8080. */
static const char *host_of(struct arena *a, const char *base)
{
	const char *host = strstr(base, "://") + 3;

	return arena_strndup(a, host,
	    *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#"));
}

static int line_compare(const void *x, const void *y)
{
	return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Names and values are encoded already; sorted as they stand. */
static const char *query_sorted(struct arena *a, const char *query)
{
	const char *pairs[64];
	const char *out = "";
	size_t n = 0;

	while (*query != '\0' && n < ARRAY_LEN(pairs)) {
		size_t len = strcspn(query, "&");

		if (len > 0) {
			pairs[n++] = memchr(query, '=', len) != NULL
			    ? arena_strndup(a, query, len)
			    : arena_printf(a, "%.*s=", (int)len, query);
		}
		query += len + (query[len] == '&');
	}
	qsort(pairs, n, sizeof(*pairs), line_compare);
	for (size_t i = 0; i < n; i++) {
		out = arena_printf(a, "%s%s%s", out, i > 0 ? "&" : "", pairs[i]);
	}
	return out;
}

enum spot_rc gcp_presign(void *p, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err)
{
	struct gcp *self = p;
	enum spot_rc rc = presign_check(self, a, err);
	bool resumable = rc == SPOT_OK && strcmp(a->method, "PUT") == 0;
	const char *method = resumable ? "POST" : a->method, *base, *path, *query, *canonical,
		   *scope, *date, *to_sign;
	const char *names = resumable ? "host;x-goog-resumable" : "host";
	char hash[SHA256_HEX];
	struct str signature;
	char *hex;

	if (rc != SPOT_OK) {
		return rc;
	}
	base = str_empty(a->endpoint) ? gcp_base(self, GCP_STORAGE) : a->endpoint;
	base = arena_strndup(arena, base, strlen(base) - str_suffix(base, "/"));
	path = arena_printf(arena, "/%s/%s", a->bucket, url_encode(arena, a->key, true));
	date = date_basic(arena, now_us + self->skew_us);
	scope = arena_printf(arena, "%.8s/auto/storage/goog4_request", date);
	query = arena_printf(arena,
	    "X-Goog-Algorithm=" ALGORITHM
	    "&X-Goog-Credential=%s&X-Goog-Date=%s&X-Goog-Expires=%" PRId64
	    "&X-Goog-SignedHeaders=%s%s%s",
	    url_encode(arena, arena_printf(arena, "%s/%s", self->email, scope), false), date,
	    a->expires_s, url_encode(arena, names, false), str_empty(a->query) ? "" : "&",
	    str_empty(a->query) ? "" : a->query);
	query = query_sorted(arena, query);
	canonical = arena_printf(arena, "%s\n%s\n%s\nhost:%s\n%s\n%s\nUNSIGNED-PAYLOAD", method,
	    path, query, host_of(arena, base), resumable ? "x-goog-resumable:start\n" : "", names);
	sha256_hex(canonical, strlen(canonical), hash);
	to_sign = arena_printf(arena, ALGORITHM "\n%s\n%s\n%s", date, scope, hash);
	rc = rsa_sign(arena, self->key, to_sign, strlen(to_sign), &signature, err);
	if (rc != SPOT_OK) {
		return rc;
	}
	hex = arena_alloc(arena, signature.n * 2 + 1);
	hex_encode(signature.p, signature.n, hex);
	a->url = arena_printf(arena, "%s%s?%s&X-Goog-Signature=%s", base, path, query, hex);
	a->headers_n = 0;
	a->upload = resumable ? SPOT_UPLOAD_RESUMABLE : SPOT_UPLOAD_PUT;
	if (resumable) {
		a->headers[a->headers_n++] = (struct spot_header){ "x-goog-resumable", "start" };
	}
	return SPOT_OK;
}
