/* How Google Cloud expresses the cases of the suite (Compute Engine API reference, "Troubleshooting
 * resource availability"; see providers/gcp/README.md). */
#include "base/base.h"
#include "conform.h"

#include "gcp/gcp.h"
#include "base/text/text.h"

#define TOKEN "ya29.conform-access-token-0123456789"
#define LINK "https://www.googleapis.com/compute/v1/projects/spot-conform/zones/us-central1-a"
#define ERROR(code, reason) \
	"{\"error\":{\"code\":" #code \
	",\"message\":\"words\",\"errors\":[{\"message\":\"words\",\"domain\":" \
	"\"usageLimits\",\"reason\":\"" reason "\"}]}}"
#define INSTANCE(status) \
	"{\"kind\":\"compute#instance\",\"id\":\"7239000000000000001\",\"name\":\"brk-7f3a-n1\"," \
	"\"zone\":\"" LINK "\",\"machineType\":\"" LINK \
	"/machineTypes/g2-standard-4\",\"status\":\"" status \
	"\",\"creationTimestamp\":\"2026-01-02T03:04:05.000-07:00\",\"labels\":{\"spotbroker-" \
	"install\":\"7f3a\"," \
	"\"spotbroker-token\":\"tok\"},\"scheduling\":{\"provisioningModel\":\"SPOT\"}," \
	"\"networkInterfaces\":[{" \
	"\"networkIP\":\"10.0.0.2\",\"accessConfigs\":[{\"natIP\":\"192.0.2.7\"}]}]}"
#define LIST(scopes, more) \
	"{\"kind\":\"compute#instanceAggregatedList\",\"id\":\"x\",\"items\":{" scopes \
	"\"zones/us-central1-f\":{\"warning\":{\"code\":\"NO_RESULTS_ON_PAGE\"}}}" more "}"
#define OPERATION(status, more) \
	"{\"kind\":\"compute#operation\",\"id\":\"42\",\"name\":\"operation-17-ab\"," \
	"\"operationType\":\"insert\"," \
	"\"status\":\"" status "\",\"targetId\":\"7239000000000000001\",\"zone\":\"" LINK \
	"\"" more "}"
#define ZONE_A(instances) "\"zones/us-central1-a\":{\"instances\":[" instances "]},"
#define FAILED(code) \
	OPERATION("DONE", \
	    ",\"error\":{\"errors\":[{\"code\":\"" code \
	    "\",\"message\":\"words\"}]},\"httpErrorStatusCode\":503")

static const char *const settings[] = { "project", "spot-conform", "preemption_notice", "off",
	NULL };
static const char *const secrets[] = { TOKEN, NULL };
/* No credentials file is named and there is no home directory: the metadata server is asked. */
static const struct drive_try auth[] = { { .method = "GET",
    .url = "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token*",
    .headers = { "Metadata-Flavor: Google" },
    .status = 200,
    .reply_headers = { "Metadata-Flavor: Google" },
    .reply = "{\"access_token\":\"" TOKEN "\",\"expires_in\":3599,\"token_type\":\"Bearer\"}" } };
/* After the instances come the disks and placement policies that they may have left behind. */
static const struct drive_try rest[] = { { .status = 200,
					     .reply = "{\"kind\":\"compute#diskAggregatedList\","
						      "\"items\":{}}" },
	{ .status = 200,
	    .reply = "{\"kind\":\"compute#resourcePolicyAggregatedList\",\"items\":{}}" } };
static const struct drive_try done[] = { { .status = 200, .reply = OPERATION("DONE", "") } };
static const struct drive_try no_capacity[] = { { .status = 200,
						    .reply = OPERATION("RUNNING", "") },
	{ .status = 200, .reply = FAILED("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS") } };
static const struct drive_try no_quota[] = { { .status = 200, .reply = OPERATION("RUNNING", "") },
	{ .status = 200, .reply = FAILED("QUOTA_EXCEEDED") } };
#define FAILED_SAYING(code, words) \
	OPERATION("DONE", \
	    ",\"error\":{\"errors\":[{\"code\":\"" code "\",\"message\":\"" words \
	    "\"}]},\"httpErrorStatusCode\":403")
/* "Troubleshooting resource availability"; the words of quotas are in the API's error replies. */
static const struct drive_try zone_empty[] = { { .status = 200,
    .reply = FAILED("ZONE_RESOURCE_POOL_EXHAUSTED") } };
static const struct drive_try region_empty[] = { { .status = 200,
    .reply = FAILED("REGION_RESOURCE_POOL_EXHAUSTED") } };
static const struct drive_try all_regions[] = { { .status = 200,
    .reply = FAILED_SAYING("QUOTA_EXCEEDED",
	"Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 1.0 globally.") } };
static const struct drive_try addresses[] = { { .status = 200,
    .reply = FAILED_SAYING("QUOTA_EXCEEDED",
	"Quota 'IN_USE_ADDRESSES' exceeded.  Limit: 8.0 in region us-central1.") } };
