#include "base/base.h"
#include "gcp_priv.h"

/* The project: its regions, its identity, its quotas. */

#define REGIONS_WHAT "regions.list"
#define PROJECT_WHAT "projects.get"
#define QUOTA_WHAT "quotaInfos.get"

/* ---- regions --------------------------------------------------------------------------------- */

static enum spot_step regions_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = REGIONS_WHAT,
		.path = arena_printf(c->arena, "/compute/v1/projects/%s/regions?maxResults=500%s",
		    self->project, gcp_page(c)),
		.limit = GCP_LIMIT_LIST };

	return gcp_send(self, c, &r);
}

/* Each item to take, until it says no. */
typedef bool region_fn(struct spot_call *c, void *ctx, const char *name, const json_t *item);

static enum spot_step regions_reply(struct gcp *self, struct spot_call *c, region_fn *take,
    void *ctx, bool *ret_more)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *items, *item;
	size_t i;
	enum spot_step s = gcp_reply(self, c, REGIONS_WHAT, "compute#regionList", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	if (items != NULL && !json_is_array(items)) {
		return gcp_bad_reply(c, REGIONS_WHAT, "items is not a list");
	}
	json_array_foreach (items, i, item) {
		const char *name = json_string_value(json_object_get(item, "name"));

		/* It goes into paths. */
		if (!gcp_zone_ok(name)) {
			return gcp_bad_reply(c, REGIONS_WHAT, "items[%zu] has no region's name", i);
		}
		if (str_same(json_string_value(json_object_get(item, "status")), "DOWN") ||
		    !gcp_region_wanted(self, name)) {
			continue;
		}
		if (!take(c, ctx, arena_strdup(c->arena, name), item)) {
			return gcp_bad_reply(c, REGIONS_WHAT, "%s: quotas without metric or limit",
			    name);
		}
	}
	*ret_more = gcp_next_page(c, REGIONS_WHAT, doc, &s);
	return s;
}

struct naming {
	const char **names;
	size_t n, cap;
};

static bool name_take(struct spot_call *c, void *ctx, const char *name, const json_t *item)
{
	struct naming *x = ctx;

	(void)item;
	x->names = arena_grow(c->arena, (void *)x->names, x->n, &x->cap, sizeof(*x->names));
	x->names[x->n++] = name;
	return true;
}

enum spot_step gcp_list_regions(void *p, struct spot_call *c, struct spot_regions *a)
{
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct naming));
	struct naming *x = st->own;
	bool more = true;

	if (self->regions_n > 0) {
		a->names = self->regions;
		a->n = self->regions_n;
		return SPOT_DONE;
	}
	if (c->in != NULL) {
		enum spot_step s = regions_reply(self, c, name_take, x, &more);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	if (more) {
		return regions_send(self, c);
	}
	a->names = x->names;
	a->n = x->n;
	return SPOT_DONE;
}

/* ---- whoami ---------------------------------------------------------------------------------- */

static enum spot_step project_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = PROJECT_WHAT,
		.path = arena_printf(c->arena, "/compute/v1/projects/%s", self->project),
		.limit = GCP_LIMIT_READ };

	return gcp_send(self, c, &r);
}

enum spot_step gcp_whoami(void *p, struct spot_call *c, const char **ret_account)
{
	struct gcp *self = p;
	json_t *doc AUTO(json) = NULL;
	bool bad = false;
	const char *name;
	enum spot_step s;

