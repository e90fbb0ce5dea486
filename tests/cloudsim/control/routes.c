/* The table of control calls, and the dispatch of a request to one of them. */
#include "base/base.h"
#include "cloudsim/control/control.h"
#include "base/text/text.h"

const struct control_call control_calls[] = {
	{ "POST", "/advance", "{\"seconds\": S}", "{\"clock_us\": US}",
	    "Move the replay clock forward. The wall clock stays.", control_advance, NULL },
	{ "GET", "/books", "",
	    "{\"sum_micros\": N, \"alive\": N, \"instances\": [LINE], \"double_launches\": [...], "
	    "\"left\": [TEXT]}",
	    "Return the provider's bill: per instance from and to, price segments and cost. Member "
	    "left names other things that cost money. Member double_launches names launches of one "
	    "token that each made instances.",
	    NULL, control_books },
	{ "POST", "/config",
	    "{\"lag_ms\": MS, \"boot_ms\": MS, \"terminate_ms\": MS, \"notice_ms\": MS, "
	    "\"throttle\": true, "
	    "\"lambda_tags\": true}",
	    "{}",
	    "Change settings; those absent stay. lambda_tags false leaves tags out of listings.",
	    control_config, NULL },
	{ "GET", "/credentials", "", "{CLOUD: CREDENTIALS}", "Return the current credentials.",
	    NULL, control_keys },
	{ "POST", "/credentials",
	    "{\"action\": \"rotate\" | \"rotate_lambda\" | \"expire\" | \"session\", \"seconds\": "
	    "3600}",
	    "the new credentials, or {\"expired\": N}",
	    "Make a new AWS key and revoke the old one, make a new Lambda key, expire all AWS "
	    "sessions, or "
	    "make a session.",
	    control_credentials, NULL },
	{ "GET", "/credentials/container", "", "CREDENTIALS of a new session",
	    "Serve AWS_CONTAINER_CREDENTIALS_FULL_URI.", NULL, control_container },
	{ "GET", "/events", "?since=SEQ&event=PATTERN&instance=PATTERN&token=PATTERN",
	    "{\"events\": [EVENT], \"seq\": SEQ}",
	    "List events after since. Pass seq as the next since. token matches the client token, "
	    "or the "
	    "name where a cloud has no token.",
	    NULL, control_events },
	{ "GET", "/fault", "", "{\"faults\": [FAULT]}", "List the faults that are armed.", NULL,
	    control_faults },
	{ "POST", "/fault",
	    "{\"match\": {\"service\": PATTERN, \"action\": PATTERN, \"path\": PATTERN, "
	    "\"region\": "
	    "PATTERN}, \"kind\": KIND, \"count\": 1, \"skip\": 0, \"probability\": 1, \"ms\": MS, "
	    "\"status\": "
	    "N, \"code\": TEXT, \"message\": TEXT, \"body\": TEXT, \"after\": false}",
	    "{\"id\": N}",
	    "Arm a fault for the next count requests that match (-1 = for ever), past the first "
	    "skip. "
	    "Kinds of faults are listed above.",
	    control_fault, NULL },
	{ "DELETE", "/fault", "?id=N", "{\"dropped\": N}", "Drop one fault, or all without id.",
	    NULL, control_fault_drop },
	{ "POST", "/feed", "{\"cloud\": \"aws\" | \"gcp\" | \"azure\", \"frozen\": true}", "{}",
	    "Freeze a cloud's feed of prices, or let it go on. The cost of machines stays live.",
	    control_feed, NULL },
	{ "GET", "/healthz", "", "{\"ok\": true}", "Answer when the program is ready.", NULL,
	    control_health },
	{ "GET", "/identity-certificate", "", "PEM",
	    "Return the certificate that signs AWS identity documents.", NULL,
	    control_certificate },
	{ "POST", "/kill",
	    "{\"instance\": PATTERN} or {\"pool\": POOL}, \"what\": \"program\" | \"reboot\", "
	    "\"max\": N",
	    "{\"instances\": [ID]}",
	    "Fail a host without a notice. With what=program only the process tree ends; with "
	    "what=reboot it also starts again.",
	    control_kill, NULL },
	{ "POST", "/maintenance",
	    "{\"instance\": PATTERN} or {\"pool\": POOL}, \"code\": \"instance-retirement\", "
	    "\"in_s\": 3600, "
	    "\"state\": \"active\", \"also\": {\"code\", \"in_s\", \"state\"}",
	    "{\"instances\": [ID]}",
	    "Announce a scheduled event in the metadata service, and at AWS in "
	    "DescribeInstanceStatus. "
	    "also adds a second one.",
	    control_maintenance, NULL },
	{ "GET", "/pools", "?pool=POOL",
	    "{\"pools\": [{\"provider\", \"region\", \"zone\", \"zone_name\", \"type\", "
	    "\"spot_micros\", "
	    "\"on_demand_micros\", \"spot_stock\", \"on_demand_stock\", \"spot_used\", "
	    "\"on_demand_used\", "
	    "\"advertised\"}]}",
	    "List pools. A price null is not sold; a stock null is unlimited.", NULL,
	    control_pools },
	{ "POST", "/price", "{\"pool\": POOL, \"usd\": 1.25 | null}", "{\"pools\": N}",
	    "Set a price per hour from now on; null follows the record again.", control_price,
	    NULL },
	{ "POST", "/quit", "", "{}", "End all instances, then the program.", control_quit, NULL },
	{ "POST", "/quota",
	    "{\"provider\": \"aws\", \"region\": PATTERN, \"code\": PATTERN, \"vcpus\": N}", "{}",
	    "Set applied quotas. Another provider takes the body of POST /PROVIDER/quota.",
	    control_quota, NULL },
	{ "POST", "/reclaim",
	    "{\"instance\": PATTERN} or {\"pool\": POOL}, \"notice_s\": S, \"rebalance_s_before\": "
	    "0, "
	    "\"max\": N, \"stock\": N",
	    "{\"instances\": [ID]}",
	    "Take spot machines back: rebalance recommendation, notice, end. notice_s is the "
	    "cloud's own "
	    "by default; 0 gives no notice.",
	    control_reclaim, NULL },
	{ "GET", "/role/...", "", "as the EC2 instance metadata service",
	    "Serve AWS_EC2_METADATA_SERVICE_ENDPOINT of a broker with an instance role.", NULL,
	    control_role },
	{ "GET", "/state", "?provider=NAME&live=1",
	    "{\"now_us\": US, \"clock_us\": US, \"alive\": N, \"seq\": SEQ, \"instances\": [...], "
	    "\"launches\": [...], \"requests\": [...], \"faults\": [...]}",
	    "Return instances with their whole life, launches, request counts and faults.", NULL,
	    control_state },
	{ "POST", "/status", "{\"instance\": PATTERN} or {\"pool\": POOL}, \"status\": TEXT | null",
	    "{\"instances\": [ID]}", "Show this status at Lambda; null shows the real one.",
	    control_status, NULL },
	{ "POST", "/stock",
	    "{\"pool\": POOL, \"count\": N | null, \"advertised\": true | false | null}",
	    "{\"pools\": N}",
	    "Limit how many instances may run at once; null is unlimited. advertised says whether "
	    "Lambda "
	    "lists the type as available.",
	    control_stock, NULL },
	{ "POST", "/unhealthy", "{\"instance\": PATTERN} or {\"pool\": POOL}",
	    "{\"instances\": [ID]}", "Set the state of instances to unhealthy.", control_unhealthy,
	    NULL },
	{ "GET", "/wait",
	    "?event=PATTERN&instance=PATTERN&token=PATTERN&since=SEQ&count=1&timeout_ms=30000",
	    "{\"events\": [EVENT], \"seq\": SEQ, \"timeout\": false}",
	    "Hold the request until count matching events exist.", NULL, control_wait },
	{ .path = NULL },
};

