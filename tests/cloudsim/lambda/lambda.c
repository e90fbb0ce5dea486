/* Lambda Cloud API, https://docs.lambda.ai/api/cloud: routing, authentication, rate limits. */
#include "base/base.h"
#include "cloudsim/lambda/lambda.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <strings.h>

/* One request a second, one launch per 12 seconds; a twentieth is let through for the jitter of
 * arrival. */
#define GENERAL_PER_S 1.0
#define LAUNCH_PER_S (1.0 / 12)
#define LIMIT_COST 0.95

static const char too_many[] =
    "<html>\r\n<head><title>429 Too Many Requests</title></head>\r\n<body>\r\n"
    "<center><h1>429 Too Many Requests</h1></center>\r\n</body>\r\n</html>\r\n";

static void lambda_new(struct sim *s)
{
	s->lambda = calloc(1, sizeof(*s->lambda));
	if (!s->lambda) {
		abort();
	}
	s->lambda->place = lambda_place_new();
}

static void lambda_free(struct sim *s)
{
	struct lambda_state *l = s->lambda;

	if (!l) {
		return;
	}
	for (size_t k = 0; k < l->keys_n; k++) {
		free(l->keys[k].id);
		free(l->keys[k].name);
		free(l->keys[k].public_key);
	}
	for (size_t k = 0; k < l->audit_n; k++) {
		free(l->audit[k].id);
		free(l->audit[k].action);
		free(l->audit[k].instance);
		free(l->audit[k].region);
		free(l->audit[k].type);
	}
	free(l->keys);
	free(l->audit);
	json_decref(l->place);
	free(l);
	s->lambda = NULL;
}

/* The audit record has the vendor's terminations too, without an actor. */
static void lambda_event(struct inst *i, const char *type)
{
	if (str_same(type, "shutting_down") && !str_same(i->ended_by, "api") &&
	    !str_same(i->ended_by, "quit")) {
		lambda_audit_add(i->sim, "terminated", i, false);
	}
}

static void lambda_inst_free(struct inst *i)
{
	json_decref(i->own);
	i->own = NULL;
}

static void lambda_classify(struct sim_req *rq)
{
	const char *path = rq->http->path + strlen("/api/v1");

	rq->proto = PROTO_PLAIN;
	rq->id_header = "x-amzn-RequestId";
	rq->service = "lambda";
	rq->account = "lambda";
	/* Ids are taken out, so that counters and faults name the route. */
	if (str_prefix(path, "/instances/")) {
		path = "/instances/{id}";
	} else if (str_prefix(path, "/ssh-keys/")) {
		path = "/ssh-keys/{id}";
	} else if (str_prefix(path, "/filesystems/")) {
		path = "/filesystems/{id}";
	} else if (str_prefix(path, "/firewall-rulesets/") &&
	    !str_same(path, "/firewall-rulesets/global")) {
		path = "/firewall-rulesets/{id}";
	}
	rq->action = arena_printf(rq->arena, "%s %s", rq->http->method, path);
}

/* ---- authentication -------------------------------------------------------------------------- */

static bool is_authorized(struct sim_req *rq, struct sim_reply *rep)
{
	const char *auth = req_header(rq, "authorization"), *key = lambda_key(rq->sim);
	struct str raw;

	if (!auth || !*auth) {
		reply_fail(rq, rep, 401, "global/invalid-api-key", "Missing API key.");
		return false;
	}
	if (!rq->expire && strncasecmp(auth, "Bearer ", 7) == 0 && str_same(auth + 7, key)) {
		return true;
	}
	/* Basic: the key as user, no password. */
	if (!rq->expire && strncasecmp(auth, "Basic ", 6) == 0 &&
	    base64_decode(rq->arena, auth + 6, strlen(auth + 6), &raw) &&
	    raw.n == strlen(key) + 1 && memcmp(raw.p, key, raw.n - 1) == 0 &&
	    raw.p[raw.n - 1] == ':') {
		return true;
	}
	reply_fail(rq, rep, 401, "global/invalid-api-key",
	    "API key was invalid, expired, or deleted.");
	return false;
}

static bool is_limited(struct sim_req *rq, struct sim_reply *rep)
{
	bool launch = str_same(rq->action, "POST /instance-operations/launch");

	if (throttle_take(rq->sim, "lambda|general", 1, GENERAL_PER_S, LIMIT_COST) &&
	    (!launch || throttle_take(rq->sim, "lambda|launch", 1, LAUNCH_PER_S, LIMIT_COST))) {
		return false;
	}
	/* The vendor documents no body for it: not the JSON envelope. */
	reply_set(rep, 429, "text/html", too_many, sizeof(too_many) - 1);
	rep->code = "429";
	return true;
}

