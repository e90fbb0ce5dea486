/* Shared by every Google call: parameters, replies, refusals. */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#include <stdarg.h>

void gcp_fail(struct gcp_call *c, int status, const char *reason, const char *fmt, ...)
{
	char text[8192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reply_fail(c->rq, c->rep, status, reason, "%s", text);
}

void gcp_not_found(struct gcp_call *c, const char *resource)
{
	gcp_fail(c, 404, "notFound", "The resource '%s' was not found", resource);
}

const char *gcp_param(struct gcp_call *c, const char *name)
{
	const char *v = httpd_query(c->rq->http, name);

	return v && *v ? v : NULL;
}

bool gcp_param_bool(struct gcp_call *c, const char *name, bool dflt)
{
	const char *v = gcp_param(c, name);

	return v ? str_same(v, "true") || str_same(v, "1") : dflt;
}

void gcp_reply(struct gcp_call *c, json_t *doc)
{
	char *text = json_text(c->a, doc);

	json_decref(doc);
	reply_set(c->rep, 200, "application/json; charset=UTF-8", text, strlen(text));
}

bool gcp_known_project(struct gcp_call *c)
{
	if (str_same(c->arg[0], GCP_PROJECT) || str_same(c->arg[0], GCP_PROJECT_NUMBER)) {
		return true;
	}
	/* Image projects are public. */
	if (str_prefix(c->rq->action, "images.") && !str_same(c->arg[0], GCP_PROJECT)) {
		return true;
	}
	gcp_fail(c, 404, "notFound", "The resource 'projects/%s' was not found", c->arg[0]);
	return false;
}