static const struct drive_try gpus[] = { { .status = 200,
    .reply = FAILED_SAYING("QUOTA_EXCEEDED",
	"Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1.") } };
static const struct drive_try may_not[] = { { .status = 403, .reply = ERROR(403, "forbidden") } };
static const struct conform_reach reach[] = {
	{ { zone_empty, 1 }, SPOT_NO_CAPACITY, SPOT_SCOPE_POOL },
	{ { region_empty, 1 }, SPOT_NO_CAPACITY, SPOT_SCOPE_TYPE },
	{ { all_regions, 1 }, SPOT_QUOTA, SPOT_SCOPE_PROVIDER },
	{ { addresses, 1 }, SPOT_QUOTA, SPOT_SCOPE_REGION },
	{ { gpus, 1 }, SPOT_QUOTA, SPOT_SCOPE_NONE },
	{ { may_not, 1 }, SPOT_DENIED, SPOT_SCOPE_PROVIDER },
};
/* The name is taken, and by a machine of another launch. */
static const struct drive_try other[] = { { .status = 409, .reply = ERROR(409, "alreadyExists") },
	{ .status = 200,
	    .reply = "{\"kind\":\"compute#instance\",\"id\":\"1\",\"name\":\"x\",\"zone\":\"" LINK
		     "\",\"status\":\"RUNNING\",\"labels\":{\"spotbroker-install\":\"7f3a\","
		     "\"spotbroker-token\":\"another\"}}" } };
static const char *const wrong[] = {
	"{}",
	"{\"kind\":\"compute#diskAggregatedList\",\"items\":{}}",
	"[]",
	"{\"kind\":\"compute#instanceAggregatedList\",\"items\":[]}",
	"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/us-central1-a\":[]}}",
	"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/"
	"us-central1-a\":{\"instances\":{}}}}",
	"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/"
	"us-central1-a\":{\"instances\":[{}]}}}",
	"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/"
	"us-central1-a\":{\"instances\":[{\"id\":{},"
	"\"zone\":\"us-central1-a\",\"status\":\"RUNNING\"}]}}}",
	"{\"kind\":\"compute#instanceAggregatedList\",\"items\":{\"zones/"
	"us-central1-a\":{\"instances\":[{\"id\":\"7\","
	"\"zone\":\"us-central1-a\"}]}}}",
	"{\"kind\":\"compute#instanceAggregatedList\",\"nextPageToken\":5}",
	NULL,
};

const struct conform_provider conform_gcp = {
    .name = "gcp",
    .ops = &gcp_ops,
    .settings = settings,
    .auth = auth,
    .auth_n = ARRAY_LEN(auth),
    .secrets = secrets,
    .launch =
	{
	    .key = {"gcp", "us-central1", "us-central1-a", "g2-standard-4", SPOT_MARKET_SPOT},
	    .zone_name = "",
	    .shape = {.gpu_name = "L4", .gpu_milli = 1000, .arch = "x86_64"},
	    .token = "tok",
	    .name = "brk.7f3a.n1.1767323045",
	    .install = "7f3a",
	    .user_data = {"#!/bin/sh\n", 10},
	},
    .install = "7f3a",
    .region = "us-central1",
    .ref = "us-central1-a/7239000000000000001",
    .list_after = {rest, ARRAY_LEN(rest)},
    .launch_after = {done, ARRAY_LEN(done)},
    .list_good = LIST(ZONE_A(INSTANCE("RUNNING")), ""),
    .list_empty = LIST("", ""),
    .list_odd = LIST(ZONE_A(INSTANCE("dreaming")), ""),
    .list_page = LIST("", ",\"nextPageToken\":\"@@\""),
    .launch_good = OPERATION("RUNNING", ""),
    .list_wrong = wrong,
    /* 403 rateLimitExceeded waits for the turn of the minute by itself (test_errors.c). */
    .throttled = {429, ERROR(429, "rateLimitExceeded")},
    .broken = {503, ERROR(503, "backendError")},
    .expired = {401, ERROR(401, "authError")},
    .denied = {403, ERROR(403, "forbidden")},
    .capacity = {503, ERROR(503, "resourcePoolExhausted")}, /* a 503 that is not to be repeated */
    .quota = {403, ERROR(403, "quotaExceeded")},
    .capacity_later = {no_capacity, ARRAY_LEN(no_capacity)},
    .quota_later = {no_quota, ARRAY_LEN(no_quota)},
    .mismatch = {409, ERROR(409, "alreadyExists")},
    .mismatch_later = {other, ARRAY_LEN(other)},
    .unknown_instance = {404, ERROR(404, "notFound")},
    .wrong_place = {404, "<html>Not Found</html>"},
    .reach = reach,
    .reach_n = ARRAY_LEN(reach),
};
