/*
 * The metadata server of one VM (page "About VM metadata"). It checks and sends the header, answers
 * values with an ETag, and holds requests that wait for a change. It gives service-account tokens
 * and identity tokens.
 */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

#define SCOPE_DEFAULT "https://www.googleapis.com/auth/cloud-platform"

struct gcp_hang {
	struct gcp_hang *next;
	struct inst *inst;
	struct httpd_req *r;
	const char *path, *etag; /* in the request's arena */
	struct loop_timer timer;
};

/* ---- values ---------------------------------------------------------------------------------- */

static const char *account_email(const struct inst *i)
{
	const json_t *a = json_array_get(gcp_vm(i)->accounts, 0);
	const char *email = gcp_text(a, "email");

	return !a ? NULL : !email || str_same(email, "default") ? GCP_NODE_SA : email;
}

static const char *account_scopes(const struct inst *i, struct arena *a, const char *sep)
{
	const char *list = "";
	size_t k;
	json_t *one;

	json_array_foreach (json_object_get(json_array_get(gcp_vm(i)->accounts, 0), "scopes"), k,
	    one) {
		list = arena_printf(a, "%s%s%s", list, *list ? sep : "", json_string_value(one));
	}
	return list;
}

static bool is_preempted(const struct inst *i)
{
	return i->notice_us > 0 || (i->reclaimed && i->state >= INST_SHUTTING);
}

static const char *attribute_get(const struct inst *i, const char *key)
{
	size_t k;
	json_t *one;

	json_array_foreach (json_object_get(gcp_vm(i)->metadata, "items"), k, one) {
		if (str_same(gcp_text(one, "key"), key)) {
			return json_string_value(json_object_get(one, "value"));
		}
	}
	return NULL;
}

static const char *attribute_names(const struct inst *i, struct arena *a)
{
	const char *list = "";
	size_t k;
	json_t *one;

	json_array_foreach (json_object_get(gcp_vm(i)->metadata, "items"), k, one) {
		list = arena_printf(a, "%s%s\n", list, gcp_text(one, "key"));
	}
	return list;
}

static const char *zone_path(const struct inst *i, struct arena *a, const char *kind,
    const char *name)
{
	(void)i;
	return arena_printf(a, "projects/" GCP_PROJECT_NUMBER "/%s/%s", kind, name);
}

static const char *plain_text(const struct inst *i, struct arena *a, const char *what)
{
	const struct {
		const char *path, *value;
	} all[] = {
		{ "instance/id", i->id },
		{ "instance/name", i->name },
		{ "instance/hostname",
		    arena_printf(a, "%s.%s.c." GCP_PROJECT ".internal", i->name,
			i->pool->zone->name) },
		{ "instance/zone", zone_path(i, a, "zones", i->pool->zone->name) },
		{ "instance/machine-type",
		    zone_path(i, a, "machineTypes",
			gcp_type_of(i->sim->gcp, i->pool->type)->machine) },
		{ "instance/cpu-platform", "Intel Sapphire Rapids" },
		{ "instance/image", i->image },
		{ "instance/preempted", is_preempted(i) ? "TRUE" : "FALSE" },
		{ "instance/maintenance-event",
		    i->maintenance && strstr(i->maintenance, "\"active\"")
			? "TERMINATE_ON_HOST_MAINTENANCE"
			: "NONE" },
		{ "instance/scheduling/preemptible", gcp_vm(i)->spot ? "TRUE" : "FALSE" },
		{ "instance/scheduling/on-host-maintenance", "TERMINATE" },
		{ "instance/scheduling/automatic-restart", gcp_vm(i)->spot ? "FALSE" : "TRUE" },
		{ "instance/network-interfaces/0/ip", i->private_ip },
		{ "instance/network-interfaces/0/access-configs/0/external-ip", i->ip },
		{ "instance/network-interfaces/0/network",
		    "projects/" GCP_PROJECT_NUMBER "/networks/default" },
		{ "project/project-id", GCP_PROJECT },
		{ "project/numeric-project-id", GCP_PROJECT_NUMBER },
		{ "universe/universe-domain", "googleapis.com" },
		{ "universe/universe_domain", "googleapis.com" },
	};

	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		if (str_same(all[k].path, what)) {
			return all[k].value;
		}
	}
	return NULL;
}

