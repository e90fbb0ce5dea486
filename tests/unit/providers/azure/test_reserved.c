/* Capacity reservations: which have room, what is asked where, and where none is set. */
#include "azure_test.h"

#define GROUP_ID \
	SUB "/resourceGroups/capacity/providers/Microsoft.Compute/" \
	    "capacityReservationGroups/gpus"
#define H100 "Standard_NC40ads_H100_v5"
#define RESERVED(size, zone, capacity, used, more) \
	"{\"name\":\"r\",\"location\":\"eastus2\",\"zones\":[\"" zone \
	"\"],\"sku\":{\"name\":\"" size "\",\"capacity\":" #capacity \
	"},\"properties\":{\"provisioningState\":\"Succeeded\"," \
	"\"virtualMachinesAssociated\":[" used "]" more "}}"
#define LISTED(items) "{\"value\":[" items "]}"
#define ONE "{\"id\":\"/x\"}"

static const char *const settings[] = { "subscription", GOLDEN_SUB, "tenant", "contoso.example",
	"client_id", "66666666-7777-8888-9999-000000000000", "ssh_public_key", "ssh-rsa AAAA x",
	"subnet.eastus2",
	SUB "/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/gpu",
	"reservation_group.eastus2", GROUP_ID, NULL };

static struct spot_launch launch_args(void)
{
	return (struct spot_launch){ .key = { "azure", "eastus2", "eastus2-1", H100,
					 SPOT_MARKET_RESERVED },
		.zone_name = "1",
		.shape = { .arch = "x86_64" },
		.token = "spt-7f3a-n41",
		.name = "brk.7f3a.n41.1767323045",
		.install = "7f3a" };
}

/* Azure itself would take the machine, and charge for it. */
static void nothing_is_launched_beyond_what_is_reserved(void **state)
{
	static const char *const lists[] = { LISTED(""), LISTED(RESERVED(H100, "1", 1, ONE, "")),
		LISTED(RESERVED(H100, "2", 4, "", "")),
		LISTED(RESERVED("Standard_NC4as_T4_v3", "1", 4, "", "")),
		/* a block: none of its facts is known */
		LISTED(RESERVED(H100, "1", 4, "",
		    ",\"scheduleProfile\":{\"start\":\"2026-01-01\",\"end\":\"2026-01-08\"}")) };
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		failed_with(&d,
		    RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			{ .method = "GET",
			    .url = ARM GROUP_ID "/capacityReservations?api-version=2025-04-01",
			    .mutating = -1,
			    .status = 200,
			    .reply = lists[i] }),
		    SPOT_NO_CAPACITY, "no reservation of " H100);
	}
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_LAUNCH, &a, { .status = 200, .reply = "{}" }),
	    SPOT_BAD_REPLY, NULL);
	drive_fini(&d);
}

static void a_launch_names_the_group(void **state)
{
	struct spot_launch a = launch_args();
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_LAUNCH, &a,
			     { .status = 200,
				 .reply = "{\"value\":[" RESERVED(H100, "1", 1, ONE,
				     "") "],\"nextLink\":\"" ARM "/next\"}" },
			     { .url = ARM "/next",
				 .status = 200,
				 .reply = LISTED(RESERVED(H100, "1", 2, ONE, "")) },
			     { .mutating = 1, .status = 201, .reply = GROUP },
			     { .has = { "\"capacityReservationGroup\":{\"id\":\"" GROUP_ID "\"}",
				   "\"Regular\"" },
				 .hasnt = { "evictionPolicy", "billingProfile" },
				 .mutating = 1,
				 .status = 200,
				 .reply = VM("Succeeded", "") }),
	    SPOT_DONE);
	assert_int_equal(a.instance.key.market, SPOT_MARKET_RESERVED);
	drive_fini(&d);
	/* Without a group there is nothing to launch into. */
	keyed_init(&d, NULL);
	failed_with(&d, drive_run(&d, DRIVE_LAUNCH, &a), SPOT_CONFIG, "reservation_group.eastus2");
	drive_fini(&d);
}

static void reserved_pools_cost_next_to_nothing(void **state)
{
	static const struct spot_pool_info pools[] = {
		{ .key = { "azure", "eastus2", "eastus2-1", H100, SPOT_MARKET_RESERVED } },
	};
	struct spot_prices p = { .region = "eastus2",
		.market = SPOT_MARKET_ON_DEMAND,
		.pools = pools,
		.pools_n = 1 };
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_PRICES, &p,
			     { .status = 200, .reply = "{\"Items\":[],\"NextPageLink\":null}" }),
	    SPOT_DONE);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.points[0].price_micros, 1);
	drive_fini(&d);
}

static void a_group_that_is_not_there_costs_only_its_own_pools(void **state)
{
	struct spot_pools p = { .region = "eastus2" };
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_POOLS, &p, { .status = 200, .reply = LISTED("") },
			     { .status = 404, .reply = ERROR("ResourceNotFound", "m") }),
	    SPOT_DONE);
	assert_int_equal(p.n, 0);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_launched_beyond_what_is_reserved),
		cmocka_unit_test(a_launch_names_the_group),
		cmocka_unit_test(reserved_pools_cost_next_to_nothing),
		cmocka_unit_test(a_group_that_is_not_there_costs_only_its_own_pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
