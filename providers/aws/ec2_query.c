#include "base/base.h"
#include "aws_priv.h"

/*
 * Form bodies of the "ec2" and "query" protocols: flat keys, lists 1-based with the singular wire
 * name and no ".member" (docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html). Empty
 * lists are left out by not being added.
 */

#include <stdarg.h>

#define BODY_BYTES_MAX (1u << 20)

void query_begin(struct query *q, struct arena *a, const char *action, const char *version)
{
	q->arena = a;
	sbuf_init(&q->body, BODY_BYTES_MAX);
	sbuf_printf(&q->body, "Action=%s&Version=%s", action, version);
}

void query_add(struct query *q, const char *key, const char *value)
{
	sbuf_printf(&q->body, "&%s=%s", key, url_encode(q->arena, value, false));
}

void query_addf(struct query *q, const char *value, const char *key_fmt, ...)
{
	char key[160];
	va_list ap;

	va_start(ap, key_fmt);
	int n = vsnprintf(key, sizeof(key), key_fmt, ap);
	va_end(ap);
	assert(n > 0 && (size_t)n < sizeof(key));
	query_add(q, key, value);
}

void query_filter(struct query *q, size_t n, const char *name, const char *value)
{
	query_addf(q, name, "Filter.%zu.Name", n);
	query_addf(q, value, "Filter.%zu.Value.1", n);
}

const char *query_end(struct query *q, size_t *ret_n)
{
	struct str copy;

	assert(!q->body.overflow);
	copy = arena_bytes(q->arena, q->body.p, q->body.n);
	sbuf_fini(&q->body);
	*ret_n = copy.n;
	return copy.p;
}

enum spot_step query_send_ec2(struct query *q, struct aws *self, struct spot_call *c,
    const char *region, const char *action, enum aws_limit limit, bool mutating)
{
	struct aws_request r = { .service = AWS_EC2,
		.region = region,
		.action = action,
		.limit = limit,
		.mutating = mutating };

	r.content_type = "application/x-www-form-urlencoded; charset=utf-8";
	r.body = query_end(q, &r.body_n);
	return aws_send(self, c, &r);
}
