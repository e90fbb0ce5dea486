#include "base/base.h"
#include "gcp_priv.h"

/*
 * Prices of parts out of the Cloud Billing Catalog, and machine prices composed of them
 * (docs.cloud.google.com/billing/v1/how-tos/catalog-api; cloud.google.com/compute/all-pricing). The
 * catalog names parts in prose only. The matches come from the price readers of SkyPilot and dstack
 * (gpuhunt), and from a SKU matcher of a Kubernetes price provider. README.md says the source of
 * each. Prose that does not match to the letter is no part. A price with a missing part is no
 * price.
 */

#include <strings.h>

#define SSD_GIB 375
#define HOURS_MONTH 730
#define NANOS_MAX INT64_C(1000000000000) /* a part of 1000 USD is a mistake */

enum unit { PER_HOUR = 0, GIB_HOUR, GIB_MONTH };
static const char
    *const units[] = { [PER_HOUR] = "h", [GIB_HOUR] = "GiBy.h", [GIB_MONTH] = "GiBy.mo" };

enum part {
	N1_CORE = 0,
	N1_RAM,
	GPU_T4,
	GPU_P4,
	GPU_V100,
	GPU_P100,
	G2_CORE,
	G2_RAM,
	G4_CORE,
	G4_RAM,
	A2_CORE,
	A2_RAM,
	A3_CORE,
	A3_RAM,
	A3PLUS_CORE,
	A3PLUS_RAM,
	A3ULTRA_CORE,
	A3ULTRA_RAM,
	GPU_L4,
	GPU_RTX6000,
	GPU_A100,
	GPU_A100_80,
	GPU_H100,
	GPU_H100_MEGA,
	GPU_H200,
	SLICE_B200,
	LOCAL_SSD,
	SSD_A2,
	SSD_A3,
	SSD_A3PLUS,
	SSD_A3ULTRA,
	PART_COUNT,
	NO_PART = PART_COUNT
};

/* The description without a leading "Spot Preemptible " and without what follows the part's
 * name. */
static const struct {
	const char *text;
	enum part part;
	enum unit unit;
} names[] = {
	{ "N1 Predefined Instance Core", N1_CORE, PER_HOUR },
	{ "N1 Predefined Instance Ram", N1_RAM, GIB_HOUR },
	{ "Nvidia Tesla T4 GPU", GPU_T4, PER_HOUR },
	{ "Nvidia Tesla P4 GPU", GPU_P4, PER_HOUR },
	{ "Nvidia Tesla V100 GPU", GPU_V100, PER_HOUR },
	{ "Nvidia Tesla P100 GPU", GPU_P100, PER_HOUR },
	{ "G2 Instance Core", G2_CORE, PER_HOUR },
	{ "G2 Instance Ram", G2_RAM, GIB_HOUR },
	{ "G4 Instance Core", G4_CORE, PER_HOUR },
	{ "G4 Instance Ram", G4_RAM, GIB_HOUR },
	{ "A2 Instance Core", A2_CORE, PER_HOUR },
	{ "A2 Instance Ram", A2_RAM, GIB_HOUR },
	{ "A3 Instance Core", A3_CORE, PER_HOUR },
	{ "A3 Instance Ram", A3_RAM, GIB_HOUR },
	{ "A3Plus Instance Core", A3PLUS_CORE, PER_HOUR },
	{ "A3Plus Instance Ram", A3PLUS_RAM, GIB_HOUR },
	{ "A3Ultra Instance Core", A3ULTRA_CORE, PER_HOUR },
	{ "A3Ultra Instance Ram", A3ULTRA_RAM, GIB_HOUR },
	{ "Nvidia L4 GPU", GPU_L4, PER_HOUR },
	{ "RTX 6000 96GB", GPU_RTX6000, PER_HOUR },
	{ "Nvidia Tesla A100 GPU", GPU_A100, PER_HOUR },
	{ "Nvidia Tesla A100 80GB GPU", GPU_A100_80, PER_HOUR },
	{ "Nvidia H100 80GB GPU", GPU_H100, PER_HOUR },
	{ "Nvidia H100 80GB Mega GPU", GPU_H100_MEGA, PER_HOUR },
	{ "Nvidia H100 80GB Plus GPU", GPU_H100_MEGA, PER_HOUR },
	{ "H100 Mega 80GB GPU", GPU_H100_MEGA, PER_HOUR },
	{ "Nvidia H100 Mega 80GB GPU", GPU_H100_MEGA, PER_HOUR },
	{ "H200 141GB GPU", GPU_H200, PER_HOUR },
	{ "Nvidia H200 141GB GPU", GPU_H200, PER_HOUR },
	{ "A4 Nvidia B200 (1 gpu slice)", SLICE_B200, PER_HOUR },
	{ "SSD backed Local Storage", LOCAL_SSD, GIB_MONTH },
	{ "A2 Instance Local SSD", SSD_A2, GIB_MONTH },
	{ "A3 Instance Local SSD", SSD_A3, GIB_MONTH },
	{ "A3Plus Instance Local SSD", SSD_A3PLUS, GIB_MONTH },
	{ "A3Ultra Instance Local SSD", SSD_A3ULTRA, GIB_MONTH },
};