static const char *listing_text(const struct inst *i, struct arena *a, const char *what)
{
	if (str_same(what, "")) {
		return "instance/\noslogin/\nproject/\nuniverse/\n";
	}
	if (str_same(what, "instance/")) {
		return "attributes/\ncpu-platform\ndescription\ndisks/\nguest-attributes/"
		       "\nhostname\nid\n"
		       "image\nmachine-type\nmaintenance-event\nname\nnetwork-interfaces/"
		       "\npreempted\n"
		       "scheduling/\nservice-accounts/\ntags\nzone\n";
	}
	if (str_same(what, "instance/attributes/")) {
		return attribute_names(i, a);
	}
	if (str_same(what, "instance/scheduling/")) {
		return "automatic-restart\non-host-maintenance\npreemptible\n";
	}
	if (str_same(what, "project/")) {
		return "attributes/\nnumeric-project-id\nproject-id\n";
	}
	if (str_same(what, "project/attributes/")) {
		return "";
	}
	if (str_same(what, "instance/service-accounts/")) {
		return account_email(i) ? arena_printf(a, "default/\n%s/\n", account_email(i)) : "";
	}
	return NULL;
}

/* ---- the service account --------------------------------------------------------------------- */

static const char *token_json(struct inst *i, struct arena *a, const char *wanted)
{
	const char *had = account_scopes(i, a, " "), *scopes = had;
	struct gcp_token *t;
	json_t *doc;
	const char *text;

	if (wanted && *wanted) {
		char *w = arena_strdup(a, wanted);

		for (char *p = w; *p; p++) {
			*p = *p == ',' ? ' ' : *p;
		}
		/* cloud-platform covers all; else only the VM's scopes. */
		if (!strstr(had, SCOPE_DEFAULT) && !strstr(had, w)) {
			return NULL;
		}
		scopes = w;
	}
	t = gcp_token_new(i->sim, account_email(i), scopes, 3599);
	doc = json_pack("{s:s, s:i, s:s}", "access_token", t->text, "expires_in", 3599,
	    "token_type", "Bearer");
	text = json_text(a, doc);
	json_decref(doc);
	return text;
}

static const char *identity_token(struct inst *i, struct arena *a, const char *audience, bool full)
{
	int64_t now = sim_wall(i->sim) / SPOT_US_PER_S;
	const char *email = account_email(i), *subject = gcp_u64(a, gcp_hash_id(email));
	json_t *claims = json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:s, s:s}", "aud", audience,
	    "azp", subject, "email", email, "email_verified", 1, "exp", (json_int_t)now + 3600,
	    "iat", (json_int_t)now, "iss", "https://accounts.google.com", "sub", subject);

	if (full) {
		json_object_set_new(claims, "google",
		    json_pack("{s:{s:I, s:s, s:s, s:s, s:I, s:s}}", "compute_engine",
			"instance_creation_timestamp", (json_int_t)(i->launched_us / SPOT_US_PER_S),
			"instance_id", i->id, "instance_name", i->name, "project_id", GCP_PROJECT,
			"project_number", (json_int_t)INT64_C(415104041262), "zone",
			i->pool->zone->name));
	}
	return gcp_identity_token(i->sim, a, claims);
}

static void text_send(struct httpd_req *r, int status, const char *type, const char *body)
{
	httpd_set(r, "Metadata-Flavor", "Google");
	httpd_set(r, "Server", "Metadata Server for VM");
	httpd_set(r, "X-XSS-Protection", "0");
	httpd_set(r, "X-Frame-Options", "SAMEORIGIN");
	httpd_reply(r, status, type, body, strlen(body));
}

