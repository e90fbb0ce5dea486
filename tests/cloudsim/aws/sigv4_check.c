/*
 * Signature Version 4 as the receiving side sees it, written from "Authenticating Requests (AWS
 * Signature Version 4)" and "Create a signed AWS API request" (docs.aws.amazon.com). Nothing of the
 * product's signer is used but the hash primitives.
 */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <ctype.h>
#include <strings.h>

#define SKEW_MAX_US (15 * 60 * SPOT_US_PER_S)
#define PRESIGN_MAX_S 604800

/* ---- percent encoding, as the signing rules define it ---------------------------------------- */

static int nibble_read(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	c = (char)(c | 32);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static char *text_unescape(struct arena *a, const char *p, size_t n)
{
	char *out = arena_alloc(a, n + 1);
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '%' && i + 2 < n && nibble_read(p[i + 1]) >= 0 &&
		    nibble_read(p[i + 2]) >= 0) {
			out[k++] = (char)(nibble_read(p[i + 1]) << 4 | nibble_read(p[i + 2]));
			i += 2;
		} else {
			out[k++] = p[i];
		}
	}
	out[k] = '\0';
	return out;
}

static char *text_escape(struct arena *a, const char *p, bool slash_stays)
{
	char *out = arena_alloc(a, strlen(p) * 3 + 1), *q = out;

	for (; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (isalnum(c) || strchr("-_.~", c) || (slash_stays && c == '/')) {
			*q++ = (char)c;
		} else {
			q += snprintf(q, 4, "%%%02X", c);
		}
	}
	return out;
}

struct pair {
	const char *key, *value;
};

static int pair_cmp(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	return c ? c : strcmp(x->value, y->value);
}

static size_t query_pairs(struct arena *a, const char *query, struct pair **ret)
{
	size_t n = 0, cap = 0;
	struct pair *list = NULL;

	for (const char *p = query; p && *p;) {
		const char *end = strchrnul(p, '&');
		const char *eq = memchr(p, '=', (size_t)(end - p));

		if (end > p) {
			list = arena_grow(a, list, n, &cap, sizeof(*list));
			list[n].key = text_unescape(a, p, (size_t)((eq ? eq : end) - p));
			list[n++].value =
			    eq ? text_unescape(a, eq + 1, (size_t)(end - eq - 1)) : "";
		}
		p = *end ? end + 1 : end;
	}
	*ret = list;
	return n;
}