/* The parts of machines. The first line with a fitting prefix counts and, for hosts, with the
 * attached GPU. family_ssd: NO_PART = only the common one. */
static const struct {
	const char *prefix;
	enum part core, ram, gpu, family_ssd; /* core NO_PART: the price of slices is all (a4) */
	const char *attached;
} machines[] = {
	{ "n1-standard-", N1_CORE, N1_RAM, GPU_T4, NO_PART, "nvidia-tesla-t4" },
	{ "n1-standard-", N1_CORE, N1_RAM, GPU_P4, NO_PART, "nvidia-tesla-p4" },
	{ "n1-standard-", N1_CORE, N1_RAM, GPU_V100, NO_PART, "nvidia-tesla-v100" },
	{ "n1-standard-", N1_CORE, N1_RAM, GPU_P100, NO_PART, "nvidia-tesla-p100" },
	{ "g2-standard-", G2_CORE, G2_RAM, GPU_L4, NO_PART },
	{ "g4-standard-", G4_CORE, G4_RAM, GPU_RTX6000, NO_PART },
	{ "a2-highgpu-", A2_CORE, A2_RAM, GPU_A100, SSD_A2 },
	{ "a2-megagpu-", A2_CORE, A2_RAM, GPU_A100, SSD_A2 },
	{ "a2-ultragpu-", A2_CORE, A2_RAM, GPU_A100_80, SSD_A2 },
	{ "a3-highgpu-", A3_CORE, A3_RAM, GPU_H100, SSD_A3 },
	{ "a3-edgegpu-", A3_CORE, A3_RAM, GPU_H100, SSD_A3 },
	{ "a3-megagpu-", A3PLUS_CORE, A3PLUS_RAM, GPU_H100_MEGA, SSD_A3PLUS },
	{ "a3-ultragpu-", A3ULTRA_CORE, A3ULTRA_RAM, GPU_H200, SSD_A3ULTRA },
	{ "a4-highgpu-", NO_PART, NO_PART, SLICE_B200, NO_PART },
};

struct part_price {
	enum part part;
	enum gcp_sale sale;
	const char *region;
	int64_t nanos, effective_us;
};

struct gcp_skus {
	struct part_price *items;
	size_t n, cap;
};

struct gcp_skus *gcp_skus_new(struct arena *a)
{
	return arena_alloc(a, sizeof(struct gcp_skus));
}

/* ---- recognising ----------------------------------------------------------------------------- */

#define DWS "DWS Defined Duration" /* flex-start; "DWS Calendar Mode" is another sale */

/* Other ways to buy the same part: some of these carry usageType OnDemand. */
static bool text_is_decoy(const char *text)
{
	static const char *const words[] = { "Sole Tenancy", "Reserved", "Premium", "Custom",
		"suspended", "Commitment", "Calendar mode", "Capacity Optimized", "VM state" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcasestr(text, words[i]) != NULL) {
			return true;
		}
	}
	return strcasestr(text, "DWS") != NULL && strstr(text, DWS) == NULL;
}

