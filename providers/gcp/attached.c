#include "base/base.h"
#include "gcp_priv.h"

/*
 * GPUs that are attached to N1 machines. Such a machine has no machine type of its own: it is a
 * host and a list of accelerators
 * (docs.cloud.google.com/compute/docs/gpus/create-gpu-vm-general-purpose). Its pools are called
 * "n1-standard-8+nvidia-tesla-t4x1". acceleratorTypes.aggregatedList has the accelerators of a zone
 * and the most that a machine may have. Counts are the powers of two up to that. Each count limits
 * the vCPUs and memory of its host (docs.cloud.google.com/compute/docs/gpus#n1-gpus). V100 is the
 * narrowest: 12 vCPUs and 78 GB for one GPU, 96 and 624 for eight, and in proportion between. The
 * hosts below fit all four models.
 */

#define WHAT "acceleratorTypes.aggregatedList"
#define FILTER "name eq \"nvidia-tesla-(t4|p4|v100|p100)\""

static const struct {
	int count;
	const char *host;
} hosts[] = { { 1, "n1-standard-8" }, { 2, "n1-standard-16" }, { 4, "n1-standard-32" },
	{ 8, "n1-standard-64" } };

static const char *const accelerators[] = { "nvidia-tesla-t4", "nvidia-tesla-p4",
	"nvidia-tesla-v100", "nvidia-tesla-p100" };

bool gcp_host(const char *machine)
{
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		if (strcmp(hosts[i].host, machine) == 0) {
			return true;
		}
	}
	return false;
}

static bool accelerator_attachable(const char *accelerator)
{
	for (size_t i = 0; i < ARRAY_LEN(accelerators); i++) {
		if (strcmp(accelerators[i], accelerator) == 0) {
			return true;
		}
	}
	return false;
}

bool gcp_attached(struct arena *a, const char *type, struct gcp_attached *ret)
{
	const char *plus = strchr(type, '+'), *x;
	struct gcp_attached t = { .machine = type };
	int64_t count;

	*ret = t;
	if (plus == NULL) {
		return false;
	}
	x = strrchr(plus, 'x');
	if (x == NULL || !parse_i64(x + 1, 1, 64, &count)) {
		return false;
	}
	t.machine = arena_strndup(a, type, (size_t)(plus - type));
	t.accelerator = arena_strndup(a, plus + 1, (size_t)(x - plus - 1));
	t.count = (int)count;
	if (!gcp_name_ok(t.machine) || !accelerator_attachable(t.accelerator)) {
		return false;
	}
	*ret = t;
	return true;
}

const char *gcp_attached_name(struct arena *a, const char *machine, const char *accelerator,
    int64_t count)
{
	return arena_printf(a, "%s+%sx%" PRId64, machine, accelerator, count);
}

bool gcp_attached_type(struct arena *a, const struct gcp_type *host,
    const struct gcp_attached *what, struct gcp_type *ret)
{
	const struct gcp_gpu *gpu = gcp_gpu_find(what->accelerator);

	if (gpu == NULL) {
		return false;
	}
	*ret = *host;
	ret->name = gcp_attached_name(a, host->name, what->accelerator, what->count);
	ret->accelerator = what->accelerator;
	ret->shape.gpu_name = gpu->ours;
	ret->shape.gpu_milli = what->count * 1000;
	ret->shape.gpu_mem_mib = gpu->mem_mib;
	return true;
}

/* ---- the list -------------------------------------------------------------------------------- */

enum spot_step gcp_accelerators_send(struct gcp *self, struct spot_call *c)
{
	struct gcp_request r = { .service = GCP_COMPUTE,
		.method = "GET",
		.what = WHAT,
		.limit = GCP_LIMIT_LIST };

	r.path = arena_printf(c->arena,
	    "/compute/v1/projects/%s/aggregated/acceleratorTypes?filter=%s&maxResults=500%s",
	    self->project, url_encode(c->arena, FILTER, false), gcp_page(c));
	r.reply_bytes_max = (size_t)32 << 20;
	return gcp_send(self, c, &r);
}

static const struct gcp_type *host_of(const struct gcp_type *types, size_t n, const char *zone,
    const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (types[i].accelerator == NULL && strcmp(types[i].zone, zone) == 0 &&
		    strcmp(types[i].name, name) == 0) {
			return &types[i];
		}
	}
	return NULL;
}

/* 1: taken; 0: none of ours; -1: malformed. Every count that the model and a host of the zone
 * allow. */
static int accelerator_read(struct spot_call *c, const char *zone, const json_t *item,
    struct gcp_types *t)
{
	bool bad = false;
	const char *name = gcp_str(c->arena, item, "name", &bad);
	int64_t most = gcp_int(item, "maximumCardsPerInstance", 0, &bad);

	if (!json_is_object(item) || bad || *name == '\0' || most < 0) {
		return -1;
	}
	if (!accelerator_attachable(name) || gcp_deprecated(item)) {
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(hosts) && hosts[i].count <= most; i++) {
		const struct gcp_type *host = host_of(t->list, t->hosts_n, zone, hosts[i].host);
		struct gcp_attached what = { .accelerator = name, .count = hosts[i].count };
		struct gcp_type made;

		if (host == NULL || !gcp_attached_type(c->arena, host, &what, &made)) {
			continue;
		}
		t->list = arena_grow(c->arena, t->list, t->n, &t->cap, sizeof(*t->list));
		t->list[t->n++] = made;
	}
	return 1;
}

enum spot_step gcp_accelerators_reply(struct gcp *self, struct spot_call *c, struct gcp_types *t,
    bool *ret_more)
{
	json_t *doc AUTO(json) = NULL, *scopes, *list;
	const char *scope;
	enum spot_step s = gcp_reply(self, c, WHAT, "compute#acceleratorTypeAggregatedList", &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	scopes = json_object_get(doc, "items");
	if (scopes != NULL && !json_is_object(scopes)) {
		return gcp_bad_reply(c, WHAT, "items is not an object of scopes");
	}
	json_object_foreach (scopes, scope, list) {
		const json_t *items = json_object_get(list, "acceleratorTypes"), *item;
		size_t i;

		if (!json_is_object(list) || (items != NULL && !json_is_array(items))) {
			return gcp_bad_reply(c, WHAT, "%.60s: acceleratorTypes is not a list",
			    scope);
		}
		json_array_foreach (items, i, item) {
			if (accelerator_read(c, arena_strdup(c->arena, gcp_last(scope)), item, t) <
			    0) {
				return gcp_bad_reply(c, WHAT,
				    "%.60s: entry %zu is no accelerator type", scope, i);
			}
		}
	}
	*ret_more = gcp_next_page(c, WHAT, doc, &s);
	return s;
}
