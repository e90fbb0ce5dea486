/* V4 signed URLs, GOOG4-RSA-SHA256 (page "V4 signing process"), checked byte for byte. */
#include "base/base.h"
#include "cloudsim/gcs/gcs.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <ctype.h>
#include <strings.h>

#define SIGNED_MAX (7 * 86400)

struct part {
	const char *name, *value;
};

static bool malformed_fail(struct gcp_call *c, const char *what)
{
	gcp_fail(c, 400, "AuthorizationQueryParametersError", "%s", what);
	return false;
}

static int by_name(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int cmp = strcmp(x->name, y->name);

	return cmp ? cmp : strcmp(x->value, y->value);
}

/* Every parameter but the signature: decoded, encoded again in the canonical way, sorted. */
static const char *canonical_query(struct gcp_call *c)
{
	const char *q = c->rq->http->query ? c->rq->http->query : "", *out = "";
	struct part parts[64];
	size_t n = 0;

	while (*q && n < ARRAY_LEN(parts)) {
		const char *end = strchrnul(q, '&'), *eq = memchr(q, '=', (size_t)(end - q));
		char *name, *value;

		if (!url_decode(c->a, (struct str){ q, (size_t)((eq ? eq : end) - q) }, false,
			&name) ||
		    !url_decode(c->a,
			(struct str){ eq ? eq + 1 : end, eq ? (size_t)(end - eq - 1) : 0 }, false,
			&value)) {
			return NULL;
		}
		if (!str_same(name, "X-Goog-Signature")) {
			parts[n++] = (struct part){ url_encode(c->a, name, false),
				url_encode(c->a, value, false) };
		}
		q = *end ? end + 1 : end;
	}
	qsort(parts, n, sizeof(*parts), by_name);
	for (size_t k = 0; k < n; k++) {
		out = arena_printf(c->a, "%s%s%s=%s", out, k ? "&" : "", parts[k].name,
		    parts[k].value);
	}
	return out;
}

/* Returns the signed headers: lower-case name, value trimmed with inner spaces folded. NULL: a
 * signed header is missing. bare: the host without its port, as in Google's published vectors
 * (googleapis/conformance-tests v4_signatures.json). An example is "Simple GET with non-default
 * hostname". The Python library signs the host with the port. */
static const char *canonical_headers(struct gcp_call *c, const char *list, bool bare)
{
	const char *out = "";

	while (*list) {
		size_t n = strcspn(list, ";");
		const char *name = arena_strndup(c->a, list, n), *v = req_header(c->rq, name);
		char *folded, *to;

		if (!v) {
			return NULL;
		}
		folded = to = arena_strdup(c->a, v + strspn(v, " \t"));
		for (const char *p = folded; *p; p++) {
			if ((*p == ' ' || *p == '\t') && (p[1] == ' ' || p[1] == '\t' || !p[1])) {
				continue;
			}
			*to++ = *p;
		}
		*to = '\0';
		if (bare && strcmp(name, "host") == 0) {
			folded[strcspn(folded, ":")] = '\0';
		}
		out = arena_printf(c->a, "%s%s:%s\n", out, name, folded);
		list += n + (list[n] == ';');
	}
	return out;
}

/* host, content-type and every x-goog- header of the request must be signed. */
static const char *unsigned_header(struct gcp_call *c, const char *list)
{
	const char *padded = arena_printf(c->a, ";%s;", list);

	if (!strstr(padded, ";host;")) {
		return "host";
	}
	for (size_t k = 0; k < c->rq->http->headers_n; k++) {
		char *name = arena_strdup(c->a, c->rq->http->headers[k].name);

		for (char *p = name; *p; p++) {
			*p = (char)tolower((unsigned char)*p);
		}
		if (str_prefix(name, "x-goog-") &&
		    !strstr(padded, arena_printf(c->a, ";%s;", name))) {
			return name;
		}
	}
	return NULL;
}

static bool date_read(const char *t, int64_t *ret)
{
	char text[32];

	if (!t || strlen(t) != 16 || t[8] != 'T' || t[15] != 'Z') {
		return false;
	}
	snprintf(text, sizeof(text), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", t, t + 4, t + 6, t + 9,
	    t + 11, t + 13);
	return parse_time_us(text, ret);
}

