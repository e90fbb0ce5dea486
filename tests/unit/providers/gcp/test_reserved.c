/* Reservations: which are used, which one a launch takes, and what on demand leaves alone. */
#include "gcp_test.h"

#define LISTED(items) \
	"{\"kind\":\"compute#reservationAggregatedList\",\"items\":{\"zones/" ZONE \
	"\":{\"reservations\":[" items "]}}}"
#define RESERVED(name, room, more) \
	"{\"name\":\"" name "\",\"zone\":\"" LINK "/zones/" ZONE \
	"\",\"specificReservation\":{\"count\":\"4\",\"inUseCount\":\"" room \
	"\",\"instanceProperties\":{\"machineType\":\"g2-standard-4\"}}," more "}"
#define READY "\"status\":\"READY\""
#define UNTIL(at) READY ",\"deleteAtTime\":\"" at "\""

#define RESERVING SETTINGS("reservations", "on", "advice_version", "off")

static void launch_takes(const char *items, const char *has)
{
	struct spot_launch a = launch_of(SPOT_MARKET_RESERVED);
	struct drive d;

	ready_init(&d, RESERVING);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .method = "GET", .mutating = -1, .status = 200, .reply = items },
			     { .has = { has, "SPECIFIC_RESERVATION", "\"STANDARD\"",
				   "compute.googleapis.com/reservation-name" },
				 .mutating = 1,
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	assert_int_equal(a.instance.key.market, SPOT_MARKET_RESERVED);
	drive_fini(&d);
}

static void the_one_that_ends_last_is_launched_into(void **state)
{
	(void)state;
	launch_takes(LISTED(RESERVED("a", "0", UNTIL("2026-01-03T00:00:00Z")) "," RESERVED("b", "3",
			 UNTIL("2026-01-04T00:00:00Z"))),
	    "\"values\":[\"b\"]");
	launch_takes(LISTED(RESERVED("b", "0", READY) "," RESERVED("a", "0",
			 READY) "," RESERVED("c", "0", UNTIL("2026-01-04T00:00:00Z"))),
	    "\"values\":[\"a\"]");
}

static void those_of_others_and_those_without_room_are_left_alone(void **state)
{
	static const char *const items[] = { RESERVED("a", "4", READY),
		RESERVED("a", "0", "\"status\":\"CREATING\""),
		RESERVED("a", "0", READY ",\"shareSettings\":{\"shareType\":\"ORGANIZATION\"}"),
		RESERVED("a", "0", UNTIL("2026-01-02T03:04:00Z")) };
	struct spot_launch a = launch_of(SPOT_MARKET_RESERVED);
	struct drive d;

	(void)state;
	ready_init(&d, RESERVING);
	for (size_t i = 0; i < ARRAY_LEN(items); i++) {
		const char *list = arena_printf(d.arena,
		    "{\"kind\":\"compute#reservationAggregatedList\",\"items\":{\"zones/" ZONE
		    "\":{\"reservations\":[%s]}}}",
		    items[i]);

		failed_with(&d, RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = 200, .reply = list }),
		    SPOT_NO_CAPACITY, "no reservation of g2-standard-4");
	}
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = 200, .reply = LISTED("{\"name\":7}") }),
	    SPOT_BAD_REPLY, "no reservation");
	drive_fini(&d);
}

static void on_demand_uses_up_nobodys_reservation(void **state)
{
	struct spot_launch a = launch_of(SPOT_MARKET_ON_DEMAND);
	struct drive d;

	(void)state;
	ready_init(&d, RESERVING);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .has = { "{\"consumeReservationType\":\"NO_RESERVATION\"}" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	a = launch_of(SPOT_MARKET_SPOT);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .hasnt = { "reservationAffinity" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	drive_fini(&d);
	/* Nothing is asked and said of reservations unless they are on. */
	ready_init(&d, NULL);
	a = launch_of(SPOT_MARKET_ON_DEMAND);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .hasnt = { "reservationAffinity" },
				 .status = 200,
				 .reply = OPERATION("DONE", "") }),
	    SPOT_DONE);
	a = launch_of(SPOT_MARKET_RESERVED);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_INVALID, "reserved");
	drive_fini(&d);
}

static void reserved_pools_cost_next_to_nothing(void **state)
{
	static const struct spot_pool_info pools[] = {
		{ .key = { "gcp", "us-central1", ZONE, "g2-standard-4", SPOT_MARKET_RESERVED } },
	};
	struct spot_prices p = { .region = "",
		.market = SPOT_MARKET_ON_DEMAND,
		.pools = pools,
		.pools_n = 1 };
	struct drive d;

	(void)state;
	ready_init(&d, RESERVING);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &p,
			     { .status = 200,
				 .reply = "{\"kind\":\"compute#machineTypeAggregatedList\"}" },
			     { .status = 200, .reply = "{\"skus\":[]}" }),
	    SPOT_DONE);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.points[0].price_micros, 1);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_one_that_ends_last_is_launched_into),
		cmocka_unit_test(those_of_others_and_those_without_room_are_left_alone),
		cmocka_unit_test(on_demand_uses_up_nobodys_reservation),
		cmocka_unit_test(reserved_pools_cost_next_to_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