static void send_error(struct httpd_req *r, int status, const char *words)
{
	text_send(r, status, "text/html; charset=UTF-8",
	    arena_printf(r->arena,
		"<!DOCTYPE html>\n<html lang=en>\n<title>Error %d!!1</title>\n<p><b>%d.</b> "
		"<ins>That's an error.</ins>\n<p>%s\n",
		status, status, words));
}

static void account_request(struct inst *i, struct httpd_req *r, const char *what)
{
	const char *name = what + strlen("instance/service-accounts/"), *rest = strchr(name, '/');
	const char *email = account_email(i), *audience = httpd_query(r, "audience"), *text;

	if (!email || !rest ||
	    (strncmp(name, "default/", 8) != 0 &&
		strncmp(name, email, (size_t)(rest - name)) != 0)) {
		send_error(r, 404, "The requested URL was not found on this server.");
		return;
	}
	rest++;
	if (!*rest && str_same(httpd_query(r, "recursive"), "true")) {
		json_t *doc = json_pack("{s:[s], s:s, s:O}", "aliases", "default", "email", email,
		    "scopes", json_object_get(json_array_get(gcp_vm(i)->accounts, 0), "scopes"));

		text = json_text(r->arena, doc);
		json_decref(doc);
		text_send(r, 200, "application/json", text);
	} else if (!*rest) {
		text_send(r, 200, "application/text", "aliases\nemail\nidentity\nscopes\ntoken\n");
	} else if (str_same(rest, "email")) {
		text_send(r, 200, "application/text", email);
	} else if (str_same(rest, "aliases")) {
		text_send(r, 200, "application/text", "default\n");
	} else if (str_same(rest, "scopes")) {
		text_send(r, 200, "application/text", account_scopes(i, r->arena, "\n"));
	} else if (str_same(rest, "token")) {
		text = token_json(i, r->arena, httpd_query(r, "scopes"));
		if (text) {
			text_send(r, 200, "application/json", text);
		} else {
			send_error(r, 403, "The VM's service account lacks the scope.");
		}
	} else if (str_same(rest, "identity")) {
		if (!audience || !*audience) {
			send_error(r, 400, "Required parameter missing: audience");
		} else {
			text_send(r, 200, "text/html",
			    identity_token(i, r->arena, audience,
				str_same(httpd_query(r, "format"), "full")));
		}
	} else {
		send_error(r, 404, "The requested URL was not found on this server.");
	}
}

/* ---- waiting for a change -------------------------------------------------------------------- */

static const char *value_of(const struct inst *i, struct arena *a, const char *what)
{
	const char *v;

	if (str_prefix(what, "instance/attributes/") && what[strlen("instance/attributes/")]) {
		v = attribute_get(i, what + strlen("instance/attributes/"));
	} else {
		v = plain_text(i, a, what);
	}
	return v ? v : listing_text(i, a, what);
}

static const char *etag_of(struct arena *a, const char *value)
{
	return arena_printf(a, "%016" PRIx64, gcp_hash_id(value));
}

static void send_value(struct inst *i, struct httpd_req *r, const char *what)
{
	const char *v = value_of(i, r->arena, what);

	if (!v) {
		send_error(r, 404, "The requested URL was not found on this server.");
		return;
	}
	httpd_set(r, "ETag", etag_of(r->arena, v));
	text_send(r, 200, "application/text", v);
}

static void hang_unlink(struct gcp_hang *h)
{
	for (struct gcp_hang **at = &gcp_vm(h->inst)->hangs; *at; at = &(*at)->next) {
		if (*at == h) {
			*at = h->next;
			break;
		}
	}
	loop_timer_stop(&h->timer);
	loop_bury(h->inst->sim->loop, h, free);
}

static void hang_answer(struct gcp_hang *h)
{
	struct httpd_req *r = h->r;
	struct inst *i = h->inst;

	hang_unlink(h);
	r->gone = NULL;
	send_value(i, r, h->path);
}

