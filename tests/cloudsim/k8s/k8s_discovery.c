/* Paths without an object: version, discovery, health, and the token issuer's documents. */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"

#define VERSION "v1.36.1"

static json_t *versions_json(const char *group, const char *version)
{
	return json_pack("{s:s, s:[{s:o, s:s}], s:{s:o, s:s}}", "name", group, "versions",
	    "groupVersion", json_sprintf("%s/%s", group, version), "version", version,
	    "preferredVersion", "groupVersion", json_sprintf("%s/%s", group, version), "version",
	    version);
}

static json_t *groups_json(const struct k8s_call *q)
{
	json_t *groups = json_array();

	json_array_append_new(groups, versions_json("authentication.k8s.io", "v1"));
	json_array_append_new(groups, versions_json("authorization.k8s.io", "v1"));
	if (q->c->zone) {
		json_array_append_new(groups, versions_json(POOL_API, "v1alpha1"));
	}
	return json_pack("{s:s, s:s, s:o}", "kind", "APIGroupList", "apiVersion", "v1", "groups",
	    groups);
}

static json_t *verbs_json(const char *words)
{
	json_t *verbs = json_array();

	for (const char *p = words; *p;) {
		size_t n = strcspn(p, " ");

		json_array_append_new(verbs, json_stringn(p, n));
		p += n + (p[n] != '\0');
	}
	return verbs;
}

static json_t *resource_json(const struct k8s_kind *k, const char *sub, const char *kind,
    const char *verbs)
{
	return json_pack("{s:o, s:s, s:b, s:s, s:o}", "name",
	    json_sprintf("%s%s%s", k->plural, sub ? "/" : "", sub ? sub : ""), "singularName",
	    sub ? "" : k->singular, "namespaced", k->namespaced, "kind", kind, "verbs",
	    verbs_json(verbs));
}

static json_t *resources_json(const struct k8s_call *q, const char *group, const char *version)
{
	json_t *list = json_array();

	for (size_t i = 0; i < K8S_KINDS; i++) {
		const struct k8s_kind *k = &k8s_kinds[i];

		if (!str_same(k->group, group) || !str_same(k->version, version) ||
		    (i == K8S_NODE_POOL && !q->c->zone)) {
			continue;
		}
		json_array_append_new(list, resource_json(k, NULL, k->kind, k->verbs));
		if (i == K8S_POD || i == K8S_NODE || i == K8S_NODE_POOL) {
			json_array_append_new(list,
			    resource_json(k, "status", k->kind, "get patch update"));
		}
		if (i == K8S_POD) {
			json_array_append_new(list, resource_json(k, "log", "Pod", "get"));
		}
		if (i == K8S_SERVICE_ACCOUNT) {
			json_array_append_new(list,
			    resource_json(k, "token", "TokenRequest", "create"));
		}
	}
	if (json_array_size(list) == 0) {
		json_decref(list);
		return NULL;
	}
	return json_pack("{s:s, s:s, s:o, s:o}", "kind", "APIResourceList", "apiVersion", "v1",
	    "groupVersion", *group ? json_sprintf("%s/%s", group, version) : json_string(version),
	    "resources", list);
}

static json_t *group_document(const struct k8s_call *q, const char *path)
{
	char group[128], version[32];
	json_t *doc = NULL;

	if (sscanf(path, "/apis/%127[^/]/%31[^/]", group, version) == 2) {
		return resources_json(q, group, version);
	}
	if (sscanf(path, "/apis/%127[^/]", group) != 1) {
		return NULL;
	}
	for (size_t i = 0; i < K8S_KINDS && !doc; i++) {
		if (str_same(k8s_kinds[i].group, group) && (i != K8S_NODE_POOL || q->c->zone)) {
			doc = versions_json(group, k8s_kinds[i].version);
		}
	}
	if (doc) {
		k_set(doc, "kind", "APIGroup");
		k_set(doc, "apiVersion", "v1");
	}
	return doc;
}

static json_t *version_json(void)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "major", "1", "minor",
	    "36", "gitVersion", VERSION, "gitCommit", "0000000000000000000000000000000000000000",
	    "gitTreeState", "clean", "buildDate", "2026-06-10T00:00:00Z", "goVersion", "go1.25.3",
	    "compiler", "gc", "platform", "linux/amd64");
}

static json_t *issuer_json(const struct k8s_cluster *c)
{
	return json_pack("{s:s, s:o, s:[s], s:[s], s:[s]}", "issuer", c->issuer, "jwks_uri",
	    json_sprintf("%s/openid/v1/jwks", c->issuer), "response_types_supported", "id_token",
	    "subject_types_supported", "public", "id_token_signing_alg_values_supported", "RS256");
}

bool k8s_discovery(struct k8s_call *q)
{
	const char *path = q->rq->http->path;
	json_t *doc = NULL;

	if (!str_same(q->rq->http->method, "GET")) {
		return false;
	}
	if (str_same(path, "/healthz") || str_same(path, "/livez") || str_same(path, "/readyz")) {
		reply_set(q->rep, 200, "text/plain; charset=utf-8", "ok", 2);
		return true;
	}
	if (str_same(path, "/version") || str_same(path, "/version/")) {
		doc = version_json();
	} else if (str_same(path, "/api") || str_same(path, "/api/")) {
		doc = json_pack("{s:s, s:[s], s:[{s:s, s:o}]}", "kind", "APIVersions", "versions",
		    "v1", "serverAddressByClientCIDRs", "clientCIDR", "0.0.0.0/0", "serverAddress",
		    json_sprintf("127.0.0.1:%d", k8s_cluster_port(q->c, K8S_PORT_API)));
	} else if (str_same(path, "/apis") || str_same(path, "/apis/")) {
		doc = groups_json(q);
	} else if (str_same(path, "/api/v1") || str_same(path, "/api/v1/")) {
		doc = resources_json(q, "", "v1");
	} else if (str_same(path, "/.well-known/openid-configuration")) {
		doc = issuer_json(q->c);
	} else if (str_same(path, "/openid/v1/jwks")) {
		doc = token_jwks(q->c->sim, q->arena);
	} else if (str_prefix(path, "/apis/")) {
		doc = group_document(q, path);
	}
	if (doc) {
		k8s_reply(q, 200, doc);
	}
	return doc != NULL;
}
