#include "base/base.h"
#include "gcp_test.h"

/* Machine prices out of the catalog's parts: summed parts, decoys, and that nothing is guessed. */

#define SKU(text, usage, unit, units, nanos) \
	"{\"description\":\"" text "\",\"category\":{\"usageType\":\"" usage \
	"\"},\"serviceRegions\":[\"us-central1\"]," \
	"\"pricingInfo\":[{\"effectiveTime\":\"2026-01-01T08:00:00Z\",\"pricingExpression\":{" \
	"\"usageUnit\":\"" unit "\",\"tieredRates\":[{\"startUsageAmount\":0,\"unitPrice\":{" \
	"\"currencyCode\":\"USD\",\"units\":\"" units "\",\"nanos\":" #nanos "}}]}}]}"
#define OD "OnDemand"
#define PR "Preemptible"

static void sku_take(struct gcp_skus *s, struct arena *a, const char *text)
{
	json_t *doc = NULL;

	assert_int_equal(json_parse(str_from(text), "sku", &doc, NULL), SPOT_OK);
	assert_true(gcp_sku_take(s, a, doc, GOLDEN_NOW_US));
	json_decref(doc);
}

static const struct gcp_type g2 = { .name = "g2-standard-4",
	.zone = ZONE,
	.shape = { .gpu_milli = 1000, .vcpus = 4, .mem_mib = 16384 } };
static const struct gcp_type a3 = { .name = "a3-highgpu-8g",
	.zone = ZONE,
	.shape = { .gpu_milli = 8000, .vcpus = 208, .mem_mib = 1916928 },
	.ssds = 16 };
static const char *const g2_parts[] = {
	SKU("G2 Instance Core running in Iowa", OD, "h", "0", 24988000),
	SKU("G2 Instance Ram running in Iowa", OD, "GiBy.h", "0", 2927000),
	SKU("Nvidia L4 GPU running in Iowa", OD, "h", "0", 560040000),
};

static int64_t price_for(const struct gcp_skus *s, const struct gcp_type *t, enum gcp_sale sale)
{
	int64_t micros = -1, since;

	return gcp_price_compose(s, t, "us-central1", sale, &micros, &since) ? micros : -1;
}

static int64_t price_of(const struct gcp_skus *s, const struct gcp_type *t, bool spot)
{
	return price_for(s, t, spot ? GCP_SPOT : GCP_STANDARD);
}

#define DWS "DWS Defined Duration "
/* The catalog leaves "Instance" out of these names. */
static void flex_start_costs_the_price_of_dws(void **state)
{
	struct arena *a = arena_new(0);
	struct gcp_skus *s = gcp_skus_new(a);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(g2_parts); i++) {
		sku_take(s, a, g2_parts[i]);
	}
	assert_int_equal(price_for(s, &g2, GCP_FLEX), -1);
	sku_take(s, a,
	    SKU("Nvidia L4 GPU attached to DWS Calendar Mode VMs running in Iowa", OD, "h", "9",
		0));
	assert_int_equal(price_for(s, &g2, GCP_FLEX), -1);
	sku_take(s, a,
	    SKU("Nvidia L4 GPU attached to " DWS "VMs running in Iowa", OD, "h", "0", 300000000));
	/* Cores and memory have no price of DWS: that of the list. 0.3 + 0.146784 */
	assert_int_equal(price_for(s, &g2, GCP_FLEX), 446784);
	sku_take(s, a, SKU(DWS "G2 Core running in Iowa", OD, "h", "0", 10000000));
	sku_take(s, a, SKU(DWS "G2 Instance Ram running in Iowa", OD, "GiBy.h", "0", 1000000));
	assert_int_equal(price_for(s, &g2, GCP_FLEX), 356000);
	assert_int_equal(price_of(s, &g2, false), 706824);
	assert_int_equal(price_of(s, &g2, true), -1);
	arena_free(a);
}

