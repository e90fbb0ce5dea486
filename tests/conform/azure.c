/*
 * Azure's replies to the cases of the suite
 * (learn.microsoft.com/azure/virtual-machines/error-codes-spot; see providers/azure/README.md). A
 * launch is three requests: its resource group, the machine, and a look at it. If the machine is
 * refused, the third ends the group. A list is two: groups by tag, then machines.
 */
#include "base/base.h"
#include "conform.h"

#include "azure/azure.h"
#include "base/text/text.h"

#define SECRET "conform~client.secret-0123456789"
#define TOKEN "eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.conform-access-token.0123456789"
#define SUB "/subscriptions/11111111-2222-3333-4444-555555555555"
#define LEASE "spotbroker-brk-7f3a-n1-1767323045"
#define VM_ID SUB "/resourceGroups/" LEASE "/providers/Microsoft.Compute/virtualMachines/" LEASE
#define ERROR(code, words) "{\"error\":{\"code\":\"" code "\",\"message\":\"" words "\"}}"
#define GROUP(state) \
	"{\"id\":\"" SUB "/resourceGroups/" LEASE "\",\"name\":\"" LEASE "\",\"type\":" \
	"\"Microsoft.Resources/resourceGroups\",\"location\":\"eastus2\",\"tags\":{" \
	"\"spotbroker-install\":\"7f3a\",\"spotbroker-token\":\"tok\"},\"properties\":{" \
	"\"provisioningState\":\"" state "\"}}"
#define VM(state) \
	"{\"name\":\"" LEASE "\",\"id\":\"" VM_ID \
	"\",\"type\":\"Microsoft.Compute/virtualMachines\"," \
	"\"location\":\"eastus2\",\"zones\":[\"1\"],\"tags\":{\"spotbroker-install\":\"7f3a\"," \
	"\"spotbroker-token\":\"tok\"},\"properties\":{\"vmId\":\"0e1f\",\"hardwareProfile\":{" \
	"\"vmSize\":\"Standard_NC40ads_H100_v5\"},\"priority\":\"Spot\",\"provisioningState\":" \
	"\"" state "\",\"timeCreated\":\"2026-01-02T03:04:05.12+00:00\"}}"
#define LIST(items) "{\"value\":[" items "]}"

static const char *const env[] = { "AZURE_CLIENT_SECRET", SECRET, NULL };
static const char *const settings[] = { "subscription", "11111111-2222-3333-4444-555555555555",
	"tenant", "contoso.example", "client_id", "66666666-7777-8888-9999-000000000000",
	"ssh_public_key", "ssh-ed25519 AAAAC3Nza conform", "subnet.eastus2",
	SUB "/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/default",
	NULL };
static const char *const secrets[] = { SECRET, TOKEN, NULL };
static const struct drive_try auth[] = { { .method = "POST",
    .url = "https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token",
    .status = 200,
    .reply = "{\"token_type\":\"Bearer\",\"expires_in\":3599,\"access_token\":\"" TOKEN "\"}" } };
static const struct drive_try group_made[] = {
	{ .method = "PUT", .status = 201, .reply = GROUP("Succeeded") }
};
/* A look at the machine, or the answer to the end of its group, which is not read. */
static const struct drive_try after_launch[] = { { .status = 200, .reply = VM("Succeeded") } };
static const struct drive_try machines[] = {
	{ .method = "GET", .status = 200, .reply = LIST(VM("Succeeded")) }
};
static const struct drive_try group_there[] = {
	{ .method = "GET", .status = 200, .reply = GROUP("Succeeded") }
};
static const struct drive_try over_quota_later[] = {
	{ .status = 201,
	    .reply = VM("Creating"),
	    .reply_headers = { "Azure-AsyncOperation: https://management.azure.com" SUB
			       "/operations/1",
		"Retry-After: 2" } },
	{ .method = "GET",
	    .status = 200,
	    .reply =
		"{\"status\":\"Failed\",\"error\":{\"code\":\"OperationNotAllowed\",\"message\":"
		"\"exceeding approved "
		"LowPriorityCores quota\"}}" }
};
/* error-codes-spot; troubleshooting/allocation-failure: the region is empty of the size, or the
 * zone. */
