/* Shared by the tests of the Google Cloud provider: an authenticated drive, error replies, the
 * published key. */
#ifndef TESTS_GCP_TEST_H
#define TESTS_GCP_TEST_H

#include "base/base.h"
#include "base/text/text.h"
#include "golden.h"
#include "gcp.h"
#include "gcp_priv.h"

#define API "https://compute.googleapis.com/compute/v1/projects/spot-golden"
#define LINK "https://www.googleapis.com/compute/v1/projects/spot-golden"
#define ZONE "us-central1-a"
#define ID "7239000000000000001"
#define REF ZONE "/" ID
#define ERROR(code, reason, message) \
	"{\"error\":{\"code\":" #code ",\"message\":\"" message \
	"\",\"errors\":[{\"message\":\"" message "\",\"domain\":\"global\",\"reason\":\"" reason \
	"\"}]}}"
#define OPERATION(status, more) \
	"{\"kind\":\"compute#operation\",\"name\":\"operation-1\",\"status\":\"" status \
	"\",\"targetId\":\"" ID "\"" more "}"
#define OP_ERROR(code, message) \
	",\"error\":{\"errors\":[{\"code\":\"" code "\",\"message\":\"" message "\"}]}"
#define VM(id, status, token) \
	"{\"kind\":\"compute#instance\",\"id\":\"" id "\",\"name\":\"x\",\"status\":\"" status \
	"\",\"zone\":\"" LINK "/zones/" ZONE "\",\"machineType\":\"" LINK "/zones/" ZONE \
	"/machineTypes/" \
	"g2-standard-4\",\"labels\":{\"spotbroker-install\":\"7f3a\",\"spotbroker-token\":" \
	"\"" token "\"}}"
#define NO_POLICIES \
	{ \
		.status = 200, .reply = "{\"kind\":\"compute#resourcePolicyAggregatedList\"}" \
	}
/* A list goes on with the disks and policies that machines left. */
#define NO_DISKS \
	{ .status = 200, .reply = "{\"kind\":\"compute#diskAggregatedList\"}" }, NO_POLICIES

/* A token of the metadata server, for all that do not test auth. */
#define GOLDEN_TOKEN "ya29.golden-access-token"
extern const char *const golden_env[], *const golden_settings[];
extern const struct drive_try golden_auth[];
extern const size_t golden_auth_n;

/* The key of service_account.txt in PEM; as JSON: with its line ends escaped. */
#define GOLDEN_EMAIL "test-iam-credentials@dummy-project-id.iam.gserviceaccount.com"
const char *golden_key(struct arena *a, bool json);
/* text with every `from` replaced. */
const char *golden_replace(struct arena *a, const char *text, const char *from, const char *to);

/* Opens with a token of the metadata server. settings NULL: golden_settings. */
static inline void ready_init(struct drive *d, const char *const *settings)
{
	drive_init(d, &gcp_ops, golden_env, settings != NULL ? settings : golden_settings);
	d->now_us = GOLDEN_NOW_US;
	drive_script(d, golden_auth, golden_auth_n);
	assert_int_equal(drive_run(d, DRIVE_AUTH, NULL), SPOT_DONE);
}

#define SETTINGS(...) ((const char *const[]){ "project", "spot-golden", __VA_ARGS__, NULL })

static inline struct spot_launch launch_of(enum spot_market market)
{
	return (struct spot_launch){ .key = { "gcp", "us-central1", ZONE, "g2-standard-4", market },
		.zone_name = "",
		.shape = { .gpu_name = "L4", .gpu_milli = 1000, .arch = "x86_64" },
		.token = "tok",
		.name = "brk.7f3a.n1.1767323045",
		.install = "7f3a",
		.user_data = STR_LIT("#!/bin/sh\n") };
}

#endif
