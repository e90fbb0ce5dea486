/* Shared by every Azure call: names, parameters, replies. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <strings.h>

struct azure *azure_of(const struct sim *s)
{
	return s->azure;
}

char *az_guid(struct sim *s, char ret[AZ_ID_MAX])
{
	char h[33];

	rng_hex(&s->rng, h, 16);
	snprintf(ret, AZ_ID_MAX, "%.8s-%.4s-4%.3s-a%.3s-%.12s", h, h + 8, h + 13, h + 17, h + 20);
	return ret;
}

bool az_same(const char *a, const char *b)
{
	return a && b && strcasecmp(a, b) == 0;
}

const char *az_lower(struct arena *a, const char *text)
{
	char *out = arena_strdup(a, text);

	for (char *p = out; *p; p++) {
		*p = (char)tolower((unsigned char)*p);
	}
	return out;
}

const char *az_location(struct arena *a, const char *text)
{
	char *out = arena_strdup(a, text), *w = out;

	for (const char *p = text; *p; p++) {
		if (*p != ' ') {
			*w++ = (char)tolower((unsigned char)*p);
		}
	}
	*w = '\0';
	return out;
}

/* Parameter names come percent-encoded ("%24filter") and in any case. */
const char *az_query(struct az_call *c, const char *name)
{
	const char *p = c->rq->http->query;

	while (p && *p) {
		const char *end = strchrnul(p, '&'), *eq = memchr(p, '=', (size_t)(end - p));
		const char *stop = eq ? eq : end;
		char *key, *value;

		if (url_decode(c->rq->arena, (struct str){ p, (size_t)(stop - p) }, true, &key) &&
		    az_same(key, name)) {
			if (eq &&
			    url_decode(c->rq->arena, (struct str){ eq + 1, (size_t)(end - eq - 1) },
				true, &value)) {
				return value;
			}
			return "";
		}
		p = *end ? end + 1 : end;
	}
	return NULL;
}

void az_fail(struct az_call *c, int status, const char *code, const char *fmt, ...)
{
	char text[8192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reply_fail(c->rq, c->rep, status, code, "%s", text);
}

void az_send(struct az_call *c, int status, json_t *doc)
{
	reply_json(c->rq, c->rep, status, doc);
	c->rep->type = "application/json; charset=utf-8";
}
