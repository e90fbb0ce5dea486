/*
 * Instance Metadata Service of one VM (Azure docs, "Azure Instance Metadata Service" and "Scheduled
 * Events"): instance, scheduledevents, attested document, identity token.
 */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/azure/azure.h"
#include "base/text/text.h"

#include <strings.h>

struct sched { /* of one instance, in inst.maintenance's place: kept in a list by id */
	struct sched *next;
	struct inst *inst;
	char id[AZ_ID_MAX], type[16];
	int64_t not_before_us, gone_us;
	bool started;
};
static struct sched *all; /* one process, one sim */
struct enabled {
	struct enabled *next;
	struct inst *inst;
	int64_t at_us;
};
static struct enabled *enabled;

static void json_reply(struct httpd_req *r, int status, json_t *doc)
{
	char *text = json_text(r->arena, doc);

	json_decref(doc);
	httpd_set(r, "Server", "Microsoft-IIS/10.0");
	httpd_reply(r, status, "application/json; charset=utf-8", text, strlen(text));
}

static void failure_reply(struct httpd_req *r, int status, const char *what)
{
	json_reply(r, status, json_pack("{s:s}", "error", what));
}

static bool version_good(struct httpd_req *r, const char *const *list, const char *min)
{
	const char *v = httpd_query(r, "api-version");
	json_t *newest;

	if (v && str_prefix(v, "20") && strlen(v) == 10 && strcmp(v, min) >= 0 &&
	    strcmp(v, "2026-01-01") < 0) {
		return true;
	}
	newest = json_array();
	for (size_t k = 0; list[k]; k++) {
		json_array_append_new(newest, json_string(list[k]));
	}
	json_reply(r, 400,
	    json_pack("{s:s, s:o}", "error",
		v ? "Bad request. api-version is invalid or not supported"
		  : "Bad request. api-version was not specified in the request",
		"newest-versions", newest));
	return false;
}

/* ---- instance -------------------------------------------------------------------------------- */

static json_t *tags_list(const struct inst *i, struct sbuf *text)
{
	json_t *list = json_array();

	for (size_t k = 0; k < i->tags_n; k++) {
		json_array_append_new(list,
		    json_pack("{s:s, s:s}", "name", i->tags[k].key, "value", i->tags[k].value));
		sbuf_printf(text, "%s%s:%s", k ? ";" : "", i->tags[k].key, i->tags[k].value);
	}
	return list;
}

/* Also of a VM that was started again, whose instance has an id of its own. */
static const char *vm_id(const struct inst *i)
{
	const struct az_res *r = i->own;

	return r ? r->vm_id : i->id;
}

static json_t *compute_json(const struct inst *i)
{
	const struct az_res *r = i->own;
	const json_t *p = r ? json_object_get(r->asked, "properties") : NULL;
	const char *policy = json_string_value(json_object_get(p, "evictionPolicy"));
	const json_t *image =
	    json_object_get(json_object_get(p, "storageProfile"), "imageReference");
	const char *publisher = json_string_value(json_object_get(image, "publisher")),
		   *offer = json_string_value(json_object_get(image, "offer")),
		   *sku = json_string_value(json_object_get(image, "sku"));
	struct sbuf text AUTO(sbuf) = { 0 };
	json_t *list, *o;

	sbuf_init(&text, 1 << 16);
	list = tags_list(i, &text);
	o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
		      "s:s, s:s, s:o}",
	    "azEnvironment", "AzurePublicCloud", "location", i->pool->region->name, "name", i->name,
	    "vmId", vm_id(i), "vmSize", i->pool->type->name, "zone",
	    i->pool->zone ? i->pool->zone->name : "", "resourceGroupName", r ? r->group : "",
	    "resourceId", r ? r->id : "", "subscriptionId", AZ_SUBSCRIPTION, "priority",
	    i->side == SIDE_SPOT ? "Spot" : "Regular", "evictionPolicy",
	    i->side != SIDE_SPOT ? ""
		: policy         ? policy
				 : "Deallocate",
	    "osType", "Linux", "publisher", publisher ? publisher : "", "offer", offer ? offer : "",
	    "sku", sku ? sku : "", "tags", text.p ? text.p : "", "version", "22.04.2026110101",
	    "tagsList", list);
	json_object_set_new(o, "placementGroupId", json_string(""));
	json_object_set_new(o, "vmScaleSetName", json_string(""));
	json_object_set_new(o, "provider", json_string("Microsoft.Compute"));
	return o;
}

