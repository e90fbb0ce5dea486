/* The spellings that a job file may use for one value, and their stored form. */
#include "base/base.h"
#include "core/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

#define NOW (INT64_C(1767225600) * SPOT_US_PER_S) /* 2026-01-01T00:00:00Z */

static struct job_spec *spec_parse(struct arena *a, const char *text)
{
	struct job_spec *s = NULL;
	struct spot_err err = { 0 };
	struct str t = { text, strlen(text) };

	if (jobspec_parse(a, t, NOW, &s, NULL, NULL, &err) != SPOT_OK) {
		fail_msg("%s: %s", text, err.text);
	}
	return s;
}

static const struct resource_ask *ask_of(struct arena *a, const char *resources)
{
	return spec_parse(a, arena_printf(a, "run: x\nresources: {%s}\n", resources))->asks;
}

static void a_minimum_may_have_a_unit_and_a_plus(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);

	assert_int_equal(ask_of(a, "cpus: 4")->vcpus_min, 4);
	assert_int_equal(ask_of(a, "cpus: 4+")->vcpus_min, 4);
	assert_int_equal(ask_of(a, "cpus: ")->vcpus_min, 0);
	assert_int_equal(ask_of(a, "memory: 32")->mem_mib_min, 32768);
	assert_int_equal(ask_of(a, "memory: 32GB")->mem_mib_min, 32768);
	assert_int_equal(ask_of(a, "memory: 32GiB+")->mem_mib_min, 32768);
	assert_int_equal(ask_of(a, "memory: 0.5+")->mem_mib_min, 512);
}

static void a_part_of_infra_may_be_left_open(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct resource_ask *k = ask_of(a, "infra: 'aws/*/us-east-1a'");

	assert_string_equal(k->provider, "aws");
	assert_null(k->region);
	assert_string_equal(k->zone, "us-east-1a");
	k = ask_of(a, "infra: '/us-east-1'");
	assert_null(k->provider);
	assert_string_equal(k->region, "us-east-1");
	k = ask_of(a, "infra: ");
	assert_null(k->provider);
}

static void accelerators_are_one_or_a_choice(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const struct resource_ask *k = ask_of(a, "accelerators: [L4, 'A10G:0.5']");

	assert_int_equal(k->gpus_n, 2);
	assert_string_equal(k->gpus[0].gpu, "L4");
	assert_int_equal(k->gpus[0].milli, 1000);
	assert_string_equal(k->gpus[1].gpu, "A10G");
	assert_int_equal(k->gpus[1].milli, 500);
	assert_int_equal(ask_of(a, "accelerators: ")->gpus_n, 0);
}

static void at_most_thirty_two_accelerators_are_named(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	const char *list = "L4";
	struct spot_err err = { 0 };
	struct job_spec *s;
	const char *text;

	for (int i = 1; i < 32; i++) {
		list = arena_printf(a, "%s, L4", list);
	}
	assert_int_equal(ask_of(a, arena_printf(a, "accelerators: [%s]", list))->gpus_n, 32);
	text = arena_printf(a, "run: x\nresources: {accelerators: [%s, L4]}\n", list);
	assert_int_equal(jobspec_parse(a, (struct str){ text, strlen(text) }, NOW, &s, NULL, NULL,
			     &err),
	    SPOT_INVALID);
	assert_non_null(strstr(err.text, "more than 32 alternatives"));
}

static void truth_has_two_spellings_and_may_be_left_out(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);

	assert_int_equal(ask_of(a, "use_spot: True")->use_spot, 1);
	assert_int_equal(ask_of(a, "use_spot: true")->use_spot, 1);
	assert_int_equal(ask_of(a, "use_spot: False")->use_spot, 0);
	assert_int_equal(ask_of(a, "use_spot: false")->use_spot, 0);
	assert_int_equal(ask_of(a, "use_spot: ")->use_spot, -1);
}

static void an_elastic_gang_survives_the_database(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *back = NULL,
			*s = spec_parse(a,
			    "run: x\nnum_nodes: 2\nconfig: {spotctl: {elastic: "
			    "replace}}\n");
	AUTO(json) json_t *j = jobspec_to_json(s);
	struct spot_err err;

	assert_int_equal(jobspec_from_json(a, j, &back, &err), SPOT_OK);
	assert_true(back->elastic);
	assert_false(spec_parse(a, "run: x\nconfig: {spotctl: {elastic: }}\n")->elastic);
}

static void a_network_tier_is_the_jobs_and_survives_the_database(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *back = NULL,
			*s = spec_parse(a,
			    "run: x\nnum_nodes: 2\nresources: {any_of: [{infra: aws, network_tier: "
			    "best}, {infra: gcp}]}\n");
	AUTO(json) json_t *j = jobspec_to_json(s);
	struct spot_err err;

	assert_int_equal(jobspec_from_json(a, j, &back, &err), SPOT_OK);
	assert_true(back->together);
	assert_false(spec_parse(a, "run: x\nresources: {network_tier: standard}\n")->together);
	assert_false(spec_parse(a, "run: x\nresources: {network_tier: }\n")->together);
}

