/* Shared by every EC2 call: parameters, filters, pages, failures. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

#include <stdarg.h>

void ec2_fail(struct ec2 *e, int status, const char *code, const char *fmt, ...)
{
	char text[8192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!e->failed) {
		reply_fail(e->rq, e->rep, status, code, "%s", text);
		e->why = arena_strdup(e->rq->arena, text);
	}
	e->failed = true;
}

struct ec2 ec2_inner(struct ec2 *e, const struct form *f, struct sim_reply *rep)
{
	*rep = (struct sim_reply){ 0 };
	return (struct ec2){ .rq = e->rq, .rep = rep, .sim = e->sim, .form = *f };
}

void ec2_begin(struct ec2 *e)
{
	sbuf_printf(&e->out,
	    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	    "<%sResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">",
	    e->rq->action);
	x_text(&e->out, "requestId", e->rq->request_id);
}

bool ec2_ready(struct ec2 *e)
{
	bool dry = ec2_bool(e, "DryRun", false);
	const char *unknown = form_unknown(&e->form);

	if (!e->failed && unknown) {
		ec2_fail(e, 400, "UnknownParameter", "The parameter %s is not recognized", unknown);
	}
	if (!e->failed && dry) {
		ec2_fail(e, 412, "DryRunOperation",
		    "Request would have succeeded, but DryRun flag is set.");
	}
	return !e->failed;
}

bool ec2_int(struct ec2 *e, const char *name, int64_t min, int64_t max, int64_t dflt, int64_t *ret)
{
	const char *text = form_get(&e->form, name);

	*ret = dflt;
	if (!text || !*text) {
		return true;
	}
	if (parse_i64(text, INT64_MIN, INT64_MAX, ret) && *ret >= min && *ret <= max) {
		return true;
	}
	ec2_fail(e, 400, "InvalidParameterValue",
	    "Value ( %s ) for parameter %s is invalid. Expecting a value "
	    "between %" PRId64 " and %" PRId64 ".",
	    text, name, min, max);
	return false;
}

bool ec2_bool(struct ec2 *e, const char *name, bool dflt)
{
	const char *text = form_get(&e->form, name);

	if (!text || !*text) {
		return dflt;
	}
	if (str_same(text, "true")) {
		return true;
	}
	if (!str_same(text, "false")) {
		ec2_fail(e, 400, "InvalidParameterValue",
		    "Value (%s) for parameter %s is invalid. Expecting a Boolean.", text, name);
	}
	return false;
}

bool ec2_match_any(const char *const *list, size_t n, const char *text)
{
	for (size_t k = 0; k < n; k++) {
		if (str_same(list[k], text)) {
			return true;
		}
	}
	return n == 0;
}

/* ---- filters --------------------------------------------------------------------------------- */

static bool filter_known(const char *const *known, const char *name)
{
	for (size_t k = 0; known[k]; k++) {
		if (glob_match(known[k], name)) {
			return true;
		}
	}
	return false;
}

bool ec2_filters(struct ec2 *e, const char *const *known, struct ec2_filter **ret, size_t *ret_n)
{
	struct arena *a = e->rq->arena;
	struct ec2_filter *list = arena_array(a, 201, sizeof(*list));
	size_t n = 0;

	for (int k = 1; k <= 200; k++) {
		const char *name = form_get(&e->form, arena_printf(a, "Filter.%d.Name", k));

		if (!name) {
			continue;
		}
		if (!filter_known(known, name)) {
			ec2_fail(e, 400, "InvalidParameterValue", "The filter '%s' is invalid",
			    name);
			return false;
		}
		list[n].name = name;
		list[n].n =
		    form_list(&e->form, a, arena_printf(a, "Filter.%d.Value", k), &list[n].values);
		if (list[n].n == 0) {
			ec2_fail(e, 400, "InvalidParameterValue",
			    "The filter '%s' must have a value", name);
			return false;
		}
		n++;
	}
	*ret = list;
	*ret_n = n;
	return true;
}

bool ec2_filter_hits(const struct ec2_filter *f, const char *text)
{
	for (size_t k = 0; text && k < f->n; k++) {
		if (glob_match(f->values[k], text)) {
			return true;
		}
	}
	return false;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* The token is bound to the parameters of the call, so that it fits no other. */
static const char *page_mark(struct ec2 *e)
{
	char hex[SHA256_HEX];
	struct sbuf b AUTO(sbuf) = { 0 };

	sbuf_init(&b, 1 << 20);
	sbuf_puts(&b, e->rq->region);
	for (size_t k = 0; k < e->form.n; k++) {
		const char *name = e->form.items[k].name;

		if (!str_same(name, "NextToken") && !str_same(name, "MaxResults")) {
			sbuf_printf(&b, "&%s=%s", name, e->form.items[k].value);
		}
	}
	sha256_hex(b.p, b.n, hex);
	return arena_printf(e->rq->arena, "%.12s", hex);
}

const char *ec2_next_token(struct ec2 *e, int64_t at)
{
	const char *text = arena_printf(e->rq->arena, "page:%s:%" PRId64, page_mark(e), at);

	return base64_encode(e->rq->arena, text, strlen(text));
}

bool ec2_page(struct ec2 *e, int64_t min, int64_t max, int64_t dflt, struct ec2_page *ret)
{
	const char *token = form_get(&e->form, "NextToken"), *mark = page_mark(e);
	struct str raw;
	const char *prefix = arena_printf(e->rq->arena, "page:%s:", mark);

	*ret = (struct ec2_page){ 0, dflt };
	if (!ec2_int(e, "MaxResults", min, max, dflt, &ret->size)) {
		return false;
	}
	if (!token || !*token) {
		return true;
	}
	if (base64_decode(e->rq->arena, token, strlen(token), &raw)) {
		const char *text = arena_strndup(e->rq->arena, raw.p, raw.n);

		if (str_prefix(text, prefix) &&
		    parse_i64(text + strlen(prefix), 0, INT64_MAX, &ret->at)) {
			return true;
		}
	}
	ec2_fail(e, 400, "InvalidNextToken", "The token '%s' is invalid", token);
	return false;
}

void ec2_tags_xml(struct sbuf *b, const struct inst_tag *tags, size_t n)
{
	if (n == 0) {
		return;
	}
	x_open(b, "tagSet");
	for (size_t k = 0; k < n; k++) {
		x_open(b, "item");
		x_text(b, "key", tags[k].key);
		x_text(b, "value", tags[k].value);
		x_close(b, "item");
	}
	x_close(b, "tagSet");
}
