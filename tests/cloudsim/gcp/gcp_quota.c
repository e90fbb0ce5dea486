/* Quotas: the region's and project's legacy metrics, and Cloud Quotas (cloudquotas.googleapis.com
 * v1). */
#include "base/base.h"
#include "cloudsim/gcp/gcp.h"
#include "base/text/text.h"

/* gpu: part of gcp_types.csv; metric: its name in the legacy list, NULL = not on it. */
static const struct {
	const char *gpu, *metric, *family, *id;
} kinds[] = {
	{ "T4", "NVIDIA_T4_GPUS", NULL, "NVIDIA-T4-GPUS" },
	{ "L4", "NVIDIA_L4_GPUS", NULL, "NVIDIA-L4-GPUS" },
	{ "A100-40", "NVIDIA_A100_GPUS", NULL, "NVIDIA-A100-GPUS" },
	{ "A100-80", "NVIDIA_A100_80GB_GPUS", NULL, "NVIDIA-A100-80GB-GPUS" },
	{ "V100", "NVIDIA_V100_GPUS", NULL, "NVIDIA-V100-GPUS" },
	{ "P100", "NVIDIA_P100_GPUS", NULL, "NVIDIA-P100-GPUS" },
	{ "P4", "NVIDIA_P4_GPUS", NULL, "NVIDIA-P4-GPUS" },
	{ "H100", "NVIDIA_H100_GPUS", "NVIDIA_H100", "NVIDIA-H100-GPUS" },
	{ "H100-mega", "NVIDIA_H100_MEGA_GPUS", "NVIDIA_H100_MEGA", "NVIDIA-H100-MEGA-GPUS" },
	{ "H200", "NVIDIA_H200_GPUS", "NVIDIA_H200", "NVIDIA-H200-GPUS" },
	{ "B200", "NVIDIA_B200_GPUS", "NVIDIA_B200", "NVIDIA-B200-GPUS" },
	{ "RTX6000", "NVIDIA_RTX_PRO_6000_GPUS", "NVIDIA_RTX_PRO_6000",
	    "NVIDIA-RTX-PRO-6000-GPUS" },
};

static size_t kind_of(const char *gpu)
{
	size_t k = 0;

	while (k + 1 < ARRAY_LEN(kinds) && !str_same(kinds[k].gpu, gpu)) {
		k++;
	}
	return k;
}

/* Spot GPUs of the newest families are not on the legacy list, on-demand ones from H100 on. */
static bool on_legacy_list(size_t k, enum side side)
{
	return !kinds[k].family || (side == SIDE_SPOT && str_same(kinds[k].gpu, "H100"));
}

int64_t gcp_quota_limit(const struct sim *s, const char *metric, const char *region)
{
	const struct gcp *g = s->gcp;

	for (size_t k = g->quotas_n; k > 0; k--) {
		const struct gcp_quota *q = &g->quotas[k - 1];

		if (glob_match(q->metric, metric) &&
		    glob_match(q->region, region ? region : "global")) {
			return q->limit;
		}
	}
	return s->conf.quota_vcpus;
}

/* Returns one instance's share of a metric: GPUs, vCPUs or GB of local SSD. */
static int64_t quota_share(const struct sim *s, const struct pool *p, enum side side,
    const char *metric)
{
	const struct gcp_type *t = gcp_type_of(s->gcp, p->type);
	bool spot = str_prefix(metric, "PREEMPTIBLE_");
	const char *plain = spot ? metric + strlen("PREEMPTIBLE_") : metric;

	if (str_same(metric, "GPUS_ALL_REGIONS")) {
		return t->gpus;
	}
	if (str_same(metric, "CPUS_ALL_REGIONS")) {
		return t->type->vcpus;
	}
	if (spot != (side == SIDE_SPOT)) {
		return 0;
	}
	if (str_same(plain, "CPUS")) {
		return t->type->vcpus;
	}
	if (str_same(plain, "LOCAL_SSD_GB") || str_same(plain, "LOCAL_SSD_TOTAL_GB")) {
		return (int64_t)t->ssds * 375;
	}
	return str_same(plain, kinds[kind_of(t->gpu)].metric) ? t->gpus : 0;
}

int64_t gcp_quota_usage(const struct sim *s, const char *metric, const char *region)
{
	int64_t sum = 0;

	for (size_t k = 0; k < s->market->pools_n; k++) {
		const struct pool *p = &s->market->pools[k];

		if (p->cloud != CLOUD_GCP || (region && !str_same(p->region->name, region))) {
			continue;
		}
		for (enum side side = 0; side < SIDE_COUNT; side++) {
			if (p->used[side] > 0) {
				sum += p->used[side] * quota_share(s, p, side, metric);
			}
		}
	}
	return sum;
}