static json_t *network_json(const struct inst *i)
{
	return json_pack("{s:[{s:{s:[{s:s, s:s}], s:[{s:s, s:s}]}, s:{s:[]}, s:s}]}", "interface",
	    "ipv4", "ipAddress", "privateIpAddress", i->private_ip, "publicIpAddress", "", "subnet",
	    "address", "10.0.0.0", "prefix", "8", "ipv6", "ipAddress", "macAddress",
	    "000D3A000001");
}

/* One leaf as text, or a part of the document. */
static void instance_reply(struct inst *i, struct httpd_req *r, const char *what)
{
	static const char *const newest[] = { "2023-07-01", "2021-12-13", "2021-11-15", NULL };
	json_t *doc, *at;
	const char *format = httpd_query(r, "format");
	const struct az_res *vm = i->own;

	if (!version_good(r, newest, "2017-04-02")) {
		return;
	}
	doc = json_pack("{s:o, s:o}", "compute", compute_json(i), "network", network_json(i));
	if (str_same(what, "/compute/userData") && vm) {
		const char *data = json_string_value(
		    json_object_get(json_object_get(vm->asked, "properties"), "userData"));

		httpd_reply(r, 200, "text/plain", data ? data : "", data ? strlen(data) : 0);
		json_decref(doc);
		return;
	}
	at = doc;
	while (at && *what) {
		const char *end = strchrnul(what + 1, '/');

		at = json_is_object(at)
		    ? json_object_get(at,
			  arena_strndup(r->arena, what + 1, (size_t)(end - what - 1)))
		    : NULL;
		what = end;
	}
	if (!at) {
		failure_reply(r, 404, "Not found");
	} else if (json_is_string(at) && !str_same(format, "text")) {
		failure_reply(r, 400,
		    "Bad request. Leaf nodes are available as text only: format=text");
	} else if (json_is_string(at)) {
		httpd_reply(r, 200, "text/plain; charset=utf-8", json_string_value(at),
		    strlen(json_string_value(at)));
	} else {
		json_reply(r, 200, json_incref(at));
	}
	json_decref(doc);
}

/* ---- scheduled events ------------------------------------------------------------------------ */

static struct sched *sched_add(struct inst *i, const char *type, int64_t not_before_us)
{
	struct sched *e = calloc(1, sizeof(*e));

	if (!e) {
		abort();
	}
	e->inst = i;
	az_guid(i->sim, e->id);
	for (char *p = e->id; *p; p++) {
		*p = (char)(*p >= 'a' && *p <= 'f' ? *p - 32 : *p);
	}
	snprintf(e->type, sizeof(e->type), "%s", type);
	e->not_before_us = not_before_us;
	e->next = all;
	all = e;
	return e;
}

static bool is_known(const struct inst *i, const char *type)
{
	for (const struct sched *e = all; e; e = e->next) {
		if (e->inst == i && str_same(e->type, type)) {
			return true;
		}
	}
	return false;
}

json_t *az_event_add(struct sim *s, const json_t *doc, struct spot_err *err)
{
	const char *id = json_need_str(doc, "instance", err),
		   *type = json_str(doc, "type", "Redeploy", err);
	double in_s = json_f64(doc, "in_s", 600, err);
	struct inst *i = err->rc == SPOT_OK ? inst_find(s, id) : NULL;

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	if (!i || i->cloud != CLOUD_AZURE) {
		err_set(err, SPOT_NOT_FOUND, "no Azure instance %s", id);
		return NULL;
	}
	s->azure->incarnation++;
	return json_pack("{s:s}", "id",
	    sched_add(i, type, sim_wall(s) + (int64_t)(in_s * 1e6))->id);
}

/* The service begins with the first call, after a delay; it ends with the VM. */
static bool switched_on(struct inst *i)
{
	struct enabled *e = enabled;

	while (e && e->inst != i) {
		e = e->next;
	}
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e) {
			abort();
		}
		*e = (struct enabled){ enabled, i, sim_wall(i->sim) + i->sim->azure->events_us };
		enabled = e;
	}
	return e->at_us <= sim_wall(i->sim);
}

