/*
 * Checks our identity, the identity of a node, and our permissions. Nothing is created: access is
 * asked by SelfSubjectAccessReview, identity by TokenReview (kubernetes/api authorization/v1,
 * authentication/v1).
 */
#include "base/base.h"
#include "coreweave_priv.h"

/* ---- whoami ---------------------------------------------------------------------------------- */

enum spot_step cw_whoami(void *p, struct spot_call *c, const char **ret_account)
{
	const struct cw *self = p;
	struct cw_cluster *cl;
	const char *user;
	json_t *doc = NULL;
	enum spot_step s;
	size_t i = 0;

	cl = cw_cluster_next(self, "", "", &i);
	while (cl != NULL && cl->bad_rc != SPOT_OK) {
		cl = cw_cluster_next(self, "", "", &i);
	}
	if (cl == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL, "%s whoami: no cluster", self->name);
	}
	if (c->in == NULL) {
		AUTO(json)
		json_t *body = json_pack("{s:s, s:s}", "apiVersion", "authentication.k8s.io/v1",
		    "kind", "SelfSubjectReview");

		cw_request(self, c, cl, "POST",
		    "/apis/authentication.k8s.io/v1/selfsubjectreviews");
		cw_request_json(c, "application/json", body);
		return SPOT_SEND;
	}
	if (c->in->status == 404) {
		*ret_account =
		    arena_strdup(c->arena, cl->name); /* Kubernetes before 1.28 cannot tell */
		return SPOT_DONE;
	}
	s = cw_reply_get(c, cl, "whoami", false, "SelfSubjectReview", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	user = cw_words(c->arena,
	    json_string_value(
		json_object_get(json_object_get(json_object_get(doc, "status"), "userInfo"),
		    "username")));
	*ret_account = arena_printf(c->arena, "%s@%s", user, cl->name);
	json_decref(doc);
	return user[0] != '\0' ? SPOT_DONE : cw_bad_reply(c, "whoami", false, "no user name");
}

/* ---- verify ---------------------------------------------------------------------------------- */

static bool list_has(const json_t *list, const char *word)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (str_same(json_string_value(json_array_get(list, i)), word)) {
			return true;
		}
	}
	return false;
}

static const char *proof_token(struct spot_call *c, struct str proof)
{
	struct spot_err ignored = { 0 };
	AUTO(json) json_t *doc = NULL;

	if (json_parse(proof, "proof", &doc, &ignored) != SPOT_OK ||
	    !str_same(json_string_value(json_object_get(doc, "kind")), "kubernetes")) {
		return NULL;
	}
	return arena_strdup(c->arena, json_string_value(json_object_get(doc, "token")));
}

static enum spot_step verify_read(const struct cw *self, struct spot_call *c,
    const struct spot_verify *a, const struct cw_ref *ref)
{
	json_t *doc = NULL;
	enum spot_step s = cw_reply_get(c, ref->cl, "verify", false, "TokenReview", &doc);
	const json_t *status, *user, *extra;
	const char *why = NULL,
		   *name = arena_printf(c->arena, "system:serviceaccount:%s:%s", self->space,
		       self->node_account);

	if (s != SPOT_STEP_NONE) {
		/* 403 here is our right to ask, not the node's. */
		c->err.rc = s == SPOT_FAIL && c->err.rc == SPOT_DENIED ? SPOT_CONFIG : c->err.rc;
		return s;
	}
	status = json_object_get(doc, "status");
	user = json_object_get(status, "user");
	extra = json_object_get(user, "extra");
	if (!json_is_true(json_object_get(status, "authenticated"))) {
		why = arena_printf(c->arena, "the cluster does not know the token: %s",
		    cw_str(c->arena, status, "error"));
	} else if (!list_has(json_object_get(status, "audiences"),
		       cw_audience(self, a->audience))) {
		why = "the token was made for another audience";
	} else if (!str_same(json_string_value(json_object_get(user, "username")), name)) {
		why = "the token is of another service account";
	} else if (!list_has(json_object_get(extra, "authentication.kubernetes.io/pod-uid"),
		       ref->uid) ||
	    !list_has(json_object_get(extra, "authentication.kubernetes.io/pod-name"), ref->pod)) {
		why = "the token is of another Pod";
	}
	json_decref(doc);
	return why == NULL
	    ? SPOT_DONE
	    : call_fail(c, SPOT_DENIED, NULL, "verify %s: %s", ref->pod, cw_words(c->arena, why));
}

enum spot_step cw_verify(void *p, struct spot_call *c, struct spot_verify *a)
{
	const struct cw *self = p;
	struct cw_ref ref;
	const char *token;
	AUTO(json) json_t *body = NULL;