static bool call_matches(const struct control_call *c, const char *method, const char *path)
{
	const char *dots = strstr(c->path, "...");

	if (dots) { /* every method */
		return strncmp(c->path, path, (size_t)(dots - c->path)) == 0;
	}
	return str_same(c->method, method) && str_same(c->path, path);
}

static const struct control_call *call_find(const char *method, const char *path)
{
	for (const struct control_call *c = control_calls; c->path; c++) {
		if (call_matches(c, method, path)) {
			return c;
		}
	}
	return clouds_call(method, path);
}

static json_t *call_post(struct sim *s, const char *path, const json_t *doc, struct arena *a,
    struct spot_err *err)
{
	const struct control_call *c = call_find("POST", path);

	if (!c) {
		err_set(err, SPOT_NOT_FOUND, "no such control call: POST %s", path);
		return NULL;
	}
	return c->post(s, doc, a, err);
}

bool control_apply(struct sim *s, const json_t *doc, struct spot_err *err)
{
	struct arena *a AUTO(arena) = arena_new(0);
	size_t k;
	json_t *item;

	if (!json_is_array(doc)) {
		err_set(err, SPOT_CONFIG,
		    "a market file is an array of {\"post\": path, \"body\": {...}}");
		return false;
	}
	json_array_foreach (doc, k, item) {
		const char *path = json_need_str(item, "post", err);
		json_t *done =
		    path ? call_post(s, path, json_object_get(item, "body"), a, err) : NULL;

		if (!done) {
			return false;
		}
		json_decref(done);
	}
	return true;
}