static void events_refresh(struct inst *i)
{
	struct azure *az = i->sim->azure;
	int64_t now = sim_wall(i->sim);

	if (i->notice_us && !is_known(i, "Preempt")) {
		sched_add(i, "Preempt", i->action_us);
	}
	for (struct sched *e = all; e; e = e->next) {
		if (e->inst == i && !e->started && e->not_before_us <= now) {
			e->started = true;
			e->gone_us = now + 5 * SPOT_US_PER_S;
			az->incarnation++;
		}
	}
}

static json_t *event_json(const struct sched *e)
{
	char at[64];

	sim_http_date(e->not_before_us, at);
	return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s, s:s, s:s, s:i}", "EventId", e->id,
	    "EventType", e->type, "ResourceType", "VirtualMachine", "Resources", e->inst->name,
	    "EventStatus", e->started ? "Started" : "Scheduled", "NotBefore", e->started ? "" : at,
	    "Description",
	    str_same(e->type, "Preempt") ? "Virtual machine is going to be preempted"
					 : "Host maintenance",
	    "EventSource", str_same(e->type, "Terminate") ? "User" : "Platform",
	    "DurationInSeconds", str_same(e->type, "Freeze") ? 5 : -1);
}

/* Approval of all events of the request's ids: they start now. */
static void events_approve(struct inst *i, struct httpd_req *r)
{
	json_t *doc = NULL, *item;
	struct spot_err err = { 0 };
	size_t k;

	if (json_parse(r->body, "request", &doc, &err) != SPOT_OK ||
	    !json_is_array(json_object_get(doc, "StartRequests"))) {
		json_decref(doc);
		failure_reply(r, 400, "Bad request. The body is malformed");
		return;
	}
	json_array_foreach (json_object_get(doc, "StartRequests"), k, item) {
		const char *id = json_string_value(json_object_get(item, "EventId"));

		for (struct sched *e = all; e; e = e->next) {
			if (!az_same(e->id, id) || e->started) {
				continue;
			}
			e->not_before_us = sim_wall(i->sim);
			books_event(i->sim, "event_approved", e->inst,
			    json_pack("{s:s}", "type", e->type));
			if (str_same(e->type, "Preempt")) {
				loop_timer_set(&e->inst->reclaim_timer, SPOT_US_PER_S / 2);
			}
		}
	}
	json_decref(doc);
	httpd_reply(r, 200, NULL, NULL, 0);
}

static void events_reply(struct inst *i, struct httpd_req *r)
{
	static const char *const newest[] = { "2020-07-01", "2019-08-01", "2019-04-01", NULL };
	json_t *list = json_array();

	if (!version_good(r, newest, "2017-03-01")) {
		json_decref(list);
		return;
	}
	events_refresh(i);
	if (str_same(r->method, "POST")) {
		json_decref(list);
		events_approve(i, r);
		return;
	}
	if (switched_on(i)) {
		for (const struct sched *e = all; e; e = e->next) {
			if (e->inst == i && (!e->started || e->gone_us > sim_wall(i->sim))) {
				json_array_append_new(list, event_json(e));
			}
		}
	}
	json_reply(r, 200,
	    json_pack("{s:I, s:o}", "DocumentIncarnation", (json_int_t)i->sim->azure->incarnation,
		"Events", list));
}

/* ---- proofs ---------------------------------------------------------------------------------- */

static void attested_reply(struct inst *i, struct httpd_req *r)
{
	static const char *const newest[] = { "2021-02-01", "2020-09-01", "2018-10-01", NULL };
	const char *nonce = httpd_query(r, "nonce");
	int64_t now = sim_wall(i->sim);
	char t[TIME_TEXT_MAX], stamp[2][40], made[16];
	json_t *doc;
	const char *text;

	if (!version_good(r, newest, "2018-10-01")) {
		return;
	}
	if (nonce && (strlen(nonce) > 10 || nonce[strspn(nonce, "0123456789")])) {
		failure_reply(r, 400, "Bad request. The nonce must have up to 10 digits");
		return;
	}
	for (int k = 0; k < 2; k++) {
		/* "11/28/18 00:16:17 -0000" */
		format_time_s(now + (k ? 6 * SPOT_US_PER_HOUR : 0), t);
		snprintf(stamp[k], sizeof(stamp[k]), "%.2s/%.2s/%.2s %.8s -0000", t + 5, t + 8,
		    t + 2, t + 11);
	}
	if (!nonce) {
		format_time_s(now, t);
		snprintf(made, sizeof(made), "%.4s%.2s%.2s", t, t + 5, t + 8);
	}
	doc = json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:s, s:s}, s:s, s:s, s:s}", "licenseType",
	    "", "nonce", nonce ? nonce : made, "plan", "name", "", "product", "", "publisher", "",
	    "timeStamp", "createdOn", stamp[0], "expiresOn", stamp[1], "vmId", vm_id(i),
	    "subscriptionId", AZ_SUBSCRIPTION, "sku", "2204");
	text = json_text(r->arena, doc);
	json_decref(doc);
	json_reply(r, 200,
	    json_pack("{s:s, s:s}", "encoding", "pkcs7", "signature",
		az_pkcs7(i->sim, r->arena, text)));
}

