/*
 * Regions, pools, prices, signals and quotas. CoreWeave has no price interface. prices.csv keeps
 * its price page with the day it was read; providers/coreweave/refresh-prices rewrites it. That day
 * is effective_us, so that a price that nobody confirmed for long is marked frozen. A contract's
 * rate wins: price.TYPE.MARKET in the configuration. Any other cluster has the prices that its
 * configuration gives.
 */
#include "base/base.h"
#include "coreweave_priv.h"

static const enum spot_market markets[] = { SPOT_MARKET_SPOT, SPOT_MARKET_ON_DEMAND };

struct paging {
	struct cw_cluster *cl;
	size_t next, pages;
	const char *cont;
	size_t n, cap, n_before;
};

static struct paging *paging_get(struct spot_call *c)
{
	if (c->state == NULL) {
		c->state = arena_alloc(c->arena, sizeof(struct paging));
	}
	return c->state;
}

/* ---- regions --------------------------------------------------------------------------------- */

enum spot_step cw_regions(void *p, struct spot_call *c, struct spot_regions *a)
{
	const struct cw *self = p;

	a->names = arena_array(c->arena, self->clusters_n + 1, sizeof(*a->names));
	a->n = 0;
	for (size_t i = 0; i < self->clusters_n; i++) {
		bool known = self->clusters[i]->region[0] == '\0';

		for (size_t k = 0; k < a->n; k++) {
			known = known || strcmp(a->names[k], self->clusters[i]->region) == 0;
		}
		if (!known) {
			a->names[a->n++] = self->clusters[i]->region;
		}
	}
	return SPOT_DONE;
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* 0 = none is set, -1 = what is set is no price. */
static int64_t price_set(const struct cw *self, struct arena *a, const char *type,
    enum spot_market m)
{
	const char *v = cw_setting(self, arena_printf(a, "price.%s.%s", type, spot_market_name(m)));
	int64_t micros;

	return v == NULL ? 0 : parse_usd_micros(v, &micros) && micros > 0 ? micros : -1;
}

static const struct cw_price *price_listed(const struct cw *self, const char *zone,
    const char *type)
{
	for (size_t i = 0; i < self->prices_n; i++) {
		if (strcmp(self->prices[i].zone, zone) == 0 &&
		    strcmp(self->prices[i].type, type) == 0) {
			return &self->prices[i];
		}
	}
	return NULL;
}

static int64_t price_of(const struct cw_price *p, enum spot_market m)
{
	return p == NULL ? 0 : m == SPOT_MARKET_SPOT ? p->spot : p->on_demand;
}

/* False: no price. */
static bool price_point(const struct cw *self, struct spot_call *c, const struct spot_pool_key *key,
    struct spot_price_point *ret)
{
	int64_t set = price_set(self, c->arena, key->instance_type, key->market);
	const struct cw_price *listed =
	    self->cks ? price_listed(self, key->zone, key->instance_type) : NULL;

	*ret = (struct spot_price_point){ .key = *key,
		.price_micros = set,
		.observed_us = c->now_us,
		.source = "configuration" };
	if (set == 0) {
		ret->price_micros = price_of(listed, key->market);
		ret->effective_us = listed != NULL ? listed->as_of_us : 0;
		ret->source = "price page";
	}
	return ret->price_micros > 0;
}

enum spot_step cw_prices(void *p, struct spot_call *c, struct spot_prices *a)
{
	const struct cw *self = p;

	a->points = arena_array(c->arena, a->pools_n + 1, sizeof(*a->points));
	a->n = 0;
	for (size_t i = 0; i < a->pools_n; i++) {
		const struct spot_pool_key *k = &a->pools[i].key;

		if (price_set(self, c->arena, k->instance_type, k->market) < 0) {
			return call_fail(c, SPOT_CONFIG, NULL,
			    "[provider %s]: price.%s.%s is no price in USD per hour", self->name,
			    k->instance_type, spot_market_name(k->market));
		}
		if (a->market != SPOT_MARKET_NONE && a->market != k->market) {
			continue;
		}
		a->n += price_point(self, c, k, &a->points[a->n]);
	}
	return SPOT_DONE;
}

/* ---- pools of CoreWeave ---------------------------------------------------------------------- */

static void type_pools(const struct cw *self, struct spot_call *c, const struct cw_cluster *cl,
    const struct cw_type *t, struct spot_pools *a)
{
	const struct cw_price *listed = price_listed(self, cl->zone, t->name);

	for (size_t m = 0; m < ARRAY_LEN(markets); m++) {
		bool sold = price_of(listed, markets[m]) > 0 ||
		    price_set(self, c->arena, t->name, markets[m]) > 0;

		if (!sold || t->rack || (markets[m] == SPOT_MARKET_SPOT && !t->spot)) {
			continue;
		}
		a->pools[a->n++] = (struct spot_pool_info){
			.key = { self->name, cl->region, cl->zone, t->name, markets[m] },
			.zone_name = cl->name,
			.shape = t->shape,
			.quota_class = "gpus",
		};
	}
}

static enum spot_step listed_pools(const struct cw *self, struct spot_call *c, struct spot_pools *a)
{
	struct cw_cluster *cl;
	size_t i = 0;

