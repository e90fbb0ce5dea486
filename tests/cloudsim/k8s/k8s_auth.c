/*
 * Authentication and authorization. A CKS cluster has two hosts. The managed one takes CoreWeave's
 * API access tokens only (an expired one is 403 there). The one that begins with "api." takes
 * service account tokens only (401 for anything else). RBAC is the broker's ClusterRole, no more.
 */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

/* ---- authentication -------------------------------------------------------------------------- */

/* Host "x.k8s.zone.localhost" is the managed form; a bare address stands for "api.". */
static bool host_managed(struct k8s_call *q)
{
	const struct k8s_port *p = container_of(q->rq->port, struct k8s_port, front);
	const char *host = req_header(q->rq, "host");

	if (!q->c->zone) {
		return false;
	}
	return p->managed || (host && strstr(host, ".k8s.") && !str_prefix(host, "api."));
}

static bool call_refuse(struct k8s_call *q, int status, const char *reason, const char *message)
{
	const struct k8s_kind *kind = q->kind;

	q->kind = NULL; /* such a Status names no object */
	k8s_fail_with(q, status, reason, NULL, message);
	q->kind = kind;
	return false;
}

static bool api_token(struct k8s_call *q, const char *token)
{
	const struct coreweave *cw = q->rq->sim->coreweave;

	if (token && str_same(token, cw->api_token) && !cw->token_expired && !q->rq->expire) {
		q->admin = true;
		q->user = "api-token@cloudsim.example";
		return true;
	}
	return call_refuse(q, 403, "Forbidden",
	    arena_printf(q->arena, "forbidden: User \"system:anonymous\" cannot %s path \"%s\"",
		q->verb, q->rq->http->path));
}

bool k8s_authenticate(struct k8s_call *q)
{
	const char *header = req_header(q->rq, "authorization"), *why,
		   *token = header && str_prefix(header, "Bearer ") ? header + 7 : NULL;
	json_t *claims, *aud;
	bool ours = false;
	size_t k;

	q->managed = host_managed(q);
	if (q->managed) {
		return api_token(q, token);
	}
	claims = token && !q->rq->expire ? token_verify(q->c, q->arena, token, &why) : NULL;
	json_array_foreach (json_object_get(claims, "aud"), k, aud) {
		ours = ours || str_same(json_string_value(aud), q->c->issuer);
	}
	if (!claims || !ours) {
		json_decref(claims);
		return call_refuse(q, 401, "Unauthorized", "Unauthorized");
	}
	q->user = arena_strdup(q->arena, k_str(claims, "sub"));
	q->user_ns =
	    arena_strdup(q->arena, k_str(json_object_get(claims, "kubernetes.io"), "namespace"));
	q->user_name = arena_strdup(q->arena,
	    k_str(json_object_get(claims, "kubernetes.io"), "serviceaccount.name"));
	json_decref(claims);
	return true;
}

/* ---- authorization --------------------------------------------------------------------------- */

/* The rules of deploy/iam/coreweave-rbac.yaml, word for word (test_kubernetes_sdk.py compares
 * them). ns NULL: a ClusterRole; name NULL: any object. Node programs get no rights at all. */
static const struct {
	const char *group, *resources, *verbs, *ns, *name;
} broker_role[] = {
	{ "", "pods", "get list watch create delete", K8S_NAMESPACE_OURS, NULL },
	{ "", "events resourcequotas", "list", K8S_NAMESPACE_OURS, NULL },
	{ "", "serviceaccounts/token", "create", K8S_NAMESPACE_OURS, K8S_ACCOUNT_BROKER },
	{ "", "events", "list", "default", NULL },
	{ "", "nodes", "list", NULL, NULL },
	{ POOL_API, "nodepools", "get list create patch", NULL, NULL },
	{ "authentication.k8s.io", "tokenreviews", "create", NULL, NULL },
};

static bool word_in(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; (p = strstr(p, word)) != NULL; p += n) {
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) {
			return true;
		}
	}
	return false;
}

/* A Role holds in its namespace only, and a rule with names for requests that name one of them. */
static bool rule_holds(size_t k, const struct k8s_ask *ask)
{
	return str_same(broker_role[k].group, ask->group) &&
	    word_in(broker_role[k].resources, ask->resource) &&
	    word_in(broker_role[k].verbs, ask->verb) &&
	    (!broker_role[k].ns || str_same(broker_role[k].ns, ask->ns)) &&
	    (!broker_role[k].name || str_same(broker_role[k].name, ask->name));
}

