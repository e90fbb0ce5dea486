/* Workload classes: the defaults of a job file, the settings that the configuration may change, and
 * refusals. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"
#include "core/rank/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct arena *arena;
static struct class_table table;

static int setup(void **state)
{
	(void)state;
	arena = arena_new(0);
	class_table_default(&table);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static struct job_spec *spec_parse(const char *class, const char *resources, const char *ours)
{
	const char *text = arena_printf(arena,
	    "name: x\nresources: {%s}\nrun: \"true\"\nconfig: {spotctl: {class: %s%s}}\n",
	    resources, class, ours);
	struct job_spec *s = NULL;
	struct spot_err err = { 0 };

	if (jobspec_parse(arena, str_from(text), 0, &s, NULL, NULL, &err) != SPOT_OK) {
		fail_msg("%s", err.text);
	}
	return s;
}

static struct job_spec *class_parse(const char *class, const char *resources, const char *ours)
{
	struct job_spec *s = spec_parse(class, resources, ours);
	struct spot_err err = { 0 };

	assert_int_equal(class_apply(arena, class_get(&table, class), s, &err), SPOT_OK);
	return s;
}

static void every_class_of_the_job_file_has_a_policy(void **state)
{
	static const char *const names[] = { "training", "batch_inference", "fine_tune", "eval",
		"sweep", "dev", "serving" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_string_equal(class_get(&table, names[i])->name, names[i]);
		assert_string_equal(spec_parse(names[i], "accelerators: T4:1", "")->class,
		    names[i]);
	}
	assert_null(class_get(&table, "night"));
}

static void serving_and_dev_are_not_interrupted_unless_the_file_says_so(void **state)
{
	(void)state;
	assert_false(class_parse("serving", "accelerators: T4:1", "")->interruptible);
	assert_false(class_parse("dev", "accelerators: T4:1", "")->interruptible);
	assert_true(
	    class_parse("serving", "accelerators: T4:1", ", interruptible: true")->interruptible);
	assert_true(class_parse("dev", "accelerators: T4:1, use_spot: true", "")->interruptible);
	assert_true(class_parse("training", "accelerators: T4:1", "")->interruptible);
	assert_false(
	    class_parse("training", "accelerators: T4:1", ", interruptible: false")->interruptible);
}

static void the_priority_of_the_class_counts_where_the_file_has_none(void **state)
{
	(void)state;
	assert_int_equal(class_parse("serving", "accelerators: T4:1", "")->priority, 100);
	assert_int_equal(class_parse("serving", "accelerators: T4:1, priority: 0", "")->priority,
	    0);
	assert_int_equal(class_parse("sweep", "accelerators: T4:1", "")->priority, -20);
	assert_true(class_parse("serving", "accelerators: T4:1", "")->not_preemptible);
	assert_false(class_parse("training", "accelerators: T4:1", "")->not_preemptible);
}

static void a_class_has_the_gpus_of_its_tiers_only(void **state)
{
	struct class_policy *c = class_find(&table, "eval");
	struct spot_err err = { 0 };
	struct job_spec *s;

	(void)state;
	assert_int_equal(class_set(c, "tiers", "T4, L4,A100-80GB", &err), SPOT_OK);
	s = class_parse("eval", "accelerators: {H100: 1, L4: 2}", "");
	assert_int_equal(s->asks[0].gpus_n, 1);
	assert_string_equal(s->asks[0].gpus[0].gpu, "L4");
	/* Two names of one GPU are one ask; two counts are two. */
	s = class_parse("eval", "accelerators: {A100: 1, A100-80GB: 1}", "");
	assert_int_equal(s->asks[0].gpus_n, 1);
	s = class_parse("eval", "accelerators: {A100: 2, A100-80GB: 1}", "");
	assert_int_equal(s->asks[0].gpus_n, 2);
	/* A family is narrowed to the member that the class may have. */
	s = class_parse("eval", "accelerators: A100:1", "");
	assert_string_equal(s->asks[0].gpus[0].gpu, "A100-80GB");
	s = spec_parse("eval", "accelerators: H100:1", "");
	assert_int_equal(class_apply(arena, c, s, &err), SPOT_INVALID);
	assert_non_null(strstr(err.text, "class eval may have T4, L4, A100-80GB only"));
	assert_non_null(strstr(class_words(arena, c, class_parse("eval", "accelerators: T4:1", "")),
	    "tiers T4, L4, A100-80GB"));
}