	a->pools = arena_array(c->arena, self->clusters_n * self->types_n * ARRAY_LEN(markets) + 1,
	    sizeof(*a->pools));
	a->n = 0;
	while ((cl = cw_cluster_next(self, a->region, "", &i)) != NULL) {
		bool twice = false;

		for (size_t k = 0; k + 1 < i; k++) {
			/* the first of a zone serves it */
			twice = twice || strcmp(self->clusters[k]->zone, cl->zone) == 0;
		}
		for (size_t t = 0; t < self->types_n && !twice; t++) {
			type_pools(self, c, cl, &self->types[t], a);
		}
	}
	return SPOT_DONE;
}

/* ---- pools of any cluster -------------------------------------------------------------------- */

/* nvidia.com/gpu.product, as the GPU feature discovery writes it: "NVIDIA-H100-80GB-HBM3",
 * "Tesla-V100-SXM2-16GB". */
static const struct {
	const char *word, *word2, *name;
} products[] = {
	{ "GH200", NULL, "GH200-96GB" },
	{ "GB200", NULL, "GB200" },
	{ "GB300", NULL, "GB300" },
	{ "B200", NULL, "B200" },
	{ "B300", NULL, "B300" },
	{ "H200", NULL, "H200" },
	{ "H100", "NVL", "H100-94GB-NVL" },
	{ "H100", "PCIe", "H100-80GB-PCIe" },
	{ "H100", NULL, "H100-80GB-SXM" },
	{ "A100", "80GB", "A100-80GB" },
	{ "A100", NULL, "A100-40GB" },
	{ "A10G", NULL, "A10G" },
	{ "A10", NULL, "A10" },
	{ "A6000", NULL, "A6000" },
	{ "L40S", NULL, "L40S" },
	{ "L40", NULL, "L40" },
	{ "L4", NULL, "L4" },
	{ "V100", "32GB", "V100-32GB" },
	{ "V100", NULL, "V100-16GB" },
	{ "T4G", NULL, "T4G" },
	{ "T4", NULL, "T4" },
	{ "RTX-PRO-6000", NULL, "RTXPRO6000-96GB" },
};

static const char *gpu_name(struct arena *a, const char *product)
{
	for (size_t i = 0; i < ARRAY_LEN(products); i++) {
		if (strstr(product, products[i].word) != NULL &&
		    (products[i].word2 == NULL || strstr(product, products[i].word2) != NULL)) {
			return products[i].name;
		}
	}
	return str_prefix(product, "NVIDIA-") ? arena_strdup(a, product + 7)
					      : arena_strdup(a, product);
}

/* "128", "127500m", "2112109804Ki", "1055Gi", "1e3": whole units of what is asked for, at least. */
static int64_t quantity_parse(const char *s, int64_t unit)
{
	static const struct {
		const char *suffix;
		int64_t times;
	} suffixes[] = { { "Ki", INT64_C(1) << 10 }, { "Mi", INT64_C(1) << 20 },
		{ "Gi", INT64_C(1) << 30 }, { "Ti", INT64_C(1) << 40 }, { "k", 1000 },
		{ "M", 1000000 }, { "G", 1000000000 }, { "T", INT64_C(1000000000000) } };
	char digits[24];
	size_t n = strspn(s, "0123456789");
	int64_t v;

	if (n == 0 || n >= sizeof(digits)) {
		return 0;
	}
	memcpy(digits, s, n);
	digits[n] = '\0';
	if (!parse_i64(digits, 0, INT64_C(1) << 52, &v)) {
		return 0;
	}
	if (strcmp(s + n, "m") == 0) {
		return v / 1000 / unit;
	}
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		if (strcmp(s + n, suffixes[i].suffix) == 0) {
			return v > INT64_MAX / suffixes[i].times ? 0 : v * suffixes[i].times / unit;
		}
	}
	return s[n] == '\0' ? v / unit : 0;
}

static enum spot_market node_market(const json_t *labels)
{
	for (size_t i = 0; i < cw_spot_labels_n; i++) {
		if (str_same(json_string_value(json_object_get(labels, cw_spot_labels[i].key)),
			cw_spot_labels[i].value)) {
			return SPOT_MARKET_SPOT;
		}
	}
	return SPOT_MARKET_ON_DEMAND;
}