const char *gcp_quota_passed(const struct sim *s, const struct gcp_want *w, int64_t *ret_limit,
    const char **ret_region)
{
	const char *mark = w->spot ? "PREEMPTIBLE_" : "";
	static char metric[3][80];
	const char *region = w->pool->region->name;

	snprintf(metric[0], sizeof(metric[0]), "%s%s", mark, kinds[kind_of(w->type->gpu)].metric);
	snprintf(metric[1], sizeof(metric[1]), "%sCPUS", mark);
	snprintf(metric[2], sizeof(metric[2]), "GPUS_ALL_REGIONS");
	for (size_t k = 0; k < 3; k++) {
		*ret_region = k < 2 ? region : NULL;
		*ret_limit = gcp_quota_limit(s, metric[k], *ret_region);
		if (gcp_quota_usage(s, metric[k], *ret_region) +
			quota_share(s, w->pool, w->side, metric[k]) >
		    *ret_limit) {
			return metric[k];
		}
	}
	return NULL;
}

/* ---- legacy lists ---------------------------------------------------------------------------- */

static void append_quota(const struct sim *s, json_t *list, const char *metric, const char *region)
{
	json_t *o = json_pack("{s:s, s:f}", "metric", metric, "limit",
	    (double)gcp_quota_limit(s, metric, region));
	int64_t used = gcp_quota_usage(s, metric, region);

	json_object_set_new(o, "usage", json_real((double)used));
	json_array_append_new(list, o);
}

json_t *gcp_quotas_json(const struct sim *s, const char *region)
{
	json_t *list = json_array();
	char text[80];

	if (!region) {
		append_quota(s, list, "GPUS_ALL_REGIONS", NULL);
		append_quota(s, list, "CPUS_ALL_REGIONS", NULL);
		return list;
	}
	append_quota(s, list, "CPUS", region);
	append_quota(s, list, "PREEMPTIBLE_CPUS", region);
	append_quota(s, list, "LOCAL_SSD_TOTAL_GB", region);
	append_quota(s, list, "PREEMPTIBLE_LOCAL_SSD_GB", region);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		if (on_legacy_list(k, SIDE_ON_DEMAND)) {
			append_quota(s, list, kinds[k].metric, region);
		}
		if (on_legacy_list(k, SIDE_SPOT)) {
			snprintf(text, sizeof(text), "PREEMPTIBLE_%s", kinds[k].metric);
			append_quota(s, list, text, region);
		}
	}
	return list;
}

/* ---- control --------------------------------------------------------------------------------- */

bool gcp_quota_set(struct sim *s, const json_t *doc, struct spot_err *err)
{
	const char *metric = json_need_str(doc, "metric", err),
		   *region = json_str(doc, "region", "*", err);
	int64_t limit = json_need_i64(doc, "limit", err);
	struct gcp *g = s->gcp;

	if (err->rc != SPOT_OK) {
		return false;
	}
	g->quotas = realloc(g->quotas, (g->quotas_n + 1) * sizeof(*g->quotas));
	if (!g->quotas) {
		abort();
	}
	g->quotas[g->quotas_n++] = (struct gcp_quota){ dup_text(metric), dup_text(region), limit };
	return true;
}

void gcp_quotas_free(struct sim *s)
{
	for (size_t k = 0; k < s->gcp->quotas_n; k++) {
		free(s->gcp->quotas[k].metric);
		free(s->gcp->quotas[k].region);
	}
	free(s->gcp->quotas);
	json_decref(s->gcp->preferences);
}

/* ---- Cloud Quotas ---------------------------------------------------------------------------- */

static json_t *details_json(const struct sim *s, const char *metric, const char *region)
{
	return json_pack("{s:o}", "value",
	    json_sprintf("%" PRId64, gcp_quota_limit(s, metric, region)));
}

static json_t *info_json(const char *id, const char *metric, const char *words, json_t *dimensions,
    json_t *entries)
{
	bool global = str_suffix(id, "-per-project");

	return json_pack("{s:o, s:s, s:o, s:s, s:b, s:s, s:s, s:s, s:s, s:o, s:o}", "name",
	    json_sprintf("projects/" GCP_PROJECT_NUMBER
			 "/locations/global/services/compute.googleapis.com/quotaInfos/%s",
		id),
	    "quotaId", id, "metric", json_sprintf("compute.googleapis.com/%s", metric), "service",
	    "compute.googleapis.com", "isPrecise", 1, "containerType", "PROJECT",
	    "quotaDisplayName", words, "metricDisplayName", words, "metricUnit",
	    global ? "1/{project}" : "1/{project}/{region}", "dimensions", dimensions,
	    "dimensionsInfos", entries);
}

static json_t *per_region(const struct sim *s, const char *metric)
{
	json_t *list = json_array();

	for (size_t k = 0; k < s->market->regions_n; k++) {
		const struct region *r = &s->market->regions[k];

		if (r->cloud == CLOUD_GCP) {
			json_array_append_new(list,
			    json_pack("{s:{s:s}, s:o, s:[s]}", "dimensions", "region", r->name,
				"details", details_json(s, metric, r->name), "applicableLocations",
				r->name));
		}
	}
	return list;
}