static void an_alternative_without_an_allowed_gpu_is_left_out(void **state)
{
	struct spot_err err = { 0 };
	struct job_spec *s;

	(void)state;
	assert_int_equal(class_set(class_find(&table, "eval"), "tiers", "T4", &err), SPOT_OK);
	s = class_parse("eval", "any_of: [{accelerators: H100:1}, {accelerators: T4:4}]", "");
	assert_int_equal(s->asks_n, 1);
	assert_int_equal(s->asks[0].gpus[0].milli, 4000);
	/* A job that asks for no GPU has none to be refused. */
	assert_int_equal(class_parse("eval", "cpus: 4+", "")->asks_n, 1);
}

static void a_type_that_is_named_counts_by_its_gpu(void **state)
{
	static const struct offer market[] = { { .provider = "aws",
						   .instance_type = "p5.48xlarge",
						   .gpu_name = "H100-80GB",
						   .gpu_milli = 8000,
						   .market = SPOT_MARKET_SPOT },
		{ .provider = "aws",
		    .instance_type = "g4dn.xlarge",
		    .gpu_name = "T4",
		    .gpu_milli = 1000,
		    .market = SPOT_MARKET_SPOT },
		{ .provider = "aws",
		    .instance_type = "m7i.large",
		    .gpu_name = "",
		    .market = SPOT_MARKET_SPOT } };
	static const struct {
		const char *resources;
		bool good;
	} cases[] = { { "instance_type: p5.48xlarge", false },
		{ "instance_type: g4dn.xlarge", true }, { "instance_type: m7i.large", true },
		{ "instance_type: p9.unknown", true },
		{ "any_of: [{instance_type: p5.48xlarge}, {instance_type: g4dn.xlarge}]", true },
		{ "any_of: [{instance_type: p5.48xlarge}, {accelerators: T4:1}]", true },
		{ "cpus: 4+", true } };
	struct class_policy *c = class_find(&table, "eval");
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(class_set(c, "tiers", "T4, L4", &err), SPOT_OK);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct job_spec *s = class_parse("eval", cases[i].resources, "");

		if ((class_types_check(arena, c, s, market, ARRAY_LEN(market), &err) == SPOT_OK) !=
		    cases[i].good) {
			fail_msg("%s: %s", cases[i].resources, err.text);
		}
	}
	assert_string_equal(err.text,
	    "resources.instance_type: p5.48xlarge has H100-80GB: a job of class eval may have T4, "
	    "L4 only; ask "
	    "for one of these, or let an administrator change tiers of [class eval]");
	/* Without tiers nothing is limited. */
	c = class_find(&table, "training");
	assert_int_equal(class_types_check(arena, c,
			     class_parse("training", "instance_type: p5.48xlarge", ""), market, 3,
			     &err),
	    SPOT_OK);
}

static void ranking_holds_to_the_tiers_of_a_stored_job(void **state)
{
	static const struct offer h100 = { .provider = "aws",
		.region = "r",
		.zone = "z",
		.zone_name = "z",
		.instance_type = "x",
		.arch = "",
		.quota_class = "",
		.gpu_name = "H100-80GB",
		.gpu_milli = 8000,
		.market = SPOT_MARKET_ON_DEMAND,
		.price_micros = 1000000,
		.price_state = PRICE_FRESH,
		.placement_score = -1,
		.capacity = -1,
		.advisor_lo = -1,
		.advisor_hi = -1 };
	struct rank_policy policy;
	struct rank_job job = { .spot_allowed = true, .on_demand_allowed = true };
	struct spot_err err = { 0 };
	struct job_spec *back;
	struct ranking ranking;
	json_t *j;

	(void)state;
	rank_policy_default(&policy);
	assert_int_equal(class_set(class_find(&table, "eval"), "tiers", "T4", &err), SPOT_OK);
	j = jobspec_to_json(class_parse("eval", "instance_type: x", ""));
	assert_int_equal(jobspec_from_json(arena, j, &back, &err), SPOT_OK);
	json_decref(j);
	job.spec = back;
	rank_run(arena, &h100, 1, &job, &policy, 1, &ranking);
	assert_int_equal(ranking.usable, 0);
	assert_int_equal(ranking.refused[0].why, REFUSED_ASK);
	assert_string_equal(refusal_words(arena, &ranking, &ranking.refused[0]),
	    "has H100-80GB, which the job's class may not have");
	back->asks[0].tiers_n = 0;
	rank_run(arena, &h100, 1, &job, &policy, 1, &ranking);
	assert_int_equal(ranking.usable, 1);
}