static bool node_pool(const struct cw *self, struct arena *a, const struct cw_cluster *cl,
    const json_t *o, struct spot_pool_info *ret)
{
	const json_t *labels = json_object_get(json_object_get(o, "metadata"), "labels");
	const json_t *room = json_object_get(json_object_get(o, "status"), "allocatable");
	const char *type = cw_str(a, labels, "node.kubernetes.io/instance-type"),
		   *arch = cw_str(a, labels, "kubernetes.io/arch");
	const char *product = cw_str(a, labels, "nvidia.com/gpu.product");
	int64_t gpus = quantity_parse(cw_str(a, room, "nvidia.com/gpu"), 1);

	if (gpus < 1 || gpus > 1000) {
		return false;
	}
	if (type[0] == '\0' || strlen(type) > 100) {
		type = arena_printf(a, CW_PRODUCT_PREFIX "%.80s", product);
	}
	*ret = (struct spot_pool_info){
		.key = { self->name, cl->region, cl->zone, type, node_market(labels) },
		.zone_name = "",
		.shape = { .gpu_name = gpu_name(a, product[0] != '\0' ? product : type),
		    .gpu_milli = (int32_t)gpus * 1000,
		    .gpu_mem_mib =
			(int32_t)MIN(quantity_parse(cw_str(a, labels, "nvidia.com/gpu.memory"), 1),
			    INT32_MAX),
		    .vcpus = (int32_t)MIN(quantity_parse(cw_str(a, room, "cpu"), 1), INT32_MAX),
		    .mem_mib =
			(int32_t)MIN(quantity_parse(cw_str(a, room, "memory"), 1 << 20), INT32_MAX),
		    .arch = strcmp(arch, "arm64") == 0 ? "arm64"
			: strcmp(arch, "amd64") == 0   ? "x86_64"
						       : "" },
		.quota_class = "gpus",
	};
	return strcmp(type, CW_PRODUCT_PREFIX) != 0;
}

/* Of several nodes of one type the smallest counts: what fits on it fits on all. */
static void pool_add(struct arena *a, struct spot_pools *r, struct paging *g,
    const struct spot_pool_info *x)
{
	for (size_t i = 0; i < r->n; i++) {
		struct spot_pool_info *o = &r->pools[i];

		if (strcmp(o->key.region, x->key.region) == 0 &&
		    strcmp(o->key.instance_type, x->key.instance_type) == 0 &&
		    o->key.market == x->key.market) {
			o->shape.vcpus = MIN(o->shape.vcpus, x->shape.vcpus);
			o->shape.mem_mib = MIN(o->shape.mem_mib, x->shape.mem_mib);
			o->shape.gpu_milli = MIN(o->shape.gpu_milli, x->shape.gpu_milli);
			return;
		}
	}
	r->pools = arena_grow(a, r->pools, r->n, &g->cap, sizeof(*r->pools));
	r->pools[r->n++] = *x;
}

static enum spot_step nodes_send(const struct cw *self, struct spot_call *c, const struct paging *g)
{
	cw_request(self, c, g->cl, "GET",
	    cw_page_path(c->arena, "/api/v1/nodes?limit=250", g->cont));
	return SPOT_SEND;
}

static enum spot_step nodes_next(const struct cw *self, struct spot_call *c, const char *region,
    struct paging *g)
{
	g->cl = cw_cluster_next(self, region, "", &g->next);
	g->cont = NULL;
	g->pages = 0;
	if (g->cl != NULL && g->cl->bad_rc != SPOT_OK) {
		return cw_cluster_bad(c, g->cl, "pools");
	}
	return g->cl == NULL ? SPOT_DONE : nodes_send(self, c, g);
}

static enum spot_step nodes_read(const struct cw *self, struct spot_call *c, struct spot_pools *a,
    struct paging *g)
{
	json_t *doc = NULL, *items;
	enum spot_step s = cw_reply_get(c, g->cl, "pools", false, "NodeList", &doc);
	bool more, repeats;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		struct spot_pool_info x;

		if (node_pool(self, c->arena, g->cl, json_array_get(items, i), &x)) {
			pool_add(c->arena, a, g, &x);
		}
	}
	more = cw_page_next(c->arena, doc, &g->cont, &g->pages, &repeats);
	json_decref(doc);
	if (repeats) {
		return cw_bad_reply(c, "pools", false, "the pages do not end");
	}
	return more ? nodes_send(self, c, g) : nodes_next(self, c, a->region, g);
}

enum spot_step cw_pools(void *p, struct spot_call *c, struct spot_pools *a)
{
	const struct cw *self = p;
	struct paging *g;

