/*
 * CoreWeave: market data, the control plane (docs.coreweave.com/products/cks/reference/cks-api:
 * bearer API access token, google.rpc error details), start and end of the clusters.
 */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

/* ---- market ---------------------------------------------------------------------------------- */

static bool load_types(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	struct coreweave *cw = s->coreweave;
	struct table t;

	if (!table_open(s, &t, "coreweave_types.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		struct itype *y = market_type_add(m, CLOUD_COREWEAVE, col(&t, "instance_type"));
		struct cw_type *w;
		int64_t ki = 0;

		if (!parse_i64(col(&t, "mem_ki"), 1, INT64_MAX, &ki)) {
			ki = 1;
		}
		y->gpu = market_keep(m, col(&t, "gpu"));
		y->gpus = col_int(&t, "gpus");
		y->gpu_mem_mib = col_int(&t, "gpu_mem_gib") * 1024;
		y->vcpus = col_int(&t, "vcpus");
		y->mem_mib = (int)(ki / 1024);
		y->arch = market_keep(m, col(&t, "arch"));
		y->network = market_keep(m, col(&t, "network"));
		cw->types = realloc(cw->types, (cw->types_n + 1) * sizeof(*cw->types));
		if (!cw->types) {
			abort();
		}
		w = &cw->types[cw->types_n++];
		*w = (struct cw_type){ .type = y,
			.class = market_keep(m, col(&t, "class")),
			.model = market_keep(m, col(&t, "model")),
			.mem_ki = ki,
			.rdma = col_int(&t, "rdma"),
			.arm = str_same(col(&t, "arch"), "arm64"),
			.rack = str_same(col(&t, "rack"), "true"),
			.superchip = str_same(col(&t, "superchip"), "true") };
	}
	return err->rc == SPOT_OK;
}

static bool load_pools(struct sim *s, struct spot_err *err)
{
	struct market *m = s->market;
	struct table t;

	if (!table_open(s, &t, "coreweave_pools.csv", err)) {
		return false;
	}
	while (table_next(&t)) {
		const char *region = col(&t, "region"), *zone = col(&t, "zone");
		struct zone *z = market_zone(m, region, zone);
		struct region *r = market_region_add(m, CLOUD_COREWEAVE, region);

		if (!z) {
			z = market_zone_add(m, r, zone, zone);
		}
		if (!market_pool_add(s, r, z,
			market_type(m, CLOUD_COREWEAVE, col(&t, "instance_type")),
			col_usd(&t, "spot"), col_usd(&t, "on_demand"))) {
			err_set(err, SPOT_CONFIG, "coreweave_pools.csv line %d: unknown type",
			    t.csv.line);
			return false;
		}
	}
	return err->rc == SPOT_OK;
}

static struct k8s_cluster *cluster_add(struct sim *s, const char *name, const char *region,
    const char *zone, const char *host)
{
	struct k8s_cluster *c = k8s_cluster_new(s, name, zone), **at = &s->coreweave->clusters;

	c->region = dup_text(region);
	c->host = dup_text(host);
	while (*at) {
		at = &(*at)->next;
	}
	*at = c;
	return c;
}

bool cw_load(struct sim *s, struct spot_err *err)
{
	struct coreweave *cw = s->coreweave = calloc(1, sizeof(*cw));

	if (!cw) {
		abort();
	}
	cw->api_token = sim_id(s, NULL, "CW-SECRET-", 16);
	cluster_add(s, "gpu-east", "US-EAST", "US-EAST-04A",
	    "cloudsim-1a2b3c.k8s.us-east-04a.localhost");
	cluster_add(s, "gpu-west", "US-WEST", "US-WEST-04A",
	    "cloudsim-4d5e6f.k8s.us-west-04a.localhost");
	cluster_add(s, "plain", NULL, NULL, NULL);
	return schema_load(s, err) && load_types(s, err) && load_pools(s, err) && tls_make(s, err);
}

/* ---- start and end --------------------------------------------------------------------------- */

/* The object store: bucket names in the host only (docs.coreweave.com, products/storage). */
static bool objects_open(struct sim *s, struct spot_err *err)
{
	struct front_port *p = &s->coreweave->object_port;
	struct httpd_conf conf = { .address = "127.0.0.1",
		.ctx = p,
		.url_max = 16384,
		.handle = front_handle,
		.body_max = front_body_max,
		.queued_max = (size_t)256 << 20 };

	p->sim = s;
	p->own = p; /* s3.c: virtual hosts */
	return httpd_new(s->loop, &conf, &p->http, err) == SPOT_OK;
}

bool cw_ready(struct sim *s, struct spot_err *err)
{
	if (!objects_open(s, err)) {
		return false;
	}
	for (struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (!k8s_cluster_open(c, err)) {
			return false;
		}
	}
	return true;
}

void cw_announce(const struct sim *s, json_t *urls, json_t *credentials)
{
	const struct coreweave *cw = s->coreweave;
	json_t *clusters;

	if (credentials) {
		json_object_set_new(credentials, "coreweave",
		    json_pack("{s:s}", "api_token", cw->api_token));
	}
	if (!urls) {
		return;
	}
	json_object_set_new(urls, "coreweave",
	    json_sprintf("http://127.0.0.1:%d", cloud_port(s, CLOUD_COREWEAVE)));
	json_object_set_new(urls, "cwobject",
	    json_sprintf("http://localhost:%d", httpd_port(cw->object_port.http)));
	clusters = json_array();
	for (struct k8s_cluster *c = cw->clusters; c; c = c->next) {
		json_array_append_new(clusters, k8s_cluster_json(c));
	}
	json_object_set_new(urls, "kubernetes", clusters);
}

void cw_stop(struct sim *s)
{
	for (struct k8s_cluster *c = s->coreweave ? s->coreweave->clusters : NULL; c; c = c->next) {
		k8s_cluster_stop(c);
	}
}

bool cw_busy(const struct sim *s)
{
	if (!s->coreweave) {
		return false;
	}
	for (const struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		if (c->programs > 0) {
			return true;
		}
	}
	return s->coreweave->orphans > 0;
}

void cw_close(struct sim *s)
{
	for (struct k8s_cluster *c = s->coreweave ? s->coreweave->clusters : NULL; c; c = c->next) {
		k8s_cluster_close(c);
	}
	if (s->coreweave) {
		httpd_free(s->coreweave->object_port.http);
		s->coreweave->object_port.http = NULL;
	}
}

void cw_free(struct sim *s)
{
	struct coreweave *cw = s->coreweave;

	if (!cw) {
		return;
	}
	while (cw->clusters) {
		struct k8s_cluster *c = cw->clusters;

		cw->clusters = c->next;
		k8s_cluster_free(c);
	}
	free(cw->types);
	free(cw->api_token);
	free(cw);
	s->coreweave = NULL;
	schema_free();
	k8s_keys_free();
}

/* ---- requests -------------------------------------------------------------------------------- */

void cw_classify(struct sim_req *rq)
{
	if (rq->port->own) {
		k8s_classify(rq);
		return;
	}
	rq->service = "coreweave";
	rq->action = arena_printf(rq->arena, "%s %s", rq->http->method, rq->http->path);
}

static const struct {
	int status, code;
	const char *name;
} rpc_codes[] = { { 400, 3, "INVALID_ARGUMENT" }, { 401, 16, "UNAUTHENTICATED" },
	{ 403, 7, "PERMISSION_DENIED" }, { 404, 5, "NOT_FOUND" }, { 409, 6, "ALREADY_EXISTS" },
	{ 429, 8, "RESOURCE_EXHAUSTED" }, { 500, 13, "INTERNAL" }, { 501, 12, "UNIMPLEMENTED" },
	{ 503, 14, "UNAVAILABLE" } };

/* google.rpc.Status in JSON: code is the number, details carry their type. */
void cw_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	int number = 2;
	json_t *details;

	if (rq->port->own) {
		k8s_error(rq, rep, status, code, message);
		return;
	}
	details = json_array();
	for (size_t k = 0; k < ARRAY_LEN(rpc_codes); k++) {
		if (rpc_codes[k].status == status) {
			number = rpc_codes[k].code;
		}
	}
	if (status == 404) {
		json_array_append_new(details,
		    json_pack("{s:s, s:s, s:s, s:s}", "@type",
			"type.googleapis.com/google.rpc.ResourceInfo", "resourceType", "Cluster",
			"resourceName", rq->http->path, "description", message));
	}
	if (status == 429) {
		json_array_append_new(details,
		    json_pack("{s:s, s:[{s:s, s:s}]}", "@type",
			"type.googleapis.com/google.rpc.QuotaFailure", "violations", "subject",
			"organization", "description", message));
	}
	reply_json(rq, rep, status,
	    json_pack("{s:i, s:s, s:o}", "code", number, "message", message, "details", details));
}