static void the_words_say_what_the_class_means(void **state)
{
	const struct class_policy *eval = class_get(&table, "eval"),
				  *serving = class_get(&table, "serving");

	(void)state;
	assert_non_null(
	    strstr(class_words(arena, eval, class_parse("eval", "accelerators: T4:1", "")),
		"eval: fault-tolerant, may be interrupted, so spot by default"));
	assert_non_null(
	    strstr(class_words(arena, serving, class_parse("serving", "accelerators: T4:1", "")),
		"on-demand or reserved capacity only"));
	assert_non_null(
	    strstr(class_words(arena, serving,
		       class_parse("serving", "accelerators: T4:1", ", interruptible: true")),
		"its file says"));
	assert_non_null(strstr(class_words(arena, eval,
				   class_parse("eval", "accelerators: T4:1, use_spot: false", "")),
	    "use_spot is false, so no spot capacity"));
	/* One alternative that may be spot is enough for spot. */
	assert_null(strstr(class_words(arena, eval,
			       class_parse("eval",
				   "any_of: [{accelerators: T4, use_spot: false}, "
				   "{accelerators: L4, use_spot: true}]",
				   "")),
	    "no spot capacity"));
	assert_non_null(
	    strstr(class_words(arena, eval, class_parse("eval", "accelerators: T4:1", "")),
		"keeps no checkpoint and starts over"));
	assert_null(
	    strstr(class_words(arena, eval,
		       class_parse("eval", "accelerators: T4:1", ", checkpoint: {path: c}")),
		"starts over"));
	assert_non_null(
	    strstr(class_words(arena, eval,
		       class_parse("eval", "accelerators: T4:1", ", interruptible: false")),
		"is not made to leave for others"));
}

/* The job file, then the class, then the daemon. */
static void how_long_spot_is_waited_for_and_what_counts_when_it_is_late(void **state)
{
	struct class_policy *c = class_find(&table, "training");
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(class_parse("training", "accelerators: T4:1", "")->patience_s, -1);
	assert_int_equal(class_parse("sweep", "accelerators: T4:1", "")->patience_s, 86400);
	assert_int_equal(class_parse("batch_inference", "accelerators: T4:1", ", patience: 5m")
			     ->patience_s,
	    300);
	assert_int_equal(class_parse("sweep", "accelerators: T4:1", ", patience: 0s")->patience_s,
	    0);
	assert_false(class_parse("training", "accelerators: T4:1", "")->late_cheapest);
	assert_int_equal(class_set(c, "patience", "6h", &err), SPOT_OK);
	assert_int_equal(class_set(c, "late", "cheapest", &err), SPOT_OK);
	assert_int_equal(class_parse("training", "accelerators: T4:1", "")->patience_s, 6 * 3600);
	assert_true(class_parse("training", "accelerators: T4:1", "")->late_cheapest);
	assert_false(
	    class_parse("training", "accelerators: T4:1", ", late: fastest")->late_cheapest);
	assert_non_null(
	    strstr(class_words(arena, c, class_parse("training", "accelerators: T4:1", "")),
		"waits up to 6h"));
	assert_non_null(strstr(class_words(arena, c,
				   class_parse("training", "accelerators: T4:1", ", deadline: 9h")),
	    "once late, what costs least"));
	assert_int_equal(class_set(c, "patience", "default", &err), SPOT_OK);
	assert_null(strstr(class_words(arena, c, class_parse("training", "accelerators: T4:1", "")),
	    "waits up to"));
	assert_int_equal(class_parse("training", "accelerators: T4:1", "")->patience_s, -1);
}