/* One entry without the region is the default of all others. */
static json_t *per_family(const struct sim *s)
{
	json_t *list = json_array();

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		int64_t common;

		if (!kinds[k].family) {
			continue;
		}
		common = gcp_quota_limit(s, kinds[k].metric, "-");
		json_array_append_new(list,
		    json_pack("{s:{s:s}, s:{s:o}, s:[s]}", "dimensions", "gpu_family",
			kinds[k].family, "details", "value", json_sprintf("%" PRId64, common),
			"applicableLocations", "global"));
		for (size_t r = 0; r < s->market->regions_n; r++) {
			const struct region *at = &s->market->regions[r];

			if (at->cloud == CLOUD_GCP &&
			    gcp_quota_limit(s, kinds[k].metric, at->name) != common) {
				json_array_append_new(list,
				    json_pack("{s:{s:s, s:s}, s:o, s:[s]}", "dimensions",
					"gpu_family", kinds[k].family, "region", at->name,
					"details", details_json(s, kinds[k].metric, at->name),
					"applicableLocations", at->name));
			}
		}
	}
	return list;
}

static json_t *all_infos(struct gcp_call *c)
{
	json_t *list = json_array();
	const struct sim *s = c->sim;

	json_array_append_new(list,
	    info_json("GPUS-PER-GPU-FAMILY-per-project-region", "gpus_per_gpu_family",
		"GPUs per GPU family", json_pack("[s, s]", "gpu_family", "region"), per_family(s)));
	json_array_append_new(list,
	    info_json("GPUS-ALL-REGIONS-per-project", "gpus_all_regions", "GPUs (all regions)",
		json_array(),
		json_pack("[{s:o, s:[s]}]", "details", details_json(s, "GPUS_ALL_REGIONS", NULL),
		    "applicableLocations", "global")));
	json_array_append_new(list,
	    info_json("CPUS-ALL-REGIONS-per-project", "cpus_all_regions", "CPUs (all regions)",
		json_array(),
		json_pack("[{s:o, s:[s]}]", "details", details_json(s, "CPUS_ALL_REGIONS", NULL),
		    "applicableLocations", "global")));
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		const char *spot = arena_printf(c->a, "PREEMPTIBLE_%s", kinds[k].metric);

		json_array_append_new(list,
		    info_json(arena_printf(c->a, "PREEMPTIBLE-%s-per-project-region", kinds[k].id),
			spot, spot, json_pack("[s]", "region"), per_region(s, spot)));
		if (!kinds[k].family) {
			json_array_append_new(list,
			    info_json(arena_printf(c->a, "%s-per-project-region", kinds[k].id),
				kinds[k].metric, kinds[k].metric, json_pack("[s]", "region"),
				per_region(s, kinds[k].metric)));
		}
	}
	return list;
}

static bool compute_service(struct gcp_call *c)
{
	if ((str_same(c->arg[0], GCP_PROJECT) || str_same(c->arg[0], GCP_PROJECT_NUMBER)) &&
	    str_same(c->arg[1], "compute.googleapis.com")) {
		return true;
	}
	gcp_fail(c, 403, "forbidden", "Permission denied on resource project %s.", c->arg[0]);
	return false;
}

void gcp_quota_infos(struct gcp_call *c)
{
	if (compute_service(c)) {
		gcp_page_generic(c, "quotaInfos", all_infos(c), 500, false);
	}
}

void gcp_quota_info(struct gcp_call *c)
{
	json_t *list, *one;
	size_t k;

	if (!compute_service(c)) {
		return;
	}
	list = all_infos(c);
	json_array_foreach (list, k, one) {
		if (str_same(gcp_text(one, "quotaId"), c->arg[2])) {
			gcp_reply(c, json_incref(one));
			json_decref(list);
			return;
		}
	}
	json_decref(list);
	gcp_fail(c, 404, "notFound", "Quota info %s was not found.", c->arg[2]);
}

void gcp_quota_preference(struct gcp_call *c)
{
	struct spot_err err = { 0 };
	json_t *doc AUTO(json) = NULL;
	const char *id = gcp_param(c, "quotaPreferenceId");
	int64_t want;
	json_t *config;

	if (json_parse(c->rq->http->body, "body", &doc, &err) != SPOT_OK ||
	    !gcp_text(doc, "quotaId") || !gcp_text(doc, "service") ||
	    !json_object_get(doc, "quotaConfig")) {
		gcp_fail(c, 400, "badRequest", "service, quotaId and quotaConfig are required.");
		return;
	}
	want = gcp_i64(json_object_get(doc, "quotaConfig"), "preferredValue", -1);
	if (want < 0) {
		gcp_fail(c, 400, "badRequest", "quotaConfig.preferredValue is invalid.");
		return;
	}
	config = json_pack("{s:o, s:s}", "preferredValue", json_sprintf("%" PRId64, want),
	    "requestOrigin", "ORIGIN_UNSPECIFIED");
	json_object_set_new(doc, "quotaConfig", config);
	json_object_set_new(doc, "reconciling", json_true());
	json_object_set_new(doc, "name",
	    json_sprintf("projects/" GCP_PROJECT_NUMBER "/locations/global/quotaPreferences/%s",
		id ? id : sim_id(c->sim, c->a, "", 8)));
	gcp_reply(c, json_incref(doc));
}
