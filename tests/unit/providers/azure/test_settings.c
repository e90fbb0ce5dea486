#include "base/base.h"
#include "azure_test.h"

/* Settings are checked at open; the error names the key. */

#define BASE "subscription", GOLDEN_SUB, "tenant", "contoso.example", "client_id", "me"
static const char *const secret_env[] = { "AZURE_CLIENT_SECRET", "secret-0123456789", NULL };

static void a_wrong_setting_is_refused_by_name(void **state)
{
	static const struct {
		const char *settings[12], *words;
	} cases[] = {
		{ { NULL }, "subscription" },
		{ { "subscription", "mine" }, "subscription" },
		{ { BASE, "tenant", "x" }, NULL },
		{ { "subscription", GOLDEN_SUB, "tenant", "a/b", "client_id", "me" }, "tenant" },
		{ { "subscription", GOLDEN_SUB, "tenant", "t", "client_id", "a&b=c" },
		    "client_id" },
		{ { "subscription", GOLDEN_SUB, "tenant", "t" }, "client_id: needed" },
		{ { BASE, "auth", "password" }, "auth:" },
		{ { BASE, "auth", "certificate" }, "client_certificate_file" },
		{ { BASE, "auth", "workload_identity" }, "federated_token_file" },
		{ { BASE, "regions", "eastus2,us east!" }, "regions" },
		{ { BASE, "endpoint", "management.azure.com" }, "endpoint" },
		{ { BASE, "endpoint", "https://management.azure.com/x" }, "endpoint" },
		{ { BASE, "endpoint", "https://me@management.azure.com" }, "endpoint" },
		{ { BASE, "authority", "ftp://login" }, "authority" },
		{ { BASE, "prices_endpoint", "https://" }, "prices_endpoint" },
		{ { BASE, "image", "ubuntu" }, "image:" },
		{ { BASE, "image_arm64", "a:b:c" }, "image_arm64" },
		{ { BASE, "ssh_public_key", "/etc/ssh/id.pub" }, "ssh_public_key" },
		{ { BASE, "admin_user", "Root User" }, "admin_user" },
		{ { BASE, "identity", "node" }, "identity" },
		{ { BASE, "os_disk_gib", "5" }, "os_disk_gib" },
		{ { BASE, "public_ip", "yes" }, "public_ip" },
		{ { BASE, "placement_scores", "1" }, "placement_scores" },
		{ { BASE, "resource_group_prefix", "Spot Broker" }, "resource_group_prefix" },
		{ { BASE, "resource_group_prefix", "a-prefix-that-is-too-long" },
		    "resource_group_prefix" },
		{ { BASE, "storage_account", "My-Account" }, "storage_account" },
		{ { BASE, "storage_key_file", "/etc/key" }, "storage_account: needed" },
		{ { BASE, "regions", "eastus2", "subnet.eastus2", "default" }, "subnet.eastus2" },
		{ { BASE, "regions", "eastus2", "nsg.eastus2",
		      SUB "/resourceGroups/n/providers/Microsoft.Network/virtualNetworks/v" },
		    "nsg.eastus2" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spot_err err;
		enum spot_rc rc = drive_open(&azure_ops, secret_env, cases[i].settings, &err);

		if (cases[i].words == NULL) {
			assert_int_equal(rc, SPOT_OK);
			continue;
		}
		if (rc != SPOT_CONFIG || strstr(err.text, cases[i].words) == NULL) {
			fail_msg("case %zu: '%s' not in '%s'", i, cases[i].words, err.text);
		}
	}
}

static void environment_of_the_vendors_libraries_is_enough(void **state)
{
	static const char *const env[] = { "AZURE_SUBSCRIPTION_ID", GOLDEN_SUB, "AZURE_TENANT_ID",
		"t", "AZURE_CLIENT_ID", "me", "AZURE_CLIENT_SECRET", "secret-0123456789",
		"AZURE_AUTHORITY_HOST", "https://login.example/", NULL };
	struct drive d;

	(void)state;
	drive_init(&d, &azure_ops, env, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_AUTH, NULL,
			     { .method = "POST",
				 .url = "https://login.example/t/oauth2/v2.0/token",
				 .body = "client_id=me&client_secret=secret-0123456789&grant_type="
					 "client_credentials"
					 "&scope=https%3A%2F%2Fmanagement.azure.com%2F.default",
				 .status = 200,
				 .reply = TOKEN_OK("a.b.c") }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void regions_of_the_setting_are_normalised_and_asked_of_nobody(void **state)
{
	static const char *const settings[] = { BASE, "regions", "East US 2, WestUS3", NULL };
	struct spot_regions a = { 0 };
	struct drive d;

	(void)state;
	keyed_init(&d, settings);
	drive_script(&d, NULL, 0);
	assert_int_equal(drive_run(&d, DRIVE_REGIONS, &a), SPOT_DONE);
	assert_int_equal(a.n, 2);
	assert_string_equal(a.names[0], "eastus2");
	assert_string_equal(a.names[1], "westus3");
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_setting_is_refused_by_name),
		cmocka_unit_test(environment_of_the_vendors_libraries_is_enough),
		cmocka_unit_test(regions_of_the_setting_are_normalised_and_asked_of_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