static json_t *cluster_json(const struct k8s_cluster *c)
{
	char at[TIME_TEXT_MAX];

	format_time_s(c->sim->start_us - 720 * SPOT_US_PER_HOUR, at);
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:{s:s, s:s, s:[s]}, s:o, s:s, s:s, s:s, "
			 "s:b, "
			 "s:s}",
	    "id", c->id, "name", c->name, "zone", c->zone, "vpcId",
	    "7d4c1f0e-0000-4000-8000-000000000001", "public", 1, "version", "v1.36", "network",
	    "podCidrName", "pod-cidr", "serviceCidrName", "service-cidr", "internalLbCidrNames",
	    "internal-lb-cidr", "apiServerEndpoint",
	    json_sprintf("https://%s:%d", c->host, k8s_cluster_port(c, K8S_PORT_TLS)),
	    "serviceAccountOidcIssuerUrl", c->issuer, "createdAt", at, "updatedAt", at,
	    "isUpgradeable", 0, "status", "STATUS_RUNNING");
}

static void clusters_list(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *items = json_array();

	for (const struct k8s_cluster *c = rq->sim->coreweave->clusters; c; c = c->next) {
		if (c->zone) {
			json_array_append_new(items, cluster_json(c));
		}
	}
	reply_json(rq, rep, 200, json_pack("{s:o}", "items", items));
}