	if (!cw_ref_parse(self, c->arena, a->ref, &ref) || ref.cl == NULL || ref.pod == NULL) {
		return call_fail(c, SPOT_CONFIG, NULL, "%s verify: '%.100s' leads to no cluster",
		    self->name, a->ref);
	}
	if (ref.cl->bad_rc != SPOT_OK) {
		return cw_cluster_bad(c, ref.cl, "verify");
	}
	if (c->in != NULL) {
		return verify_read(self, c, a, &ref);
	}
	token = proof_token(c, a->proof);
	if (str_empty(token) || strlen(token) > 16384) {
		return call_fail(c, SPOT_DENIED, NULL,
		    "%s verify: the proof has no service account token", self->name);
	}
	body = json_pack("{s:s, s:s, s:{s:s, s:[s]}}", "apiVersion", "authentication.k8s.io/v1",
	    "kind", "TokenReview", "spec", "token", token, "audiences",
	    cw_audience(self, a->audience));
	if (body == NULL) {
		return call_fail(c, SPOT_DENIED, NULL, "%s verify: the token is not UTF-8",
		    self->name);
	}
	cw_request(self, c, ref.cl, "POST", "/apis/authentication.k8s.io/v1/tokenreviews");
	cw_request_json(c, "application/json", body);
	return SPOT_SEND;
}

/* ---- check ----------------------------------------------------------------------------------- */

static const struct access {
	const char *group, *resource, *sub, *verb;
	bool spaced, cks_only, renews;
	const char *space; /* NULL = ours */
} accesses[] = {
	{ "", "pods", "", "create", true, false, false, NULL },
	{ "", "pods", "", "delete", true, false, false, NULL },
	{ "", "pods", "", "get", true, false, false, NULL },
	{ "", "pods", "", "list", true, false, false, NULL },
	{ "", "pods", "", "watch", true, false, false, NULL },
	{ "", "nodes", "", "list", false, false, false, NULL },
	{ "", "events", "", "list", true, false, false, NULL },
	{ "", "events", "", "list", true, true, false, "default" },
	{ "", "resourcequotas", "", "list", true, false, false, NULL },
	{ "", "serviceaccounts", "token", "create", true, false, true, NULL },
	{ "authentication.k8s.io", "tokenreviews", "", "create", false, false, false, NULL },
	{ "compute.coreweave.com", "nodepools", "", "get", false, true, false, NULL },
	{ "compute.coreweave.com", "nodepools", "", "list", false, true, false, NULL },
	{ "compute.coreweave.com", "nodepools", "", "create", false, true, false, NULL },
	{ "compute.coreweave.com", "nodepools", "", "patch", false, true, false, NULL },
};
#define ACCESSES ARRAY_LEN(accesses)
#define AT_CRD ACCESSES /* then: is the NodePool resource there */

struct checking {
	struct cw_cluster *cl;
	size_t next, at, cap;
	bool clock;
};

static void finding_add(struct spot_call *c, struct spot_check *a, struct checking *k,
    const char *name, enum spot_check_state state, const char *words, const char *fix)
{
	a->items = arena_grow(c->arena, a->items, a->n, &k->cap, sizeof(*a->items));
	a->items[a->n++] =
	    (struct spot_check_item){ .name = arena_printf(c->arena, "%s: %s", k->cl->name, name),
		    .state = state,
		    .words = cw_words(c->arena, words),
		    .fix = fix };
}

static bool access_needed(const struct cw *self, size_t at)
{
	if (at == AT_CRD) {
		return self->cks;
	}
	return (!accesses[at].cks_only || self->cks) &&
	    (!accesses[at].renews || self->account != NULL);
}

static enum spot_step check_send(const struct cw *self, struct spot_call *c,
    const struct checking *k)
{
	const struct access *x = &accesses[MIN(k->at, ACCESSES - 1)];
	AUTO(json) json_t *body = NULL;

	if (k->at == AT_CRD) {
		cw_request(self, c, k->cl, "GET", CW_NODEPOOLS "?limit=1");
		return SPOT_SEND;
	}
	body = json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s, s:s}}}", "apiVersion",
	    "authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
	    "resourceAttributes", "group", x->group, "resource", x->resource, "subresource", x->sub,
	    "verb", x->verb, "namespace",
	    !x->spaced             ? ""
		: x->space != NULL ? x->space
				   : self->space);
	if (x->renews) {
		/* The right is for this one account. */
		json_object_set_new(json_object_get(json_object_get(body, "spec"),
					"resourceAttributes"),
		    "name", json_string(self->account));
	}
	cw_request(self, c, k->cl, "POST",
	    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
	cw_request_json(c, "application/json", body);
	return SPOT_SEND;
}