/* The time is over: the value as it is, with the same ETag. */
static void hang_late(struct loop_timer *t)
{
	hang_answer(container_of(t, struct gcp_hang, timer));
}

static void hang_gone(struct httpd_req *r)
{
	hang_unlink(r->user);
}

static void request_hang(struct inst *i, struct httpd_req *r, const char *what, const char *etag)
{
	const char *timeout = httpd_query(r, "timeout_sec");
	struct gcp_hang *h = calloc(1, sizeof(*h));
	int64_t seconds = 0;

	if (!h) {
		abort();
	}
	*h = (struct gcp_hang){ .next = gcp_vm(i)->hangs,
		.inst = i,
		.r = r,
		.path = arena_strdup(r->arena, what),
		.etag = etag };
	gcp_vm(i)->hangs = h;
	loop_timer_init(&h->timer, i->sim->loop, hang_late);
	if (timeout && parse_i64(timeout, 0, 86400, &seconds)) {
		loop_timer_set(&h->timer, MAX(seconds * SPOT_US_PER_S, 1));
	}
	r->user = h;
	r->gone = hang_gone;
}

void gcp_imds_changed(struct inst *i)
{
	struct gcp_hang *next;

	for (struct gcp_hang *h = gcp_vm(i)->hangs; h; h = next) {
		const char *v = value_of(i, h->r->arena, h->path);

		next = h->next;
		if (v && !str_same(etag_of(h->r->arena, v), h->etag)) {
			hang_answer(h);
		}
	}
}

void gcp_imds_forget(struct inst *i)
{
	while (gcp_vm(i)->hangs) {
		struct gcp_hang *h = gcp_vm(i)->hangs;
		struct httpd_req *r = h->r;

		hang_unlink(h);
		r->gone = NULL;
		httpd_abort(r);
	}
}

/* ---- requests -------------------------------------------------------------------------------- */

static void get_value(struct inst *i, struct httpd_req *r, const char *what)
{
	const char *last = httpd_query(r, "last_etag"), *v = value_of(i, r->arena, what);
	const char *wait = httpd_query(r, "wait_for_change");
	const char *now = v ? etag_of(r->arena, v) : NULL;

	/* Without last_etag the next change is waited for, whatever was missed before. */
	if (v && (str_same(wait, "true") || str_same(wait, "TRUE")) &&
	    (!last || str_same(last, now))) {
		request_hang(i, r, what, now);
	} else {
		send_value(i, r, what);
	}
}

void gcp_imds(struct inst *i, struct httpd_req *r, const char *path)
{
	const char *flavor = httpd_header(r, "metadata-flavor"), *what;

	if (!i->own || i->state == INST_GONE || i->state == INST_SHUTTING ||
	    i->state == INST_STOPPED) {
		httpd_abort(r);
		return;
	}
	if (str_same(path, "/") || !*path) {
		text_send(r, 200, "application/text", "computeMetadata/\n");
		return;
	}
	if (!str_prefix(path, "/computeMetadata/v1")) {
		send_error(r, 404, "The requested URL was not found on this server.");
		return;
	}
	/* Only the VM itself may ask: no browser, no proxy. */
	if (!str_same(flavor, "Google") || httpd_header(r, "x-forwarded-for")) {
		send_error(r, 403,
		    "Your client does not have permission to get URL from this server. "
		    "Missing Metadata-Flavor:Google header.");
		return;
	}
	if (!str_same(r->method, "GET")) {
		send_error(r, 405, "The request method is inappropriate for the URL.");
		return;
	}
	what = path + strlen("/computeMetadata/v1");
	what += *what == '/';
	if (str_prefix(what, "instance/service-accounts/") &&
	    what[strlen("instance/service-accounts/")]) {
		account_request(i, r, what);
	} else {
		get_value(i, r, what);
	}
}
