/* Building a reply: status, headers, body, and the vendor's error body. */
#include "base/base.h"
#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

#include <stdarg.h>

const char *req_header(const struct sim_req *rq, const char *name)
{
	return httpd_header(rq->http, name);
}

void reply_set(struct sim_reply *rep, int status, const char *type, const char *body, size_t n)
{
	rep->status = status;
	rep->type = type;
	rep->body = (struct str){ body, n };
}

void reply_header(struct sim_reply *rep, const char *name, const char *value)
{
	if (rep->headers_n < ARRAY_LEN(rep->headers)) {
		rep->headers[rep->headers_n++] = (struct spot_header){ name, value };
	}
}

void reply_json(struct sim_req *rq, struct sim_reply *rep, int status, json_t *doc)
{
	char *text = json_text(rq->arena, doc);

	json_decref(doc);
	reply_set(rep, status,
	    rq->proto == PROTO_JSON ? "application/x-amz-json-1.1" : "application/json", text,
	    strlen(text));
}

void reply_fail(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *fmt, ...)
{
	char text[16384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rep->headers_n = 0;
	rep->head_n = 0;
	rep->code = arena_strdup(rq->arena, code);
	cloud_ops(rq->cloud)->error(rq, rep, status, rep->code, text);
}
