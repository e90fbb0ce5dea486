/* The speed of GPUs, the measured step rates and the price of moving bytes: figures by hand from
 * src/core/rank/data. */
#include "base/base.h"
#include "core/rank/rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static bool is_near(double a, double b)
{
	return fabs(a - b) < 1e-9 * fmax(1, fabs(b));
}

struct asked {
	struct gpu_ask gpu;
	struct resource_ask asks[2];
	struct job_spec spec;
	struct rank_job job;
};

/* A job that asks for so many of that GPU; its first ask names none. */
static struct asked *asked_make(struct arena *a, const char *gpu, int32_t milli)
{
	struct asked *x = arena_alloc(a, sizeof(*x));

	*x = (struct asked){ .gpu = { gpu, milli } };
	x->asks[1] = (struct resource_ask){ .gpus = &x->gpu, .gpus_n = 1 };
	x->spec = (struct job_spec){ .asks = x->asks, .asks_n = 2 };
	x->job = (struct rank_job){ .spec = &x->spec };
	return x;
}

static struct offer offer_of(const char *gpu, int32_t milli)
{
	return (struct offer){ .gpu_name = gpu, .gpu_milli = milli };
}

static void a_gpu_is_found_by_its_name_or_by_its_family(void **state UNUSED)
{
	const struct gpu_perf *exact = gpu_perf_find("a100-40gb"), *family = gpu_perf_find("A100");

	assert_non_null(exact);
	assert_string_equal(exact->gpu, "A100-40GB");
	assert_non_null(family);
	assert_string_equal(family->gpu, "A100-80GB"); /* the first of the table */
	assert_null(gpu_perf_find("A"));
	assert_null(gpu_perf_find("TPU-v9"));
}

static void speed_is_the_ratio_of_flops_or_else_of_bandwidth(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);

	/* 989.4 / 312 dense FP16 TFLOPS. */
	assert_true(is_near(gpu_speed_table(&asked_make(a, "A100", 1000)->spec, "H100-80GB-SXM"),
	    989.4 / 312));
	/* The A10G has no figure for FP16: 600.2 / 320 GB/s. */
	assert_true(
	    is_near(gpu_speed_table(&asked_make(a, "T4", 1000)->spec, "A10G"), 600.2 / 320));
	/* Nothing is known of the T4G, and the table does not have the other at all. */
	assert_true(gpu_speed_table(&asked_make(a, "T4", 1000)->spec, "T4G") == 1);
	assert_true(gpu_speed_table(&asked_make(a, "T4G", 1000)->spec, "T4") == 1);
	assert_true(gpu_speed_table(&asked_make(a, "T4", 1000)->spec, "TPU-v9") == 1);
	assert_true(gpu_speed_table(&asked_make(a, "TPU-v9", 1000)->spec, "T4") == 1);
	/* The family asked for is the reference, whichever of its members it is. */
	assert_true(gpu_speed_table(&asked_make(a, "H100", 1000)->spec, "H100-80GB-PCIe") == 1);
}

static void throughput_counts_the_gpus_of_the_machine(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct asked *x = asked_make(a, "A100", 4000);
	struct offer eight = offer_of("A100-80GB", 8000), one = offer_of("H100-80GB-SXM", 1000),
		     none = offer_of("", 0);

	assert_true(is_near(rank_throughput(&x->spec, &eight), 2));
	assert_true(is_near(rank_throughput(&x->spec, &one), 989.4 / 312 / 4));
	assert_true(rank_throughput(&x->spec, &none) == 1);
	x->gpu.milli = 0;
	assert_true(rank_throughput(&x->spec, &eight) == 1);
	x->spec.asks_n = 1; /* without a GPU any machine is as fast as any other */
	assert_true(rank_throughput(&x->spec, &eight) == 1);
	assert_true(gpu_speed_table(&x->spec, "H100-80GB-SXM") == 1);
}

static void step_rates_are_read_line_by_line(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct gpu_rate *r;

	assert_int_equal(gpu_rates_parse(a, NULL, &r), 0);
	assert_int_equal(gpu_rates_parse(a, "", &r), 0);
	assert_int_equal(gpu_rates_parse(a, "L4 1000 20.5 2\nnonsense\n\nT4 500 7 0.25\n", &r), 2);
	assert_string_equal(r[0].gpu, "L4");
	assert_int_equal(r[0].gpu_milli, 1000);
	assert_true(is_near(r[0].steps, 20.5) && is_near(r[0].hours, 2));
	assert_string_equal(r[1].gpu, "T4");
	assert_int_equal(r[1].gpu_milli, 500);
	assert_true(is_near(r[1].steps, 7) && is_near(r[1].hours, 0.25));
}