static void a_price_is_the_sum_of_its_parts_to_the_micro(void **state)
{
	struct arena *a = arena_new(0);
	struct gcp_skus *s = gcp_skus_new(a);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(g2_parts); i++) {
		sku_take(s, a, g2_parts[i]);
	}
	/* 4 x 0.024988 + 16 x 0.002927 + 0.56004 = 0.706824 */
	assert_int_equal(price_of(s, &g2, false), 706824);
	assert_int_equal(price_of(s, &g2, true), -1);
	sku_take(s, a,
	    SKU("Spot Preemptible A3 Instance Core running in Americas", PR, "h", "0", 8780000));
	sku_take(s, a,
	    SKU("Spot Preemptible A3 Instance Ram running in Americas", PR, "GiBy.h", "0", 763000));
	sku_take(s, a,
	    SKU("Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Americas", PR,
		"h", "2", 253000000));
	assert_int_equal(price_of(s, &a3, true), -1); /* no price of the local SSDs */
	sku_take(s, a,
	    SKU("SSD backed Local Storage attached to Spot Preemptible VMs in Iowa", PR, "GiBy.mo",
		"0", 32000000));
	/* 208 x 0.00878 + 1872 x 0.000763 + 8 x 2.253 + 6000 x 0.032 / 730 = 21.54158969... */
	assert_int_equal(price_of(s, &a3, true), 21541590);
	/* A family's own SSD price goes before the common one. */
	sku_take(s, a,
	    SKU("Spot Preemptible A3 Instance Local SSD running in Iowa", PR, "GiBy.mo", "0", 0));
	assert_int_equal(price_of(s, &a3, true), 21541590);
	sku_take(s, a,
	    SKU("Spot Preemptible A3 Instance Local SSD running in Iowa", PR, "GiBy.mo", "0",
		73000000));
	assert_int_equal(price_of(s, &a3, true), 21278576 + 600000);
	arena_free(a);
}

static void each_part_that_is_missing_takes_the_price_away(void **state)
{
	(void)state;
	for (size_t without = 0; without < ARRAY_LEN(g2_parts); without++) {
		struct arena *a = arena_new(0);
		struct gcp_skus *s = gcp_skus_new(a);

		for (size_t i = 0; i < ARRAY_LEN(g2_parts); i++) {
			if (i != without) {
				sku_take(s, a, g2_parts[i]);
			}
		}
		assert_int_equal(price_of(s, &g2, false), -1);
		arena_free(a);
	}
}