static void an_unknown_setting_is_refused_with_words(void **state)
{
	static const struct {
		const char *key, *value, *word;
	} bad[] = {
		{ "tolerance", "maybe", "spot or on_demand" },
		{ "preemptible", "yes", "true or false" },
		{ "priority", "5000", "-1000 to 1000" },
		{ "tiers", "T4,,L4", "missing" },
		{ "tiers", "T4,", "missing" },
		{ "tiers", "GTX9000", "not a GPU" },
		{ "tier", "T4", "not a key" },
		{ "patience", "soon", "duration" },
		{ "patience", "400d", "up to a year" },
		{ "patience", "-5m", "duration" },
		{ "late", "never", "fastest or cheapest" },
	};
	struct class_policy *c = class_find(&table, "training");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct spot_err err = { 0 };

		assert_int_equal(class_set(c, bad[i].key, bad[i].value, &err), SPOT_CONFIG);
		if (strstr(err.text, bad[i].word) == NULL) {
			fail_msg("%s = %s: %s", bad[i].key, bad[i].value, err.text);
		}
	}
}

static void each_setting_of_a_class_changes_it(void **state)
{
	struct class_policy *c = class_find(&table, "training");
	struct spot_err err = { 0 };

	(void)state;
	assert_null(class_find(&table, "fun"));
	assert_int_equal(class_set(c, "tolerance", "on_demand", &err), SPOT_OK);
	assert_int_equal(c->tolerance, CLASS_ON_DEMAND);
	assert_int_equal(class_set(c, "tolerance", "spot", &err), SPOT_OK);
	assert_int_equal(c->tolerance, CLASS_SPOT);
	assert_int_equal(class_set(c, "preemptible", "false", &err), SPOT_OK);
	assert_false(c->preemptible);
	assert_int_equal(class_set(c, "preemptible", "true", &err), SPOT_OK);
	assert_true(c->preemptible);
	assert_int_equal(class_set(c, "priority", "-1000", &err), SPOT_OK);
	assert_int_equal(c->priority, -1000);
	assert_int_equal(class_set(c, "tiers", " T4 ,  L4  ", &err), SPOT_OK);
	assert_int_equal(c->tiers_n, 2);
	assert_string_equal(c->tiers[0], "T4");
	assert_string_equal(c->tiers[1], "L4");
	assert_int_equal(class_set(c, "tiers", "", &err), SPOT_OK);
	assert_int_equal(c->tiers_n, 0); /* any */
}

static void at_most_thirty_two_tiers_are_kept(void **state)
{
	struct class_policy *c = class_find(&table, "training");
	const char *list = "T4";
	struct spot_err err = { 0 };

	(void)state;
	for (int i = 1; i < CLASS_TIERS_MAX; i++) {
		list = arena_printf(arena, "%s,T4", list);
	}
	assert_int_equal(class_set(c, "tiers", list, &err), SPOT_OK);
	assert_int_equal(c->tiers_n, CLASS_TIERS_MAX);
	assert_int_equal(class_set(c, "tiers", arena_printf(arena, "%s,T4", list), &err),
	    SPOT_CONFIG);
	assert_non_null(strstr(err.text, "more than 32 GPUs"));
	assert_int_equal(class_set(c, "tiers", "A12345678901234567890123456789012", &err),
	    SPOT_CONFIG);
	assert_non_null(strstr(err.text, "too long"));
}

static void the_classes_decisions_are_stored_with_the_job(void **state)
{
	json_t *j = jobspec_to_json(class_parse("serving", "accelerators: T4:1", ""));
	struct job_spec *back;
	struct spot_err err = { 0 };

	(void)state;
	assert_int_equal(jobspec_from_json(arena, j, &back, &err), SPOT_OK);
	assert_false(back->interruptible);
	assert_true(back->not_preemptible);
	assert_int_equal(back->priority, 100);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_class_of_the_job_file_has_a_policy, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    serving_and_dev_are_not_interrupted_unless_the_file_says_so, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    the_priority_of_the_class_counts_where_the_file_has_none, setup, teardown),
		cmocka_unit_test_setup_teardown(each_setting_of_a_class_changes_it, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(at_most_thirty_two_tiers_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(a_class_has_the_gpus_of_its_tiers_only, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(an_alternative_without_an_allowed_gpu_is_left_out,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(a_type_that_is_named_counts_by_its_gpu, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(ranking_holds_to_the_tiers_of_a_stored_job, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(the_words_say_what_the_class_means, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    how_long_spot_is_waited_for_and_what_counts_when_it_is_late, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unknown_setting_is_refused_with_words, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(the_classes_decisions_are_stored_with_the_job,
		    setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