/* ---- routes ---------------------------------------------------------------------------------- */

static json_t *body_read(struct sim_req *rq, struct sim_reply *rep)
{
	struct spot_err err = { 0 };
	json_t *doc = NULL;

	if (json_parse(rq->http->body, "request", &doc, &err) == SPOT_OK && json_is_object(doc)) {
		return doc;
	}
	json_decref(doc);
	reply_fail(rq, rep, 400, "global/invalid-parameters",
	    "Request body is not a JSON object: %s", err.text);
	return NULL;
}

static void with_body(struct sim_req *rq, struct sim_reply *rep)
{
	const char *path = rq->http->path + strlen("/api/v1");
	json_t *doc = body_read(rq, rep);

	if (!doc) {
		return;
	}
	if (!str_same(rq->http->method, "POST") && lambda_place_serve(rq, rep, path, doc)) {
		json_decref(doc);
		return;
	}
	if (!str_same(rq->http->method, "POST")) {
		reply_fail(rq, rep, 404, "global/not-found", "Path not found.");
	} else if (str_same(path, "/instance-operations/launch")) {
		lambda_launch(rq, rep, doc);
	} else if (str_same(path, "/instance-operations/terminate")) {
		lambda_terminate(rq, rep, doc);
	} else if (str_same(path, "/instance-operations/restart")) {
		lambda_restart(rq, rep, doc);
	} else if (str_same(path, "/ssh-keys")) {
		lambda_key_add(rq, rep, doc);
	} else if (str_prefix(path, "/instances/")) {
		lambda_rename(rq, rep, path + strlen("/instances/"), doc);
	} else if (!lambda_place_serve(rq, rep, path, doc)) {
		reply_fail(rq, rep, 404, "global/not-found", "Path not found.");
	}
	json_decref(doc);
}

static void lambda_serve(struct sim_req *rq, struct sim_reply *rep)
{
	const char *path = rq->http->path + strlen("/api/v1");
	bool get = str_same(rq->http->method, "GET");

	if (is_limited(rq, rep) || !is_authorized(rq, rep)) {
		return;
	}
	if (str_same(rq->http->method, "POST") || str_same(rq->http->method, "PUT") ||
	    str_same(rq->http->method, "PATCH")) {
		with_body(rq, rep);
	} else if (get && str_same(path, "/instance-types")) {
		lambda_types(rq, rep);
	} else if (get && str_same(path, "/regions")) {
		lambda_regions(rq, rep);
	} else if (get && str_same(path, "/images")) {
		lambda_images(rq, rep);
	} else if (get && str_same(path, "/instances")) {
		lambda_instances(rq, rep);
	} else if (get && str_prefix(path, "/instances/")) {
		lambda_instance(rq, rep, path + strlen("/instances/"));
	} else if (get && str_same(path, "/ssh-keys")) {
		lambda_keys(rq, rep);
	} else if (str_same(rq->http->method, "DELETE") && str_prefix(path, "/ssh-keys/")) {
		lambda_key_drop(rq, rep, path + strlen("/ssh-keys/"));
	} else if (get && str_same(path, "/audit-events")) {
		lambda_audit(rq, rep);
	} else if (!lambda_place_serve(rq, rep, path, NULL)) {
		reply_fail(rq, rep, 404, "global/not-found", "Path not found.");
	}
}

/* ---- the table ------------------------------------------------------------------------------- */

static void lambda_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	reply_json(rq, rep, status,
	    json_pack("{s:{s:s, s:s, s:s}}", "error", "code", code, "message", message,
		"suggestion", "See the message."));
}

/* A guest that shuts down does not end billing. */
static void lambda_guest_off(struct inst *i)
{
	i->state = INST_UNHEALTHY;
	books_event(i->sim, "unhealthy", i, NULL);
}

const struct cloud_ops lambda_cloud = {
	.name = "lambda",
	.notice_s = 120,
	.shared_prefix = "/api/v1/",
	.bills_from_launch = true,
	.init = lambda_new,
	.free = lambda_free,
	.classify = lambda_classify,
	.serve = lambda_serve,
	.error = lambda_error,
	.event = lambda_event,
	.guest_off = lambda_guest_off,
	.inst_free = lambda_inst_free,
};