static bool scope_read(struct gcp_call *c, const char *credential, const char *date,
    const char **email, const char **scope)
{
	const char *slash = strchr(credential, '/');

	if (!slash) {
		return malformed_fail(c,
		    "X-Goog-Credential must be email/date/location/storage/goog4_request.");
	}
	*email = arena_strndup(c->a, credential, (size_t)(slash - credential));
	*scope = slash + 1;
	if (strncmp(*scope, date, 8) != 0 || (*scope)[8] != '/' ||
	    !glob_match("*/storage/goog4_request", *scope + 9)) {
		return malformed_fail(c,
		    "The scope of X-Goog-Credential is malformed or of another day.");
	}
	return true;
}

static bool in_time(struct gcp_call *c, int64_t at, const char *expires)
{
	int64_t now = sim_wall(c->sim) + c->rq->skew_us, seconds;

	if (!expires || !parse_i64(expires, 1, SIGNED_MAX, &seconds)) {
		return malformed_fail(c, "X-Goog-Expires must be from 1 to 604800 seconds.");
	}
	if (at > now + 15 * 60 * SPOT_US_PER_S) {
		return malformed_fail(c, "X-Goog-Date is in the future.");
	}
	if (at + seconds * SPOT_US_PER_S > now && !c->rq->expire) {
		return true;
	}
	gcp_fail(c, 400, "ExpiredToken", "The provided token has expired.");
	return false;
}

static bool signature_verify(struct gcp_call *c, const char *email, const char *to_sign,
    const char *hex)
{
	size_t n = strlen(hex) / 2;
	uint8_t *raw = arena_alloc(c->a, n + 1);
	struct str sig = { (const char *)raw, n };

	if (strlen(hex) % 2 || !hex_decode(hex, strlen(hex), raw)) {
		return false;
	}
	return (str_same(email, GCP_SA) && gcp_rsa_verify(c->g->key, str_from(to_sign), sig)) ||
	    ((str_same(email, GCP_SA) || str_same(email, GCP_NODE_SA)) &&
		gcp_rsa_verify(gcp_google_key(c->g), str_from(to_sign), sig)); /* signBlob */
}

bool gcs_signed(struct gcp_call *c)
{
	const char *credential = gcp_param(c, "X-Goog-Credential"),
		   *date = gcp_param(c, "X-Goog-Date");
	const char *list = gcp_param(c, "X-Goog-SignedHeaders"),
		   *hex = gcp_param(c, "X-Goog-Signature");
	const char *email, *scope, *query, *headers, *missing, *hash, *canonical, *to_sign;
	char digest[SHA256_HEX];
	int64_t at;

	if (!str_same(gcp_param(c, "X-Goog-Algorithm"), "GOOG4-RSA-SHA256") || !credential ||
	    !list || !hex || !date_read(date, &at)) {
		return malformed_fail(c,
		    "X-Goog-Algorithm, -Credential, -Date, -SignedHeaders and "
		    "-Signature are required.");
	}
	if (!scope_read(c, credential, date, &email, &scope) ||
	    !in_time(c, at, gcp_param(c, "X-Goog-Expires"))) {
		return false;
	}
	missing = unsigned_header(c, list);
	query = canonical_query(c);
	headers = canonical_headers(c, list, false);
	if (missing || !query || !headers) {
		gcp_fail(c, 403, "SignatureDoesNotMatch", "A header is not signed or not sent: %s",
		    missing ? missing : list);
		return false;
	}
	hash = req_header(c->rq, "x-goog-content-sha256");
	for (int bare = 1; bare >= 0; bare--) {
		headers = canonical_headers(c, list, bare > 0);
		canonical = arena_printf(c->a, "%s\n%s\n%s\n%s\n%s\n%s", c->rq->http->method,
		    c->rq->http->path, query, headers, list, hash ? hash : "UNSIGNED-PAYLOAD");
		sha256_hex(canonical, strlen(canonical), digest);
		to_sign = arena_printf(c->a, "GOOG4-RSA-SHA256\n%s\n%s\n%s", date, scope, digest);
		if (signature_verify(c, email, to_sign, hex)) {
			return true;
		}
	}
	gcp_fail(c, 403, "SignatureDoesNotMatch",
	    "Access denied. The request signature we calculated does not match the signature you "
	    "provided. StringToSign: %s CanonicalRequest: %s",
	    to_sign, canonical);
	return false;
}