static bool check_next(const struct cw *self, struct spot_call *c, const struct spot_check *a,
    struct spot_check *out, struct checking *k)
{
	if (k->cl != NULL) {
		k->at++;
	}
	while (k->cl == NULL || k->at > AT_CRD || !access_needed(self, k->at)) {
		if (k->cl != NULL && k->at < AT_CRD) {
			k->at++;
			continue;
		}
		k->cl = cw_cluster_next(self, a->region, "", &k->next);
		if (k->cl == NULL) {
			return false;
		}
		k->at = 0;
		k->clock = false;
		if (k->cl->bad_rc != SPOT_OK) {
			finding_add(c, out, k, "reach", SPOT_CHECK_BAD, k->cl->bad,
			    "check the kubeconfig, its address and its token");
			k->at = AT_CRD + 1;
		}
	}
	return true;
}

static void clock_check(struct spot_call *c, struct spot_check *a, struct checking *k)
{
	int64_t skew;

	if (k->clock || !call_clock_off(c, &skew)) {
		return;
	}
	k->clock = true;
	if (skew > -60 * SPOT_US_PER_S && skew < 60 * SPOT_US_PER_S) {
		finding_add(c, a, k, "clock", SPOT_CHECK_OK, "within a minute of the cluster's",
		    "");
	} else {
		finding_add(c, a, k, "clock", SPOT_CHECK_WARN,
		    arena_printf(c->arena, "the cluster's Date is %s",
			spot_http_header(c->in, "date")),
		    "synchronise this machine's clock (NTP)");
	}
}

static void check_crd(struct spot_call *c, struct spot_check *a, struct checking *k,
    const struct cw_reply *r)
{
	if (r->rc == SPOT_OK) {
		finding_add(c, a, k, "NodePool resource", SPOT_CHECK_OK, "is there", "");
	} else {
		finding_add(c, a, k, "NodePool resource", SPOT_CHECK_BAD,
		    arena_printf(c->arena, "HTTP %d %s", c->in->status, r->words),
		    "this is no CKS cluster, or the role lacks nodepools: for other clusters use "
		    "kind = kubernetes");
	}
}

static void check_access(const struct cw *self, struct spot_call *c, struct spot_check *a,
    struct checking *k, const struct cw_reply *r)
{
	const struct access *x = &accesses[k->at];
	const json_t *status = json_object_get(r->doc, "status");
	const char *name = arena_printf(c->arena, "%s %s%s%s%s%s", x->verb, x->resource,
	    x->sub[0] != '\0' ? "/" : "", x->sub, x->spaced ? " in " : "",
	    !x->spaced             ? ""
		: x->space != NULL ? x->space
				   : self->space);

	if (r->rc != SPOT_OK) {
		finding_add(c, a, k, name, SPOT_CHECK_UNTESTED,
		    arena_printf(c->arena, "HTTP %d %s", c->in->status, r->words),
		    "look at the cluster's address and the token");
	} else if (json_is_true(json_object_get(status, "allowed"))) {
		finding_add(c, a, k, name, SPOT_CHECK_OK, "allowed", "");
	} else {
		finding_add(c, a, k, name, SPOT_CHECK_BAD, "not allowed",
		    arena_printf(c->arena,
			"kubectl apply -f deploy/iam/coreweave-rbac.yaml in cluster %s (namespace "
			"%s)",
			k->cl->name, self->space));
	}
}

enum spot_step cw_check(void *p, struct spot_call *c, struct spot_check *a)
{
	const struct cw *self = p;
	struct checking *k = c->state;
	struct cw_reply r;

	if (k == NULL) {
		c->state = k = arena_alloc(c->arena, sizeof(*k));
		a->n = 0;
		if (!check_next(self, c, a, a, k)) {
			return SPOT_DONE;
		}
	}
	if (c->in == NULL) {
		return check_send(self, c, k);
	}
	cw_reply_read(c, k->cl->managed, &r);
	if (r.rc == SPOT_UNAVAILABLE || r.rc == SPOT_THROTTLED || r.rc == SPOT_UNAUTHENTICATED) {
		json_decref(r.doc);
		return cw_reply_verdict(c, k->cl, "check", false, &r);
	}
	clock_check(c, a, k);
	if (k->at == AT_CRD) {
		check_crd(c, a, k, &r);
	} else {
		check_access(self, c, a, k, &r);
	}
	json_decref(r.doc);
	return check_next(self, c, a, a, k) ? check_send(self, c, k) : SPOT_DONE;
}
