/* The OpenAPI 3.1 document, made from the route table and schemas.json when the daemon starts. */
#include "base/base.h"
#include "api/server/server_priv.h"

static const char *scope_words(enum scope s)
{
	switch (s) {
	case SCOPE_PUBLIC:
		return "anybody";
	case SCOPE_METRICS:
		return "viewer, or anybody on the loopback interface";
	case SCOPE_VIEWER:
		return "viewer";
	case SCOPE_ENGINEER:
		return "engineer or service";
	case SCOPE_LEAD:
		return "lead";
	case SCOPE_ADMIN:
		return "admin";
	case SCOPE_NODE:
		return "an agent's session";
	case SCOPE_NONE:
		break;
	}
	return "nobody";
}

static json_t *schema_ref(const char *name)
{
	return json_pack("{s:o}", "$ref", json_sprintf("#/components/schemas/%s", name));
}

static void add_parameters(json_t *list, const struct route *r)
{
	for (const char *p = r->path; (p = strchr(p, '{')); p++) {
		const char *end = strchr(p, '}');

		json_array_append_new(list,
		    json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name", p + 1, (size_t)(end - p - 1),
			"in", "path", "required", 1, "schema", "type", "string"));
	}
	for (const char *p = r->query; *p;) {
		const char *end = strchrnul(p, ' ');

		json_array_append_new(list,
		    json_pack("{s:s%, s:s, s:{s:s}}", "name", p, (size_t)(end - p), "in", "query",
			"schema", "type", "string"));
		p = *end ? end + 1 : end;
	}
	if (r->shared) {
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:s, s:{s:s}}", "name", "If-None-Match", "in", "header",
			"description", "The ETag of an earlier reply: 304 if nothing changed.",
			"schema", "type", "string"));
	}
	if (strcmp(r->method, "POST") == 0 && r->scope != SCOPE_NODE && r->scope != SCOPE_PUBLIC) {
		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:{s:s, s:i}}", "name", "Idempotency-Key", "in", "header",
			"schema", "type", "string", "maxLength", 128));
	}
}

static json_t *body_of(const struct route *r)
{
	json_t *content = json_object();

	json_object_set_new(content, "application/json",
	    json_pack("{s:o}", "schema", schema_ref(r->in)));
	if (strcmp(r->in, "JobFile") == 0) {
		json_object_set_new(content, "application/yaml",
		    json_pack("{s:o}", "schema", schema_ref(r->in)));
	}
	return json_pack("{s:b, s:o}", "required",
	    strcmp(r->in, "RebalanceAsk") != 0 && strcmp(r->in, "DoctorAsk") != 0, "content",
	    content);
}

/* A shared reply has a tag, and a reply without a body if the client has it already. */
static void add_tagged(json_t *responses, json_t *ok)
{
	json_object_set_new(ok, "headers",
	    json_pack("{s:{s:s, s:{s:s}}, s:{s:s, s:{s:s}}}", "ETag", "description",
		"A weak tag of the reply, in which ages do not count.", "schema", "type", "string",
		"Content-Encoding", "description",
		"gzip, if Accept-Encoding permits it and the reply has 1 KiB or more.", "schema",
		"type", "string"));
	json_object_set_new(responses, "304",
	    json_pack("{s:s}", "description",
		"The reply has the tag of If-None-Match. There is no body."));
}

static json_t *operation_json(const struct route *r)
{
	json_t *op = json_object(), *params = json_array(), *responses = json_object(), *ok;
	char status[8];

	snprintf(status, sizeof(status), "%d", r->status);
	add_parameters(params, r);
	ok = json_pack("{s:s}", "description", r->doc);
	if (r->out) {
		json_object_set_new(ok, "content",
		    json_pack("{s:{s:o}}", "application/json", "schema", schema_ref(r->out)));
	}
	json_object_set_new(responses, status, ok);
	if (r->shared) {
		add_tagged(responses, ok);
	}
	json_object_set_new(responses, "default",
	    json_pack("{s:s, s:{s:{s:o}}}", "description", "A problem (RFC 9457).", "content",
		"application/problem+json", "schema", schema_ref("Problem")));
	json_object_set_new(op, "summary", json_string(r->doc));
	json_object_set_new(op, "description",
	    json_sprintf("Least role: %s.", scope_words(r->scope)));
	json_object_set_new(op, "parameters", params);
	if (r->in) {
		json_object_set_new(op, "requestBody", body_of(r));
	}
	json_object_set_new(op, "responses", responses);
	json_object_set_new(op, "security",
	    r->scope == SCOPE_PUBLIC ? json_array() : json_pack("[{s:[]}]", "bearer"));
	return op;
}

static void text_lower(char *dst, size_t n, const char *src)
{
	size_t i = 0;

	for (; src[i] && i + 1 < n; i++) {
		dst[i] = (char)(src[i] | 0x20);
	}
	dst[i] = '\0';
}

char *openapi_text(struct arena *a, const struct routes *routes, const char *version, size_t *ret_n)
{
	json_t *paths = json_object(), *schemas = view_parse(api_schemas_json), *doc;
	char *text;

	assert(json_is_object(schemas));
	for (size_t i = 0; i < routes->n; i++) {
		const struct route *r = routes->rows[i];
		json_t *item = json_object_get(paths, r->path);
		char method[12];

		assert(!r->in || json_object_get(schemas, r->in));
		assert(!r->out || json_object_get(schemas, r->out));
		if (!item) {
			item = json_object();
			json_object_set_new(paths, r->path, item);
		}
		text_lower(method, sizeof(method), r->method);
		json_object_set_new(item, method, operation_json(r));
	}
	doc = json_pack("{s:s, s:{s:s, s:s, s:s}, s:o, s:{s:o, s:{s:{s:s, s:s}}}}", "openapi",
	    "3.1.0", "info", "title", "Spotbroker", "version", version, "description",
	    "The REST API of Spotbroker. Errors are application/problem+json (RFC 9457) with a "
	    "stable 'code'.",
	    "paths", paths, "components", "schemas", schemas, "securitySchemes", "bearer", "type",
	    "http", "scheme", "bearer");
	text = json_text(a, doc);
	*ret_n = strlen(text);
	json_decref(doc);
	return text;
}

void get_openapi(struct areq *q)
{
	struct api *api = q->api;

	if (api->openapi.p == NULL) { /* few clients ask for it */
		api->openapi.p =
		    openapi_text(api->arena, &api->routes, api->conf.version, &api->openapi.n);
	}
	areq_reply(q, 200, "application/json", api->openapi.p, api->openapi.n);
}
