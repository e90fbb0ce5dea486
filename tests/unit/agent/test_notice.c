/* Turns AWS's published notices, as text, into deadlines. */
#include "base/base.h"
#include "unit.h"

#include "agent/agent.h"
#include "agent/notice/notice_priv.h"
#include "base/text/text.h"

#define NOW INT64_C(1767225600000000) /* 2026-01-01T00:00:00Z */

static void an_action_gives_its_time(void **state)
{
	static const char *const actions[] = { "terminate", "stop" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		char text[100];
		int64_t at = 0;

		(void)snprintf(text, sizeof(text),
		    "{\"action\":\"%s\",\"time\":\"2026-01-01T00:02:00Z\"}", actions[i]);
		assert_true(notice_aws_action(str_from(text), NOW, &at));
		assert_int_equal(at, NOW + 120 * SPOT_US_PER_S);
	}
}

static void hibernation_and_odd_times_mean_now(void **state)
{
	static const char *const texts[] = {
		"{\"action\":\"hibernate\",\"time\":\"2026-01-01T00:02:00Z\"}",
		"{\"action\":\"terminate\",\"time\":\"soon\"}", "{\"action\":\"terminate\"}"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		int64_t at = 0;

		assert_true(notice_aws_action(str_from(texts[i]), NOW, &at));
		assert_int_equal(at, NOW);
	}
}

static void text_without_an_action_is_no_notice(void **state)
{
	static const char *const texts[] = { "", "<html>", "[]", "{}",
		"{\"time\":\"2026-01-01T00:02:00Z\"}", "{\"action\":7}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		int64_t at = -1;

		assert_false(notice_aws_action(str_from(texts[i]), NOW, &at));
	}
}

static void maintenance_takes_the_earliest_active_event(void **state)
{
	int64_t at = 0;

	(void)state;
	assert_true(notice_aws_maintenance(
	    STR_LIT("[{\"NotBefore\":\"22 Jan 2026 09:00:43 GMT\",\"State\":\"active\"},"
		    "{\"NotBefore\":\"1 Jan 2026 00:01:00 GMT\",\"State\":\"active\"},"
		    "{\"NotBefore\":\"1 Jan 2026 00:00:00 GMT\",\"State\":\"canceled\"}]"),
	    &at));
	assert_int_equal(at, NOW + 60 * SPOT_US_PER_S);
	assert_true(notice_aws_maintenance(STR_LIT("[{\"NotBefore\":\"1 Jan 2026 00:01:00 "
						   "GMT\",\"State\":\"active\"},{\"NotBefore\":"
						   "\"soon\",\"State\":\"active\"}]"),
	    &at));
	assert_int_equal(at, NOW + 60 * SPOT_US_PER_S);
	assert_false(notice_aws_maintenance(STR_LIT("[]"), &at));
	assert_false(notice_aws_maintenance(STR_LIT("[{\"State\":\"completed\"}]"), &at));
	assert_false(notice_aws_maintenance(STR_LIT("nonsense"), &at));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_action_gives_its_time),
		cmocka_unit_test(hibernation_and_odd_times_mean_now),
		cmocka_unit_test(text_without_an_action_is_no_notice),
		cmocka_unit_test(maintenance_takes_the_earliest_active_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
