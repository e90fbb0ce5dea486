/* GPU facts out of the helper's and nvidia-smi's text; how repeats grow apart. */
#include "base/base.h"
#include "unit.h"

#include "agent/agent.h"
#include "base/text/text.h"

static void a_line_of_the_helper_adds_up(void **state)
{
	struct gpu_now n = { 0 };

	(void)state;
	assert_int_equal(gpu_helper_line(STR_LIT("{\"driver\":\"550.1\",\"gpus\":[{\"uuid\":\"GPU-"
						 "a\",\"name\":\"H100\",\"mem_mib\":100,"
						 "\"mem_used_mib\":10,\"util\":50,\"power_mw\":7},{"
						 "\"uuid\":\"GPU-b\",\"name\":\"H100\","
						 "\"mem_mib\":100,\"mem_used_mib\":30}]}"),
			     &n, NULL),
	    SPOT_OK);
	assert_true(n.known);
	assert_int_equal(n.count, 2);
	assert_int_equal(n.mem_total_mib, 200);
	assert_int_equal(n.mem_used_mib, 40);
	assert_int_equal(n.power_mw, 7);
	assert_true(n.util > 0.49 && n.util < 0.51); /* of the one that tells */
	assert_string_equal(json_string_value(json_object_get(json_array_get(n.gpus, 1), "uuid")),
	    "GPU-b");
	json_decref(n.gpus);
}

static void an_error_line_takes_the_figures_away(void **state)
{
	struct gpu_now n = { .count = 2, .power_mw = 9 };

	(void)state;
	assert_int_equal(gpu_helper_line(STR_LIT("{\"error\":\"GPU 0: GPU is lost (15)\"}"), &n,
			     NULL),
	    SPOT_OK);
	assert_int_equal(n.count, 0);
	assert_int_equal(n.power_mw, 0);
	assert_string_equal(n.error, "GPU 0: GPU is lost (15)");
	assert_int_not_equal(gpu_helper_line(STR_LIT("{\"gpus\":"), &n, NULL), SPOT_OK);
	json_decref(n.gpus);
}

static void gpus_that_programs_cannot_use_yet_are_waited_for_up_to_a_limit(void **state)
{
	struct gpu_now n = { 0 };
	const int64_t s = SPOT_US_PER_S, began = 1000 * s;

	(void)state;
	assert_int_equal(gpu_settles_us(&n, began, began), began + 5 * s); /* nothing was told */
	assert_int_equal(gpu_settles_us(&n, began, began + 5 * s), 0);
	assert_int_equal(gpu_helper_line(STR_LIT("{\"driver\":\"1\",\"gpus\":[{\"uuid\":\"GPU-a\"}]"
						 ",\"not_ready\":\"words\"}"),
			     &n, NULL),
	    SPOT_OK);
	assert_int_equal(n.count, 1);
	assert_int_equal(gpu_settles_us(&n, began, began + 299 * s), began + 300 * s);
	assert_int_equal(gpu_settles_us(&n, began, began + 300 * s), 0);
	assert_string_equal(gpu_fault(&n), "words");
	assert_int_equal(gpu_helper_line(STR_LIT("{\"gpus\":[{\"uuid\":\"GPU-a\"}],\"not_ready\":"
						 "\"words\",\"failed\":true}"),
			     &n, NULL),
	    SPOT_OK);
	assert_int_equal(gpu_settles_us(&n, began, began), 0); /* it will not pass */
	assert_int_equal(gpu_helper_line(STR_LIT("{\"gpus\":[{\"uuid\":\"GPU-a\"}]}"), &n, NULL),
	    SPOT_OK);
	assert_int_equal(gpu_settles_us(&n, began, began), 0);
	assert_string_equal(gpu_fault(&n), "");
	assert_int_equal(gpu_helper_line(STR_LIT("{\"error\":\"GPU 0: GPU is lost "
						 "(15)\",\"failed\":true}"),
			     &n, NULL),
	    SPOT_OK);
	assert_string_equal(gpu_fault(&n), "GPU 0: GPU is lost (15)");
	/* A machine without GPUs has no helper's report, and that is no fault. */
	assert_int_equal(gpu_helper_line(STR_LIT("{\"error\":\"no GPU\"}"), &n, NULL), SPOT_OK);
	assert_string_equal(gpu_fault(&n), "");
	json_decref(n.gpus);
}

static void nvidia_smi_without_some_values_is_read(void **state)
{
	struct gpu_now n = { 0 };

	(void)state;
	assert_int_equal(gpu_smi_text("GPU-1, Tesla T4, 535.1, 15360, 12, 30, 70.50\n"
				      "GPU-2, Tesla T4, 535.1, 15360, 0, [N/A], [Not Supported]\n",
			     &n, NULL),
	    SPOT_OK);
	assert_int_equal(n.count, 2);
	assert_int_equal(n.mem_total_mib, 30720);
	assert_int_equal(n.power_mw, 70500);
	assert_true(n.util > 0.29 && n.util < 0.31);
	assert_string_equal(n.driver, "535.1");
	json_decref(n.gpus);
}

static void a_message_of_nvidia_smi_is_no_gpu(void **state)
{
	struct gpu_now n = { 0 };

	(void)state;
	assert_int_equal(gpu_smi_text("No devices were found\n", &n, NULL), SPOT_OK);
	assert_int_equal(n.count, 0);
	assert_string_equal(n.error, "no GPU");
	json_decref(n.gpus);
}

static void repeats_grow_apart_and_obey_retry_after(void **state)
{
	static struct agent a;
	struct retry b = { 0 };
	int64_t limit = 500000;

	(void)state;
	rng_seeded_init(&a.rng, 7);
	for (int i = 0; i < 12; i++) {
		retry_fail(&a, &b, 0);
		assert_in_range(b.next_us, limit / 2, limit + limit / 2);
		limit = MIN(limit * 2, 30 * SPOT_US_PER_S);
	}
	retry_fail(&a, &b, 100 * SPOT_US_PER_S);
	assert_int_equal(b.next_us, 100 * SPOT_US_PER_S);
	retry_fail(&a, &b, 100000 * SPOT_US_PER_S); /* nobody keeps us away for a day */
	assert_int_equal(b.next_us, 120 * SPOT_US_PER_S);
	a.wake_us = INT64_MAX;
	assert_false(retry_due(&a, &b));
	assert_int_equal(a.wake_us, b.next_us);
	retry_clear(&b);
	assert_true(retry_due(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_of_the_helper_adds_up),
		cmocka_unit_test(an_error_line_takes_the_figures_away),
		cmocka_unit_test(gpus_that_programs_cannot_use_yet_are_waited_for_up_to_a_limit),
		cmocka_unit_test(nvidia_smi_without_some_values_is_read),
		cmocka_unit_test(a_message_of_nvidia_smi_is_no_gpu),
		cmocka_unit_test(repeats_grow_apart_and_obey_retry_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