/* Behind the part's name come the place, or the kind of VM that it hangs on, and nothing else. */
static bool tail_ok(const char *rest)
{
	static const char *const vms[] = { " attached to Spot Preemptible VMs",
		" attached to Preemptible VMs", " attached to preemptible VMs",
		" attached to " DWS " VMs" };

	for (size_t i = 0; i < ARRAY_LEN(vms); i++) {
		if (str_prefix(rest, vms[i])) {
			rest += strlen(vms[i]);
			break;
		}
	}
	return *rest == '\0' || str_prefix(rest, " running in ") || str_prefix(rest, " in ");
}

/* The text behind the part's name; NULL: it has another name. With DWS in front the name lacks the
 * word "Instance": "DWS Defined Duration A3 Core". */
static const char *name_end(const char *text, const char *name, bool dws)
{
	const char *word = strstr(name, " Instance");
	size_t n = word != NULL ? (size_t)(word - name) : 0;

	if (str_prefix(text, name)) {
		return text + strlen(name);
	}
	if (!dws || word == NULL || strncmp(text, name, n) != 0 ||
	    !str_prefix(text + n, word + 9)) {
		return NULL;
	}
	return text + n + strlen(word + 9);
}

/* Index into names; -1 if it is none of ours. */
static int name_find(const char *text)
{
	bool dws = str_prefix(text, DWS " ");

	if (dws) {
		text += sizeof(DWS);
	}
	if (str_prefix(text, "Spot Preemptible ")) {
		text += 17;
	} else if (str_prefix(text, "Preemptible ")) {
		text += 12;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *rest = name_end(text, names[i].text, dws);

		if (rest != NULL && tail_ok(rest)) {
			return (int)i;
		}
	}
	return -1;
}

/* usageType alone is not reliable: the B200 slice for spot says OnDemand. False: neither. */
static bool usage_read(const json_t *sku, const char *text, enum gcp_sale *ret)
{
	const char *usage =
	    json_string_value(json_object_get(json_object_get(sku, "category"), "usageType"));

	*ret = str_same(usage, "Preemptible") || strstr(text, "Preemptible") != NULL ? GCP_SPOT
	    : strstr(text, DWS) != NULL                                              ? GCP_FLEX
										     : GCP_STANDARD;
	return str_same(usage, "Preemptible") || str_same(usage, "OnDemand");
}

/* pricingInfo is in the order of time; without a time range it has one entry. The first rate is for
 * compute the only one. */
static bool rate_read(const json_t *sku, enum unit unit, int64_t now_us, int64_t *ret_nanos,
    int64_t *ret_effective_us)
{
	const json_t *infos = json_object_get(sku, "pricingInfo"), *info = NULL, *one, *e;
	size_t i;

	json_array_foreach (infos, i, one) {
		int64_t at = gcp_time(json_string_value(json_object_get(one, "effectiveTime")));

		if (info == NULL || at <= now_us) {
			info = one;
			*ret_effective_us = at;
		}
	}
	e = json_object_get(info, "pricingExpression");
	if (!str_same(json_string_value(json_object_get(e, "usageUnit")), units[unit])) {
		return false;
	}
	one = json_array_get(json_object_get(e, "tieredRates"), 0);
	return gcp_money(json_object_get(one, "unitPrice"), ret_nanos) && *ret_nanos > 0 &&
	    *ret_nanos < NANOS_MAX;
}

static void part_add(struct gcp_skus *s, struct arena *a, const struct part_price *new)
{
	for (size_t i = 0; i < s->n; i++) {
		struct part_price *old = &s->items[i];

		if (old->part != new->part || old->sale != new->sale ||
		    strcmp(old->region, new->region) != 0) {
			continue;
		}
		/* Two prices for one part: the higher does not promise too much. */
		if (new->nanos > old->nanos) {
			*old = *new;
		}
		return;
	}
	s->items = arena_grow(a, s->items, s->n, &s->cap, sizeof(*s->items));
	s->items[s->n++] = *new;
}

