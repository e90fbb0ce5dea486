/* The closed lists: every value has a name, and nothing else has. */
#include "base/base.h"
#include "unit.h"

#include "spot/http.h"

static void every_result_code_has_name_status_and_act(void **state)
{
	(void)state;
	for (int rc = 0; rc < SPOT_RC_COUNT; rc++) {
		assert_non_null(spot_rc_name((enum spot_rc)rc));
		assert_in_range(spot_rc_http((enum spot_rc)rc), 200, 599);
		if (rc != SPOT_OK) {
			assert_int_not_equal(spot_rc_act((enum spot_rc)rc), SPOT_ACT_NONE);
		}
	}
	assert_string_equal(spot_rc_name(SPOT_UNKNOWN), "unknown");
	assert_int_equal(spot_rc_act(SPOT_UNKNOWN), SPOT_ACT_ASK_FIRST);
	assert_int_equal(spot_rc_http(SPOT_THROTTLED), 429);
	assert_string_equal(spot_rc_name((enum spot_rc)1000), "internal");
}

static void names_of_enums_read_back(void **state)
{
	(void)state;
	assert_string_equal(spot_market_name(SPOT_MARKET_ON_DEMAND), "on_demand");
	assert_int_equal(spot_market_parse("on_demand"), SPOT_MARKET_ON_DEMAND);
	assert_int_equal(spot_market_parse("spot"), SPOT_MARKET_SPOT);
	assert_int_equal(spot_market_parse("Spot"), SPOT_MARKET_NONE);
	assert_int_equal(spot_market_parse(NULL), SPOT_MARKET_NONE);
	assert_string_equal(spot_market_name(SPOT_MARKET_NONE), "?");
	assert_string_equal(spot_market_name((enum spot_market)9), "?");
	assert_string_equal(spot_signal_name(SPOT_SIGNAL_PLACEMENT_SCORE), "placement_score");
	assert_string_equal(spot_signal_name(SPOT_SIGNAL_FULFILMENT), "fulfilment");
	assert_string_equal(spot_instance_state_name(SPOT_INSTANCE_ODD), "odd");
	assert_string_equal(spot_notice_name(SPOT_NOTICE_REBALANCE), "rebalance");
	assert_int_equal(spot_notice_parse("interruption"), SPOT_NOTICE_INTERRUPTION);
	assert_int_equal(spot_notice_parse(""), SPOT_NOTICE_NONE);
}

static void headers_are_found_without_regard_to_case(void **state)
{
	struct spot_header h[] = { { "Content-Type", "a" }, { "X-B", "b" } };
	struct spot_http_response r = { .headers = h, .headers_n = 2 };

	(void)state;
	assert_string_equal(spot_http_header(&r, "content-TYPE"), "a");
	assert_null(spot_http_header(&r, "x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_result_code_has_name_status_and_act),
		cmocka_unit_test(names_of_enums_read_back),
		cmocka_unit_test(headers_are_found_without_regard_to_case),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