static void cluster_get(struct sim_req *rq, struct sim_reply *rep, const char *id)
{
	for (const struct k8s_cluster *c = rq->sim->coreweave->clusters; c; c = c->next) {
		if (c->zone && str_same(c->id, id)) {
			reply_json(rq, rep, 200, json_pack("{s:o}", "cluster", cluster_json(c)));
			return;
		}
	}
	reply_fail(rq, rep, 404, "NOT_FOUND", "cluster %s not found", id);
}

void cw_serve(struct sim_req *rq, struct sim_reply *rep)
{
	static const char base[] = "/v1beta1/cks/clusters";
	const char *header = req_header(rq, "authorization"), *path = rq->http->path;
	const struct coreweave *cw = rq->sim->coreweave;
	bool get = str_same(rq->http->method, "GET");

	if (rq->port->own) {
		k8s_serve(rq, rep);
		return;
	}
	if (!header || !str_prefix(header, "Bearer ")) {
		reply_fail(rq, rep, 401, "UNAUTHENTICATED", "missing bearer token");
		return;
	}
	/* An expired or revoked token is 403, not 401. */
	if (!str_same(header + 7, cw->api_token) || cw->token_expired || rq->expire) {
		reply_fail(rq, rep, 403, "PERMISSION_DENIED", "permission denied");
		return;
	}
	if (str_same(path, base) && get) {
		clusters_list(rq, rep);
	} else if (str_prefix(path, base) && path[sizeof(base) - 1] == '/' && get) {
		cluster_get(rq, rep, path + sizeof(base));
	} else if (str_prefix(path, base)) {
		reply_fail(rq, rep, 501, "UNIMPLEMENTED", "clusters are made in the console here");
	} else {
		reply_fail(rq, rep, 404, "NOT_FOUND", "no such method: %s", path);
	}
}

/* ---- paid things beside instances ------------------------------------------------------------ */

static int64_t pods_alive(const struct k8s_cluster *c, const char *pool)
{
	int64_t n = 0;

	for (const struct k8s_obj *p = c->objs[K8S_POD]; p; p = p->next) {
		const char *phase = k_str(p->doc, "status.phase"),
			   *node = k_str(p->doc, "spec.nodeName");
		const struct k8s_obj *o = node ? k8s_find(c, K8S_NODE, NULL, node) : NULL;

		if (str_same(phase, "Succeeded") || str_same(phase, "Failed")) {
			continue;
		}
		n += o && str_same(node_pool_of(o), pool);
	}
	return n;
}

static void left_add(json_t *left, const struct k8s_cluster *c, const char *what, const char *name)
{
	json_array_append_new(left, json_sprintf("%s/%s/%s", c->name, what, name));
}

/* Pods; open orders (a target above the pool's live Pods); nodes on which nothing runs. */
void cw_left(const struct sim *s, json_t *left)
{
	for (const struct k8s_cluster *c = s->coreweave->clusters; c; c = c->next) {
		for (const struct k8s_obj *o = c->objs[K8S_POD]; o; o = o->next) {
			left_add(left, c, "pod", o->name);
		}
		for (const struct k8s_obj *o = c->objs[K8S_NODE_POOL]; o; o = o->next) {
			if (!json_object_get(k_at(o->doc, "metadata.labels"),
				"cks.coreweave.cloud/system-critical") &&
			    k_int(o->doc, "spec.targetNodes", 0) > pods_alive(c, o->name)) {
				left_add(left, c, "nodepool-target", o->name);
			}
		}
		for (const struct k8s_obj *o = c->objs[K8S_NODE]; o; o = o->next) {
			if (o->inst && !node_busy(o)) {
				left_add(left, c, "idle-node", o->name);
			}
		}
	}
}
