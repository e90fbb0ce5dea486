/* Shared by every Resource Manager call: bodies, lists, times, operations that end later. */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

bool az_need_doc(struct az_call *c)
{
	struct spot_err err = { 0 };

	if (json_parse(c->rq->http->body, "request", &c->doc, &err) == SPOT_OK &&
	    json_is_object(c->doc)) {
		return true;
	}
	json_decref(c->doc);
	c->doc = NULL;
	az_fail(c, 400, "InvalidRequestContent",
	    "The request content was invalid and could not be deserialized: '%s'.", err.text);
	return false;
}

int64_t az_retry_after(const struct sim *s)
{
	int64_t boot = s->conf.boot_us / SPOT_US_PER_S;

	return MIN(MAX(boot, 1), 10);
}

struct az_op *az_op_new(struct az_call *c, struct az_res *r, bool is_delete)
{
	struct az_op *op = calloc(1, sizeof(*op));
	char id[AZ_ID_MAX];

	if (!op) {
		abort();
	}
	*op = (struct az_op){ .next = c->az->ops,
		.id = dup_text(az_guid(c->rq->sim, id)),
		.location = dup_text(r->location),
		.resource = dup_text(r->id),
		.status = "InProgress",
		.started_us = sim_wall(c->rq->sim),
		.is_delete = is_delete };
	c->az->ops = op;
	r->op = op;
	return op;
}

void az_op_end(struct sim *s, struct az_op *op, const char *status, const char *code,
    const char *message)
{
	if (!op || op->ended_us) {
		return;
	}
	op->status = status;
	op->ended_us = sim_wall(s);
	op->code = dup_text(code);
	op->message = dup_text(message);
}

void az_op_headers(struct az_call *c, const struct az_op *op)
{
	/* Below the provider that was asked, whose API versions differ: the link repeats the
	 * request's. */
	const char *kind = az_same(c->type, "disks") ? "DiskOperations" : "operations";
	const char *url = arena_printf(c->rq->arena,
	    "%s/subscriptions/" AZ_SUBSCRIPTION
	    "/providers/%s/locations/%s/%s/%s?p=%s&api-version=%s",
	    c->base,
	    az_same(c->ns, "Microsoft.Network") ? "Microsoft.Network" : "Microsoft.Compute",
	    op->location, kind, op->id, c->rq->request_id, c->version);

	reply_header(c->rep, "Azure-AsyncOperation", url);
	if (op->is_delete) {
		reply_header(c->rep, "Location",
		    arena_printf(c->rq->arena, "%s&monitor=true", url));
	}
	reply_header(c->rep, "Retry-After",
	    arena_printf(c->rq->arena, "%d", (int)az_retry_after(c->rq->sim)));
}

char *az_time(struct arena *a, int64_t us)
{
	char t[TIME_TEXT_MAX];

	/* "2026-01-02T03:04:05.000006Z" with seven digits and a numeric zone */
	return arena_printf(a, "%.26s0+00:00", format_time(us, t));
}

/* An empty page with a nextLink is legal, and comes first here when there is more than one page. */
void az_list(struct az_call *c, json_t *items)
{
	const char *skip = az_query(c, "$skiptoken"), *top = az_query(c, "$top");
	int64_t at = 0, max = c->az->page, asked;
	size_t n = json_array_size(items);
	json_t *page = json_array(), *doc;
	bool empty_first = !skip && !top && (int64_t)n > max;

	if (top && parse_i64(top, 1, 1000, &asked)) {
		max = MIN(max, asked);
	}
	if (skip && (!parse_i64(skip, 0, 100000000, &at) || at > (int64_t)n)) {
		json_decref(items);
		json_decref(page);
		az_fail(c, 400, "InvalidSkipToken", "The skip token '%s' is invalid.", skip);
		return;
	}
	for (int64_t k = at; !empty_first && k < (int64_t)n && k < at + max; k++) {
		json_array_append(page, json_array_get(items, (size_t)k));
	}
	if (!empty_first) {
		at += max;
	}
	doc = json_pack("{s:o}", "value", page);
	if (at < (int64_t)n) {
		const char *filter = az_query(c, "$filter"), *expand = az_query(c, "$expand");
		const char *more = "";

		if (filter) {
			more = arena_printf(c->rq->arena, "&$filter=%s",
			    url_encode(c->rq->arena, filter, false));
		}
		if (expand) {
			more = arena_printf(c->rq->arena, "%s&$expand=%s", more,
			    url_encode(c->rq->arena, expand, false));
		}
		json_object_set_new(doc, "nextLink",
		    json_sprintf("%s%s?api-version=%s%s&%%24skiptoken=%lld", c->base,
			c->rq->http->path, c->version, more, (long long)at));
	}
	json_decref(items);
	az_send(c, 200, doc);
}