	if (self->cks) {
		return listed_pools(self, c, a);
	}
	g = paging_get(c);
	if (c->in != NULL) {
		return nodes_read(self, c, a, g);
	}
	return g->cl == NULL ? nodes_next(self, c, a->region, g) : nodes_send(self, c, g);
}

/* ---- signals: what CoreWeave says about the orders that we have ------------------------------ */

static enum spot_step signals_send(const struct cw *self, struct spot_call *c, const char *region,
    struct paging *g)
{
	while (g->cl == NULL || g->cl->bad_rc != SPOT_OK) {
		g->cl = cw_cluster_next(self, region, "", &g->next);
		if (g->cl == NULL) {
			return SPOT_DONE;
		}
	}
	cw_request(self, c, g->cl, "GET", CW_NODEPOOLS "?limit=500");
	return SPOT_SEND;
}

enum spot_step cw_signals(void *p, struct spot_call *c, struct spot_signals *a)
{
	const struct cw *self = p;
	struct paging *g = paging_get(c);
	json_t *doc = NULL, *items;
	enum spot_step s;

	if (c->in == NULL) {
		return signals_send(self, c, a->region, g);
	}
	s = cw_reply_get(c, g->cl, "signals", false, "NodePoolList", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		struct cw_pool x;
		bool open;

		if (!cw_pool_read(c->arena, json_array_get(items, i), &x) || x.target == 0) {
			continue;
		}
		open = x.current < x.target;
		if (open && x.verdict != SPOT_NO_CAPACITY) {
			continue; /* under way: says nothing */
		}
		a->signals = arena_grow(c->arena, a->signals, a->n, &g->cap, sizeof(*a->signals));
		a->signals[a->n++] = (struct spot_signal){ .kind = SPOT_SIGNAL_CAPACITY,
			.key = { self->name, g->cl->region, g->cl->zone, x.type,
			    spot_market_parse(x.market) },
			.value = open ? 0 : 1,
			.as_of_us = x.verdict_us,
			.observed_us = c->now_us,
			.source = "NodePool" };
	}
	json_decref(doc);
	g->cl = NULL;
	return signals_send(self, c, a->region, g);
}

/* ---- quotas: ResourceQuota of the namespace -------------------------------------------------- */

static enum spot_step quotas_send(const struct cw *self, struct spot_call *c, const char *region,
    struct paging *g)
{
	while (g->cl == NULL || g->cl->bad_rc != SPOT_OK) {
		g->cl = cw_cluster_next(self, region, "", &g->next);
		if (g->cl == NULL) {
			return SPOT_DONE;
		}
	}
	cw_request(self, c, g->cl, "GET",
	    arena_printf(c->arena, "/api/v1/namespaces/%s/resourcequotas?limit=100", self->space));
	return SPOT_SEND;
}

static void quota_add(const struct cw *self, struct spot_call *c, struct spot_quotas *a,
    struct paging *g, int64_t gpus)
{
	for (size_t m = 0; m < ARRAY_LEN(markets); m++) {
		struct spot_quota q = { .provider = self->name,
			.region = g->cl->region,
			.class = "gpus",
			.unit = "gpus",
			.market = markets[m],
			.limit = gpus,
			.observed_us = c->now_us };
		size_t i = g->n_before;

		while (i < a->n && a->quotas[i].market != markets[m]) {
			i++;
		}
		if (i < a->n) {
			a->quotas[i].limit = MIN(a->quotas[i].limit, gpus);
			continue;
		}
		a->quotas = arena_grow(c->arena, a->quotas, a->n, &g->cap, sizeof(*a->quotas));
		a->quotas[a->n++] = q;
	}
}

enum spot_step cw_quotas(void *p, struct spot_call *c, struct spot_quotas *a)
{
	const struct cw *self = p;
	struct paging *g = paging_get(c);
	json_t *doc = NULL, *items;
	enum spot_step s;

	if (c->in == NULL) {
		return quotas_send(self, c, a->region, g);
	}
	s = cw_reply_get(c, g->cl, "quotas", false, "ResourceQuotaList", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	items = json_object_get(doc, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *hard =
		    json_object_get(json_object_get(json_array_get(items, i), "spec"), "hard");
		const char *v = cw_str(c->arena, hard, "requests.nvidia.com/gpu");

		if (v[0] != '\0') {
			quota_add(self, c, a, g, quantity_parse(v, 1));
		}
	}
	json_decref(doc);
	if (a->n == g->n_before) {
		/* nobody says: CoreWeave shows its quotas in its console only */
		quota_add(self, c, a, g, -1);
	}
	g->n_before = a->n;
	g->cl = NULL;
	return quotas_send(self, c, a->region, g);
}