bool gcp_sku_take(struct gcp_skus *s, struct arena *a, const json_t *sku, int64_t now_us)
{
	const json_t *description = json_object_get(sku, "description");
	const char *text = json_string_value(description);
	const json_t *regions = json_object_get(sku, "serviceRegions"), *region;
	struct part_price p = { 0 };
	size_t i;
	int at;

	if (!json_is_object(sku) ||
	    (description != NULL && !json_is_null(description) && text == NULL)) {
		return false;
	}
	if (text == NULL) {
		return true;
	}
	at = text_is_decoy(text) ? -1 : name_find(text);
	if (at < 0 || !usage_read(sku, text, &p.sale) ||
	    !rate_read(sku, names[at].unit, now_us, &p.nanos, &p.effective_us)) {
		return true;
	}
	p.part = names[at].part;
	/* The place is in the list only: the description may name a city or half the world. */
	json_array_foreach (regions, i, region) {
		if (!json_is_string(region)) {
			return false;
		}
		p.region = arena_strdup(a, json_string_value(region));
		part_add(s, a, &p);
	}
	return true;
}

/* ---- composing ------------------------------------------------------------------------------- */

static const struct part_price *part_find(const struct gcp_skus *s, enum part part,
    const char *region, enum gcp_sale sale)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct part_price *p = &s->items[i];

		if (p->part == part && p->sale == sale && strcmp(p->region, region) == 0) {
			return p;
		}
	}
	return NULL;
}

/* A part beside the GPUs. Flex-start has a price of its own for only some: the list price of the
 * others does not promise too much. */
static const struct part_price *part_beside(const struct gcp_skus *s, enum part part,
    const char *region, enum gcp_sale sale)
{
	const struct part_price *p = part_find(s, part, region, sale);

	return p != NULL || sale != GCP_FLEX ? p : part_find(s, part, region, GCP_STANDARD);
}

/* A sum of amount/divisor x price, exact: nano-dollars over MiB and hours of a month. */
__extension__ typedef __int128 wide;
#define DENOMINATOR ((wide)1024 * HOURS_MONTH)

struct sum {
	wide total; /* nano-dollars x DENOMINATOR */
	int64_t effective_us;
	bool missing;
};

static void sum_add(struct sum *s, const struct part_price *p, int64_t amount, int64_t divisor)
{
	if (p == NULL) {
		s->missing = true;
		return;
	}
	s->total += (wide)p->nanos * amount * (DENOMINATOR / divisor);
	s->effective_us = MAX(s->effective_us, p->effective_us);
}

static void sum_ssd(struct sum *s, const struct gcp_skus *skus, enum part family, int32_t ssds,
    const char *region, enum gcp_sale sale)
{
	const struct part_price *p =
	    family != NO_PART ? part_find(skus, family, region, sale) : NULL;

	if (p == NULL) {
		p = part_beside(skus, LOCAL_SSD, region, sale);
	}
	sum_add(s, p, (int64_t)ssds * SSD_GIB, HOURS_MONTH);
}

bool gcp_price_compose(const struct gcp_skus *s, const struct gcp_type *t, const char *region,
    enum gcp_sale sale, int64_t *ret_micros, int64_t *ret_effective_us)
{
	struct sum sum = { 0 };
	wide micros;

	for (size_t i = 0; i < ARRAY_LEN(machines); i++) {
		if (!str_prefix(t->name, machines[i].prefix) ||
		    (machines[i].attached != NULL &&
			!str_same(t->accelerator, machines[i].attached))) {
			continue;
		}
		sum_add(&sum, part_find(s, machines[i].gpu, region, sale),
		    t->shape.gpu_milli / 1000, 1);
		if (machines[i].core != NO_PART) {
			sum_add(&sum, part_beside(s, machines[i].core, region, sale),
			    t->shape.vcpus, 1);
			sum_add(&sum, part_beside(s, machines[i].ram, region, sale),
			    t->shape.mem_mib, 1024);
			if (t->ssds > 0) {
				sum_ssd(&sum, s, machines[i].family_ssd, t->ssds, region, sale);
			}
		}
		if (sum.missing || sum.total <= 0) {
			return false;
		}
		micros = (sum.total + 500 * DENOMINATOR) / (1000 * DENOMINATOR);
		*ret_micros = (int64_t)micros;
		*ret_effective_us = sum.effective_us;
		return *ret_micros > 0;
	}
	return false;
}