	call_state_get(c, 0);
	if (c->in == NULL) {
		return project_send(self, c);
	}
	s = gcp_reply(self, c, PROJECT_WHAT, "compute#project", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	name = gcp_str(c->arena, doc, "name", &bad);
	if (bad || *name == '\0') {
		return gcp_bad_reply(c, PROJECT_WHAT, "no name");
	}
	*ret_account = name;
	return SPOT_DONE;
}

/* ---- quotas ---------------------------------------------------------------------------------- */

/*
 * Regional quotas of Compute (docs.cloud.google.com/compute/resource-usage) name the older GPUs;
 * Cloud Quotas has the newer ones (docs.cloud.google.com/docs/quotas/api-overview). On demand is
 * per GPU family; each spot quota has its own id. GPUS_ALL_REGIONS caps what is not preemptible.
 * Spot uses the preemptible quota if there is one in that region, else the standard one.
 */

struct limits {
	const char *region;
	int64_t *standard, *spot; /* by gcp_gpus; -1 = not said */
};

struct quoting {
	struct limits *regions;
	size_t n, cap;
	int64_t all_regions; /* -1 = not said */
	size_t ask; /* which quota info is out */
};

/* 0: per family; then PREEMPTIBLE-NVIDIA-<metric>-GPUS-per-project-region of each GPU in turn. */
static const char *info_id(struct arena *a, size_t ask)
{
	char *metric;

	if (ask == 0) {
		return "GPUS-PER-GPU-FAMILY-per-project-region";
	}
	metric = arena_strdup(a, gcp_gpus[ask - 1].metric);
	for (char *p = metric; *p != '\0'; p++) {
		*p = *p == '_' ? '-' : *p;
	}
	return arena_printf(a, "PREEMPTIBLE-NVIDIA-%s-GPUS-per-project-region", metric);
}

/* Limits are doubles: 8 comes as 8.0 (region.quotas[].limit). */
static bool limit_read(const json_t *q, const char **ret_metric, int64_t *ret_limit)
{
	double limit;

	*ret_metric = json_string_value(json_object_get(q, "metric"));
	if (!gcp_double(json_object_get(q, "limit"), &limit) || limit <= -1e15 || limit >= 1e15) {
		return false;
	}
	*ret_limit = (int64_t)limit;
	return *ret_metric != NULL;
}

/* "NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_A100_80GB_GPUS". */
static void metric_take(struct limits *l, const char *metric, int64_t limit)
{
	bool spot = str_prefix(metric, "PREEMPTIBLE_");
	const char *rest = spot ? metric + 12 : metric;
	size_t n = strlen(rest);

	if (!str_prefix(rest, "NVIDIA_") || !str_suffix(rest, "_GPUS") || n < 13) {
		return;
	}
	for (size_t i = 0; i < gcp_gpus_n; i++) {
		const char *m = gcp_gpus[i].metric;

		if (strlen(m) == n - 12 && strncmp(m, rest + 7, n - 12) == 0) {
			(spot ? l->spot : l->standard)[i] = limit;
		}
	}
}

static bool region_take(struct spot_call *c, void *ctx, const char *name, const json_t *item)
{
	struct quoting *x = ctx;
	struct limits l = { .region = name,
		.standard = arena_array(c->arena, gcp_gpus_n, sizeof(int64_t)),
		.spot = arena_array(c->arena, gcp_gpus_n, sizeof(int64_t)) };
	const json_t *quotas = json_object_get(item, "quotas"), *q;
	size_t i;

	for (i = 0; i < gcp_gpus_n; i++) {
		l.standard[i] = l.spot[i] = -1;
	}
	json_array_foreach (quotas, i, q) {
		const char *metric;
		int64_t limit;

		if (!limit_read(q, &metric, &limit)) {
			return false;
		}
		metric_take(&l, metric, limit);
	}
	x->regions = arena_grow(c->arena, x->regions, x->n, &x->cap, sizeof(*x->regions));
	x->regions[x->n++] = l;
	return true;
}

static enum spot_step project_reply(struct gcp *self, struct spot_call *c, struct quoting *x)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *q;
	size_t i;
	enum spot_step s = gcp_reply(self, c, PROJECT_WHAT, "compute#project", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	json_array_foreach (json_object_get(doc, "quotas"), i, q) {
		const char *metric;
		int64_t limit;

		if (!limit_read(q, &metric, &limit)) {
			return gcp_bad_reply(c, PROJECT_WHAT, "quotas[%zu] has no metric or limit",
			    i);
		}
		if (strcmp(metric, "GPUS_ALL_REGIONS") == 0) {
			x->all_regions = limit;
		}
	}
	return SPOT_STEP_NONE;
}

static enum spot_step info_send(struct gcp *self, struct spot_call *c, const struct quoting *x)
{
	struct gcp_request r = { .service = GCP_QUOTAS,
		.method = "GET",
		.what = QUOTA_WHAT,
		.path = arena_printf(c->arena,
		    "/v1/projects/%s/locations/global/services/compute.googleapis.com/quotaInfos/"
		    "%s",
		    self->project, info_id(c->arena, x->ask)),
		.limit = GCP_LIMIT_QUOTAS };

	return gcp_send(self, c, &r);
}

static void info_set(const struct quoting *x, size_t gpu, const char *region, int64_t limit,
    bool only_unset)
{
	for (size_t i = 0; i < x->n; i++) {
		int64_t *at = x->ask == 0 ? &x->regions[i].standard[gpu] : &x->regions[i].spot[gpu];

		if ((*region == '\0' || strcmp(x->regions[i].region, region) == 0) &&
		    (!only_unset || *at < 0)) {
			*at = limit;
		}
	}
}

/* An entry with fewer dimensions is the default for the rest: those go last. */
static int info_rank(const struct quoting *x, const char *region, const char *family)
{
	bool whole = x->ask == 0 && *family == '\0';

	return *region != '\0' && !whole ? 0 : !whole && x->ask == 0 ? 1 : 2;
}

static bool info_take(struct spot_call *c, const struct quoting *x, const json_t *infos, int rank)
{
	const json_t *info;
	size_t i;

	json_array_foreach (infos, i, info) {
		bool bad = false;
		const json_t *dims = json_object_get(info, "dimensions");
		const char *region = gcp_str(c->arena, dims, "region", &bad);
		const char *family = gcp_str(c->arena, dims, "gpu_family", &bad);
		int64_t limit = gcp_int(json_object_get(info, "details"), "value", 0, &bad);

		if (bad) {
			return false;
		}
		if (info_rank(x, region, family) != rank) {
			continue;
		}
		/* -1 is taken for "no limit". */
		limit = limit < 0 ? INT32_MAX : limit;
		for (size_t g = 0; g < gcp_gpus_n; g++) {
			bool mine = x->ask > 0
			    ? g + 1 == x->ask
			    : *family == '\0' || strcmp(gcp_gpus[g].family, family) == 0;

			if (mine) {
				info_set(x, g, region, limit, rank > 0);
			}
		}
	}
	return true;
}

/* Cloud Quotas may be off or not permitted, and knows not every id: what is not said stays
 * unknown. */
static enum spot_step info_reply(struct gcp *self, struct spot_call *c, struct quoting *x)
{
	json_t *doc AUTO(json) = NULL;
	const json_t *infos;
	enum spot_step s;