static void keys_without_a_value_change_nothing(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s = spec_parse(a,
	    "run: x\nname:\nnum_nodes:\nenvs:\nfile_mounts:\nresources:\n"
	    "config: {spotctl: {deadline: , work: , off_peak: , checkpoint: }}\n");

	assert_int_equal(s->num_nodes, 1);
	assert_int_equal(s->envs_n + s->mounts_n, 0);
	assert_int_equal(s->asks_n, 1);
	assert_int_equal(s->deadline_us, 0);
	assert_int_equal(s->work_s, 0);
	assert_int_equal(s->off_peak, -1);
	assert_null(s->checkpoint.path);
	assert_int_equal(spec_parse(a, "run: x\nconfig:\n")->num_nodes, 1);
	assert_int_equal(spec_parse(a, "run: x\nconfig: {spotctl: }\n")->num_nodes, 1);
}

static void times_are_moments_or_durations(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s = spec_parse(a,
	    "run: x\nconfig: {spotctl: {start_after: '2026-01-01T02:00:00Z', "
	    "deadline: '2026-01-02T00:00:00Z', patience: 0s, late: fastest}}\n");

	assert_int_equal(s->start_after_us, NOW + 2 * SPOT_US_PER_HOUR);
	assert_int_equal(s->deadline_us, NOW + 24 * SPOT_US_PER_HOUR);
	assert_int_equal(s->patience_s, 0);
	assert_false(s->late_cheapest);
	assert_true(s->late_said);
	s = spec_parse(a, "run: x\nconfig: {spotctl: {start_after: 90m}}\n");
	assert_int_equal(s->start_after_us, NOW + 90 * 60 * SPOT_US_PER_S);
	assert_int_equal(s->patience_s, -1);
}

static void a_save_interval_is_ours_the_jobs_or_never(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s, *back = NULL;
	struct spot_err err = { 0 };
	json_t *j;

	s = spec_parse(a, "run: x\nconfig: {spotctl: {checkpoint: {path: c, interval: auto}}}\n");
	assert_true(!s->checkpoint.interval_off && s->checkpoint.interval_s == 0);
	s = spec_parse(a, "run: x\nconfig: {spotctl: {checkpoint: {path: c, interval: }}}\n");
	assert_true(!s->checkpoint.interval_off && s->checkpoint.interval_s == 0);
	s = spec_parse(a, "run: x\nconfig: {spotctl: {checkpoint: {path: c, interval: never}}}\n");
	assert_true(s->checkpoint.interval_off);
	j = jobspec_to_json(s);
	assert_int_equal(jobspec_from_json(a, j, &back, &err), SPOT_OK);
	assert_true(back->checkpoint.interval_off);
	json_decref(j);
}

static void a_key_without_effect_is_a_warning(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	static const char text[] = "run: x\nresources:\n  disk_tier: best\n";
	const char **warnings = NULL;
	struct job_spec *s;
	struct spot_err err = { 0 };
	size_t n = 0;

	assert_int_equal(jobspec_parse(a, (struct str){ text, strlen(text) }, NOW, &s, &warnings,
			     &n, &err),
	    SPOT_OK);
	assert_int_equal(n, 1);
	assert_string_equal(warnings[0], "line 3: disk_tier has no effect");
}

static void secrets_are_apart_from_what_is_stored(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	struct job_spec *s = spec_parse(a, "run: x\nsecrets: {TOKEN: abc, KEY: def}\n");
	json_t *secrets = jobspec_secrets(s), *stored = jobspec_to_json(s);
	char *text = json_dumps(stored, 0);

	assert_int_equal(json_object_size(secrets), 2);
	assert_string_equal(json_string_value(json_object_get(secrets, "TOKEN")), "abc");
	assert_string_equal(json_string_value(json_object_get(secrets, "KEY")), "def");
	assert_non_null(strstr(text, "TOKEN"));
	assert_null(strstr(text, "abc"));
	free(text);
	json_decref(secrets);
	json_decref(stored);
}

static void the_stored_form_must_be_an_object(void **state UNUSED)
{
	AUTO(arena) struct arena *a = arena_new(0);
	json_t *list = json_array(), *wrong = json_pack("{s:s, s:s}", "run", "x", "num_nodes", "2");
	struct job_spec *s = NULL;
	struct spot_err err = { 0 };

	assert_int_equal(jobspec_from_json(a, list, &s, &err), SPOT_INTERNAL);
	assert_string_equal(err.text, "job.spec is not an object");
	assert_int_not_equal(jobspec_from_json(a, wrong, &s, &err), SPOT_OK);
	assert_non_null(strstr(err.text, "job.spec: "));
	assert_non_null(strstr(err.text, "num_nodes"));
	json_decref(list);
	json_decref(wrong);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_minimum_may_have_a_unit_and_a_plus),
		cmocka_unit_test(a_part_of_infra_may_be_left_open),
		cmocka_unit_test(accelerators_are_one_or_a_choice),
		cmocka_unit_test(at_most_thirty_two_accelerators_are_named),
		cmocka_unit_test(truth_has_two_spellings_and_may_be_left_out),
		cmocka_unit_test(an_elastic_gang_survives_the_database),
		cmocka_unit_test(a_network_tier_is_the_jobs_and_survives_the_database),
		cmocka_unit_test(keys_without_a_value_change_nothing),
		cmocka_unit_test(times_are_moments_or_durations),
		cmocka_unit_test(a_save_interval_is_ours_the_jobs_or_never),
		cmocka_unit_test(a_key_without_effect_is_a_warning),
		cmocka_unit_test(secrets_are_apart_from_what_is_stored),
		cmocka_unit_test(the_stored_form_must_be_an_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