static void post_serve(struct sim *s, struct httpd_req *r)
{
	struct spot_err err = { 0 };
	json_t *doc = NULL, *out;

	if (r->body.n == 0) {
		doc = json_object();
	} else if (json_parse(r->body, "request", &doc, &err) != SPOT_OK) {
		control_send_error(r, &err);
		return;
	}
	out = call_post(s, r->path, doc, r->arena, &err);
	json_decref(doc);
	if (out) {
		control_send(r, 200, out);
	} else {
		control_send_error(r, &err);
	}
}

void control_handle(void *ctx, struct httpd_req *r)
{
	struct sim *s = ctx;
	const struct control_call *c = call_find(r->method, r->path);
	json_t *out;

	if (c && c->get) {
		out = c->get(s, r);
		if (out) {
			control_send(r, 200, out);
		}
	} else if (str_same(r->method, "POST")) {
		post_serve(s, r);
	} else if (str_same(r->method, "GET")) {
		control_send(r, 404, json_pack("{s:s}", "error", "no such control call"));
	} else {
		control_send(r, 405, json_pack("{s:s}", "error", "method not allowed"));
	}
}

/* ---- CONTROL.md ------------------------------------------------------------------------------ */

/* Prints text in lines of at most 98 columns; the second line and on are indented. */
static void text_print(FILE *out, const char *first, const char *indent, const char *text)
{
	size_t at = strlen(first);

	fputs(first, out);
	while (*text) {
		size_t n = strcspn(text, " ");

		if (at + 1 + n > 98) {
			fprintf(out, "\n%s", indent);
			at = strlen(indent);
		} else if (at > strlen(indent)) {
			at += (size_t)fprintf(out, " ");
		}
		at += (size_t)fprintf(out, "%.*s", (int)n, text);
		text += n + (text[n] == ' ');
	}
	fputc('\n', out);
}

static void calls_print(FILE *out, const char *title, const struct control_call *c)
{
	fprintf(out, "\n## %s\n", title);
	for (; c && c->path; c++) {
		fprintf(out, "\n### %s %s\n\n", c->method, c->path);
		text_print(out, "", "", c->about);
		fputc('\n', out);
		if (*c->takes) {
			text_print(out, "    takes ", "          ", c->takes);
		}
		text_print(out, "    gives ", "          ", c->gives);
	}
}

void control_print(FILE *out)
{
	fputs("# The control API of cloudsim\n\n"
	      "A test changes the emulated clouds and looks at them with these calls: JSON over "
	      "HTTP on the\n"
	      "control port, without authentication. `cloudsim.json` names the port "
	      "(`urls.control`).\n"
	      "`cloudsim --control-doc` writes this page from the route tables; a test compares "
	      "the two.\n\n"
	      "- Calls and members of requests and replies stay; new ones are added.\n"
	      "- A refusal is `{\"error\": TEXT, \"code\": CODE}` with a status from 400 on.\n"
	      "- POOL is `\"provider/region/zone/type/market\"` or an object with those members. "
	      "An empty\n"
	      "  part means any. A zone is a name or an id. A market is spot or on_demand.\n"
	      "- A PATTERN may hold `*` and `?`.\n"
	      "- Times that end in `_us` are microseconds since 1970; `_micros` are millionths of "
	      "a dollar.\n",
	    out);
	calls_print(out, "All clouds", control_calls);
	for (enum cloud c = CLOUD_AWS; c < CLOUD_COUNT; c++) {
		if (cloud_ops(c)->calls) {
			calls_print(out, cloud_name(c), cloud_ops(c)->calls);
		}
	}
}