	if (c->in->status == 404) {
		x->ask++;
		return SPOT_STEP_NONE;
	}
	s = gcp_reply(self, c, QUOTA_WHAT, NULL, &doc);
	if (s == SPOT_FAIL &&
	    (c->err.rc == SPOT_DENIED || c->err.rc == SPOT_CONFIG || c->err.rc == SPOT_INVALID)) {
		x->ask = c->err.rc == SPOT_INVALID ? x->ask + 1 : gcp_gpus_n + 1;
		return SPOT_STEP_NONE;
	}
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	infos = json_object_get(doc, "dimensionsInfos");
	for (int rank = 0; rank <= 2; rank++) {
		if ((infos != NULL && !json_is_array(infos)) || !info_take(c, x, infos, rank)) {
			return gcp_bad_reply(c, QUOTA_WHAT, "dimensionsInfos without value");
		}
	}
	x->ask++;
	return SPOT_STEP_NONE;
}

/* The next id that somebody needs: a GPU whose spot limit no regional quota names. */
static bool info_next(struct quoting *x)
{
	for (; x->ask <= gcp_gpus_n; x->ask++) {
		if (x->ask == 0) {
			return true;
		}
		for (size_t i = 0; i < x->n; i++) {
			if (x->regions[i].spot[x->ask - 1] < 0) {
				return true;
			}
		}
	}
	return false;
}

static void quota_add(struct gcp *self, struct spot_call *c, struct spot_quotas *a,
    const char *region, const struct gcp_gpu *gpu, enum spot_market market, int64_t limit)
{
	a->quotas[a->n++] = (struct spot_quota){ .provider = self->name,
		.region = region,
		.class = gcp_quota_class(c->arena, gpu->accelerator, market),
		.unit = "gpus",
		.market = market,
		.limit = limit,
		.observed_us = c->now_us };
}

static void quotas_result(struct gcp *self, struct spot_call *c, struct spot_quotas *a,
    const struct quoting *x)
{
	a->quotas = arena_array(c->arena, 3 * x->n * gcp_gpus_n + 1, sizeof(*a->quotas));
	a->n = 0;
	for (size_t i = 0; i < x->n; i++) {
		if (!str_empty(a->region) && strcmp(a->region, x->regions[i].region) != 0) {
			continue;
		}
		for (size_t g = 0; g < gcp_gpus_n; g++) {
			int64_t standard = x->regions[i].standard[g], spot = x->regions[i].spot[g];

			if (x->all_regions >= 0 && standard > x->all_regions) {
				standard = x->all_regions;
			}
			quota_add(self, c, a, x->regions[i].region, &gcp_gpus[g],
			    SPOT_MARKET_ON_DEMAND, standard);
			/* Without a quota of its own, spot uses the standard one; so does
			 * flex-start. */
			spot = spot == 0 && standard > 0 ? standard : MAX(spot, -1);
			quota_add(self, c, a, x->regions[i].region, &gcp_gpus[g], SPOT_MARKET_SPOT,
			    spot);
			if (self->flex_start) {
				quota_add(self, c, a, x->regions[i].region, &gcp_gpus[g],
				    SPOT_MARKET_FLEX_START, spot);
			}
		}
	}
}

enum spot_step gcp_quotas(void *p, struct spot_call *c, struct spot_quotas *a)
{
	enum { LIST = 0, PROJECT, INFOS };
	struct gcp *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct quoting));
	struct quoting *x = st->own;
	enum spot_step s = SPOT_STEP_NONE;
	bool more = false;

	if (c->in == NULL && st->at == LIST && st->next == NULL) {
		x->all_regions = -1;
	}
	if (c->in != NULL) {
		if (st->at == LIST) {
			s = regions_reply(self, c, region_take, x, &more);
		} else {
			s = st->at == PROJECT ? project_reply(self, c, x) : info_reply(self, c, x);
		}
		if (s != SPOT_STEP_NONE) {
			return s;
		}
		if (st->at < INFOS && !more) {
			st->at++;
		}
	}
	if (st->at == LIST) {
		return regions_send(self, c);
	}
	if (st->at == PROJECT) {
		return project_send(self, c);
	}
	if (info_next(x)) {
		return info_send(self, c, x);
	}
	quotas_result(self, c, a, x);
	return SPOT_DONE;
}