static void rates_without_steps_hours_or_gpus_count_for_nothing(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static const struct gpu_rate bad[] = { { "T4", 1000, 0, 1 }, { "T4", 1000, 5, 0 },
		{ "T4", 0, 5, 1 } };
	struct asked *x = asked_make(a, "T4", 1000);
	double hours = -1;

	x->job.rates = bad;
	x->job.rates_n = ARRAY_LEN(bad);
	assert_true(is_near(gpu_speed(&x->job, "L4", &hours), 121.0 / 65));
	assert_true(hours == 0);
	assert_true(gpu_speed(&x->job, "T4", &hours) == 1);
	assert_true(hours == 0);
	assert_int_equal(rank_work_left_s(&x->job, 100, 77), 77);
}

static void a_measured_gpu_outweighs_the_table_by_its_hours(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	/* 100 steps an hour on one T4; 300 on two L4, which is 150 each. */
	static const struct gpu_rate rates[] = { { "T4", 1000, 400, 4 }, { "L4", 2000, 450, 1.5 } };
	struct asked *x = asked_make(a, "T4", 1000);
	double hours;

	x->job.rates = rates;
	x->job.rates_n = 2;
	/* Half an hour of the table's 121 / 65, and one and a half of the measured rate. */
	assert_true(is_near(gpu_speed(&x->job, "l4", &hours),
	    (121.0 / 65 * 0.5 + 1.5 * 1.5) / (0.5 + 1.5)));
	assert_true(is_near(hours, 1.5));
	/* Without the T4 the reference's rate follows from the L4's and the table. */
	x->job.rates = &rates[1];
	x->job.rates_n = 1;
	assert_true(is_near(gpu_speed(&x->job, "L4", &hours), 121.0 / 65));
	assert_true(is_near(hours, 1.5));
	x->spec.asks_n = 1;
	assert_true(gpu_speed(&x->job, "L4", &hours) == 1);
	assert_true(hours == 0);
}

static void work_left_follows_from_steps_and_the_declared_time(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static const struct gpu_rate rates[] = { { "T4", 1000, 400, 4 } };
	struct asked *x = asked_make(a, "T4", 2000);

	x->job.rates = rates;
	x->job.rates_n = 1;
	/* 200 steps an hour on two: 1,000 steps take five hours. */
	assert_int_equal(rank_work_left_s(&x->job, 1000, 0), 5 * 3600);
	/* Declared were two: (2 x 0.5 + 5 x 4) / 4.5 hours. */
	assert_int_equal(rank_work_left_s(&x->job, 1000, 2 * 3600), 16800);
	assert_int_equal(rank_work_left_s(&x->job, 0, 7200), 7200);
	x->gpu.milli = 0;
	assert_int_equal(rank_work_left_s(&x->job, 1000, 7200), 7200);
	x->spec.asks_n = 1;
	assert_int_equal(rank_work_left_s(&x->job, 1000, 7200), 7200);
}

static void bytes_cost_by_the_pair_the_region_or_the_dearest_tier(void **state UNUSED)
{
	assert_int_equal(egress_micros_per_gb("aws", "af-south-1", "aws", "af-south-1"), 0);
	assert_int_equal(egress_micros_per_gb("aws", "af-south-1", "aws", "us-east-1"), 147000);
	assert_int_equal(egress_micros_per_gb("aws", "af-south-1", "azure", "eastasia"), 154000);
	/* Pairs that the grid does not have: by the region's own rates. */
	assert_int_equal(egress_micros_per_gb("aws", "ap-south-1", "lambda", "us-south-2"), 109300);
	assert_int_equal(egress_micros_per_gb("aws", "ap-east-1", "aws", "ap-new-9"), 90000);
	/* Nothing is known of these. */
	assert_int_equal(egress_micros_per_gb("nobody", "x", "aws", "us-east-1"), 120000);
	assert_int_equal(egress_micros_per_gb("aws", "ap-new-9", "aws", "us-east-1"), 120000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpu_is_found_by_its_name_or_by_its_family),
		cmocka_unit_test(speed_is_the_ratio_of_flops_or_else_of_bandwidth),
		cmocka_unit_test(throughput_counts_the_gpus_of_the_machine),
		cmocka_unit_test(step_rates_are_read_line_by_line),
		cmocka_unit_test(rates_without_steps_hours_or_gpus_count_for_nothing),
		cmocka_unit_test(a_measured_gpu_outweighs_the_table_by_its_hours),
		cmocka_unit_test(work_left_follows_from_steps_and_the_declared_time),
		cmocka_unit_test(bytes_cost_by_the_pair_the_region_or_the_dearest_tier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