#define LATER(code) \
	{ \
		{ .status = 201, \
			.reply = VM("Creating"), \
			.reply_headers = { "Azure-AsyncOperation: " \
					   "https://management.azure.com" SUB "/operations/1", \
			    "Retry-After: 2" } }, \
		    { .method = "GET", \
			    .status = 200, \
			    .reply = "{\"status\":\"Failed\"," ERROR_IN(code) "}" }, \
		    { .method = "DELETE", .status = 202, .reply = "" }, \
	}
#define ERROR_IN(code) "\"error\":{\"code\":\"" code "\",\"message\":\"words\"}"
static const struct drive_try region_empty[] = LATER("AllocationFailed");
static const struct drive_try zone_empty[] = LATER("ZonalAllocationFailed");
static const struct drive_try region_constrained[] = LATER("OverconstrainedAllocationRequest");
static const struct drive_try no_spot[] = {
	{ .status = 409, .reply = ERROR("AzureSpotFeatureNotEnabledForSubscription", "words") },
	{ .method = "DELETE", .status = 202, .reply = "" }
};
static const struct conform_reach reach[] = {
	{ { region_empty, 3 }, SPOT_NO_CAPACITY, SPOT_SCOPE_TYPE },
	{ { zone_empty, 3 }, SPOT_NO_CAPACITY, SPOT_SCOPE_POOL },
	{ { region_constrained, 3 }, SPOT_NO_CAPACITY, SPOT_SCOPE_TYPE },
	{ { no_spot, 2 }, SPOT_DENIED, SPOT_SCOPE_MARKET },
};

static const char *const wrong[] = {
	"{}",
	"{\"value\":{}}",
	"[]",
	"<html><body>hello</body></html>",
	LIST("{}"),
	LIST("{\"name\":\"" LEASE "\"}"),
	LIST("{\"location\":\"eastus2\"}"),
	LIST("{\"name\":7,\"location\":\"eastus2\"}"),
	"{\"value\":[],\"nextLink\":\"https://elsewhere.example/next\"}",
	NULL,
};

const struct conform_provider conform_azure = {
    .name = "azure",
    .ops = &azure_ops,
    .env = env,
    .settings = settings,
    .auth = auth,
    .auth_n = ARRAY_LEN(auth),
    .secrets = secrets,
    .launch =
	{
	    .key = {"azure", "eastus2", "eastus2-1", "Standard_NC40ads_H100_v5", SPOT_MARKET_SPOT},
	    .zone_name = "1",
	    .shape = {.arch = "x86_64"},
	    .token = "tok",
	    .name = "brk.7f3a.n1.1767323045",
	    .install = "7f3a",
	    .user_data = {"#!/bin/sh\n", 10},
	},
    .install = "7f3a",
    .region = "eastus2",
    .ref = LEASE,
    .list_after = {machines, 1},
    .launch_before = {group_made, 1},
    .launch_after = {after_launch, 1},
    .terminate_before = {group_there, 1},
    .list_good = LIST(GROUP("Succeeded")),
    .list_empty = LIST(""),
    .list_odd = LIST(GROUP("dreaming")),
    .list_page = "{\"value\":[],\"nextLink\":\"https://management.azure.com" SUB
		 "/resourcegroups?$skiptoken=@@\"}",
    .launch_good = VM("Creating"),
    .list_wrong = wrong,
    .throttled = {429, ERROR("TooManyRequests", "words")},
    .broken = {500, ERROR("InternalServerError", "words")},
    .expired = {401, ERROR("ExpiredAuthenticationToken", "words")},
    .denied = {403, ERROR("AuthorizationFailed", "words")},
    .capacity = {409, ERROR("SkuNotAvailable", "words")},
    .quota = {409, ERROR("OperationNotAllowed",
			 "Operation could not be completed as it results in exceeding approved "
			 "LowPriorityCores quota.")},
    .quota_later = {over_quota_later, 2},
    .mismatch = {409, ERROR("PropertyChangeNotAllowed", "words")},
    .unknown_instance = {404, ERROR("ResourceGroupNotFound", "words")},
    .wrong_place = {404, "<html>Not Found</html>"},
    .reach = reach,
    .reach_n = ARRAY_LEN(reach),
};
