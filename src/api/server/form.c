/*
 * Forms of one reply: as it is, compressed, or 304 if the client has it already. The tag is a hash
 * of the body without ages, which grow by themselves. It is weak: a compressed reply has the same.
 */
#include "base/base.h"
#include "api/server/server_priv.h"

#define ZLIB_CONST
#include <strings.h>
#include <zlib.h>

#define GZIP_LEAST 1024 /* bytes; a packet holds less anyway */
#define GZIP_LEVEL 1
#define GZIP_WINDOW (15 + 16) /* 16: with gzip's head */
#define AGE "\"age_s\":"

struct gzip {
	z_stream z;
	char *out;
	size_t cap;
};

static struct gzip *gzip_new(void)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (g == NULL ||
	    deflateInit2(&g->z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
		Z_OK) {
		abort();
	}
	return g;
}

void gzip_free(struct gzip *g)
{
	if (g == NULL) {
		return;
	}
	deflateEnd(&g->z);
	free(g->out);
	free(g);
}

size_t gzip_held(const struct gzip *g)
{
	return g->cap;
}

struct str gzip_pack(struct api *api, const char *body, size_t n)
{
	struct gzip *g = api->gzip;
	size_t bound;

	if (g == NULL) {
		g = api->gzip = gzip_new();
	}
	deflateReset(&g->z);
	bound = deflateBound(&g->z, (uLong)n);
	if (bound > g->cap || g->cap > MAX(bound, PACKED_KEPT)) {
		free(g->out);
		g->out = malloc(bound);
		g->cap = bound;
		if (g->out == NULL) {
			abort();
		}
	}
	g->z.next_in = (const Bytef *)body;
	g->z.avail_in = (uInt)n;
	g->z.next_out = (Bytef *)g->out;
	g->z.avail_out = (uInt)g->cap;
	if (deflate(&g->z, Z_FINISH) != Z_STREAM_END) {
		abort();
	}
	return (struct str){ g->out, (size_t)g->z.total_out };
}

/* ---- headers of the request ----------------------------------------------------------------- */

/* Steps to the next item of a list in a header; *ret_n is its length. NULL: there is none. */
static const char *item_next(const char **list, size_t *ret_n)
{
	const char *from = *list + strspn(*list, " \t,");

	*ret_n = strcspn(from, ",");
	*list = from + *ret_n;
	while (*ret_n > 0 && (from[*ret_n - 1] == ' ' || from[*ret_n - 1] == '\t')) {
		(*ret_n)--;
	}
	return *ret_n > 0 ? from : NULL;
}

/* "gzip;q=0" refuses it. */
static bool weight_zero(const char *item, size_t n)
{
	const char *q = memmem(item, n, "q=", 2);
	const char *end = item + n;

	if (q == NULL) {
		return false;
	}
	for (q += 2; q < end; q++) {
		if (*q != '0' && *q != '.') {
			return *q < '1' || *q > '9';
		}
	}
	return true;
}

bool gzip_accepted(const char *accept_encoding)
{
	const char *item;
	size_t n;

	while (accept_encoding != NULL && (item = item_next(&accept_encoding, &n)) != NULL) {
		if (n >= 4 && strncasecmp(item, "gzip", 4) == 0 &&
		    (n == 4 || item[4] == ';' || item[4] == ' ')) {
			return !weight_zero(item, n);
		}
	}
	return false;
}

bool tag_matches(const char *if_none_match, const char *tag)
{
	const char *item;
	size_t n;

	while (if_none_match != NULL && (item = item_next(&if_none_match, &n)) != NULL) {
		if (n == 1 && *item == '*') {
			return true;
		}
		/* Weak comparison: "W/" counts on neither side. */
		if (n > 2 && strncmp(item, "W/", 2) == 0) {
			item += 2;
			n -= 2;
		}
		if (n == strlen(tag + 2) && memcmp(item, tag + 2, n) == 0) {
			return true;
		}
	}
	return false;
}

/* ---- the reply ------------------------------------------------------------------------------- */

void tag_make(const char *body, size_t n, char tag[TAG_MAX])
{
	uint64_t h = HASH_START;
	const char *age;

	while ((age = memmem(body, n, AGE, sizeof(AGE) - 1)) != NULL) {
		size_t taken = (size_t)(age - body) + sizeof(AGE) - 1;

		h = hash_words(h, body, taken);
		body += taken;
		n -= taken;
		while (n > 0 && *body >= '0' && *body <= '9') {
			body++;
			n--;
		}
	}
	h = hash_words(h, body, n);
	snprintf(tag, TAG_MAX, "W/\"%016" PRIx64 "\"", h);
}

void form_send(struct areq *q, struct form *f)
{
	if (f->tag[0] == '\0') {
		tag_make(f->body, f->n, f->tag);
	}
	httpd_set(q->http, "ETag", f->tag);
	httpd_set(q->http, "Vary", "Accept-Encoding");
	if (tag_matches(httpd_header(q->http, "if-none-match"), f->tag)) {
		reply_send(q, 304, NULL, NULL, 0);
		return;
	}
	if (f->n < GZIP_LEAST || !gzip_accepted(httpd_header(q->http, "accept-encoding"))) {
		reply_send(q, 200, f->type, f->body, f->n);
		return;
	}
	if (f->packed.p == NULL) {
		f->packed = gzip_pack(q->api, f->body, f->n);
	}
	httpd_set(q->http, "Content-Encoding", "gzip");
	reply_send(q, 200, f->type, f->packed.p, f->packed.n);
}