static const char *pair_get(const struct pair *list, size_t n, const char *key)
{
	for (size_t k = 0; k < n; k++) {
		if (strcmp(list[k].key, key) == 0) {
			return list[k].value;
		}
	}
	return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* YYYYMMDDTHHMMSSZ */
static bool amz_time(const char *t, int64_t *ret)
{
	char iso[32];

	if (!t || strlen(t) != 16 || t[8] != 'T' || t[15] != 'Z') {
		return false;
	}
	snprintf(iso, sizeof(iso), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", t, t + 4, t + 6, t + 9, t + 11,
	    t + 13);
	return parse_time_us(iso, ret);
}

static bool read_scope(struct sig *g, struct arena *a, const char *credential)
{
	const char *part[5];
	const char *p = credential;

	for (size_t k = 0; k < 5; k++) {
		const char *end = k < 4 ? strchr(p, '/') : p + strlen(p);

		if (!end || end == p) {
			g->why = "Credential must have five parts separated by slashes";
			return false;
		}
		part[k] = arena_strndup(a, p, (size_t)(end - p));
		p = end + 1;
	}
	if (strcmp(part[4], "aws4_request") != 0) {
		g->why = "Credential must end in aws4_request";
		return false;
	}
	g->akid = part[0];
	g->date = part[1];
	g->region = part[2];
	g->service = part[3];
	return true;
}

static bool read_header(struct sim_req *rq, struct sig *g, const char *auth)
{
	const char *credential = NULL, *p = auth + strlen("AWS4-HMAC-SHA256");

	while (*p) {
		const char *end, *eq;

		while (*p == ' ' || *p == ',') {
			p++;
		}
		if (!*p) {
			break;
		}
		end = strchrnul(p, ',');
		eq = memchr(p, '=', (size_t)(end - p));
		if (!eq) {
			g->why = "Authorization header is not a list of key=value";
			return false;
		}
		const char *value = arena_strndup(rq->arena, eq + 1, (size_t)(end - eq - 1));

		if (strncmp(p, "Credential=", 11) == 0) {
			credential = value;
		} else if (strncmp(p, "SignedHeaders=", 14) == 0) {
			g->signed_headers = value;
		} else if (strncmp(p, "Signature=", 10) == 0) {
			g->signature = value;
		}
		p = end;
	}
	if (!credential || !g->signed_headers || !g->signature) {
		g->why = "Authorization header requires 'Credential', 'SignedHeaders' and "
			 "'Signature' parameters.";
		return false;
	}
	g->amz_date = req_header(rq, "x-amz-date");
	g->token = req_header(rq, "x-amz-security-token");
	if (!amz_time(g->amz_date, &g->at_us)) {
		g->why = "Authorization header requires existence of either a 'X-Amz-Date' or a "
			 "'Date' header.";
		return false;
	}
	return read_scope(g, rq->arena, credential);
}

static bool read_query(struct sim_req *rq, struct sig *g, const struct pair *q, size_t n)
{
	const char *credential = pair_get(q, n, "X-Amz-Credential");
	const char *expires = pair_get(q, n, "X-Amz-Expires");

	g->presigned = true;
	g->signed_headers = pair_get(q, n, "X-Amz-SignedHeaders");
	g->signature = pair_get(q, n, "X-Amz-Signature");
	g->amz_date = pair_get(q, n, "X-Amz-Date");
	g->token = pair_get(q, n, "X-Amz-Security-Token");
	if (!credential || !g->signed_headers || !g->signature || !g->amz_date || !expires) {
		g->why = "Query-string authentication version 4 requires the X-Amz-Algorithm, "
			 "X-Amz-Credential, "
			 "X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires "
			 "parameters.";
		return false;
	}
	if (!parse_i64(expires, 1, PRESIGN_MAX_S, &g->expires_s)) {
		g->why = "X-Amz-Expires must be between 1 and 604800 seconds";
		return false;
	}
	if (!amz_time(g->amz_date, &g->at_us)) {
		g->why = "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"";
		return false;
	}
	return read_scope(g, rq->arena, credential);
}

bool sig_read(struct sim_req *rq, struct sig *g)
{
	const char *auth = req_header(rq, "authorization");
	struct pair *q = NULL;
	size_t n = query_pairs(rq->arena, rq->http->query, &q);
	const char *algorithm = pair_get(q, n, "X-Amz-Algorithm");

	*g = (struct sig){ .rq = rq };
	if (auth && strncmp(auth, "AWS4-HMAC-SHA256", 16) == 0) {
		g->present = true;
		return read_header(rq, g, auth);
	}
	if (algorithm) {
		g->present = true;
		if (strcmp(algorithm, "AWS4-HMAC-SHA256") == 0) {
			return read_query(rq, g, q, n);
		}
		g->why = "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"";
		return false;
	}
	if (pair_get(q, n, "AWSAccessKeyId")) {
		g->present = true;
		g->why =
		    "The authorization mechanism you have provided is not supported. Please use "
		    "AWS4-HMAC-SHA256.";
		return false;
	}
	if (auth && *auth) {
		g->present = true;
		g->why =
		    "The authorization header is malformed; only AWS4-HMAC-SHA256 is supported";
		return false;
	}
	return true;
}

/* ---- the canonical request ------------------------------------------------------------------- */

/* All values of a header joined by commas, outer blanks removed and inner runs made one. */
static void add_header(struct sim_req *rq, struct sbuf *b, const char *name)
{
	bool first = true;

	sbuf_puts(b, name);
	sbuf_putc(b, ':');
	for (size_t k = 0; k < rq->http->headers_n; k++) {
		const char *v = rq->http->headers[k].value;
		bool blank = false;

		if (strcasecmp(rq->http->headers[k].name, name) != 0) {
			continue;
		}
		if (!first) {
			sbuf_putc(b, ',');
		}
		first = false;
		while (*v == ' ' || *v == '\t') {
			v++;
		}
		for (; *v; v++) {
			if (*v == ' ' || *v == '\t') {
				blank = true;
				continue;
			}
			if (blank) {
				sbuf_putc(b, ' ');
			}
			blank = false;
			sbuf_putc(b, *v);
		}
	}
	sbuf_putc(b, '\n');
}

static const char *payload_hash(struct sim_req *rq, struct sig *g)
{
	const char *declared = req_header(rq, "x-amz-content-sha256");
	char hex[SHA256_HEX];

	if (g->presigned) {
		return declared ? declared : "UNSIGNED-PAYLOAD";
	}
	if (strcmp(g->service, "s3") == 0) {
		return declared;
	}
	sha256_hex(rq->http->body.p ? rq->http->body.p : "", rq->http->body.n, hex);
	return arena_strdup(rq->arena, hex);
}

static void add_query(struct sim_req *rq, struct sbuf *b, bool presigned)
{
	struct pair *q = NULL;
	size_t n = query_pairs(rq->arena, rq->http->query, &q), kept = 0;

	for (size_t k = 0; k < n; k++) {
		if (presigned && strcmp(q[k].key, "X-Amz-Signature") == 0) {
			continue;
		}
		q[kept].key = text_escape(rq->arena, q[k].key, false);
		q[kept++].value = text_escape(rq->arena, q[k].value, false);
	}
	if (kept > 0) {
		qsort(q, kept, sizeof(*q), pair_cmp);
	}
	for (size_t k = 0; k < kept; k++) {
		sbuf_printf(b, "%s%s=%s", k ? "&" : "", q[k].key, q[k].value);
	}
}

static void canonical_make(struct sim_req *rq, struct sig *g)
{
	struct sbuf b AUTO(sbuf) = { 0 };
	const char *p = g->signed_headers;

	sbuf_init(&b, 1 << 20);
	/* S3 encodes the path once; elsewhere our paths are "/". */
	sbuf_printf(&b, "%s\n%s\n", rq->http->method,
	    text_escape(rq->arena, text_unescape(rq->arena, rq->http->path, strlen(rq->http->path)),
		true));
	add_query(rq, &b, g->presigned);
	sbuf_putc(&b, '\n');
	while (*p) {
		const char *end = strchrnul(p, ';');

		add_header(rq, &b, arena_strndup(rq->arena, p, (size_t)(end - p)));
		p = *end ? end + 1 : end;
	}
	sbuf_printf(&b, "\n%s\n%s", g->signed_headers, g->payload);
	g->canonical = arena_strdup(rq->arena, b.p);
}

static void signature_expect(struct sim_req *rq, struct sig *g, const char *secret)
{
	uint8_t k[SHA256_BYTES], mac[SHA256_BYTES];
	char hex[SHA256_HEX], first[256];
	const char *const parts[] = { g->date, g->region, g->service, "aws4_request" };
	size_t n;

	sha256_hex(g->canonical, strlen(g->canonical), hex);
	g->to_sign = arena_printf(rq->arena, "AWS4-HMAC-SHA256\n%s\n%s/%s/%s/aws4_request\n%s",
	    g->amz_date, g->date, g->region, g->service, hex);
	n = (size_t)snprintf(first, sizeof(first), "AWS4%s", secret);
	hmac_sha256(first, n, parts[0], strlen(parts[0]), k);
	for (size_t i = 1; i < ARRAY_LEN(parts); i++) {
		hmac_sha256(k, sizeof(k), parts[i], strlen(parts[i]), mac);
		memcpy(k, mac, sizeof(k));
	}
	hmac_sha256(k, sizeof(k), g->to_sign, strlen(g->to_sign), mac);
	hex_encode(mac, sizeof(mac), hex);
	g->expected = arena_strdup(rq->arena, hex);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static bool in_list(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; *p;) {
		const char *end = strchrnul(p, ';');

		if ((size_t)(end - p) == n && strncasecmp(p, name, n) == 0) {
			return true;
		}
		p = *end ? end + 1 : end;
	}
	return false;
}

/* Host and every x-amz-* header that came must be signed; the list is lower case and sorted. */
static const char *unsigned_header(struct sim_req *rq, const struct sig *g)
{
	const char *last = "";

	if (!in_list(g->signed_headers, "host")) {
		return "host";
	}
	for (size_t k = 0; k < rq->http->headers_n; k++) {
		const char *name = rq->http->headers[k].name;

		if (strncasecmp(name, "x-amz-", 6) == 0 && !in_list(g->signed_headers, name)) {
			return name;
		}
	}
	for (const char *p = g->signed_headers; *p;) {
		const char *end = strchrnul(p, ';');
		const char *name = arena_strndup(rq->arena, p, (size_t)(end - p));

		if (strcmp(last, name) >= 0) {
			return name;
		}
		last = name;
		p = *end ? end + 1 : end;
	}
	return NULL;
}

static enum sig_verdict check_time(struct sim_req *rq, const struct sig *g)
{
	int64_t now = sim_wall(rq->sim) + rq->skew_us;

	if (strncmp(g->date, g->amz_date, 8) != 0) {
		return SIG_SCOPE;
	}
	if (g->presigned) {
		if (g->at_us > now + SKEW_MAX_US) {
			return SIG_SKEWED;
		}
		return now > g->at_us + g->expires_s * SPOT_US_PER_S ? SIG_PRESIGN_EXPIRED : SIG_OK;
	}
	return now - g->at_us > SKEW_MAX_US || g->at_us - now > SKEW_MAX_US ? SIG_SKEWED : SIG_OK;
}

static enum sig_verdict check_body(struct sim_req *rq, const struct sig *g)
{
	char hex[SHA256_HEX];

	if (strcmp(g->service, "s3") != 0 || str_same(g->payload, "UNSIGNED-PAYLOAD") ||
	    str_prefix(g->payload, "STREAMING-")) {
		return SIG_OK;
	}
	sha256_hex(rq->http->body.p ? rq->http->body.p : "", rq->http->body.n, hex);
	return str_same(hex, g->payload) ? SIG_OK : SIG_BODY_MISMATCH;
}

static enum sig_verdict check_token(struct sim_req *rq, const struct sig *g, const struct cred *c)
{
	if (rq->expire) {
		return SIG_TOKEN_EXPIRED;
	}
	if (!c->session_token) {
		return g->token && *g->token ? SIG_TOKEN_INVALID : SIG_OK;
	}
	if (!g->token || strcmp(g->token, c->session_token) != 0) {
		return SIG_TOKEN_INVALID;
	}
	return c->expires_us && c->expires_us <= sim_wall(rq->sim) + rq->skew_us ? SIG_TOKEN_EXPIRED
										 : SIG_OK;
}

enum sig_verdict sig_verify(struct sim_req *rq, struct sig *g, const struct cred **ret)
{
	const struct cred *c;
	enum sig_verdict v;

	if (!g->present) {
		return SIG_ABSENT;
	}
	if (g->why) {
		return SIG_MALFORMED;
	}
	c = cred_find(rq->sim, g->akid);
	if (!c) {
		return SIG_KEY_UNKNOWN;
	}
	g->payload = payload_hash(rq, g);
	if (!g->payload) {
		return SIG_BODY_UNDECLARED;
	}
	g->why = unsigned_header(rq, g);
	if (g->why) {
		return SIG_HEADER_UNSIGNED;
	}
	v = check_time(rq, g);
	if (v != SIG_OK) {
		return v;
	}
	canonical_make(rq, g);
	signature_expect(rq, g, c->secret);
	if (strlen(g->signature) != 64 || !mem_equal_const(g->signature, g->expected, 64)) {
		return SIG_MISMATCH;
	}
	v = check_token(rq, g, c);
	if (v == SIG_OK) {
		v = check_body(rq, g);
	}
	*ret = c;
	return v;
}