static void decoys_are_no_parts(void **state)
{
	static const char *const decoys[] = { SKU("Reserved Nvidia L4 GPU in Iowa", OD, "h", "9",
						  0),
		SKU("Nvidia L4 GPU Premium running in Iowa", OD, "h", "9", 0),
		SKU("Commitment v1: Nvidia L4 GPU in Iowa for 1 Year", OD, "h", "9", 0),
		SKU("Nvidia L4 GPU attached to DWS Defined Duration VMs running in Iowa", OD, "h",
		    "9", 0),
		SKU("Nvidia L4 GPU running in Iowa - Calendar mode", OD, "h", "9", 0),
		SKU("Nvidia L4 GPU Capacity Optimized running in Iowa", OD, "h", "9", 0),
		SKU("Nvidia L4 GPU VM state: suspended", OD, "h", "9", 0),
		SKU("G2 Custom Instance Core running in Iowa", OD, "h", "9", 0),
		SKU("G2 Sole Tenancy Instance Core running in Iowa", OD, "h", "9", 0),
		SKU("Nvidia L4 GPU Virtual Workstation running in Iowa", OD, "h", "9", 0),
		SKU("G2 Instance Cores running in Iowa", OD, "h", "9", 0),
		SKU("Nvidia L4 GPU running in Iowa", "Commit1Yr", "h", "9", 0),
		SKU("Nvidia L4 GPU running in Iowa", OD, "GiBy.h", "9", 0),
		SKU("Nvidia L4 GPU running in Iowa", OD, "h", "0", 0),
		"{\"description\":\"Nvidia L4 GPU running in "
		"Iowa\",\"category\":{\"usageType\":\"OnDemand\"},\"serviceRegions\":[\"us-"
		"central1\"]}" };
	struct arena *a = arena_new(0);
	struct gcp_skus *s = gcp_skus_new(a);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(g2_parts); i++) {
		sku_take(s, a, g2_parts[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(decoys); i++) {
		sku_take(s, a, decoys[i]);
		if (price_of(s, &g2, false) != 706824) {
			fail_msg("taken for a part: %s", decoys[i]);
		}
	}
	arena_free(a);
}

static void names_that_shadow_each_other_are_told_apart(void **state)
{
	struct gcp_type a100 = { .name = "a2-highgpu-1g",
		.shape = { .gpu_milli = 1000, .vcpus = 12, .mem_mib = 87040 } };
	struct gcp_type mega = { .name = "a3-megagpu-8g",
		.shape = { .gpu_milli = 8000, .vcpus = 208, .mem_mib = 1916928 } };
	struct arena *a = arena_new(0);
	struct gcp_skus *s = gcp_skus_new(a);

	(void)state;
	sku_take(s, a, SKU("A2 Instance Core running in Americas", OD, "h", "0", 1000000));
	sku_take(s, a, SKU("A2 Instance Ram running in Americas", OD, "GiBy.h", "0", 1000000));
	sku_take(s, a, SKU("Nvidia Tesla A100 80GB GPU running in Americas", OD, "h", "4", 0));
	assert_int_equal(price_of(s, &a100, false), -1);
	sku_take(s, a, SKU("Nvidia Tesla A100 GPU running in Americas", OD, "h", "3", 0));
	assert_int_equal(price_of(s, &a100, false), 3097000);
	sku_take(s, a, SKU("A3 Instance Core running in Americas", OD, "h", "0", 1000000));
	sku_take(s, a, SKU("A3 Instance Ram running in Americas", OD, "GiBy.h", "0", 1000000));
	sku_take(s, a, SKU("Nvidia H100 80GB GPU running in Americas", OD, "h", "9", 0));
	assert_int_equal(price_of(s, &mega, false), -1);
	sku_take(s, a, SKU("A3Plus Instance Core running in Americas", OD, "h", "0", 1000000));
	sku_take(s, a, SKU("A3Plus Instance Ram running in Americas", OD, "GiBy.h", "0", 1000000));
	sku_take(s, a, SKU("Nvidia H100 80GB Plus GPU running in Americas", OD, "h", "10", 0));
	assert_int_equal(price_of(s, &mega, false), 82080000);
	arena_free(a);
}

static void spot_is_told_by_usage_or_by_the_words(void **state)
{
	struct gcp_type b200 = { .name = "a4-highgpu-8g",
		.shape = { .gpu_milli = 8000, .vcpus = 224, .mem_mib = 4063232 },
		.ssds = 32 };
	struct arena *a = arena_new(0);
	struct gcp_skus *s = gcp_skus_new(a);

	(void)state;
	sku_take(s, a,
	    SKU("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", OD, "h", "3",
		300000000));
	assert_int_equal(price_of(s, &b200, true), 26400000);
	assert_int_equal(price_of(s, &b200, false), -1);
	arena_free(a);
}

static void the_newest_price_in_force_counts_and_units_may_be_absent(void **state)
{
	struct arena *a = arena_new(0);
	struct gcp_skus *s = gcp_skus_new(a);

	(void)state;
	sku_take(s, a, g2_parts[0]);
	sku_take(s, a, g2_parts[1]);
	sku_take(s, a,
	    "{\"description\":\"Nvidia L4 GPU running in "
	    "Iowa\",\"category\":{\"usageType\":\"OnDemand\"},\"serviceRegions\":[\"us-central1\"],"
	    "\"pricingInfo\":["
	    "{\"effectiveTime\":\"2025-12-01T08:00:00Z\",\"pricingExpression\":{\"usageUnit\":"
	    "\"h\",\"tieredRates\":[{\"unitPrice\":{\"units\":5}}]}},"
	    "{\"effectiveTime\":\"2026-01-01T08:00:00Z\",\"pricingExpression\":{\"usageUnit\":"
	    "\"h\",\"tieredRates\":[{\"unitPrice\":{\"nanos\":\"560040000\"}}]}},"
	    "{\"effectiveTime\":\"2027-01-01T08:00:00Z\",\"pricingExpression\":{\"usageUnit\":"
	    "\"h\",\"tieredRates\":[{\"unitPrice\":{\"units\":\"9\"}}]}}]}");
	assert_int_equal(price_of(s, &g2, false), 706824);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_price_is_the_sum_of_its_parts_to_the_micro),
		cmocka_unit_test(each_part_that_is_missing_takes_the_price_away),
		cmocka_unit_test(decoys_are_no_parts),
		cmocka_unit_test(flex_start_costs_the_price_of_dws),
		cmocka_unit_test(names_that_shadow_each_other_are_told_apart),
		cmocka_unit_test(spot_is_told_by_usage_or_by_the_words),
		cmocka_unit_test(the_newest_price_in_force_counts_and_units_may_be_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
