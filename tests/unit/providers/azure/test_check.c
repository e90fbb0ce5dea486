#include "base/base.h"
#include "azure_test.h"

/* The doctor's findings when things are missing. */

static const struct spot_check_item *item_find(const struct spot_check *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->items[i].name, name) == 0) {
			return &a->items[i];
		}
	}
	fail_msg("no item '%s'", name);
	return NULL;
}

static void every_refusal_is_an_item_and_not_the_end(void **state)
{
	static const char *const settings[] = { "subscription", GOLDEN_SUB, "tenant",
		"contoso.example", "client_id", "me", NULL };
	struct spot_check a = { .region = "eastus2" };
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &a,
			     { .status = 404, .reply = ERROR("SubscriptionNotFound", "m") },
			     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") },
			     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") },
			     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") },
			     { .method = "POST",
				 .url = ARM "/providers/Microsoft.ResourceGraph/resources?*",
				 .has = { "SpotResources" },
				 .status = 403,
				 .reply = ERROR("AuthorizationFailed", "m") }),
	    SPOT_DONE);
	assert_int_equal(item_find(&a, "subscription")->state, SPOT_CHECK_BAD);
	assert_int_equal(item_find(&a, "permissions")->state, SPOT_CHECK_UNTESTED);
	assert_int_equal(item_find(&a, "placement scores")->state, SPOT_CHECK_WARN);
	assert_int_equal(item_find(&a, "resource graph")->state, SPOT_CHECK_WARN);
	assert_non_null(
	    strstr(item_find(&a, "resource graph")->fix, "ResourceGraph/resources/read"));
	assert_int_equal(item_find(&a, "ssh_public_key")->state, SPOT_CHECK_BAD);
	assert_int_equal(item_find(&a, "subnet.eastus2")->state, SPOT_CHECK_BAD);
	for (size_t i = 0; i < a.n; i++) {
		assert_true(a.items[i].state == SPOT_CHECK_OK ||
		    a.items[i].state == SPOT_CHECK_UNTESTED || *a.items[i].fix != '\0');
	}
	drive_fini(&d);
}

static void a_second_page_that_is_refused_ends_the_pages(void **state)
{
	static const char page[] = "{\"value\":[{\"actions\":[\"*\"],\"notActions\":[]}],"
				   "\"nextLink\":\"" ARM SUB "/page2\"}";
	struct spot_check a = { .region = "" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &a,
			     { .status = 200, .reply = "{\"state\":\"Enabled\"}" },
			     { .status = 200, .reply = page },
			     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") }),
	    SPOT_DONE);
	assert_int_equal(item_find(&a, "permissions")->state, SPOT_CHECK_UNTESTED);
	drive_fini(&d);
}

static void exceptions_of_one_assignment_do_not_touch_another(void **state)
{
	struct spot_check a = { .region = "" };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &a,
			     { .status = 200,
				 .reply = "{\"state\":\"Warned\"}",
				 .reply_headers = { "Date: Fri, 02 Jan 2026 03:04:10 GMT" } },
			     { .url = ARM SUB "/providers/Microsoft.Authorization/"
					      "permissions?api-version=2022-04-01",
				 .status = 200,
				 .reply =
				     "{\"value\":[{\"actions\":[\"*\"],\"notActions\":[\"Microsoft."
				     "Compute/virtualMachines/WRITE\"]},"
				     "{\"actions\":[\"microsoft.compute/virtualmachines/"
				     "*\"],\"notActions\":[]}]}" }),
	    SPOT_DONE);
	assert_int_equal(item_find(&a, "launch")->state, SPOT_CHECK_OK);
	for (size_t i = 0; i < a.n; i++) {
		assert_string_not_equal(a.items[i].name, "reservations");
	}
	assert_int_equal(item_find(&a, "terminate")->state, SPOT_CHECK_OK);
	assert_int_equal(item_find(&a, "clock")->state, SPOT_CHECK_OK);
	assert_int_equal(item_find(&a, "subscription")->state, SPOT_CHECK_BAD);
	drive_fini(&d);
}

/* The two permissions of reservations are asked for where a group is set, and not elsewhere. */
static void reservations_need_two_permissions_where_a_group_is_set(void **state)
{
	static const char *const settings[] = { "subscription", GOLDEN_SUB, "tenant",
		"contoso.example", "client_id", "me", "reservation_group.eastus2",
		SUB "/resourceGroups/r/providers/Microsoft.Compute/capacityReservationGroups/g",
		NULL };
	static const char *const rows[] = { "\"Microsoft.Compute/virtualMachines/*\"",
		"\"Microsoft.Compute/capacityReservationGroups/capacityReservations/read\"",
		"\"Microsoft.Compute/capacityReservationGroups/*\"" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char reply[256];
		struct spot_check a = { .region = "eastus2" };
		struct drive d;
		size_t n = 0;

		(void)snprintf(reply, sizeof(reply),
		    "{\"value\":[{\"actions\":[%s],\"notActions\":[]}]}", rows[i]);
		keyed_init(&d, settings);
		assert_int_equal(RUN_SCRIPT(&d, DRIVE_CHECK, &a,
				     { .status = 200, .reply = "{\"state\":\"Enabled\"}" },
				     { .status = 200, .reply = reply },
				     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") },
				     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") },
				     { .status = 403, .reply = ERROR("AuthorizationFailed", "m") }),
		    SPOT_DONE);
		for (size_t k = 0; k < a.n; k++) {
			n += strcmp(a.items[k].name, "reservations") == 0;
		}
		assert_int_equal(n, i == 0 ? 2 : 1);
		assert_int_equal(item_find(&a, "reservations")->state,
		    i == 2 ? SPOT_CHECK_OK : SPOT_CHECK_BAD);
		drive_fini(&d);
	}
}

static void storage_is_tried_where_it_is_configured(void **state)
{
	static const char *const settings[] = { "subscription", GOLDEN_SUB, "tenant",
		"contoso.example", "client_id", "me", "storage_account", "contosockpt", NULL };
	struct spot_check a = { .region = "" };
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, golden_env, settings);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .status = 200, .reply = TOKEN_OK("arm") },
			     { .status = 200, .reply = TOKEN_OK("blob") }, { .status = 403 }),
	    SPOT_DONE);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_CHECK, &a, { .status = 200, .reply = "{}" },
		{ .status = 200, .reply = "{\"value\":[]}" },
		{ .url = "https://contosockpt.blob.core.windows.net/?comp=list&maxresults=1",
		    .headers = { "Authorization: Bearer blob" },
		    .status = 403,
		    .reply_headers = { "x-ms-error-code: AuthorizationPermissionMismatch" } }),
	    SPOT_DONE);
	assert_int_equal(item_find(&a, "object store")->state, SPOT_CHECK_BAD);
	assert_int_equal(item_find(&a, "checkpoint addresses")->state, SPOT_CHECK_BAD);
	assert_int_equal(item_find(&a, "launch")->state, SPOT_CHECK_BAD);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_refusal_is_an_item_and_not_the_end),
		cmocka_unit_test(a_second_page_that_is_refused_ends_the_pages),
		cmocka_unit_test(exceptions_of_one_assignment_do_not_touch_another),
		cmocka_unit_test(reservations_need_two_permissions_where_a_group_is_set),
		cmocka_unit_test(storage_is_tried_where_it_is_configured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