static void identity_token(struct inst *i, struct httpd_req *r)
{
	const struct az_res *vm = i->own;
	const json_t *id = vm ? json_object_get(vm->asked, "identity") : NULL;
	const char *resource = httpd_query(r, "resource"), *v = httpd_query(r, "api-version");
	int64_t now = sim_wall(i->sim) / SPOT_US_PER_S;

	if (!v || strcmp(v, "2018-02-01") < 0 || !resource) {
		json_reply(r, 400,
		    json_pack("{s:s, s:s}", "error", "invalid_request", "error_description",
			resource ? "Required query variable 'api-version' is missing"
				 : "Required query variable 'resource' is missing"));
		return;
	}
	if (!id || str_suffix(resource, "/.default")) {
		json_reply(r, 400,
		    json_pack("{s:s, s:s}", "error", id ? "invalid_resource" : "invalid_request",
			"error_description",
			id ? "AADSTS500011: The resource principal was not found."
			   : "Identity not found"));
		return;
	}
	json_reply(r, 200,
	    json_pack("{s:s, s:s, s:s, s:o, s:s, s:o, s:s, s:s}", "access_token",
		az_token(i->sim, r->arena, resource, i->id, i->id, 86400), "client_id", i->id,
		"expires_in", "86399", "expires_on", json_sprintf("%lld", (long long)now + 86400),
		"ext_expires_in", "86399", "not_before", json_sprintf("%lld", (long long)now),
		"resource", resource, "token_type", "Bearer"));
}

void az_imds(struct inst *i, struct httpd_req *r, const char *path)
{
	if (i->state == INST_GONE || i->state == INST_SHUTTING) {
		httpd_abort(r);
		return;
	}
	while (path[0] == '/' && path[1] == '/') {
		path++;
	}
	if (httpd_header(r, "x-forwarded-for")) {
		failure_reply(r, 403, "Forbidden. The request was forwarded by a proxy");
		return;
	}
	if (!httpd_header(r, "metadata") || strcasecmp(httpd_header(r, "metadata"), "true") != 0) {
		failure_reply(r, 400, "Bad request. Required metadata header not specified");
		return;
	}
	if (!throttle_take(i->sim, arena_printf(r->arena, "azure-imds|%s", i->id), 5, 5, 1)) {
		failure_reply(r, 429, "Too Many Requests");
		return;
	}
	az_tick(i->sim);
	if (str_prefix(path, "/metadata/instance")) {
		instance_reply(i, r, path + strlen("/metadata/instance"));
	} else if (str_same(path, "/metadata/scheduledevents")) {
		events_reply(i, r);
	} else if (str_same(path, "/metadata/attested/document")) {
		attested_reply(i, r);
	} else if (str_same(path, "/metadata/identity/oauth2/token")) {
		identity_token(i, r);
	} else {
		failure_reply(r, 404, "Not found");
	}
}

size_t az_env(const struct inst *i, struct arena *a, const char **env, size_t max)
{
	if (max < 1) {
		return 0;
	}
	env[0] =
	    arena_printf(a, "AZURE_POD_IDENTITY_AUTHORITY_HOST=http://127.0.0.1:%d", i->imds_port);
	return 1;
}

void az_events_free(void)
{
	while (all) {
		struct sched *e = all;

		all = e->next;
		free(e);
	}
	while (enabled) {
		struct enabled *e = enabled;

		enabled = e->next;
		free(e);
	}
}