bool k8s_may(struct k8s_cluster *c, bool admin, const char *ns, const char *account,
    const struct k8s_ask *ask)
{
	char text[160];
	size_t k;
	json_t *x;

	if (str_same(ask->group, "authorization.k8s.io") ||
	    str_same(ask->resource, "selfsubjectreviews")) {
		return true; /* system:basic-user */
	}
	if (admin) {
		return true;
	}
	if (!str_same(ns, K8S_NAMESPACE_OURS) || !str_same(account, K8S_ACCOUNT_BROKER)) {
		return false;
	}
	snprintf(text, sizeof(text), "%s %s", ask->verb, ask->resource);
	json_array_foreach (c->denied, k, x) {
		if (glob_match(json_string_value(x), text)) {
			return false;
		}
	}
	for (k = 0; k < ARRAY_LEN(broker_role); k++) {
		if (rule_holds(k, ask)) {
			return true;
		}
	}
	return false;
}

bool k8s_authorize(struct k8s_call *q)
{
	const char *resource =
	    q->sub ? arena_printf(q->arena, "%s/%s", q->kind->plural, q->sub) : q->kind->plural;
	const char *scope = q->ns && q->kind->namespaced
	    ? arena_printf(q->arena, " in the namespace \"%s\"", q->ns)
	    : " at the cluster scope";

	const struct k8s_ask ask = { q->verb, q->kind->group, resource,
		q->kind->namespaced ? q->ns : NULL, q->name };

	if (k8s_may(q->c, q->admin, q->user_ns, q->user_name, &ask)) {
		return true;
	}
	k8s_fail(q, 403, "Forbidden",
	    "%s%s%s%s is forbidden: User \"%s\" cannot %s resource \"%s\" in API group \"%s\"%s",
	    k8s_resource_text(q), q->name ? " \"" : "", q->name ? q->name : "", q->name ? "\"" : "",
	    q->user, q->verb, resource, q->kind->group, scope);
	return false;
}

/* ---- SelfSubjectAccessReview ----------------------------------------------------------------- */

void access_review(struct k8s_call *q)
{
	const json_t *want;
	const char *sub, *resource, *group, *verb;
	bool allowed;

	if (!k8s_body(q, "V1SelfSubjectAccessReview", "SelfSubjectAccessReview", false)) {
		return;
	}
	want = k_at(q->body, "spec.resourceAttributes");
	if (!want == !k_at(q->body, "spec.nonResourceAttributes")) {
		json_t *causes = json_array();

		cause_add(causes, "FieldValueInvalid", "spec.resourceAttributes",
		    "Invalid value: exactly one of nonResourceAttributes or resourceAttributes "
		    "must "
		    "be specified");
		k8s_fail_with(q, 422, "Invalid", causes, NULL);
		return;
	}
	sub = k_str(want, "subresource");
	resource = k_str(want, "resource") ? k_str(want, "resource") : "";
	group = k_str(want, "group") ? k_str(want, "group") : "";
	verb = k_str(want, "verb") ? k_str(want, "verb") : "";
	if (sub && *sub) {
		resource = arena_printf(q->arena, "%s/%s", resource, sub);
	}
	allowed = k8s_may(q->c, q->admin, q->user_ns, q->user_name,
	    &(struct k8s_ask){ verb, group, resource, k_str(want, "namespace"),
		k_str(want, "name") });
	k8s_reply(q, 201,
	    json_pack("{s:s, s:s, s:{s:n}, s:O, s:{s:b, s:s*}}", "kind", "SelfSubjectAccessReview",
		"apiVersion", "authorization.k8s.io/v1", "metadata", "creationTimestamp", "spec",
		json_object_get(q->body, "spec"), "status", "allowed", allowed, "reason",
		allowed ? "RBAC: allowed by ClusterRoleBinding \"spotbroker\"" : NULL));
}

/* ---- SelfSubjectReview ----------------------------------------------------------------------- */

void self_review(struct k8s_call *q)
{
	json_t *groups;

	if (!k8s_body(q, "V1SelfSubjectReview", "SelfSubjectReview", false)) {
		return;
	}
	groups = q->user_ns
	    ? json_pack("[s, o, s]", "system:serviceaccounts",
		  json_sprintf("system:serviceaccounts:%s", q->user_ns), "system:authenticated")
	    : json_pack("[s]", "system:authenticated");
	k8s_reply(q, 201,
	    json_pack("{s:s, s:s, s:{s:n}, s:{s:{s:s, s:o}}}", "kind", "SelfSubjectReview",
		"apiVersion", "authentication.k8s.io/v1", "metadata", "creationTimestamp", "status",
		"userInfo", "username", q->user, "groups", groups));
}
